//! `flowatch watch`: opens the ports, runs the engine, collects the records, prints the summary.

use crate::arguments::value::SummaryArgument;
use crate::collector::{Collector, CollectorReport, Output, OutputStatus};
use crate::cpu_time;
use crate::live_books::LiveBooks;
use crate::memory_plan::MemoryPlan;
use crate::messages::{warn, warn_all};
use crate::plan::{Outputs, Plan, Source};
use crate::progress_display::ProgressDisplay;
use crate::run_end::RunEnd;
use crate::signals::{self, HangUp};
use crate::snaplen_warnings;
use crate::sources;
use crate::standard_output;
use crate::summary::Summary;
use crate::summary_text::SummaryText;
use engine::{
    EngineError, Input, Measurements, Options, Progress, RecordReceiver, RecordSender, Recycler,
    Report,
};
use export::{ExportError, printable};
use hw::memory::{Population, defer_population};
use port::{Limit, Port, PortError};
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// The run completed, but packets or records were lost and `--fail-on-loss` was given.
pub(crate) const EXIT_LOSS: u8 = 1;

/// Bad usage, a failure, or input that could not be read completely.
pub(crate) const EXIT_FAILED: u8 = 2;

/// A permission is missing.
pub(crate) const EXIT_PERMISSION: u8 = 77;

/// How often the main thread checks the others.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long an output may take for one batch of records after the run before a warning is printed.
const OUTPUT_STALL_WARNING: Duration = Duration::from_secs(3);

/// Executes a plan.
pub(crate) fn run(mut plan: Plan) -> ExitCode {
    if let Err(error) = signals::stop_on_signals(&plan.engine.stop, HangUp::Reopens) {
        return failed(&format!("signals: {error}"));
    }
    signals::end_with_books();
    plan.notices.iter().for_each(|notice| warn(notice));
    let live = plan.is_live();
    let mut display = ProgressDisplay::choose(&mut plan);
    let options = &plan.engine;
    let _prepared = match prepare(&plan) {
        Ok(prepared) => prepared,
        Err(error) => return open_failed(&error),
    };
    // Allocate the tables before the ports open: packets arrive from then on. Committing their memory may
    // take seconds, and happens while the run is already receiving.
    let (measurements, population) =
        defer_population(|| engine::measurements(options, plan.receivers()));
    let measurements = match measurements {
        Ok(measurements) => measurements,
        Err(error) => return failed(&error.to_string()),
    };
    match engine::schedule::check(options, plan.receivers()) {
        Ok(()) => {}
        Err(EngineError::Permission(message)) => {
            warn(&message);
            return ExitCode::from(EXIT_PERMISSION);
        }
        Err(error) => return failed(&error.to_string()),
    }
    let limit = plan.input.count.map(Limit::new);
    let ports = match open_ports(&plan, limit.as_ref()) {
        Ok(ports) => ports,
        Err(error) => return open_failed(&error),
    };
    let workers = options.workers(plan.receivers());
    let outputs = match open_outputs(&plan) {
        Ok(outputs) => outputs,
        // The reader closed standard output before the run began; that is as quiet an end as later.
        Err(error) if error.is_broken_pipe() => return ExitCode::SUCCESS,
        Err(error @ ExportError::Permission { .. }) => {
            warn(&error.to_string());
            return ExitCode::from(EXIT_PERMISSION);
        }
        Err(error) => return failed(&error.to_string()),
    };
    let (records, receiver) = engine::channel(workers, !live);
    let collector = match collector(&plan, workers, outputs, &receiver.recycler()) {
        Ok(collector) => collector,
        Err(error) => return failed(&error.to_string()),
    };
    let memory = MemoryPlan::new(&plan, &measurements, &ports);
    announce(&plan, &memory);
    display.open(&plan);
    let input = Input { ports, live };
    let progress = Progress::new(workers);
    let run = Run {
        options,
        progress: &progress,
        duration: plan.input.duration,
        population,
    };
    let outcome = match run.execute(input, measurements, (records, receiver), collector, display) {
        Ok(outcome) => outcome,
        Err(error) => return failed(&error.to_string()),
    };
    let (report, collected) = match (outcome.report, outcome.collected) {
        (Ok(Ok(report)), Ok(collected)) => (report, collected),
        (Ok(Err(error)), _) => return failed(&error.to_string()),
        _ => return failed("a thread panicked: please report this"),
    };
    let limit_reached = limit.is_some_and(|limit| limit.is_reached());
    let end = RunEnd::new(&report, &plan, &progress, limit_reached, memory);
    finish(&plan, &report, collected, &end, &outcome.losses)
}

/// Says that packets are received from now on, and how much memory that may need.
fn announce(plan: &Plan, memory: &MemoryPlan) {
    if plan.reports.verbose {
        warn(&memory.text());
    }
    if let Source::Live(names) = &plan.source
        && !plan.reports.quiet
    {
        warn(&format!("listening on {}", names.join(", ")));
    }
}

