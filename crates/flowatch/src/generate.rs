//! `flowatch gen`: traffic is made or replayed, sent when it is due, and what it came to is said.

mod closed_loop;
mod ends;
mod plan;
mod receive;
mod summary;
mod ticker;

use crate::arguments::SummaryArgument;
use crate::arguments::generate::GenArguments;
use crate::own_time;
use crate::signals;
use crate::snap_lengths;
use crate::standard_output;
use crate::units;
use crate::watch::{EXIT_FAILED, EXIT_LOSS, EXIT_PERMISSION, complain};
use engine::Stop;
use export::ExportError;
use generator::{
    Control, Pace, Recording, Replay, ReplayOptions, SendOptions, SendReport, Source, Time,
    Traffic, Truth, WhenFull, WhenLate, send,
};
use plan::{Content, ReplayPlan, SendPlan, Sink, Task};
use port::{CaptureFiles, Port, PortError, Transmit};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use summary::Told;
use ticker::Ticker;
use wire::LinkType;

/// How often the main thread looks at the sender.
const LOOK: Duration = Duration::from_millis(20);

/// How long the other end may take to leave, where it is to leave first.
const SEE_OFF: Duration = Duration::from_secs(2);

/// Carries the flags out.
pub(crate) fn run(arguments: &GenArguments) -> ExitCode {
    match Task::new(arguments) {
        Ok(Task::Send(plan)) => end(send_all(arguments, &plan)),
        Ok(Task::Receive(plan)) => end(receive::run(arguments, &plan)),
        Ok(Task::ClosedLoop(plan)) => end(closed_loop::run(arguments, *plan)),
        Err(message) => failed(&message),
    }
}

/// Why a run ends before its end.
enum Failure {
    /// With a message.
    Told(String),
    /// A right is missing.
    Permission(String),
    /// Nobody reads what is written: nothing to say.
    ReaderGone,
}

impl From<PortError> for Failure {
    fn from(error: PortError) -> Self {
        match error {
            PortError::Permission(message) => Self::Permission(message),
            PortError::ReaderGone(_) => Self::ReaderGone,
            PortError::Failed(message) => Self::Told(message),
        }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Permission { .. } => Self::Permission(error.to_string()),
            ExportError::BrokenPipe { .. } => Self::ReaderGone,
            _ => Self::Told(error.to_string()),
        }
    }
}

impl From<generator::GeneratorError> for Failure {
    fn from(error: generator::GeneratorError) -> Self {
        Self::Told(error.to_string())
    }
}

fn end(result: Result<ExitCode, Failure>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(Failure::Told(message)) => failed(&message),
        Err(Failure::Permission(message)) => {
            complain(&message);
            ExitCode::from(EXIT_PERMISSION)
        }
        Err(Failure::ReaderGone) => ExitCode::SUCCESS,
    }
}

fn failed(message: &str) -> ExitCode {
    complain(message);
    ExitCode::from(EXIT_FAILED)
}

/// What is sent, opened.
struct Opened {
    source: Box<dyn Sendable>,
    link: LinkType,
    content: String,
    seed: Option<u64>,
    flows: usize,
    /// Time of the first packet, where it has one.
    start_ns: Option<i64>,
    /// Whether not all of it could be read.
    is_faulty: bool,
}

/// A source whose flows can be named.
trait Sendable: Source + Send {
    fn key(&self, flow: u32) -> wire::FlowKey;
}

impl Sendable for Traffic {
    fn key(&self, flow: u32) -> wire::FlowKey {
        Self::key(self, flow)
    }
}

impl Sendable for Replay {
    fn key(&self, flow: u32) -> wire::FlowKey {
        Self::key(self, flow)
    }
}

fn open(content: &Content) -> Result<Opened, Failure> {
    match content {
        Content::Traffic(options) => {
            let traffic = Traffic::new(options)?;
            Ok(Opened {
                link: LinkType::Ethernet,
                content: format!(
                    "{} {} flows, frame size {} (bytes, check sequence included)",
                    units::count(u64::from(options.flows)),
                    options.order,
                    options.sizes
                ),
                seed: Some(options.seed),
                flows: traffic.flows() as usize,
                source: Box::new(traffic),
                start_ns: None,
                is_faulty: false,
            })
        }
        Content::Replay(plan) => open_replay(plan),
    }
}

