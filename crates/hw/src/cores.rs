//! CPU cores: which of them a process may use, and pinning a thread to one.

use std::io;

/// Returns the cores that this process may run on, in ascending order.
#[must_use]
pub fn allowed() -> Vec<usize> {
    // SAFETY: a `cpu_set_t` of zeroes is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is as large as its stated size.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if result != 0 {
        return vec![0];
    }
    // SAFETY: indices below CPU_SETSIZE are within the set.
    (0..libc::CPU_SETSIZE as usize)
        .filter(|&core| unsafe { libc::CPU_ISSET(core, &set) })
        .collect()
}

/// Pins the calling thread to `core`.
///
/// # Errors
/// Fails if the machine has no such core or this process may not use it.
pub fn pin(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: a `cpu_set_t` of zeroes is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `core` is below CPU_SETSIZE.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the set is as large as its stated size.
    match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_use_only_its_core() {
        let last = *allowed().last().unwrap();
        std::thread::spawn(move || {
            pin(last).unwrap();
            assert_eq!(allowed(), [last]);
        })
        .join()
        .unwrap();
        assert!(pin(1_000_000).is_err());
        assert!(pin(1000).is_err());
    }
}
