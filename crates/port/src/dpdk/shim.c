/* Wraps the parts of DPDK that flowatch uses in plain functions: most DPDK functions are inline, and
 * its structures differ between versions, so that neither is visible to Rust. One call per burst. */

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

/* ---- the environment abstraction layer (EAL) and its log ---- */

#define LOG_BYTES (64 * 1024)

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[LOG_BYTES];
static size_t log_length;

/* Keeps DPDK's log; discards the oldest part if it is too long. */
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

/* Moves the latest `size` bytes of the log to `to`; returns their number. */
size_t flowatch_dpdk_take_log(char *to, size_t size)
{
	pthread_mutex_lock(&log_lock);
	size_t length = RTE_MIN(log_length, size);
	memcpy(to, log_text + (log_length - length), length);
	log_length = 0;
	pthread_mutex_unlock(&log_lock);
	return length;
}

/* Starts the EAL. Returns 0 or a negative error number. */
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

/* ---- DPDK's interrupt thread, on which drivers handle events of a link's peer ---- */

/* An event to wait for. */
struct event {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int is_set;
};

#define EVENT { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

static void set_event(void *argument)
{
	struct event *event = argument;
	pthread_mutex_lock(&event->lock);
	event->is_set = 1;
	pthread_cond_signal(&event->changed);
	pthread_mutex_unlock(&event->lock);
}

static void wait_for_event(struct event *event)
{
	pthread_mutex_lock(&event->lock);
	while (!event->is_set)
		pthread_cond_wait(&event->changed, &event->lock);
	pthread_mutex_unlock(&event->lock);
}

/* A function to run on another thread. */
struct task {
	struct event done;
	void (*work)(void *);
	void *argument;
};

static void run_task(void *argument)
{
	struct task *task = argument;
	task->work(task->argument);
	set_event(&task->done);
}

/* Runs `work` on the interrupt thread between two of its events, and waits for it. Returns 0, or a
 * negative error number if `work` was not run. */
static int on_interrupt_thread(void (*work)(void *), void *argument)
{
	struct task task = { .done = EVENT, .work = work, .argument = argument };
	int error = rte_eal_alarm_set(1, run_task, &task);
	if (error == 0)
		wait_for_event(&task.done);
	return error;
}

/* When a peer disconnects, the memif driver unmaps its rings on the interrupt thread, possibly while
 * another thread reads them. So while there is such a device, the interrupt thread stays in a callback
 * of ours, and handles its events only for moments in which no thread receives or sends. */

/* How long the interrupt thread stays in the callback: the maximum delay of its events. */
#define GUARD_SLEEP_US 5000

/* Attempts to take the lock before a thread waits in the kernel; the interrupt thread holds it for some
 * microseconds. */
#define LOCK_TRIES 1000

/* Held for writing by the interrupt thread while it handles events, and for reading by threads that
 * receive or send. */
static pthread_rwlock_t rings_lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

/* An event source that is always readable and never read, so that the interrupt thread calls
 * guard_callback again and again. */
static struct rte_intr_handle *guard_interrupt;

/* Keeps the rings mapped until `unlock_rings`. */
static void lock_rings(void)
{
	for (int tries = 0; tries < LOCK_TRIES; tries++) {
		if (pthread_rwlock_tryrdlock(&rings_lock) == 0)
			return;
		rte_pause();
	}
	pthread_rwlock_rdlock(&rings_lock);
}

static void unlock_rings(void)
{
	pthread_rwlock_unlock(&rings_lock);
}

static void guard_callback(void *argument)
{
	(void)argument;
	pthread_rwlock_unlock(&rings_lock);
	usleep(GUARD_SLEEP_US);
	/* A writer that waits in the kernel blocks all readers until it is scheduled, so spin first. */
	for (int tries = 0; tries < LOCK_TRIES; tries++) {
		if (pthread_rwlock_trywrlock(&rings_lock) == 0)
			return;
		rte_pause();
	}
	pthread_rwlock_wrlock(&rings_lock);
}

static void start_guard(void *argument)
{
	int *error = argument;
	int file = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	guard_interrupt = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	if (file < 0 || guard_interrupt == NULL)
		*error = -ENOMEM;
	else if (rte_intr_fd_set(guard_interrupt, file) != 0 ||
		 rte_intr_type_set(guard_interrupt, RTE_INTR_HANDLE_EXT) != 0)
		*error = -EINVAL;
	else
		*error = rte_intr_callback_register(guard_interrupt, guard_callback, NULL);
	if (*error == 0) {
		/* The interrupt thread is handling events now. */
		pthread_rwlock_wrlock(&rings_lock);
		return;
	}
	if (file >= 0)
		close(file);
	rte_intr_instance_free(guard_interrupt);
}

