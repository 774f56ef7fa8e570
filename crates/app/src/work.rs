//! Counts the work of readers in tests, so that a test can hold the worst packet against a benign one.

#[cfg(test)]
thread_local! {
    static WORK: core::cell::Cell<usize> = const { core::cell::Cell::new(0) };
}

/// The work of a call of a parser, in bytes.
pub(crate) const CALL: usize = 8;

/// Moving this number of bytes is as much work as scanning one.
pub(crate) const MOVED: usize = 16;

/// Counts bytes that were scanned.
#[inline]
pub(crate) fn count(bytes: usize) {
    #[cfg(test)]
    WORK.set(WORK.get() + bytes);
    let _ = bytes;
}

/// Returns the work of this thread since the last call.
#[cfg(test)]
pub(crate) fn take() -> usize {
    WORK.take()
}