/// Prints the remaining messages and the summary of a completed run.
fn finish(
    plan: &Plan,
    report: &Report,
    mut collected: CollectorReport,
    end: &RunEnd,
    losses: &Losses,
) -> ExitCode {
    let records_lost = collected.attribute_loss(losses.records_lost);
    for fault in report
        .faults
        .iter()
        .chain(&collected.faults)
        .filter(|fault| !losses.reported.contains(fault))
    {
        warn(fault);
    }
    let printed = print_summary(plan, report, &collected, end, records_lost);
    if let Err(error) = &printed {
        warn(&error.to_string());
    }
    match signals::exit_signal() {
        Some(signal) => ExitCode::from(128 + signal),
        None if printed.is_err() => ExitCode::from(EXIT_FAILED),
        None => exit_code(plan, report, &collected, records_lost),
    }
}

/// What the threads of a run share.
struct Run<'a> {
    options: &'a Options,
    progress: &'a Progress,
    duration: Option<Duration>,
    /// Memory to commit during the run.
    population: Population,
}

/// The results of a run's threads.
struct RunOutcome {
    report: thread::Result<Result<Report, EngineError>>,
    collected: thread::Result<CollectorReport>,
    losses: Losses,
}

/// What was lost before the outputs, and what was said about it.
struct Losses {
    records_lost: u64,
    /// Faults that have been printed already.
    reported: Vec<String>,
}

impl Run<'_> {
    /// Runs the engine and the collector on threads, and shows progress until both have ended.
    ///
    /// # Errors
    /// If a thread cannot start. No packet has been received then, and the outputs are finished.
    fn execute(
        self,
        input: Input,
        measurements: Measurements,
        (records, receiver): (RecordSender, RecordReceiver),
        collector: Collector,
        mut display: ProgressDisplay,
    ) -> io::Result<RunOutcome> {
        let Self {
            options, progress, ..
        } = self;
        let output_status = collector.output_status();
        let workers = progress.queues.len();
        thread::scope(|scope| {
            let main = thread::current();
            let main_for_collector = main.clone();
            // A thread that cannot start drops its work, which must not take the outputs along.
            let slot = Mutex::new(Some(collector));
            let slot = Arc::new(slot);
            let waiting = Arc::clone(&slot);
            let collecting = hw::threads::spawn_scoped(scope, "collector", move || {
                let collector = waiting.lock().ok()?.take()?;
                receiver.populate(workers, &options.meter);
                let collected = collector.run(&receiver, &options.stop);
                main_for_collector.unpark();
                Some(collected)
            })
            .inspect_err(|_| {
                if let Some(collector) = slot.lock().ok().and_then(|mut slot| slot.take()) {
                    collector.abandon();
                }
            })?;
            let sender = records.clone();
            let running = hw::threads::spawn_scoped(scope, "engine", move || {
                let report = engine::run(options, input, measurements, &records, progress);
                drop(records);
                main.unpark();
                report
            })?;
            let over = Arc::new(AtomicBool::new(false));
            commit_memory(scope, self.population, &over);
            let started = Instant::now();
            if let Some(end) = self.duration.and_then(|time| started.checked_add(time)) {
                options.stop.set_deadline(end);
            }
            let (mut reported, mut books) = (Vec::new(), LiveBooks::default());
            while !running.is_finished() {
                thread::park_timeout(POLL_INTERVAL);
                options.stop.check_deadline();
                reported.extend(display.print_warnings(progress.take_warnings()));
                reported.extend(display.print_warnings(output_status.take_faults()));
                display.print_warnings(output_status.take_notices());
                let records_lost = sender.lost() + output_status.lost();
                display.print_books(books.poll(progress, records_lost, started.elapsed()));
                display.update(progress, records_lost, started.elapsed());
            }
            over.store(true, Ordering::Relaxed);
            display.close();
            let report = running.join();
            // The collector ends when the last sender has been dropped.
            let records_lost = sender.lost();
            sender.close_at_exit();
            wait_for_outputs(&collecting, &output_status);
            let collected = match collecting.join() {
                Ok(Some(collected)) => Ok(collected),
                Ok(None) => Err(Box::new("no collector") as Box<_>),
                Err(panic) => Err(panic),
            };
            warn_all(output_status.take_notices());
            Ok(RunOutcome {
                report,
                collected,
                losses: Losses {
                    records_lost,
                    reported,
                },
            })
        })
    }
}

/// Commits the memory of the tables on a thread of its own, until `over` is set.
fn commit_memory<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    population: Population,
    over: &Arc<AtomicBool>,
) {
    if population.bytes() == 0 {
        return;
    }
    let over = Arc::clone(over);
    let committing = hw::threads::spawn_scoped(scope, "commit", move || {
        population.commit(|| over.load(Ordering::Relaxed));
    });
    if let Err(error) = committing {
        warn(&format!(
            "{error}: the first packets take longer, because memory is committed when it is first used"
        ));
    }
}

/// Waits for the outputs after the run. The collector gives up one that makes no progress; before
/// that, a warning says what the program waits for.
fn wait_for_outputs(
    collecting: &ScopedJoinHandle<'_, Option<CollectorReport>>,
    output_status: &OutputStatus,
) {
    while !collecting.is_finished() {
        thread::park_timeout(POLL_INTERVAL);
        warn_all(output_status.take_notices());
        for waiting in output_status.take_stalled(OUTPUT_STALL_WARNING) {
            let signals = if signals::is_interrupted() {
                "once more"
            } else {
                "twice"
            };
            warn(&format!(
                "the run has ended, but an output has not accepted all records yet: {waiting}; to exit without them, send SIGINT {signals}"
            ));
        }
    }
}

