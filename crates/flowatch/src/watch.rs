//! `flowatch watch`: the ports are opened, the engine runs, records are collected, and what it came
//! to is said.

use crate::arguments::SummaryArgument;
use crate::collector::{Collected, Collector, CollectorOptions, Output, Watched};
use crate::dpdk;
use crate::own_time;
use crate::plan::{Plan, Source};
use crate::reporter::Reporter;
use crate::signals;
use crate::snap_lengths;
use crate::standard_output;
use crate::summary::Summary;
use crate::summary_text::SummaryText;
use engine::{EngineError, Input, Options, Progress, Report, Stop, When};
use export::{ExportError, ExportOptions, Target};
use flow::Meter;
use port::af_packet::{self, Wait};
use port::{Limit, Port, PortError};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Done, but packets or records were lost, and `--fail-on-loss` was given.
pub(crate) const EXIT_LOSS: u8 = 1;

/// Bad usage, or it could not run, or not all of the input could be read.
pub(crate) const EXIT_FAILED: u8 = 2;

/// A right is missing.
pub(crate) const EXIT_PERMISSION: u8 = 77;

/// How often the main thread looks at the others.
const LOOK: Duration = Duration::from_millis(50);

/// How long an output may take after the run for one batch of records before that is said.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(3);

/// Carries a plan out.
pub(crate) fn run(mut plan: Plan) -> ExitCode {
    let stop = Stop::default();
    if let Err(error) = signals::stop_on_signals(&stop) {
        return failed(&format!("signals: {error}"));
    }
    let live = plan.is_live();
    let mut reporter = Reporter::choose(&mut plan);
    let options = Options {
        model: plan.model,
        level: plan.level,
        meter: plan.meter.clone(),
        decapsulate: plan.decapsulate,
        cores: plan.cores.clone(),
        monitors: plan.monitors,
        ring: plan.ring,
        schedules: plan.schedules.clone(),
        acquisition: plan.acquisition,
        link_numbers: plan.link_gaps.then(Arc::default),
        stop: stop.clone(),
    };
    let _layer = match dpdk::prepare(&plan) {
        Ok(layer) => layer,
        Err(error) => return not_opened(&error),
    };
    // Before the ports: a link waits for no table.
    let meters = match engine::meters(&options, plan.receivers()) {
        Ok(meters) => meters,
        Err(error) => return failed(&error.to_string()),
    };
    match engine::schedule::check(&options, plan.receivers()) {
        Ok(()) => {}
        Err(EngineError::Permission(message)) => {
            complain(&message);
            return ExitCode::from(EXIT_PERMISSION);
        }
        Err(error) => return failed(&error.to_string()),
    }
    let ports = match open_ports(&plan) {
        Ok(ports) => ports,
        Err(error) => return not_opened(&error),
    };
    let workers = options.workers(plan.receivers());
    let collector = match collector(&plan, workers) {
        Ok(collector) => collector,
        // Its reader had gone before it began: as quiet an end as later.
        Err(error) if error.is_broken_pipe() => return ExitCode::SUCCESS,
        Err(error @ ExportError::Permission { .. }) => {
            complain(&error.to_string());
            return ExitCode::from(EXIT_PERMISSION);
        }
        Err(error) => return failed(&error.to_string()),
    };
    reporter.open(&plan, &stop);
    let input = Input {
        same_packets: !live && ports.len() > 1,
        ports,
        live,
    };
    let progress = Progress::new(workers);
    let run = Run {
        options: &options,
        progress: &progress,
        duration: plan.duration,
    };
    let ran = run.carry_out(input, meters, collector, reporter);
    let (report, mut collected) = match (ran.report, ran.collected) {
        (Ok(Ok(report)), Ok(collected)) => (report, collected),
        (Ok(Err(error)), _) => return failed(&error.to_string()),
        _ => return failed("a thread panicked: please report this"),
    };
    let records_lost = collected.charge(ran.records_lost);
    for fault in report
        .faults
        .iter()
        .chain(&collected.faults)
        .filter(|fault| !ran.told.contains(fault))
    {
        complain(fault);
    }
    if let Err(error) = say(&plan, &report, &collected, records_lost) {
        return failed(&error.to_string());
    }
    exit_code(&plan, &report, &collected, records_lost)
}

/// What the threads of a run have alike.
struct Run<'a> {
    options: &'a Options,
    progress: &'a Progress,
    duration: Option<Duration>,
}

