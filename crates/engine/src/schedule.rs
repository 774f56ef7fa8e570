//! Checks the scheduling policies before anything is opened, by applying them: whether the kernel accepts
//! a policy depends on what else runs.

use crate::options::{EngineError, Options};
use crate::thread::{StartGate, join};
use hw::schedule::{Limits, Schedule};
use std::io;
use std::sync::mpsc;
use std::thread;

/// Applies the policies of a run over `ports` ports to temporary threads, all at the same time.
///
/// # Errors
/// Returns the first failure: [`EngineError::Permission`] if a permission is missing,
/// [`EngineError::Thread`] if a thread cannot start, otherwise [`EngineError::Schedule`] with the reason.
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
    let limits = Limits::read();
    for schedule in &schedules {
        schedule
            .check(&limits)
            .map_err(|error| EngineError::Schedule(format!("--schedule {error}")))?;
    }
    let outcomes = try_all(options, &schedules)?;
    for ((number, schedule), outcome) in schedules.iter().enumerate().zip(outcomes) {
        if let Err(error) = outcome {
            let pinned = options.core(number);
            return Err(explain(schedule, pinned, &schedules, &limits, &error));
        }
    }
    Ok(())
}

/// Applies each policy on a thread of its own, and ends them when all have been tried.
fn try_all(
    options: &Options,
    schedules: &[Schedule],
) -> Result<Vec<Result<(), io::Error>>, EngineError> {
    let all_tried = StartGate::default();
    thread::scope(|scope| {
        let (tried, results) = mpsc::channel();
        let mut attempts = Vec::new();
        let mut refused = None;
        for (number, schedule) in schedules.iter().enumerate() {
            let (core, all_tried, tried) = (options.core(number), &all_tried, tried.clone());
            let name = format!("schedule-{number}");
            let attempt = hw::threads::spawn_scoped(scope, &name, move || {
                if let Some(core) = core {
                    let _ = hw::cores::pin(core);
                }
                let outcome = schedule.apply();
                let _ = tried.send(());
                // Back to the default, so that the thread ends without waiting for its next period.
                all_tried.wait();
                let _ = Schedule::Other.apply();
                outcome
            });
            match attempt {
                Ok(attempt) => attempts.push(attempt),
                Err(error) => {
                    refused = Some(EngineError::Thread(error.to_string()));
                    break;
                }
            }
        }
        if refused.is_none() {
            // Each thread sends once; a thread that panicked has dropped its sender.
            drop(tried);
            results.iter().take(attempts.len()).for_each(drop);
        }
        all_tried.open();
        let outcomes = attempts.into_iter().map(join).collect();
        refused.map_or(Ok(outcomes), Err)
    })
}

/// Explains an error of the kernel.
fn explain(
    schedule: &Schedule,
    pinned: Option<usize>,
    all: &[Schedule],
    limits: &Limits,
    error: &io::Error,
) -> EngineError {
    match error.kind() {
        io::ErrorKind::PermissionDenied if schedule.is_deadline() && has_cap_sys_nice() => {
            EngineError::Schedule(match pinned {
                Some(core) => format!(
                    "--schedule {schedule} with --cores: the kernel accepts a deadline thread only if it may run on \
                     every core of its scheduling domain, but this one is pinned to core {core}; omit --cores, or \
                     start flowatch in an exclusive cpuset with the cores that it should use"
                ),
                None => format!(
                    "--schedule {schedule}: the kernel accepts a deadline thread only if it may run on every core \
                     of its scheduling domain, but this process is restricted (taskset, cpuset); start it without \
                     the restriction"
                ),
            })
        }
        io::ErrorKind::PermissionDenied => EngineError::Permission(format!(
            "--schedule {schedule}: no permission for real-time scheduling; run as root, or once: sudo setcap \
             cap_net_raw,cap_net_admin,cap_sys_nice+ep {}",
            program()
        )),
        io::ErrorKind::ResourceBusy => {
            let requested: u64 = all.iter().map(Schedule::share_ppm).sum();
            EngineError::Schedule(format!(
                "--schedule {schedule}: not enough CPU time: the threads request {:.1} % of a core in total, and all \
                 deadline threads of the machine may use {:.1} % of each core (sysctl \
                 kernel.sched_rt_runtime_us); use a smaller runtime",
                requested as f64 / 1e4,
                limits.share_ppm as f64 / 1e4,
            ))
        }
        _ => EngineError::Schedule(format!("--schedule {schedule}: {error}")),
    }
}

/// Returns whether this process has CAP_SYS_NICE.
fn has_cap_sys_nice() -> bool {
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