fn open_replay(plan: &ReplayPlan) -> Result<Opened, Failure> {
    let mut files = CaptureFiles::open(&plan.inputs)?;
    let name = plan
        .inputs
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    let recording = Recording::load(&mut files)?;
    for fault in recording.faults() {
        complain(fault);
    }
    if recording.cut() > 0 {
        complain(&format!(
            "{name}: the snap length has cut {} of its packets; they are sent as they were captured",
            units::count(recording.cut())
        ));
    }
    snap_lengths::complain(&files.counters().snap_lengths);
    let (link, packets) = (recording.link(), recording.len() as u64);
    let (start_ns, is_faulty) = (recording.first_ns(), !recording.faults().is_empty());
    let options = ReplayOptions {
        loops: plan.loops,
        copies: plan.copies,
        shift: plan.shift,
        ..ReplayOptions::default()
    };
    let replay = Replay::new(recording, &options)?;
    if plan.copies > 1
        && let Some(meeting @ 1..) = replay.meeting_flows()
    {
        complain(&format!(
            "{name}: {} flows of the copies have the addresses and ports of captured ones and become one with \
             them; --copy-shift 65536 keeps copies further apart",
            units::count(meeting as u64)
        ));
    }
    Ok(Opened {
        link,
        content: format!(
            "{name} ({} packets, {} copies, {} times)",
            units::count(packets),
            plan.copies,
            units::count(plan.loops)
        ),
        seed: None,
        flows: replay.flows(),
        source: Box::new(replay),
        start_ns: Some(start_ns),
        is_faulty,
    })
}

fn send_all(arguments: &GenArguments, plan: &SendPlan) -> Result<ExitCode, Failure> {
    let stop = Stop::default();
    signals::stop_on_signals(&stop).map_err(|error| Failure::Told(format!("signals: {error}")))?;
    let opened = open(&plan.content)?;
    // Before anything is sent, and before one file is emptied for the sake of which another cannot be:
    // a file that cannot be written is told of at once.
    if let Some(path) = &plan.truth {
        export::check_file(path)?;
    }
    let mut sink = ends::sink(&plan.sink, opened.link, &arguments.eal, &stop)?;
    let truth_file = plan.truth.as_deref().map(create).transpose()?;
    let mut options = plan.options;
    if let (Time::Virtual(start_ns), Some(first_ns)) = (&mut options.time, opened.start_ns) {
        *start_ns = first_ns;
    }
    let Opened { mut source, .. } = opened;
    let mut truth = truth_file.as_ref().map(|_| Truth::new(opened.flows));
    let mean_length = source.mean_length();
    let report = carry_out(
        arguments,
        &options,
        source.as_mut(),
        sink.as_mut(),
        truth.as_mut(),
        &stop,
    )
    .map_err(|failure| with_longest(failure, source.room()))?;
    // One that stays has had that long to read what lies between the two.
    let _ = sink.see_off(SEE_OFF)?;
    if report.link_lost {
        complain(&format!(
            "{}: no link for {} s: {} of {} packets were sent",
            sink.name(),
            options.link_patience.as_secs(),
            units::count(report.sent),
            units::count(options.count.unwrap_or(report.intended)),
        ));
    }
    if let (Some(mut file), Some(truth)) = (truth_file, &truth) {
        let result = truth.write_csv(&mut file, |flow| source.key(flow));
        if let Err(error) = result {
            let name = plan.truth.as_deref().unwrap_or(Path::new("")).display();
            return Err(ExportError::from_io(&name.to_string(), error).into());
        }
    }
    let rate = match plan.options.pace {
        Pace::Rate(rate) => Some(rate),
        Pace::Link | Pace::Recorded(_) => None,
    };
    let told = Told {
        report: &report,
        sink: sink.name(),
        content: opened.content,
        seed: opened.seed,
        classes: source.classes(),
        when_late: match plan.options.when_late {
            WhenLate::CatchUp => "catch-up".into(),
            WhenLate::Skip(time) => format!("skip={}", humantime::format_duration(time)),
        },
        when_full: match plan.options.when_full {
            WhenFull::Retry => "retry",
            WhenFull::Drop => "drop",
        },
        rate: rate.map(|rate| format!("({rate})")),
        intended_pps: rate.map(|rate| rate.packets_per_second(mean_length)),
        is_virtual: plan.options.time != Time::Wall,
        cpu_seconds: own_time::used().as_secs_f64(),
    };
    let text = match arguments.summary {
        SummaryArgument::None => None,
        SummaryArgument::Json => {
            let json = serde_json::to_string(&told.summary())
                .map_err(|error| Failure::Told(error.to_string()))?;
            Some(json + "\n")
        }
        SummaryArgument::Text if arguments.quiet => None,
        SummaryArgument::Text => Some(told.text()),
    };
    if let Some(text) = text {
        say(&text, takes_standard_output(plan))?;
    }
    if let Some(count) = arguments.count
        && report.source_ended
        && report.intended < count
    {
        complain(&format!(
            "the captures end after {} packets: --loop sends them again",
            units::count(report.intended)
        ));
    }
    let short = report.sent < report.intended;
    Ok(if opened.is_faulty {
        ExitCode::from(EXIT_FAILED)
    } else if report.link_lost || (short && arguments.fail_on_loss) {
        ExitCode::from(EXIT_LOSS)
    } else {
        ExitCode::SUCCESS
    })
}

