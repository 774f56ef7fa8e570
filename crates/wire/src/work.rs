//! Counts the work of readers, for fuzz targets: each holds the work for its input below a budget. (The
//! test `cost` of the crate app counts instructions instead, which fuzzing could not do in time.)
//!
//! Without the feature `work`, nothing is counted and [`count`] is no code.

#[cfg(feature = "work")]
thread_local! {
    static WORK: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
}

/// The work of a call of a parser, or of a header or a name, in bytes.
pub const CALL: usize = 8;

/// Moving this number of bytes is as much work as scanning one.
pub const MOVED: usize = 16;

/// Counts bytes that were scanned.
#[inline]
pub fn count(bytes: usize) {
    #[cfg(feature = "work")]
    WORK.set(WORK.get() + bytes);
    let _ = bytes;
}

/// Returns the work of this thread since the last call.
#[cfg(feature = "work")]
#[must_use]
pub fn take() -> usize {
    WORK.take()
}
