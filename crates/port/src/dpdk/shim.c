/* What flowatch asks of DPDK, behind plain functions: most of DPDK's own are inline and its
 * structures change from version to version, so neither crosses into Rust. One call a burst. */

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_common.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_pause.h>
#include <rte_ring.h>
#include <rte_version.h>

/* ---- the environment abstraction layer and its log ---- */

#define LOG_BYTES (64 * 1024)

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[LOG_BYTES];
static size_t log_length;

/* Keeps what DPDK logs; of too much, the latest. */
static ssize_t keep_log(void *cookie, const char *text, size_t size)
{
	(void)cookie;
	const char *from = size > LOG_BYTES ? text + (size - LOG_BYTES) : text;
	size_t length = RTE_MIN(size, (size_t)LOG_BYTES);
	pthread_mutex_lock(&log_lock);
	if (log_length + length > LOG_BYTES) {
		size_t kept = RTE_MIN(log_length, (size_t)LOG_BYTES - length);
		memmove(log_text, log_text + (log_length - kept), kept);
		log_length = kept;
	}
	memcpy(log_text + log_length, from, length);
	log_length += length;
	pthread_mutex_unlock(&log_lock);
	return (ssize_t)size;
}

/* Moves the log to `to`, which has room for `room` bytes; returns how many it has now. */
size_t flowatch_dpdk_take_log(char *to, size_t room)
{
	pthread_mutex_lock(&log_lock);
	size_t length = RTE_MIN(log_length, room);
	memcpy(to, log_text + (log_length - length), length);
	log_length = 0;
	pthread_mutex_unlock(&log_lock);
	return length;
}

/* 0, or the negative error number. */
int flowatch_dpdk_start(int count, char **arguments)
{
	static const cookie_io_functions_t functions = { .write = keep_log };
	FILE *log = fopencookie(NULL, "w", functions);
	if (log == NULL)
		return -ENOMEM;
	setlinebuf(log);
	rte_openlog_stream(log);
	if (rte_eal_init(count, arguments) < 0)
		return rte_errno > 0 ? -rte_errno : -EINVAL;
	return 0;
}

/* ---- DPDK's interrupt thread, on which drivers hear from the other end of a link ---- */

/* Something to wait for. */
struct event {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int has_come;
};

#define EVENT { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

static void tell(void *argument)
{
	struct event *event = argument;
	pthread_mutex_lock(&event->lock);
	event->has_come = 1;
	pthread_cond_signal(&event->changed);
	pthread_mutex_unlock(&event->lock);
}

static void await(struct event *event)
{
	pthread_mutex_lock(&event->lock);
	while (!event->has_come)
		pthread_cond_wait(&event->changed, &event->lock);
	pthread_mutex_unlock(&event->lock);
}

/* Something to be done. */
struct errand {
	struct event done;
	void (*work)(void *);
	void *argument;
};

static void run_errand(void *argument)
{
	struct errand *errand = argument;
	errand->work(errand->argument);
	tell(&errand->done);
}

/* Has the interrupt thread do it between two of its events, and waits. Returns 0, or does nothing and
 * returns a negative error number. */
static int on_interrupt_thread(void (*work)(void *), void *argument)
{
	struct errand errand = { .done = EVENT, .work = work, .argument = argument };
	int error = rte_eal_alarm_set(1, run_errand, &errand);
	if (error == 0)
		await(&errand.done);
	return error;
}

/* A memif's driver unmaps the rings of a peer that has left while they may be read: on the interrupt
 * thread, at a time of the peer's choosing. While there is such a device that thread stays in a callback
 * of ours, and goes to its events for moments only, in which nobody reads or sends. */

/* For how long it stays: a peer is heard after this at the latest. */
#define STAY_US 5000

/* Tries before a thread waits in the kernel; a turn of the interrupt thread takes some microseconds. */
#define TRIES 1000

/* Written by the interrupt thread while it is at its events, read by who reads or sends. */
static pthread_rwlock_t rings_stay = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

/* What brings the interrupt thread here: always to be read, and never read. */
static struct rte_intr_handle *always;

/* Waits until the rings stay where they are; they do until `rings_may_go`. */
static void rings_shall_stay(void)
{
	for (int tries = 0; tries < TRIES; tries++) {
		if (pthread_rwlock_tryrdlock(&rings_stay) == 0)
			return;
		rte_pause();
	}
	pthread_rwlock_rdlock(&rings_stay);
}

