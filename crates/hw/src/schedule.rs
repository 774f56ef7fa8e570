//! The scheduling policies of the kernel, applied to the calling thread (sched(7)).

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A scheduling policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// The default time-sharing policy (SCHED_OTHER).
    #[default]
    Other,
    /// Real-time: runs until it blocks, before any thread of lower priority (SCHED_FIFO, 1 to 99).
    Fifo(u8),
    /// Gets `runtime` in every `period`, before `deadline` (SCHED_DEADLINE).
    Deadline {
        /// CPU time in each period.
        runtime: Duration,
        /// Time from the start of a period by which the thread has got its runtime.
        deadline: Duration,
        /// Length of a period.
        period: Duration,
    },
}

/// The kernel's limits for real-time threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The shortest period.
    pub period_min: Duration,
    /// The longest period.
    pub period_max: Duration,
    /// Share of each core that all real-time threads together may use, in parts per million.
    pub share_ppm: u64,
}

/// The shortest runtime that the kernel accepts: its arithmetic drops the lowest 10 bits.
const RUNTIME_MIN: Duration = Duration::from_nanos(1024);

impl Limits {
    /// Reads the limits from `/proc/sys/kernel`. A missing file gives the kernel's default.
    #[must_use]
    pub fn read() -> Self {
        let number = |name: &str| -> Option<i64> {
            let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
            text.trim().parse().ok()
        };
        let micros = |name: &str, default: u64| {
            let found = number(name).and_then(|found| u64::try_from(found).ok());
            Duration::from_micros(found.unwrap_or(default))
        };
        let period = number("sched_rt_period_us").unwrap_or(1_000_000).max(1);
        // -1 means unlimited.
        let share_ppm = match number("sched_rt_runtime_us").unwrap_or(950_000) {
            ..0 => 1_000_000,
            runtime => (i128::from(runtime) * 1_000_000 / i128::from(period)) as u64,
        };
        Self {
            period_min: micros("sched_deadline_period_min_us", 100),
            period_max: micros("sched_deadline_period_max_us", 4_194_304),
            share_ppm,
        }
    }
}

impl Schedule {
    /// Checks for what the kernel would reject with a bare EINVAL.
    ///
    /// # Errors
    /// Returns a one-line description of the problem.
    pub fn check(&self, limits: &Limits) -> Result<(), String> {
        match *self {
            Self::Other => Ok(()),
            Self::Fifo(priority) if (1..=99).contains(&priority) => Ok(()),
            Self::Fifo(priority) => Err(format!("fifo={priority}: the priority must be 1 to 99")),
            Self::Deadline {
                runtime,
                deadline,
                period,
            } => {
                if runtime > deadline || deadline > period {
                    return Err(format!(
                        "{self}: must satisfy runtime <= deadline <= period"
                    ));
                }
                if runtime < RUNTIME_MIN {
                    return Err(format!("{self}: the runtime must be at least 1024ns"));
                }
                if period < limits.period_min || period > limits.period_max {
                    return Err(format!(
                        "{self}: this kernel accepts periods from {:?} to {:?} (sysctl \
                         kernel.sched_deadline_period_min_us and _max_us)",
                        limits.period_min, limits.period_max
                    ));
                }
                Ok(())
            }
        }
    }

    /// Returns the share of a core that this policy reserves, in parts per million.
    #[must_use]
    pub fn share_ppm(&self) -> u64 {
        match *self {
            Self::Deadline {
                runtime, period, ..
            } => (runtime.as_nanos() * 1_000_000 / period.as_nanos().max(1)) as u64,
            _ => 0,
        }
    }

    /// Returns whether this is SCHED_DEADLINE.
    #[must_use]
    pub const fn is_deadline(&self) -> bool {
        matches!(self, Self::Deadline { .. })
    }

    /// Applies this policy to the calling thread. Under SCHED_DEADLINE, [`overruns`] then counts.
    ///
    /// SCHED_DEADLINE installs a handler for SIGXCPU, for the rest of the process. The soft limit of
    /// CPU time (RLIMIT_CPU) sends the same signal: it then no longer ends the process, and counts as
    /// an overrun of the thread that receives it. The hard limit still applies.
    ///
    /// # Errors
    /// The error of the kernel: EPERM (no permission, or the thread may not run on every core of its
    /// root domain), EBUSY (not enough free bandwidth), EINVAL (see [`Schedule::check`]).
    pub fn apply(&self) -> io::Result<()> {
        // SAFETY: `sched_attr` is a struct of integers, for which zero is valid.
        let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
        attributes.size = size_of::<libc::sched_attr>() as u32;
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        match *self {
            Self::Other => attributes.sched_policy = libc::SCHED_OTHER as u32,
            Self::Fifo(priority) => {
                attributes.sched_policy = libc::SCHED_FIFO as u32;
                attributes.sched_priority = u32::from(priority);
            }
            Self::Deadline {
                runtime,
                deadline,
                period,
            } => {
                install_overrun_handler()?;
                attributes.sched_policy = libc::SCHED_DEADLINE as u32;
                attributes.sched_flags = libc::SCHED_FLAG_DL_OVERRUN as u64;
                attributes.sched_runtime = nanos(runtime);
                attributes.sched_deadline = nanos(deadline);
                attributes.sched_period = nanos(period);
            }
        }
        // SAFETY: the attributes outlive the call and contain their own size.
        match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other => f.write_str("other"),
            Self::Fifo(priority) => write!(f, "fifo={priority}"),
            Self::Deadline {
                runtime,
                deadline,
                period,
            } => write!(f, "deadline={runtime:?}/{deadline:?}/{period:?}"),
        }
    }
}

