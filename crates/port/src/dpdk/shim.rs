//! Declarations of the functions of `shim.c`.

use std::ffi::{c_char, c_int, c_uint};

/// DPDK's `rte_mbuf`, a frame buffer.
#[repr(C)]
pub(super) struct Mbuf {
    opaque: [u8; 0],
}

/// A received frame: `struct flowatch_dpdk_frame` of `shim.c`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RxFrame {
    /// The bytes of its first segment.
    pub(super) data: *const u8,
    /// Length of its first segment.
    pub(super) captured: u32,
    /// Length of the whole frame.
    pub(super) length: u32,
    /// RSS hash, or 0 for none.
    pub(super) hash: u32,
}

/// DPDK's `rte_mempool`.
#[repr(C)]
pub(super) struct Mempool {
    opaque: [u8; 0],
}

/// DPDK's `rte_ring`.
#[repr(C)]
pub(super) struct Ring {
    opaque: [u8; 0],
}

// SAFETY: each declaration repeats the one in `shim.c`, where the requirements on the arguments are
// documented. The shim's state, its log and the ring guard, is protected by locks, so that any thread
// may call it (guard_rings and unguard_rings: one thread at a time).
unsafe extern "C" {
    pub(super) fn flowatch_dpdk_take_log(to: *mut c_char, size: usize) -> usize;
    pub(super) fn flowatch_dpdk_start(count: c_int, arguments: *mut *mut c_char) -> c_int;
    pub(super) fn flowatch_dpdk_end();
    pub(super) fn flowatch_dpdk_guard_rings() -> c_int;
    pub(super) fn flowatch_dpdk_unguard_rings() -> c_int;
    pub(super) fn flowatch_dpdk_version() -> *const c_char;
    pub(super) fn flowatch_dpdk_register_thread() -> c_int;
    pub(super) fn flowatch_dpdk_unregister_thread();

    pub(super) fn flowatch_dpdk_probe(arguments: *const c_char) -> c_int;
    pub(super) fn flowatch_dpdk_ports(device: *const c_char, ports: *mut u16, size: c_int)
    -> c_int;
    pub(super) fn flowatch_dpdk_is_port(port: u16) -> c_int;
    pub(super) fn flowatch_dpdk_describe(
        port: u16,
        driver: *mut c_char,
        size: usize,
        max_receive_queues: *mut u16,
        rss_key_bytes: *mut u8,
        socket: *mut c_int,
    ) -> c_int;
    pub(super) fn flowatch_dpdk_rss(
        port: u16,
        fields: c_int,
        any: *mut c_int,
        with_ports: *mut c_int,
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
    pub(super) fn flowatch_dpdk_cache_max() -> c_uint;

    pub(super) fn flowatch_dpdk_receive(
        port: u16,
        queue: u16,
        guarded: c_int,
        max: c_uint,
        buffers: *mut *mut Mbuf,
        frames: *mut RxFrame,
        pool: *mut *mut Mempool,
    ) -> c_uint;
    pub(super) fn flowatch_dpdk_count(
        port: u16,
        queue: u16,
        guarded: c_int,
        max: c_uint,
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
        guarded: c_int,
        buffers: *mut *mut Mbuf,
        lengths: *const u32,
        count: c_uint,
    ) -> c_uint;
    pub(super) fn flowatch_dpdk_clean_up_queue(port: u16, queue: u16, guarded: c_int);
    pub(super) fn flowatch_dpdk_buffers_in_use(pool: *mut Mempool) -> c_uint;

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
