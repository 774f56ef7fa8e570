//! The functions of `shim.c`, as C declares them.

use std::ffi::{c_char, c_int, c_uint};

/// A buffer of a frame, of DPDK's making.
#[repr(C)]
pub(super) struct Mbuf {
    opaque: [u8; 0],
}

/// What the shim tells of a received frame: `struct flowatch_dpdk_frame`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Told {
    /// Its first bytes, and how many they are.
    pub(super) data: *const u8,
    pub(super) captured: u32,
    /// Length of all of it.
    pub(super) length: u32,
    /// The device's hash, or 0.
    pub(super) hash: u32,
}

/// A pool of buffers.
#[repr(C)]
pub(super) struct Mempool {
    opaque: [u8; 0],
}

/// A ring of buffers.
#[repr(C)]
pub(super) struct Ring {
    opaque: [u8; 0],
}

// SAFETY: each declaration repeats the one in `shim.c`, whose state is its log and what holds the rings
// of a memif still, both behind locks, so that it may be called from any thread (the beginning and the
// end of staying by one at a time); what each function asks of its arguments stands there.
unsafe extern "C" {
    pub(super) fn flowatch_dpdk_take_log(to: *mut c_char, room: usize) -> usize;
    pub(super) fn flowatch_dpdk_start(count: c_int, arguments: *mut *mut c_char) -> c_int;
    pub(super) fn flowatch_dpdk_end();
    pub(super) fn flowatch_dpdk_begin_staying() -> c_int;
    pub(super) fn flowatch_dpdk_end_staying() -> c_int;
    pub(super) fn flowatch_dpdk_version() -> *const c_char;
    pub(super) fn flowatch_dpdk_enter_thread() -> c_int;
    pub(super) fn flowatch_dpdk_leave_thread();

    pub(super) fn flowatch_dpdk_probe(arguments: *const c_char) -> c_int;
    pub(super) fn flowatch_dpdk_ports(device: *const c_char, ports: *mut u16, room: c_int)
    -> c_int;
    pub(super) fn flowatch_dpdk_is_port(port: u16) -> c_int;
    pub(super) fn flowatch_dpdk_describe(
        port: u16,
        driver: *mut c_char,
        room: usize,
        receive_queues_most: *mut u16,
        rss_key_bytes: *mut u8,
        socket: *mut c_int,
    ) -> c_int;
    pub(super) fn flowatch_dpdk_rss(
        port: u16,
        fields: c_int,
        any: *mut c_int,
        ports_too: *mut c_int,
    ) -> u64;
    pub(super) fn flowatch_dpdk_configure(
        port: u16,
        receive_queues: u16,
        transmit_queues: u16,
        rss: u64,
        key: *mut u8,
        key_bytes: u8,
        receive_descriptors: *mut u16,
        transmit_descriptors: *mut u16,
    ) -> c_int;
    pub(super) fn flowatch_dpdk_receive_queue(
        port: u16,
        queue: u16,
        descriptors: u16,
        pool: *mut Mempool,
    ) -> c_int;
    pub(super) fn flowatch_dpdk_transmit_queue(port: u16, queue: u16, descriptors: u16) -> c_int;
    pub(super) fn flowatch_dpdk_start_port(port: u16) -> c_int;
    pub(super) fn flowatch_dpdk_promiscuous(port: u16) -> c_int;
    pub(super) fn flowatch_dpdk_close_port(port: u16, remove: c_int);
    pub(super) fn flowatch_dpdk_link(port: u16) -> c_int;
    pub(super) fn flowatch_dpdk_statistics(port: u16, counts: *mut u64) -> c_int;
    pub(super) fn flowatch_dpdk_occupancy(port: u16, queue: u16) -> c_int;

    pub(super) fn flowatch_dpdk_make_pool(
        name: *const c_char,
        buffers: c_uint,
        cache: c_uint,
        socket: c_int,
        error: *mut c_int,
    ) -> *mut Mempool;
    pub(super) fn flowatch_dpdk_free_pool(pool: *mut Mempool);
    pub(super) fn flowatch_dpdk_cache_most() -> c_uint;

    pub(super) fn flowatch_dpdk_receive(
        port: u16,
        queue: u16,
        rings_go: c_int,
        most: c_uint,
        buffers: *mut *mut Mbuf,
        frames: *mut Told,
        pool: *mut *mut Mempool,
    ) -> c_uint;
    pub(super) fn flowatch_dpdk_count(
        port: u16,
        queue: u16,
        rings_go: c_int,
        most: c_uint,
        buffers: *mut *mut Mbuf,
        bytes: *mut u64,
        pool: *mut *mut Mempool,
    ) -> c_uint;
    pub(super) fn flowatch_dpdk_release(pool: *mut Mempool, buffers: *mut *mut Mbuf, count: c_uint);
    pub(super) fn flowatch_dpdk_free(buffers: *mut *mut Mbuf, count: c_uint);
    pub(super) fn flowatch_dpdk_pause();

    pub(super) fn flowatch_dpdk_buffer_room(pool: *mut Mempool) -> c_uint;
    pub(super) fn flowatch_dpdk_allocate(
        pool: *mut Mempool,
        buffers: *mut *mut Mbuf,
        data: *mut *mut u8,
        count: c_uint,
    ) -> c_uint;
    pub(super) fn flowatch_dpdk_send(
        port: u16,
        queue: u16,
        rings_go: c_int,
        buffers: *mut *mut Mbuf,
        lengths: *const u32,
        count: c_uint,
    ) -> c_uint;
    pub(super) fn flowatch_dpdk_tidy_queue(port: u16, queue: u16, rings_go: c_int);
    pub(super) fn flowatch_dpdk_in_use(pool: *mut Mempool) -> c_uint;

    pub(super) fn flowatch_dpdk_make_ring(
        name: *const c_char,
        size: c_uint,
        error: *mut c_int,
    ) -> *mut Ring;
    pub(super) fn flowatch_dpdk_free_ring(ring: *mut Ring);
    pub(super) fn flowatch_dpdk_ring_count(ring: *const Ring) -> c_uint;
    pub(super) fn flowatch_dpdk_port_of_rings(
        name: *const c_char,
        rings: *mut *mut Ring,
        count: c_uint,
    ) -> c_int;
    pub(super) fn flowatch_dpdk_deliver(
        ring: *mut Ring,
        pool: *mut Mempool,
        count: c_uint,
        data: *const *const u8,
        lengths: *const u32,
        hashes: *const u32,
        no_buffer: *mut c_uint,
    ) -> c_uint;
}