/// Yields the CPU. Under SCHED_DEADLINE, the thread gives up the rest of its runtime and sleeps until
/// the next period.
pub fn yield_cpu() {
    // SAFETY: no arguments.
    unsafe { libc::sched_yield() };
}

thread_local! {
    /// Atomic, since the signal may arrive between any two instructions of the thread.
    static OVERRUNS: AtomicU64 = const { AtomicU64::new(0) };
}

/// Returns how often the calling thread, under SCHED_DEADLINE, used up its runtime before the end of a
/// period.
#[must_use]
pub fn overruns() -> u64 {
    OVERRUNS.with(|overruns| overruns.load(Ordering::Relaxed))
}

/// Handles SIGXCPU, which the kernel sends to a thread with `SCHED_FLAG_DL_OVERRUN` on an overrun.
extern "C" fn on_sigxcpu(_: libc::c_int) {
    // Async-signal-safe: the thread-local is const-initialised and has no destructor, so this access
    // neither allocates nor registers anything.
    OVERRUNS.with(|overruns| overruns.fetch_add(1, Ordering::Relaxed));
}

fn install_overrun_handler() -> io::Result<()> {
    // SAFETY: a zeroed `sigaction` has an empty mask and no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_sigxcpu as extern "C" fn(libc::c_int) as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler only increments an atomic of its own thread, which is async-signal-safe. The
    // pointer for the old action may be null.
    match unsafe { libc::sigaction(libc::SIGXCPU, &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deadline(runtime_us: u64, deadline_us: u64, period_us: u64) -> Schedule {
        Schedule::Deadline {
            runtime: Duration::from_micros(runtime_us),
            deadline: Duration::from_micros(deadline_us),
            period: Duration::from_micros(period_us),
        }
    }

    const LIMITS: Limits = Limits {
        period_min: Duration::from_micros(100),
        period_max: Duration::from_secs(4),
        share_ppm: 950_000,
    };

    #[test]
    fn check_rejects_what_the_kernel_would_reject() {
        assert_eq!(deadline(100, 500, 500).check(&LIMITS), Ok(()));
        for (schedule, words) in [
            (deadline(10, 20, 20), "periods from 100µs to 4s"),
            (deadline(10, 20, 5_000_000), "periods from"),
            (deadline(600, 500, 700), "runtime <= deadline <= period"),
            (deadline(100, 800, 700), "runtime <= deadline <= period"),
            (deadline(1, 800, 800), "at least 1024ns"),
            (Schedule::Fifo(0), "1 to 99"),
            (Schedule::Fifo(100), "1 to 99"),
        ] {
            let error = schedule.check(&LIMITS).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn share_and_display_of_policies() {
        assert_eq!(deadline(100, 500, 500).share_ppm(), 200_000);
        assert_eq!(Schedule::Fifo(7).share_ppm(), 0);
        assert_eq!(
            deadline(100, 400, 500).to_string(),
            "deadline=100µs/400µs/500µs"
        );
    }

    #[test]
    fn an_overrun_counts_for_the_thread_that_gets_the_signal() {
        install_overrun_handler().unwrap();
        let before = overruns();
        std::thread::spawn(|| {
            for count in 1..=3 {
                // SAFETY: the signal has a handler, which runs before the call returns.
                assert_eq!(unsafe { libc::raise(libc::SIGXCPU) }, 0);
                assert_eq!(overruns(), count);
            }
        })
        .join()
        .unwrap();
        assert_eq!(overruns(), before);
    }

    /// The default policy is always available; the others may be denied.
    #[test]
    fn applied_policy_is_the_policy_of_the_thread() {
        std::thread::spawn(|| {
            Schedule::Other.apply().unwrap();
            for schedule in [Schedule::Fifo(10), deadline(1000, 10_000, 10_000)] {
                let policy = match schedule {
                    Schedule::Deadline { .. } => libc::SCHED_DEADLINE,
                    _ => libc::SCHED_FIFO,
                };
                match schedule.apply() {
                    // SAFETY: a query for the calling thread.
                    Ok(()) => assert_eq!(unsafe { libc::sched_getscheduler(0) }, policy),
                    Err(error) => assert!(
                        matches!(error.raw_os_error(), Some(libc::EPERM | libc::EBUSY)),
                        "{schedule}: {error}"
                    ),
                }
            }
            yield_cpu();
        })
        .join()
        .unwrap();
    }
}
