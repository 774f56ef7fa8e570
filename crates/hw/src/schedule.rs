//! The kernel's scheduling policies, for the calling thread (sched(7)).

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// The default, time-shared (SCHED_OTHER).
    #[default]
    Other,
    /// Runs until it waits, before all of lower priority (SCHED_FIFO, 1 to 99).
    Fifo(u8),
    /// `runtime` in every `period`, had by `deadline` (SCHED_DEADLINE).
    Deadline {
        /// Processor time in each period.
        runtime: Duration,
        /// By when it is had, from the period's beginning.
        deadline: Duration,
        /// The period.
        period: Duration,
    },
}

/// What the kernel allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The shortest period.
    pub period_min: Duration,
    /// The longest.
    pub period_max: Duration,
    /// Share of each core, in parts of a million, that all real-time threads together may take.
    pub share_ppm: u64,
}

/// The least runtime: below it the kernel's arithmetic has no bits left.
const RUNTIME_MIN: Duration = Duration::from_nanos(1024);

impl Limits {
    /// Those of this machine; the kernel's own defaults where it does not tell.
    #[must_use]
    pub fn of_this_machine() -> Self {
        let number = |name: &str| -> Option<i64> {
            let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
            text.trim().parse().ok()
        };
        let micros = |name: &str, default: u64| {
            let found = number(name).and_then(|found| u64::try_from(found).ok());
            Duration::from_micros(found.unwrap_or(default))
        };
        let period = number("sched_rt_period_us").unwrap_or(1_000_000).max(1);
        // -1: no bound.
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
    /// Checks what the kernel would refuse without saying why.
    ///
    /// # Errors
    /// What is wrong, in one line.
    pub fn check(&self, limits: &Limits) -> Result<(), String> {
        match *self {
            Self::Other => Ok(()),
            Self::Fifo(priority) if (1..=99).contains(&priority) => Ok(()),
            Self::Fifo(priority) => Err(format!("fifo={priority}: a priority is 1 to 99")),
            Self::Deadline {
                runtime,
                deadline,
                period,
            } => {
                if runtime > deadline || deadline > period {
                    return Err(format!("{self}: runtime <= deadline <= period"));
                }
                if runtime < RUNTIME_MIN {
                    return Err(format!("{self}: the kernel's least runtime is 1024ns"));
                }
                if period < limits.period_min || period > limits.period_max {
                    return Err(format!(
                        "{self}: this kernel's periods are {:?} to {:?} (sysctl kernel.sched_deadline_period_min_us \
                         and _max_us)",
                        limits.period_min, limits.period_max
                    ));
                }
                Ok(())
            }
        }
    }

    /// Share of a core that is reserved, in parts of a million.
    #[must_use]
    pub fn share_ppm(&self) -> u64 {
        match *self {
            Self::Deadline {
                runtime, period, ..
            } => (runtime.as_nanos() * 1_000_000 / period.as_nanos().max(1)) as u64,
            _ => 0,
        }
    }

    /// Whether it is SCHED_DEADLINE.
    #[must_use]
    pub const fn is_deadline(&self) -> bool {
        matches!(self, Self::Deadline { .. })
    }

    /// Puts the calling thread under this policy. From now on [`overruns`] counts for it.
    ///
    /// SCHED_DEADLINE takes the signal SIGXCPU for that, of the whole process and until it ends: the
    /// soft limit of processor time (RLIMIT_CPU), which is told by the same signal, then ends nothing
    /// any more and counts as an overrun of whichever thread is told. The hard limit holds.
    ///
    /// # Errors
    /// The kernel's: EPERM (the right is missing, or the thread may not run on every core of its
    /// root domain), EBUSY (no room), EINVAL (see [`Schedule::check`]).
    pub fn apply(&self) -> io::Result<()> {
        // SAFETY: `sched_attr` is a plain struct of integers.
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
                count_overruns()?;
                attributes.sched_policy = libc::SCHED_DEADLINE as u32;
                attributes.sched_flags = libc::SCHED_FLAG_DL_OVERRUN as u64;
                attributes.sched_runtime = nanos(runtime);
                attributes.sched_deadline = nanos(deadline);
                attributes.sched_period = nanos(period);
            }
        }
        // SAFETY: the attributes outlive the call, and say their own size.
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

/// Gives the processor up: under SCHED_DEADLINE the rest of this period's runtime, until the next
/// period begins.
pub fn yield_job() {
    // SAFETY: no arguments.
    unsafe { libc::sched_yield() };
}

thread_local! {
    /// Atomic, since the signal may come between any two instructions of the thread.
    static OVERRUNS: AtomicU64 = const { AtomicU64::new(0) };
}

/// How often the calling thread under SCHED_DEADLINE has used its runtime up and had to wait for the
/// next period.
#[must_use]
pub fn overruns() -> u64 {
    OVERRUNS.with(|overruns| overruns.load(Ordering::Relaxed))
}

/// The kernel sends SIGXCPU to a thread that has used its runtime up, if it was asked to.
extern "C" fn on_overrun(_: libc::c_int) {
    // A number that is there from the thread's beginning and has no destructor: nothing is made here.
    OVERRUNS.with(|overruns| overruns.fetch_add(1, Ordering::Relaxed));
}

fn count_overruns() -> io::Result<()> {
    // SAFETY: a `sigaction` of zeroes has an empty mask and no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_overrun as extern "C" fn(libc::c_int) as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler adds to an atomic number of the thread that it runs on, which is safe at any
    // moment, and does nothing else; the old action is not asked for.
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
    fn what_the_kernel_would_refuse_is_told_before() {
        assert_eq!(deadline(100, 500, 500).check(&LIMITS), Ok(()));
        for (schedule, words) in [
            (deadline(10, 20, 20), "periods are 100µs to 4s"),
            (deadline(10, 20, 5_000_000), "periods are"),
            (deadline(600, 500, 700), "runtime <= deadline <= period"),
            (deadline(100, 800, 700), "runtime <= deadline <= period"),
            (deadline(1, 800, 800), "least runtime"),
            (Schedule::Fifo(0), "1 to 99"),
            (Schedule::Fifo(100), "1 to 99"),
        ] {
            let error = schedule.check(&LIMITS).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn shares_and_names() {
        assert_eq!(deadline(100, 500, 500).share_ppm(), 200_000);
        assert_eq!(Schedule::Fifo(7).share_ppm(), 0);
        assert_eq!(
            deadline(100, 400, 500).to_string(),
            "deadline=100µs/400µs/500µs"
        );
    }

    #[test]
    fn a_signal_counts_for_the_thread_that_it_comes_to() {
        count_overruns().unwrap();
        let before = overruns();
        std::thread::spawn(|| {
            for count in 1..=3 {
                // SAFETY: the signal has a handler, and comes before the call returns.
                assert_eq!(unsafe { libc::raise(libc::SIGXCPU) }, 0);
                assert_eq!(overruns(), count);
            }
        })
        .join()
        .unwrap();
        assert_eq!(overruns(), before);
    }

    /// The default can always be had, and the kernel says what it knows of each policy.
    #[test]
    fn a_thread_is_under_the_policy_that_was_applied() {
        std::thread::spawn(|| {
            Schedule::Other.apply().unwrap();
            for schedule in [Schedule::Fifo(10), deadline(1000, 10_000, 10_000)] {
                let policy = match schedule {
                    Schedule::Deadline { .. } => libc::SCHED_DEADLINE,
                    _ => libc::SCHED_FIFO,
                };
                match schedule.apply() {
                    // SAFETY: asks for the calling thread's policy.
                    Ok(()) => assert_eq!(unsafe { libc::sched_getscheduler(0) }, policy),
                    Err(error) => assert!(
                        matches!(error.raw_os_error(), Some(libc::EPERM | libc::EBUSY)),
                        "{schedule}: {error}"
                    ),
                }
            }
            yield_job();
        })
        .join()
        .unwrap();
    }
}
