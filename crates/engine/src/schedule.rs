//! Whether the policies that were asked for can be had: tried before anything is opened, since the
//! kernel decides by what else runs.

use crate::options::{EngineError, Options};
use hw::schedule::{Limits, Schedule};
use std::io;
use std::sync::Barrier;
use std::thread;

/// Puts as many threads as a run over `ports` ports has under their policies, all at one time, and
/// lets them go again.
///
/// # Errors
/// The first that is refused: [`EngineError::Permission`] where a right is missing, else
/// [`EngineError::Schedule`] with the reason.
pub fn check(options: &Options, ports: usize) -> Result<(), EngineError> {
    let threads = options.threads(ports);
    let schedules: Vec<Schedule> = (0..threads)
        .map(|number| options.schedule(number))
        .collect();
    if schedules
        .iter()
        .all(|schedule| *schedule == Schedule::Other)
    {
        return Ok(());
    }
    let limits = Limits::of_this_machine();
    for schedule in &schedules {
        schedule
            .check(&limits)
            .map_err(|error| EngineError::Schedule(format!("--schedule {error}")))?;
    }
    let all_settled = Barrier::new(threads);
    let outcomes: Vec<Result<(), io::Error>> = thread::scope(|scope| {
        let tried: Vec<_> = schedules
            .iter()
            .enumerate()
            .map(|(number, schedule)| {
                let (core, all_settled) = (options.core(number), &all_settled);
                scope.spawn(move || {
                    if let Some(core) = core {
                        let _ = hw::cores::pin(core);
                    }
                    let outcome = schedule.apply();
                    // Back to the default, so that no one waits for a period to begin.
                    all_settled.wait();
                    let _ = Schedule::Other.apply();
                    outcome
                })
            })
            .collect();
        tried.into_iter().map(crate::thread::join).collect()
    });
    for ((number, schedule), outcome) in schedules.iter().enumerate().zip(outcomes) {
        if let Err(error) = outcome {
            let pinned = options.core(number);
            return Err(explain(schedule, pinned, &schedules, &limits, &error));
        }
    }
    Ok(())
}

/// What the kernel means.
fn explain(
    schedule: &Schedule,
    pinned: Option<usize>,
    all: &[Schedule],
    limits: &Limits,
    error: &io::Error,
) -> EngineError {
    match error.kind() {
        io::ErrorKind::PermissionDenied if schedule.is_deadline() && may_schedule() => {
            EngineError::Schedule(match pinned {
                Some(core) => format!(
                    "--schedule {schedule} with --cores: the kernel takes a deadline thread only if it may run on \
                     every core of its scheduling domain, and this one is kept on core {core}; leave --cores out, or \
                     start flowatch in an exclusive cpuset of the cores that it is to have"
                ),
                None => format!(
                    "--schedule {schedule}: the kernel takes a deadline thread only if it may run on every core of \
                     its scheduling domain, and this process may not (taskset, cpuset); start it without"
                ),
            })
        }
        io::ErrorKind::PermissionDenied => EngineError::Permission(format!(
            "--schedule {schedule}: no permission for real-time scheduling; run as root, or once: sudo setcap \
             cap_net_raw,cap_net_admin,cap_sys_nice+ep {}",
            program()
        )),
        io::ErrorKind::ResourceBusy => {
            let asked: u64 = all.iter().map(Schedule::share_ppm).sum();
            EngineError::Schedule(format!(
                "--schedule {schedule}: no room: its threads ask for {:.1} % of a core together, and all deadline \
                 threads of the machine may have {:.1} % of each (sysctl kernel.sched_rt_runtime_us); ask for less \
                 runtime in the period",
                asked as f64 / 1e4,
                limits.share_ppm as f64 / 1e4,
            ))
        }
        _ => EngineError::Schedule(format!("--schedule {schedule}: {error}")),
    }
}

/// Whether this process has CAP_SYS_NICE.
fn may_schedule() -> bool {
    const CAP_SYS_NICE: u32 = 23;
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> CAP_SYS_NICE & 1 == 1)
}

fn program() -> String {
    std::env::current_exe()
        .map_or_else(|_| "flowatch".to_owned(), |path| path.display().to_string())
}