/// What came of it.
struct Ran {
    report: thread::Result<Result<Report, EngineError>>,
    collected: thread::Result<Collected>,
    records_lost: u64,
    /// Faults that have been told of.
    told: Vec<String>,
}

impl Run<'_> {
    /// Runs the engine and the collector, and tells how they get on.
    fn carry_out(
        &self,
        input: Input,
        meters: Vec<Meter>,
        collector: Collector,
        mut reporter: Reporter,
    ) -> Ran {
        let &Self {
            options, progress, ..
        } = self;
        let watched = collector.watched();
        let workers = progress.queues.len();
        let (records, returned) = engine::channel(workers, !input.live);
        returned.populate(workers, &options.meter);
        thread::scope(|scope| {
            let main = thread::current();
            let main_of_collector = main.clone();
            let collecting = scope.spawn(move || {
                let collected = collector.run(&returned, &options.stop);
                main_of_collector.unpark();
                collected
            });
            let lost = records.clone();
            let running = scope.spawn(move || {
                let report = engine::run(options, input, meters, &records, progress);
                drop(records);
                main.unpark();
                report
            });
            let started = Instant::now();
            if let Some(end) = self.duration.and_then(|time| started.checked_add(time)) {
                options.stop.end_at(end);
            }
            let mut told = Vec::new();
            while !running.is_finished() {
                thread::park_timeout(LOOK);
                options.stop.look_at_clock();
                told.extend(reporter.tell(progress.take_told()));
                told.extend(reporter.tell(watched.take_told()));
                let records_lost = lost.lost() + watched.lost();
                reporter.tick(progress, records_lost, started.elapsed());
            }
            reporter.close();
            let report = running.join();
            // The collector ends when the last sender is gone.
            let records_lost = lost.lost();
            lost.close_at_exit();
            wait_for_outputs(&collecting, &watched);
            Ran {
                report,
                collected: collecting.join(),
                records_lost,
                told,
            }
        })
    }
}

/// Waits for the outputs after the run, and says so where one does not get on: it may take as long as it
/// likes, and whoever waits should know for what.
fn wait_for_outputs(collecting: &ScopedJoinHandle<'_, Collected>, watched: &Watched) {
    let mut waited_for = None;
    let mut since = Instant::now();
    while !collecting.is_finished() && since.elapsed() < OUTPUT_PATIENCE {
        thread::park_timeout(LOOK);
        // None is waited for while records are sorted.
        let at_work = watched.at_work();
        if at_work.is_none() || at_work != waited_for {
            (waited_for, since) = (at_work, Instant::now());
        }
    }
    if !collecting.is_finished() {
        let signals = if signals::is_interrupted() {
            "once more"
        } else {
            "twice"
        };
        complain(&format!(
            "the run is over, but an output has not taken all records yet; to leave without them, send SIGINT {signals}"
        ));
    }
}

/// Opens the ports: one for each receiving thread.
fn open_ports(plan: &Plan) -> Result<Vec<Box<dyn Port>>, PortError> {
    let mut ports: Vec<Box<dyn Port>> = Vec::new();
    match &plan.source {
        Source::Files(inputs) => {
            for _ in 0..plan.queues {
                ports.push(Box::new(port::CaptureFiles::open(inputs)?));
            }
        }
        Source::Live(names) => {
            let (devices, names): (Vec<_>, Vec<_>) =
                names.iter().partition(|name| dpdk::is_device(name));
            if !devices.is_empty() {
                ports.extend(dpdk::open(plan, &devices)?);
            }
            for name in names {
                for mut port in af_packet::open_fanout(&interface(plan, name)?, plan.queues)? {
                    if let Some(notice) = port.notice() {
                        complain(&notice);
                    }
                    ports.push(Box::new(port));
                }
            }
        }
    }
    // Queues of a link share their packets out; threads that read a file all have all of them.
    let shared = plan.count.map(Limit::new);
    let wrap = |port| match plan.source {
        Source::Live(_) => wrap(plan, port, shared.clone()),
        Source::Files(_) => wrap(plan, port, plan.count.map(Limit::new)),
    };
    ports.into_iter().map(wrap).collect()
}