static void rings_may_go(void)
{
	pthread_rwlock_unlock(&rings_stay);
}

static void stay(void *argument)
{
	(void)argument;
	pthread_rwlock_unlock(&rings_stay);
	usleep(STAY_US);
	/* Who waits in the kernel keeps others waiting until it runs, so it does not at first. */
	for (int tries = 0; tries < TRIES; tries++) {
		if (pthread_rwlock_trywrlock(&rings_stay) == 0)
			return;
		rte_pause();
	}
	pthread_rwlock_wrlock(&rings_stay);
}

static void begin_staying(void *argument)
{
	int *error = argument;
	int file = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	always = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	if (file < 0 || always == NULL)
		*error = -ENOMEM;
	else if (rte_intr_fd_set(always, file) != 0 ||
		 rte_intr_type_set(always, RTE_INTR_HANDLE_EXT) != 0)
		*error = -EINVAL;
	else
		*error = rte_intr_callback_register(always, stay, NULL);
	if (*error == 0) {
		/* It is at its events. */
		pthread_rwlock_wrlock(&rings_stay);
		return;
	}
	if (file >= 0)
		close(file);
	rte_intr_instance_free(always);
}

static void end_staying(void *argument)
{
	(void)argument;
	rte_intr_callback_unregister(always, stay, NULL);
	close(rte_intr_fd_get(always));
	rte_intr_instance_free(always);
	pthread_rwlock_unlock(&rings_stay);
}

/* From the first device whose rings go with its peer. 0, or a negative error number. */
int flowatch_dpdk_begin_staying(void)
{
	int result = 0;
	int error = on_interrupt_thread(begin_staying, &result);
	return error != 0 ? error : result;
}

/* After the last. Returns 0, or a negative error number, and the thread stays as before. */
int flowatch_dpdk_end_staying(void)
{
	return on_interrupt_thread(end_staying, NULL);
}

/* A thread that is to end. */
struct leaving {
	pthread_t thread;
	pthread_key_t key;
	struct event ended;
};

static void note_thread(void *argument)
{
	struct leaving *leaving = argument;
	leaving->thread = pthread_self();
	/* Told of when the thread has ended, by the key's destructor. */
	pthread_setspecific(leaving->key, &leaving->ended);
}

/* DPDK unmaps its memory and leaves running the thread that reads there (a memif's listener is never
 * taken off its list), so that thread ends first. Ports are closed: it waits for events. */
void flowatch_dpdk_end(void)
{
	struct leaving leaving = { .ended = EVENT };
	if (pthread_key_create(&leaving.key, tell) == 0) {
		if (on_interrupt_thread(note_thread, &leaving) == 0 &&
		    pthread_cancel(leaving.thread) == 0)
			await(&leaving.ended);
		pthread_key_delete(leaving.key);
	}
	rte_eal_cleanup();
}

const char *flowatch_dpdk_version(void)
{
	return rte_version();
}

/* Gives the calling thread a number among DPDK's, with which it may use the caches of pools.
 * Returns whether it has one. */
int flowatch_dpdk_enter_thread(void)
{
	return rte_lcore_id() != LCORE_ID_ANY || rte_thread_register() == 0;
}

void flowatch_dpdk_leave_thread(void)
{
	rte_thread_unregister();
}

/* ---- devices ---- */

/* 0, or a negative error number; -EEXIST is a device that is there already. */
int flowatch_dpdk_probe(const char *arguments)
{
	return rte_dev_probe(arguments);
}

/* The port numbers of a device, at most `room` of them; returns how many it has. */
int flowatch_dpdk_ports(const char *device, uint16_t *ports, int room)
{
	int count = 0;
	uint16_t port;
	RTE_ETH_FOREACH_DEV(port) {
		struct rte_eth_dev_info info;
		char name[RTE_ETH_NAME_MAX_LEN] = "";
		rte_eth_dev_get_name_by_port(port, name);
		int matches = strcmp(name, device) == 0;
		if (!matches && rte_eth_dev_info_get(port, &info) == 0 && info.device != NULL)
			matches = strcmp(rte_dev_name(info.device), device) == 0;
		if (matches && count++ < room)
			ports[count - 1] = port;
	}
	return count;
}