/// Says of a frame that is too long for an interface which MTU all of them need.
fn with_longest(failure: Failure, longest: usize) -> Failure {
    const TOO_LONG: &str = "longer than the interface sends";
    const HEADER: usize = 14;
    match failure {
        Failure::Told(message) if message.contains(TOO_LONG) => Failure::Told(format!(
            "{message}; the longest of all has {longest} bytes: mtu {}",
            longest.saturating_sub(HEADER)
        )),
        failure => failure,
    }
}

fn takes_standard_output(plan: &SendPlan) -> bool {
    let standard_output = Path::new("-");
    plan.sink == Sink::File(standard_output.to_owned())
        || plan.truth.as_deref() == Some(standard_output)
}

/// Says it on standard output, or on standard error where that is taken.
fn say(text: &str, on_standard_error: bool) -> Result<(), Failure> {
    if on_standard_error {
        // Nobody may be listening.
        let _ = io::stderr().lock().write_all(text.as_bytes());
        return Ok(());
    }
    standard_output::print(text).map_err(|error| Failure::Told(error.to_string()))
}

fn create(path: &Path) -> Result<Box<dyn Write>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(BufWriter::new(io::stdout())));
    }
    match File::create(path) {
        Ok(file) => Ok(Box::new(BufWriter::new(file))),
        Err(error) => Err(ExportError::from_io(&path.display().to_string(), error).into()),
    }
}

/// Sends on a thread of its own, while this one tells how far it is and hears signals.
fn carry_out(
    arguments: &GenArguments,
    options: &SendOptions,
    source: &mut dyn Sendable,
    sink: &mut dyn Transmit,
    truth: Option<&mut Truth>,
    stop: &Stop,
) -> Result<SendReport, Failure> {
    // A signal may have come while the sink was opened: then nothing is sent.
    let control = Control {
        stop: AtomicBool::new(stop.is_requested()),
        ..Control::default()
    };
    let core = arguments
        .cores
        .as_ref()
        .and_then(|cores| cores.0.first().copied());
    let result = thread::scope(|scope| {
        let main = thread::current();
        let control = &control;
        let sending = scope.spawn(move || {
            let pinned = core.map_or(Ok(()), hw::cores::pin);
            let result = match pinned {
                Ok(()) => send(source, sink, options, truth, control),
                Err(error) => Err(PortError::Failed(format!(
                    "--cores: cannot run on core {}: {error}",
                    core.unwrap_or(0)
                ))),
            };
            main.unpark();
            result
        });
        let mut ticker = Ticker::new(arguments.interval.filter(|_| !arguments.quiet));
        while !sending.is_finished() {
            thread::park_timeout(LOOK);
            if stop.is_requested() {
                control.stop.store(true, Ordering::Relaxed);
            }
            for notice in control.take_told() {
                complain(&notice);
            }
            ticker.tick("packets", || control.sent.load(Ordering::Relaxed));
        }
        for notice in control.take_told() {
            complain(&notice);
        }
        sending.join()
    });
    match result {
        Ok(result) => Ok(result?),
        Err(_) => Err(Failure::Told(
            "a thread panicked: please report this".into(),
        )),
    }
}