/// How the interface of a source is opened.
fn interface(plan: &Plan, source: &str) -> Result<af_packet::Options, PortError> {
    let options = af_packet::Options::from_source(source)?;
    if options.queue.is_some() && plan.queues > 1 {
        return Err(PortError::Failed(format!(
            "{source} is one queue: --queues divides a whole interface, name it without the @"
        )));
    }
    let ring_bytes = (plan.ring_memory_mib as usize) << 20;
    // Who looks once a period waits between the looks.
    let when = plan.acquisition.map(|acquisition| acquisition.when);
    let wait = match when {
        Some(When::Periodic(_)) => Wait::Sleep(Duration::ZERO),
        Some(When::Polled) | None => options.wait,
    };
    Ok(af_packet::Options {
        promiscuous: plan.promiscuous,
        wait,
        block_count: (ring_bytes / options.block_bytes).max(2),
        ..options
    })
}

/// The filter and the limit around a port.
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

/// Whoever takes the records of so many workers, its outputs open.
fn collector(plan: &Plan, workers: usize) -> Result<Collector, ExportError> {
    let options = CollectorOptions {
        width: plan.meter.schema().statistics.len(),
        sort: plan.sort,
        top: plan.top,
        anonymiser: plan.anonymiser.clone(),
        wait: !plan.is_live(),
    };
    let collector = Collector::new(open_outputs(plan)?, options);
    Ok(collector.merging(plan.merge(workers)))
}

fn open_outputs(plan: &Plan) -> Result<Vec<Output>, ExportError> {
    let schema = plan.meter.schema();
    let options = ExportOptions {
        community_id: plan.community_id,
        rotation: plan.rotation,
        anonymised: plan
            .anonymiser
            .as_ref()
            .is_some_and(export::Anonymiser::is_crypto_pan),
        ..ExportOptions::default()
    };
    for spec in &plan.outputs {
        export::check(spec, &schema, &options)?;
    }
    plan.outputs
        .iter()
        .map(|spec| {
            Ok(Output {
                name: spec.to_string(),
                exporter: export::open(spec, &schema, &options)?,
                is_standard: spec.target == Target::StandardOutput,
            })
        })
        .collect()
}

/// Says what the run came to, where it was asked to.
fn say(plan: &Plan, report: &Report, collected: &Collected, records_lost: u64) -> io::Result<()> {
    for link in &report.unknown_links {
        complain(&format!(
            "link type {link} is not read: its packets are counted, without flows"
        ));
    }
    snap_lengths::complain(&report.books.snap_lengths);
    let cpu = own_time::used();
    let text = match plan.summary {
        SummaryArgument::None => return Ok(()),
        SummaryArgument::Json => {
            let summary = Summary::new(plan, report, collected, records_lost, cpu.as_secs_f64());
            serde_json::to_string(&summary)? + "\n"
        }
        // Who closed the pipe has seen enough.
        SummaryArgument::Text if plan.quiet || collected.reader_gone => return Ok(()),
        SummaryArgument::Text => SummaryText {
            plan,
            report,
            collected,
            records_lost,
            cpu,
        }
        .render(),
    };
    if plan.records_on_standard_output() {
        // Nobody may be listening.
        let _ = io::stderr().lock().write_all(text.as_bytes());
        return Ok(());
    }
    standard_output::print(text)
}

fn exit_code(plan: &Plan, report: &Report, collected: &Collected, records_lost: u64) -> ExitCode {
    let lost_by_outputs: u64 = collected.outputs.iter().map(|output| output.lost).sum();
    let lost = report.books.lost()
        + records_lost
        + if collected.reader_gone {
            0
        } else {
            lost_by_outputs
        };
    // A link that was down for a while is told of, and no reason to have failed.
    let unread = report.failed || (!report.faults.is_empty() && !plan.is_live());
    if unread || !collected.faults.is_empty() {
        ExitCode::from(EXIT_FAILED)
    } else if plan.fail_on_loss && lost > 0 {
        ExitCode::from(EXIT_LOSS)
    } else {
        ExitCode::SUCCESS
    }
}

/// One line on standard error.
pub(crate) fn complain(message: &str) {
    // Nobody may be listening.
    let _ = writeln!(io::stderr().lock(), "flowatch: {message}");
}

fn not_opened(error: &PortError) -> ExitCode {
    complain(&error.to_string());
    ExitCode::from(match error {
        PortError::Permission(_) => EXIT_PERMISSION,
        _ => EXIT_FAILED,
    })
}

fn failed(message: &str) -> ExitCode {
    complain(message);
    ExitCode::from(EXIT_FAILED)
}