int flowatch_dpdk_is_port(uint16_t port)
{
	return rte_eth_dev_is_valid_port(port);
}

/* What a device is and offers. 0, or the negative error number. */
int flowatch_dpdk_describe(uint16_t port, char *driver, size_t room, uint16_t *receive_queues_most,
			   uint8_t *rss_key_bytes, int *socket)
{
	struct rte_eth_dev_info info;
	int error = rte_eth_dev_info_get(port, &info);
	if (error != 0)
		return error;
	snprintf(driver, room, "%s", info.driver_name == NULL ? "" : info.driver_name);
	*receive_queues_most = info.max_rx_queues;
	*rss_key_bytes = info.hash_key_size;
	*socket = rte_eth_dev_socket_id(port);
	return 0;
}

/* The kinds of packets that a device offers to hash over the given fields (0 addresses and ports,
 * 1 addresses, 2 source address, 3 destination address); 0 where it cannot. `any` says whether it
 * offers any hash, `ports_too` whether TCP and UDP in IPv4 are among them with their ports. */
uint64_t flowatch_dpdk_rss(uint16_t port, int fields, int *any, int *ports_too)
{
	struct rte_eth_dev_info info;
	*any = *ports_too = 0;
	if (rte_eth_dev_info_get(port, &info) != 0)
		return 0;
	uint64_t offered = info.flow_type_rss_offloads;
	uint64_t ports = RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP;
	uint64_t plain = RTE_ETH_RSS_NONFRAG_IPV4_TCP | RTE_ETH_RSS_NONFRAG_IPV4_UDP;
	*any = offered != 0;
	*ports_too = fields == 0 && (offered & plain) == plain;
	switch (fields) {
	case 0:
		return offered & (RTE_ETH_RSS_IP | ports);
	case 1:
		return offered & RTE_ETH_RSS_IP;
	default: {
		uint64_t side = fields == 2 ? RTE_ETH_RSS_L3_SRC_ONLY : RTE_ETH_RSS_L3_DST_ONLY;
		return offered & side ? (offered & (RTE_ETH_RSS_IP | ports)) | side : 0;
	}
	}
}

/* Configures a port, and fits the numbers of descriptors to what the device can have. 0, or the
 * negative error number. */
int flowatch_dpdk_configure(uint16_t port, uint16_t receive_queues, uint16_t transmit_queues,
			    uint64_t rss, uint8_t *key, uint8_t key_bytes,
			    uint16_t *receive_descriptors, uint16_t *transmit_descriptors)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf configuration;
	int error = rte_eth_dev_info_get(port, &info);
	if (error != 0)
		return error;
	memset(&configuration, 0, sizeof(configuration));
	if (rss != 0) {
		configuration.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		configuration.rx_adv_conf.rss_conf.rss_hf = rss;
		configuration.rx_adv_conf.rss_conf.rss_key = key_bytes == 0 ? NULL : key;
		configuration.rx_adv_conf.rss_conf.rss_key_len = key_bytes;
		configuration.rxmode.offloads |= info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_RSS_HASH;
	}
	/* A frame longer than a buffer goes into several. */
	configuration.rxmode.offloads |= info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER;
	configuration.txmode.offloads |= info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	error = rte_eth_dev_configure(port, receive_queues, transmit_queues, &configuration);
	if (error != 0)
		return error;
	return rte_eth_dev_adjust_nb_rx_tx_desc(port, receive_descriptors, transmit_descriptors);
}

int flowatch_dpdk_receive_queue(uint16_t port, uint16_t queue, uint16_t descriptors,
				struct rte_mempool *pool)
{
	return rte_eth_rx_queue_setup(port, queue, descriptors, rte_eth_dev_socket_id(port), NULL,
				      pool);
}

int flowatch_dpdk_transmit_queue(uint16_t port, uint16_t queue, uint16_t descriptors)
{
	return rte_eth_tx_queue_setup(port, queue, descriptors, rte_eth_dev_socket_id(port), NULL);
}

int flowatch_dpdk_start_port(uint16_t port)
{
	return rte_eth_dev_start(port);
}