/// Starts what is needed to open the sources.
fn prepare(plan: &Plan) -> Result<Vec<sources::Prepared>, PortError> {
    match &plan.source {
        Source::Files(_) => Ok(Vec::new()),
        Source::Live(names) => sources::prepare(names, &plan.live_options()),
    }
}

/// Opens the ports: one for each queue of a link, or one for all files.
fn open_ports(plan: &Plan, limit: Option<&Limit>) -> Result<Vec<Box<dyn Port>>, PortError> {
    let ports: Vec<Box<dyn Port>> = match &plan.source {
        Source::Files(inputs) => vec![Box::new(port::CaptureFiles::open_available(inputs)?)],
        Source::Live(names) => sources::open(names, &plan.live_options())?,
    };
    // Each queue of a link receives part of its packets, so the queues share one limit.
    let wrap = |port| wrap(plan, port, limit.cloned());
    ports.into_iter().map(wrap).collect()
}

/// Wraps a port in the filter and the packet limit.
fn wrap(
    plan: &Plan,
    mut port: Box<dyn Port>,
    limit: Option<Limit>,
) -> Result<Box<dyn Port>, PortError> {
    if let Some(filter) = &plan.filter {
        port = Box::new(port::Filtered::new(port, filter)?);
    }
    if let Some(limit) = limit {
        port = Box::new(port::Limited::new(port, limit));
    }
    Ok(port)
}

/// Starts the threads of the outputs and creates the collector of the records of `workers` workers.
fn collector(
    plan: &Plan,
    workers: usize,
    outputs: Vec<Output>,
    recycler: &Recycler,
) -> io::Result<Collector> {
    let collector = Collector::new(outputs, plan.outputs.collector.clone(), recycler)?;
    collector.merging(plan.merge(workers))
}

fn open_outputs(plan: &Plan) -> Result<Vec<Output>, ExportError> {
    let schema = plan.engine.meter.schema();
    let Outputs {
        specs,
        export: options,
        ..
    } = &plan.outputs;
    for spec in specs {
        if let Some(bytes) = export::check(spec, &schema, options)?
            && !plan.reports.quiet
        {
            warn(&format!("{spec}: continues the file after {bytes} bytes"));
        }
    }
    specs
        .iter()
        .map(|spec| {
            Ok(Output {
                name: spec.to_string(),
                exporter: export::open(spec, &schema, options)?,
                is_standard_output: spec.target.is_stdout(),
            })
        })
        .collect()
}

/// Prints warnings about the input, and the summary if one is wanted.
fn print_summary(
    plan: &Plan,
    report: &Report,
    collected: &CollectorReport,
    end: &RunEnd,
    records_lost: u64,
) -> io::Result<()> {
    for link in &report.unknown_links {
        warn(&format!(
            "link type {link} is not supported: its packets are counted, but not in flows"
        ));
    }
    snaplen_warnings::warn(&report.books.snaplens);
    let cpu = cpu_time::used();
    let text = match plan.reports.summary {
        SummaryArgument::None => return Ok(()),
        SummaryArgument::Json => {
            let cpu = cpu.as_secs_f64();
            let summary = Summary::new(plan, report, collected, end, records_lost, cpu);
            printable::json(&serde_json::to_string(&summary)?).into_owned() + "\n"
        }
        // A reader that closed the pipe does not want the summary.
        SummaryArgument::Text if plan.reports.quiet || collected.reader_gone => return Ok(()),
        SummaryArgument::Text => SummaryText {
            plan,
            report,
            collected,
            end,
            records_lost,
            cpu,
        }
        .render(),
    };
    standard_output::print_at_end(text, plan.records_on_standard_output())
}

fn exit_code(
    plan: &Plan,
    report: &Report,
    collected: &CollectorReport,
    records_lost: u64,
) -> ExitCode {
    let lost_by_outputs: u64 = collected.outputs.iter().map(|output| output.lost).sum();
    let lost = report.books.lost()
        + records_lost
        + if collected.reader_gone {
            0
        } else {
            lost_by_outputs
        };
    // A link that was down for a while is a warning, not a failure.
    let unread = report.failed || (!report.faults.is_empty() && !plan.is_live());
    if unread || !collected.faults.is_empty() {
        ExitCode::from(EXIT_FAILED)
    } else if plan.reports.fail_on_loss && lost > 0 {
        ExitCode::from(EXIT_LOSS)
    } else {
        ExitCode::SUCCESS
    }
}

fn open_failed(error: &PortError) -> ExitCode {
    warn(&error.to_string());
    ExitCode::from(match error {
        PortError::Permission(_) => EXIT_PERMISSION,
        _ => EXIT_FAILED,
    })
}

fn failed(message: &str) -> ExitCode {
    warn(message);
    ExitCode::from(EXIT_FAILED)
}