static void stop_guard(void *argument)
{
	(void)argument;
	rte_intr_callback_unregister(guard_interrupt, guard_callback, NULL);
	close(rte_intr_fd_get(guard_interrupt));
	rte_intr_instance_free(guard_interrupt);
	pthread_rwlock_unlock(&rings_lock);
}

/* Starts guarding rings, for the first device that needs it. Returns 0 or a negative error number. */
int flowatch_dpdk_guard_rings(void)
{
	int result = 0;
	int error = on_interrupt_thread(start_guard, &result);
	return error != 0 ? error : result;
}

/* Stops guarding rings, after the last device that needs it. Returns 0, or a negative error number if
 * guarding continues. */
int flowatch_dpdk_unguard_rings(void)
{
	return on_interrupt_thread(stop_guard, NULL);
}

/* Waits for the end of a thread. */
struct thread_exit {
	pthread_t thread;
	pthread_key_t key;
	struct event ended;
};

static void watch_thread_exit(void *argument)
{
	struct thread_exit *thread_exit = argument;
	thread_exit->thread = pthread_self();
	/* The destructor of the key sets the event when the thread has ended. */
	pthread_setspecific(thread_exit->key, &thread_exit->ended);
}

/* Ends the EAL. rte_eal_cleanup unmaps DPDK's memory while the interrupt thread, which reads it, still
 * runs (a memif's listener is never unregistered), so end that thread first. All ports are closed: it
 * is waiting for events, where it can be cancelled. */
void flowatch_dpdk_end(void)
{
	struct thread_exit thread_exit = { .ended = EVENT };
	if (pthread_key_create(&thread_exit.key, set_event) == 0) {
		if (on_interrupt_thread(watch_thread_exit, &thread_exit) == 0 &&
		    pthread_cancel(thread_exit.thread) == 0)
			wait_for_event(&thread_exit.ended);
		pthread_key_delete(thread_exit.key);
	}
	rte_eal_cleanup();
}

const char *flowatch_dpdk_version(void)
{
	return rte_version();
}

/* Registers the calling thread with DPDK, so that it can use mempool caches. Returns whether it is
 * registered. */
int flowatch_dpdk_register_thread(void)
{
	return rte_lcore_id() != LCORE_ID_ANY || rte_thread_register() == 0;
}

void flowatch_dpdk_unregister_thread(void)
{
	rte_thread_unregister();
}

/* ---- devices ---- */

/* Creates a device. Returns 0 or a negative error number; -EEXIST if the device exists. */
int flowatch_dpdk_probe(const char *arguments)
{
	return rte_dev_probe(arguments);
}

/* Writes the port numbers of a device, at most `size`; returns how many it has. */
int flowatch_dpdk_ports(const char *device, uint16_t *ports, int size)
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
		if (matches && count++ < size)
			ports[count - 1] = port;
	}
	return count;
}

int flowatch_dpdk_is_port(uint16_t port)
{
	return rte_eth_dev_is_valid_port(port);
}

/* Describes a device. Returns 0 or a negative error number. */
int flowatch_dpdk_describe(uint16_t port, char *driver, size_t size, uint16_t *max_receive_queues,
			   uint8_t *rss_key_bytes, int *socket)
{
	struct rte_eth_dev_info info;
	int error = rte_eth_dev_info_get(port, &info);
	if (error != 0)
		return error;
	snprintf(driver, size, "%s", info.driver_name == NULL ? "" : info.driver_name);
	*max_receive_queues = info.max_rx_queues;
	*rss_key_bytes = info.hash_key_size;
	*socket = rte_eth_dev_socket_id(port);
	return 0;
}

/* Returns the RSS types that a device supports over the given fields (0 addresses and ports,
 * 1 addresses, 2 source address, 3 destination address), or 0. `any` is set if it supports any RSS type,
 * `with_ports` if TCP and UDP over IPv4 are among the types with their ports. */