int flowatch_dpdk_promiscuous(uint16_t port)
{
	return rte_eth_promiscuous_enable(port);
}

/* A port that is to be closed. */
struct closing {
	uint16_t port;
	struct rte_device *device;
};

static void close_port(void *argument)
{
	const struct closing *closing = argument;
	rte_eth_dev_stop(closing->port);
	rte_eth_dev_close(closing->port);
	if (closing->device != NULL)
		rte_dev_remove(closing->device);
}

/* Stops and closes a port; `remove` also lets go of its device, so that it can be probed anew. A
 * memif is closed where it hears that its peer leaves, lest both free the same at one time. */
void flowatch_dpdk_close_port(uint16_t port, int remove)
{
	struct rte_eth_dev_info info;
	struct closing closing = { .port = port };
	int known = rte_eth_dev_info_get(port, &info) == 0;
	if (remove && known)
		closing.device = (struct rte_device *)(uintptr_t)info.device;
	int is_memif = known && info.driver_name != NULL && strcmp(info.driver_name, "net_memif") == 0;
	if (!is_memif || on_interrupt_thread(close_port, &closing) != 0)
		close_port(&closing);
}

/* 1 up, 0 down, negative where the device does not say. */
int flowatch_dpdk_link(uint16_t port)
{
	struct rte_eth_link link;
	memset(&link, 0, sizeof(link));
	int error = rte_eth_link_get_nowait(port, &link);
	return error < 0 ? error : link.link_status == RTE_ETH_LINK_UP;
}

/* Frames received, their bytes, missed, damaged, without a buffer, sent, their bytes, not sent. 0,
 * or the negative error number. */
int flowatch_dpdk_statistics(uint16_t port, uint64_t counts[8])
{
	struct rte_eth_stats statistics;
	memset(&statistics, 0, sizeof(statistics));
	int error = rte_eth_stats_get(port, &statistics);
	counts[0] = statistics.ipackets;
	counts[1] = statistics.ibytes;
	counts[2] = statistics.imissed;
	counts[3] = statistics.ierrors;
	counts[4] = statistics.rx_nombuf;
	counts[5] = statistics.opackets;
	counts[6] = statistics.obytes;
	counts[7] = statistics.oerrors;
	return error;
}

/* Frames that wait in a receive queue, or the negative error number. */
int flowatch_dpdk_occupancy(uint16_t port, uint16_t queue)
{
	return rte_eth_rx_queue_count(port, queue);
}

/* ---- pools of buffers ---- */

/* NULL when there is no room; `error` says why. */
struct rte_mempool *flowatch_dpdk_make_pool(const char *name, unsigned int buffers,
					    unsigned int cache, int socket, int *error)
{
	/* The room of slots is rounded up to lines, and is copied from whole. */
	_Static_assert(RTE_MBUF_DEFAULT_DATAROOM % 64 == 0, "a buffer is not of whole lines");
	struct rte_mempool *pool = rte_pktmbuf_pool_create(name, buffers, cache, 0,
							   RTE_MBUF_DEFAULT_BUF_SIZE, socket);
	*error = pool == NULL ? rte_errno : 0;
	return pool;
}

void flowatch_dpdk_free_pool(struct rte_mempool *pool)
{
	rte_mempool_free(pool);
}

unsigned int flowatch_dpdk_cache_most(void)
{
	return RTE_MEMPOOL_CACHE_MAX_SIZE;
}

/* ---- receiving ---- */

/* A buffer that is held once and is one segment. */
#define ONE_OF_EACH 0x00010001u

/* Both numbers at once: they stand side by side. */
static inline uint32_t references_and_segments(const struct rte_mbuf *buffer)
{
	_Static_assert(offsetof(struct rte_mbuf, nb_segs) ==
			       offsetof(struct rte_mbuf, refcnt) + sizeof(uint16_t),
		       "the two do not stand side by side");
	uint32_t both;
	memcpy(&both, (const char *)buffer + offsetof(struct rte_mbuf, refcnt), sizeof(both));
	return both;
}

/* What is told of a received frame; shim.rs has the same. */
struct flowatch_dpdk_frame {
	/* Its first bytes, and how many they are. */
	const uint8_t *data;
	uint32_t captured;
	/* Length of all of it. */
	uint32_t length;
	/* The device's hash, or 0 where the device says that there is none. */
	uint32_t hash;
};

