//! Asking for a cache line before it is needed. A prefetch never faults, whatever the address.

/// The cache into which a line is asked for.
///
/// The first level keeps track of few missing lines (24 on AMD's Zen 4), and who asks it for more
/// waits; the second has twice as many under way, but what it brings has still a way to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheLevel {
    /// The nearest.
    #[default]
    First,
    /// For lines that most likely come from memory, many of them, and are needed some time later.
    Second,
}

/// Asks for the cache line of `slice[index]`; an index past the end asks for nothing useful.
#[inline(always)]
pub fn read<T>(slice: &[T], index: usize) {
    line::<READ>(slice.as_ptr().wrapping_add(index).cast());
}

/// The same into a level of cache.
#[inline(always)]
pub fn into<T>(level: CacheLevel, slice: &[T], index: usize) {
    address_into(level, slice.as_ptr().wrapping_add(index).cast());
}

/// Asks for the cache lines of `slice` at all of these indices.
#[inline(always)]
pub fn each<T>(level: CacheLevel, slice: &[T], indices: &[u32]) {
    flat(indices, |&index| into(level, slice, index as usize));
}

/// Calls `ask` with each of `items`, several of them between two turns of a loop: a request is one
/// instruction or two, and counting turns would be as many.
#[inline(always)]
pub(crate) fn flat<T>(items: &[T], ask: impl Fn(&T)) {
    let (groups, rest) = items.as_chunks::<8>();
    for group in groups {
        group.iter().for_each(&ask);
    }
    rest.iter().for_each(ask);
}

/// Asks for the line `offset` bytes after the start of `bytes`, which may lie past the end.
#[inline(always)]
pub fn ahead(bytes: &[u8], offset: usize) {
    line::<READ>(bytes.as_ptr().wrapping_add(offset));
}

/// Asks for the cache line at `address`, whatever is there.
#[inline(always)]
pub fn address(address: *const u8) {
    line::<READ>(address);
}

/// The same into a level of cache.
#[inline(always)]
pub(crate) fn address_into(level: CacheLevel, address: *const u8) {
    match level {
        CacheLevel::First => line::<READ>(address),
        CacheLevel::Second => line::<READ_LATER>(address),
    }
}

/// Asks for the place behind the last of `values`, to be written.
#[inline(always)]
pub fn place_behind<T>(values: &[T]) {
    let place = values.as_ptr_range().end.cast::<u8>();
    for offset in (0..size_of::<T>()).step_by(64) {
        line::<WRITE>(place.wrapping_add(offset));
    }
}

/// Hint of a line that will be read (`PREFETCHT0`).
const READ: i32 = 3;

/// Hint of a line that will be read later (`PREFETCHT1`).
const READ_LATER: i32 = 2;

/// Hint of a line that will be written (`PREFETCHW`; nothing where a processor lacks it).
const WRITE: i32 = 7;

#[inline(always)]
fn line<const HINT: i32>(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch instruction does not access memory in a way that can fault; SSE is part
    // of every x86-64.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<HINT>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
