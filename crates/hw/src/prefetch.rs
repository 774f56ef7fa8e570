//! Prefetching cache lines. A prefetch never faults, whatever the address.

/// The cache into which a line is prefetched.
///
/// The L1 cache has few line fill buffers (24 on AMD's Zen 4), and further misses stall until one
/// is free. The L2 cache tracks about twice as many misses, but its lines are farther away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheLevel {
    /// The L1 cache: for lines that are needed soon.
    #[default]
    L1,
    /// The L2 cache: for many lines that probably come from memory and are needed later.
    L2,
}

/// Prefetches the cache line of `slice[index]`. An index past the end is harmless.
#[inline]
pub fn read<T>(slice: &[T], index: usize) {
    line::<READ>(slice.as_ptr().wrapping_add(index).cast());
}

/// Prefetches the cache line of `slice[index]` into `level`.
#[inline]
pub fn read_into<T>(level: CacheLevel, slice: &[T], index: usize) {
    address_into(level, slice.as_ptr().wrapping_add(index).cast());
}

/// Prefetches the cache lines of `slice` at all of `indices` into `level`.
#[inline]
pub fn read_each<T>(level: CacheLevel, slice: &[T], indices: &[u32]) {
    unrolled(indices, |&index| read_into(level, slice, index as usize));
}

/// Calls `f` with each of `items`, unrolled by eight: a prefetch is only one or two instructions, and
/// the loop counter would double that.
// So that `f` is inlined too: a call would cost more than the prefetch.
#[inline(always)]
pub(crate) fn unrolled<T>(items: &[T], f: impl Fn(&T)) {
    let (groups, rest) = items.as_chunks::<8>();
    for group in groups {
        group.iter().for_each(&f);
    }
    rest.iter().for_each(f);
}

/// Prefetches the line `offset` bytes after the start of `bytes`, which may be past the end.
#[inline]
pub fn offset(bytes: &[u8], offset: usize) {
    line::<READ>(bytes.as_ptr().wrapping_add(offset));
}

/// Prefetches the cache line at `address`, which need not be valid.
#[inline]
pub fn address(address: *const u8) {
    line::<READ>(address);
}

/// Prefetches the cache line at `address` into `level`.
#[inline]
pub(crate) fn address_into(level: CacheLevel, address: *const u8) {
    match level {
        CacheLevel::L1 => line::<READ>(address),
        CacheLevel::L2 => line::<READ_LATER>(address),
    }
}

/// Prefetches, for writing, the slot after the last of `values`: the one that the next push fills.
#[inline]
pub fn next_push<T>(values: &[T]) {
    let slot = values.as_ptr_range().end.cast::<u8>();
    for offset in (0..size_of::<T>()).step_by(64) {
        line::<WRITE>(slot.wrapping_add(offset));
    }
}

/// Hint for a line that will be read (`PREFETCHT0`).
const READ: i32 = 3;

/// Hint for a line that will be read later (`PREFETCHT1`).
const READ_LATER: i32 = 2;

/// Hint for a line that will be written (`PREFETCHW`, a no-op on CPUs without it).
const WRITE: i32 = 7;

#[inline]
fn line<const HINT: i32>(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch instruction cannot fault, and every x86-64 CPU has SSE.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<HINT>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