/* What the buffers of a burst have in common. */
struct burst {
	struct rte_mempool *pool;
	uintptr_t other_pool;
	uint64_t any_flags;
	uint32_t unlike;
};

/* Receives at most `most` frames of a queue; `rings_go` with its peer, or they do not. */
static inline unsigned int receive_burst(uint16_t port, uint16_t queue, int rings_go,
					 unsigned int most, struct rte_mbuf **buffers,
					 struct burst *burst)
{
	if (rings_go)
		rings_shall_stay();
	unsigned int count = rte_eth_rx_burst(port, queue, buffers, (uint16_t)most);
	if (rings_go)
		rings_may_go();
	memset(burst, 0, sizeof(*burst));
	burst->pool = count > 0 ? buffers[0]->pool : NULL;
	return count;
}

static inline void look_at(struct burst *burst, const struct rte_mbuf *buffer)
{
	burst->any_flags |= buffer->ol_flags;
	burst->unlike |= references_and_segments(buffer) ^ ONE_OF_EACH;
	burst->other_pool |= (uintptr_t)buffer->pool ^ (uintptr_t)burst->pool;
}

/* The pool to which all buffers can go back as they are, NULL where they need a look. */
static inline struct rte_mempool *common_pool(const struct burst *burst)
{
	uint64_t elsewhere = burst->any_flags & (RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL);
	return burst->unlike == 0 && elsewhere == 0 && burst->other_pool == 0 ? burst->pool : NULL;
}

/* Receives frames and tells of each; `pool` is that of `flowatch_dpdk_release`. */
unsigned int flowatch_dpdk_receive(uint16_t port, uint16_t queue, int rings_go, unsigned int most,
				   struct rte_mbuf **restrict buffers,
				   struct flowatch_dpdk_frame *restrict frames,
				   struct rte_mempool **pool)
{
	struct burst burst;
	unsigned int count = receive_burst(port, queue, rings_go, most, buffers, &burst);
	for (unsigned int i = 0; i < count; i++) {
		const struct rte_mbuf *buffer = buffers[i];
		uint64_t flags = buffer->ol_flags;
		frames[i].data = rte_pktmbuf_mtod(buffer, const uint8_t *);
		frames[i].captured = buffer->data_len;
		frames[i].length = buffer->pkt_len;
		frames[i].hash = flags & RTE_MBUF_F_RX_RSS_HASH ? buffer->hash.rss : 0;
		look_at(&burst, buffer);
	}
	*pool = common_pool(&burst);
	return count;
}

/* Receives frames and tells how many bytes they have together; `pool` likewise. */
unsigned int flowatch_dpdk_count(uint16_t port, uint16_t queue, int rings_go, unsigned int most,
				 struct rte_mbuf **restrict buffers, uint64_t *bytes,
				 struct rte_mempool **pool)
{
	struct burst burst;
	unsigned int count = receive_burst(port, queue, rings_go, most, buffers, &burst);
	uint64_t sum = 0;
	for (unsigned int i = 0; i < count; i++) {
		sum += buffers[i]->pkt_len;
		look_at(&burst, buffers[i]);
	}
	*bytes = sum;
	*pool = common_pool(&burst);
	return count;
}

/* Gives received buffers back; `pool` as it was told with them. */
void flowatch_dpdk_release(struct rte_mempool *pool, struct rte_mbuf **buffers, unsigned int count)
{
	if (pool != NULL)
		rte_mempool_put_bulk(pool, (void *const *)buffers, count);
	else
		rte_pktmbuf_free_bulk(buffers, count);
}

void flowatch_dpdk_free(struct rte_mbuf **buffers, unsigned int count)
{
	rte_pktmbuf_free_bulk(buffers, count);
}

/* A moment of doing nothing, kind to the core's other thread. */
void flowatch_dpdk_pause(void)
{
	rte_pause();
}

/* ---- sending ---- */

/* Bytes that a buffer of a pool has for a frame. */
unsigned int flowatch_dpdk_buffer_room(struct rte_mempool *pool)
{
	return rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM;
}