uint64_t flowatch_dpdk_rss(uint16_t port, int fields, int *any, int *with_ports)
{
	struct rte_eth_dev_info info;
	*any = *with_ports = 0;
	if (rte_eth_dev_info_get(port, &info) != 0)
		return 0;
	uint64_t offered = info.flow_type_rss_offloads;
	uint64_t ports = RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP;
	uint64_t ipv4_with_ports = RTE_ETH_RSS_NONFRAG_IPV4_TCP | RTE_ETH_RSS_NONFRAG_IPV4_UDP;
	*any = offered != 0;
	*with_ports = fields == 0 && (offered & ipv4_with_ports) == ipv4_with_ports;
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

/* Configures a port, and adjusts the numbers of descriptors to the device's limits. Returns 0 or a
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
	/* A frame longer than a buffer gets several segments. */
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

/* Argument of close_port. */
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

/* Stops and closes a port; `remove` also removes its device, so that it can be probed again. A memif is
 * closed on the interrupt thread, which also handles a disconnect of its peer, so that memory is not
 * freed twice. */
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

/* Returns 1 if the link is up, 0 if it is down, negative if the device does not report it. */
int flowatch_dpdk_link(uint16_t port)
{
	struct rte_eth_link link;
	memset(&link, 0, sizeof(link));
	int error = rte_eth_link_get_nowait(port, &link);
	return error < 0 ? error : link.link_status == RTE_ETH_LINK_UP;
}

/* Counters: frames and bytes received, missed, receive errors, no buffer, frames and bytes sent, transmit
 * errors. Returns 0 or a negative error number. */
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

/* Returns the number of frames in a receive queue, or a negative error number. */
int flowatch_dpdk_occupancy(uint16_t port, uint16_t queue)
{
	return rte_eth_rx_queue_count(port, queue);
}

/* ---- mempools ---- */

/* Creates a pool; NULL on failure, with the error number in `error`. */
struct rte_mempool *flowatch_dpdk_make_pool(const char *name, unsigned int buffers,
					    unsigned int cache, int socket, int *error)
{
	/* Slots are rounded up to whole cache lines and must still fit into a buffer. */
	_Static_assert(RTE_MBUF_DEFAULT_DATAROOM % 64 == 0, "the buffer size is not a multiple of the cache line size");
	struct rte_mempool *pool = rte_pktmbuf_pool_create(name, buffers, cache, 0,
							   RTE_MBUF_DEFAULT_BUF_SIZE, socket);
	*error = pool == NULL ? rte_errno : 0;
	return pool;
}

void flowatch_dpdk_free_pool(struct rte_mempool *pool)
{
	rte_mempool_free(pool);
}

unsigned int flowatch_dpdk_cache_max(void)
{
	return RTE_MEMPOOL_CACHE_MAX_SIZE;
}

/* ---- receiving ---- */

/* refcnt and nb_segs of a buffer with one reference and one segment. */
#define ONE_REFERENCE_ONE_SEGMENT 0x00010001u

/* Reads both fields at once: they are adjacent. */
static inline uint32_t references_and_segments(const struct rte_mbuf *buffer)
{
	_Static_assert(offsetof(struct rte_mbuf, nb_segs) ==
			       offsetof(struct rte_mbuf, refcnt) + sizeof(uint16_t),
		       "the fields are not adjacent");
	uint32_t both;
	memcpy(&both, (const char *)buffer + offsetof(struct rte_mbuf, refcnt), sizeof(both));
	return both;
}

/* A received frame; `RxFrame` in shim.rs has the same layout. */
struct flowatch_dpdk_frame {
	/* The bytes of its first segment. */
	const uint8_t *data;
	uint32_t captured;
	/* Length of the whole frame. */
	uint32_t length;
	/* RSS hash, or 0 if the device reports none. */
	uint32_t hash;
};

/* Properties of all buffers of a burst, to decide how to free them. */
struct burst {
	struct rte_mempool *pool;
	uintptr_t other_pool;
	uint64_t any_flags;
	uint32_t not_simple;
};

/* Receives at most `max` frames from a queue; `guarded`: its driver unmaps rings of a peer. */
static inline unsigned int receive_burst(uint16_t port, uint16_t queue, int guarded,
					 unsigned int max, struct rte_mbuf **buffers,
					 struct burst *burst)
{
	if (guarded)
		lock_rings();
	unsigned int count = rte_eth_rx_burst(port, queue, buffers, (uint16_t) max);
	if (guarded)
		unlock_rings();
	memset(burst, 0, sizeof(*burst));
	burst->pool = count > 0 ? buffers[0]->pool : NULL;
	return count;
}

static inline void inspect(struct burst *burst, const struct rte_mbuf *buffer)
{
	burst->any_flags |= buffer->ol_flags;
	burst->not_simple |= references_and_segments(buffer) ^ ONE_REFERENCE_ONE_SEGMENT;
	burst->other_pool |= (uintptr_t)buffer->pool ^ (uintptr_t)burst->pool;
}

/* Returns the pool to which all buffers can be returned without inspecting them, or NULL. */
static inline struct rte_mempool *common_pool(const struct burst *burst)
{
	uint64_t elsewhere = burst->any_flags & (RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL);
	return burst->not_simple == 0 && elsewhere == 0 && burst->other_pool == 0 ? burst->pool : NULL;
}

/* Receives frames and describes each; pass `pool` to `flowatch_dpdk_release`. */
unsigned int flowatch_dpdk_receive(uint16_t port, uint16_t queue, int guarded, unsigned int max,
				   struct rte_mbuf **restrict buffers,
				   struct flowatch_dpdk_frame *restrict frames,
				   struct rte_mempool **pool)
{
	struct burst burst;
	unsigned int count = receive_burst(port, queue, guarded, max, buffers, &burst);
	for (unsigned int i = 0; i < count; i++) {
		const struct rte_mbuf *buffer = buffers[i];
		uint64_t flags = buffer->ol_flags;
		frames[i].data = rte_pktmbuf_mtod(buffer, const uint8_t *);
		frames[i].captured = buffer->data_len;
		frames[i].length = buffer->pkt_len;
		frames[i].hash = flags & RTE_MBUF_F_RX_RSS_HASH ? buffer->hash.rss : 0;
		inspect(&burst, buffer);
	}
	*pool = common_pool(&burst);
	return count;
}

/* Receives frames and adds up their bytes; pass `pool` to `flowatch_dpdk_release`. */
unsigned int flowatch_dpdk_count(uint16_t port, uint16_t queue, int guarded, unsigned int max,
				 struct rte_mbuf **restrict buffers, uint64_t *bytes,
				 struct rte_mempool **pool)
{
	struct burst burst;
	unsigned int count = receive_burst(port, queue, guarded, max, buffers, &burst);
	uint64_t sum = 0;
	for (unsigned int i = 0; i < count; i++) {
		sum += buffers[i]->pkt_len;
		inspect(&burst, buffers[i]);
	}
	*bytes = sum;
	*pool = common_pool(&burst);
	return count;
}

/* Frees received buffers; `pool` is the one reported with them. */
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

/* Pauses a spinning thread, for the benefit of the sibling hyperthread. */
void flowatch_dpdk_pause(void)
{
	rte_pause();
}

/* ---- sending ---- */

/* Returns the bytes for a frame in a buffer of a pool. */
unsigned int flowatch_dpdk_buffer_room(struct rte_mempool *pool)
{
	return rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM;
}

/* Allocates `count` buffers from a pool, all or none, and writes the start of the data of each. Returns
 * how many were allocated. */
unsigned int flowatch_dpdk_allocate(struct rte_mempool *pool, struct rte_mbuf **buffers,
				    uint8_t **data, unsigned int count)
{
	if (rte_pktmbuf_alloc_bulk(pool, buffers, count) != 0)
		return 0;
	for (unsigned int i = 0; i < count; i++)
		data[i] = rte_pktmbuf_mtod(buffers[i], uint8_t *);
	return count;
}

/* Sends frames of the given lengths, which must fit into their buffers; returns how many the device
 * accepted, from the first on. */
unsigned int flowatch_dpdk_send(uint16_t port, uint16_t queue, int guarded,
				struct rte_mbuf **buffers, const uint32_t *lengths,
				unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		buffers[i]->data_len = (uint16_t)lengths[i];
		buffers[i]->pkt_len = lengths[i];
	}
	if (guarded)
		lock_rings();
	unsigned int accepted = rte_eth_tx_burst(port, queue, buffers, (uint16_t)count);
	if (guarded)
		unlock_rings();
	return accepted;
}