/* Takes `count` buffers from a pool, all or none; where the bytes of each begin. Returns how many. */
unsigned int flowatch_dpdk_allocate(struct rte_mempool *pool, struct rte_mbuf **buffers,
				    uint8_t **data, unsigned int count)
{
	if (rte_pktmbuf_alloc_bulk(pool, buffers, count) != 0)
		return 0;
	for (unsigned int i = 0; i < count; i++)
		data[i] = rte_pktmbuf_mtod(buffers[i], uint8_t *);
	return count;
}

/* Sends frames of the given lengths, each at most the room of its buffer; returns how many of the
 * first ones the device took. */
unsigned int flowatch_dpdk_send(uint16_t port, uint16_t queue, int rings_go,
				struct rte_mbuf **buffers, const uint32_t *lengths,
				unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		buffers[i]->data_len = (uint16_t)lengths[i];
		buffers[i]->pkt_len = lengths[i];
	}
	if (rings_go)
		rings_shall_stay();
	unsigned int taken = rte_eth_tx_burst(port, queue, buffers, (uint16_t)count);
	if (rings_go)
		rings_may_go();
	return taken;
}

/* Has the device give back buffers whose frames are gone; a device need not know how. */
void flowatch_dpdk_tidy_queue(uint16_t port, uint16_t queue, int rings_go)
{
	if (rings_go)
		rings_shall_stay();
	rte_eth_tx_done_cleanup(port, queue, 0);
	if (rings_go)
		rings_may_go();
}

/* Buffers of a pool that somebody has. */
unsigned int flowatch_dpdk_in_use(struct rte_mempool *pool)
{
	return rte_mempool_in_use_count(pool);
}

/* ---- rings made into a port ---- */

/* A ring for one sender and one receiver that holds exactly `size` frames; NULL when there is no
 * room, and `error` says why. */
struct rte_ring *flowatch_dpdk_make_ring(const char *name, unsigned int size, int *error)
{
	struct rte_ring *ring = rte_ring_create(name, size, SOCKET_ID_ANY,
						RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
	*error = ring == NULL ? rte_errno : 0;
	return ring;
}

void flowatch_dpdk_free_ring(struct rte_ring *ring)
{
	rte_ring_free(ring);
}

unsigned int flowatch_dpdk_ring_count(const struct rte_ring *ring)
{
	return rte_ring_count(ring);
}

/* A port whose receive queues are these rings; what it sends goes to the last. Its number, or a
 * negative error number. */
int flowatch_dpdk_port_of_rings(const char *name, struct rte_ring **rings, unsigned int count)
{
	int port = rte_eth_from_rings(name, rings, count, rings + (count - 1), 1, SOCKET_ID_ANY);
	return port < 0 ? -(rte_errno > 0 ? rte_errno : EINVAL) : port;
}

/* Puts copies of frames into buffers of `pool` and these into `ring`, as a device does with its
 * receive queue: what finds it full is missed, and what finds no buffer is counted apart. At most
 * 256 frames. Returns how many were delivered. */
unsigned int flowatch_dpdk_deliver(struct rte_ring *ring, struct rte_mempool *pool,
				   unsigned int count, const uint8_t *const *data,
				   const uint32_t *lengths, const uint32_t *hashes,
				   unsigned int *no_buffer)
{
	struct rte_mbuf *buffers[256];
	unsigned int room = rte_ring_free_count(ring);
	unsigned int wanted = RTE_MIN(RTE_MIN(count, room), (unsigned int)RTE_DIM(buffers));
	unsigned int got = wanted;
	if (rte_pktmbuf_alloc_bulk(pool, buffers, wanted) != 0)
		for (got = 0; got < wanted; got++)
			if ((buffers[got] = rte_pktmbuf_alloc(pool)) == NULL)
				break;
	*no_buffer = wanted - got;
	for (unsigned int i = 0; i < got; i++) {
		struct rte_mbuf *buffer = buffers[i];
		buffer->data_len = (uint16_t)lengths[i];
		buffer->pkt_len = lengths[i];
		buffer->hash.rss = hashes[i];
		buffer->ol_flags = RTE_MBUF_F_RX_RSS_HASH;
		memcpy(rte_pktmbuf_mtod(buffer, uint8_t *), data[i], lengths[i]);
	}
	/* Nobody else fills the ring, so that all of them fit. */
	return rte_ring_sp_enqueue_burst(ring, (void **)buffers, got, NULL);
}