/* Frees the buffers of frames that the device has sent; not supported by all devices. */
void flowatch_dpdk_clean_up_queue(uint16_t port, uint16_t queue, int guarded)
{
	if (guarded)
		lock_rings();
	rte_eth_tx_done_cleanup(port, queue, 0);
	if (guarded)
		unlock_rings();
}

/* Returns the number of buffers of a pool in use. */
unsigned int flowatch_dpdk_buffers_in_use(struct rte_mempool *pool)
{
	return rte_mempool_in_use_count(pool);
}

/* ---- ports of rings ---- */

/* Creates a ring of exactly `size` frames for one sender and one receiver; NULL on failure, with the
 * error number in `error`. */
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

/* Creates a port with these rings as receive queues; it sends to the last of them. Returns the port
 * number or a negative error number. */
int flowatch_dpdk_port_of_rings(const char *name, struct rte_ring **rings, unsigned int count)
{
	int port = rte_eth_from_rings(name, rings, count, rings + (count - 1), 1, SOCKET_ID_ANY);
	return port < 0 ? -(rte_errno > 0 ? rte_errno : EINVAL) : port;
}

/* Copies frames into buffers of `pool` and enqueues these in `ring`, as a device does with its receive
 * queue: frames beyond the free entries are missed, those without a buffer are counted in `no_buffer`.
 * At most 256 frames. Returns how many were delivered. */
unsigned int flowatch_dpdk_deliver(struct rte_ring *ring, struct rte_mempool *pool,
				   unsigned int count, const uint8_t *const *data,
				   const uint32_t *lengths, const uint32_t *hashes,
				   unsigned int *no_buffer)
{
	struct rte_mbuf *buffers[256];
	unsigned int free_entries = rte_ring_free_count(ring);
	unsigned int wanted = RTE_MIN(RTE_MIN(count, free_entries), (unsigned int)RTE_DIM(buffers));
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
	/* There is no other producer, so that all of them fit. */
	return rte_ring_sp_enqueue_burst(ring, (void **)buffers, got, NULL);
}
