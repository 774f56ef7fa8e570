//! `flowatch gen`: generates or replays packets, sends each when it is due, and prints a summary.

mod closed_loop;
mod endpoints;
mod failure;
mod output;
mod plan;
mod receive;
mod summary;
mod ticker;

use crate::arguments::generate::GenArguments;
use crate::arguments::value::SummaryArgument;
use crate::cpu_time;
use crate::messages::warn;
use crate::signals;
use crate::snaplen_warnings;
use crate::units;
use crate::watch::{EXIT_FAILED, EXIT_LOSS, EXIT_PERMISSION};
use endpoints::PEER_CLOSE_WAIT;
use engine::Stop;
use export::ExportError;
use failure::Failure;
use generator::{
    Pacing, Recording, Replay, ReplayOptions, SendClock, SendControl, SendOptions, SendReport,
    Source, Traffic, Truth, WhenFull, WhenLate, send,
};
use output::{create, print};
use plan::{Content, ReplayPlan, SendPlan, Sink, Task};
use port::{CaptureFiles, Port, PortError, Transmit};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use summary::SummaryInput;
use ticker::Ticker;
use wire::LinkType;

/// How often the main thread checks the sender.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs `gen` with these flags.
pub(crate) fn run(arguments: &GenArguments) -> ExitCode {
    sandbox::restrict_new_files();
    match Task::new(arguments) {
        Ok(Task::Send(plan)) => finish(send_all(arguments, &plan)),
        Ok(Task::Receive(plan)) => finish(receive::run(arguments, &plan)),
        Ok(Task::ClosedLoop(plan)) => finish(closed_loop::run(arguments, *plan)),
        Err(message) => failed(&message),
    }
}

fn finish(result: Result<ExitCode, Failure>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(Failure::Message(message)) => failed(&message),
        Err(Failure::Permission(message)) => {
            warn(&message);
            ExitCode::from(EXIT_PERMISSION)
        }
        Err(Failure::ReaderGone) => ExitCode::SUCCESS,
    }
}

fn failed(message: &str) -> ExitCode {
    warn(message);
    ExitCode::from(EXIT_FAILED)
}

/// The packets to send, opened.
struct OpenedSource {
    source: Box<dyn Sendable>,
    link: LinkType,
    content: String,
    seed: Option<u64>,
    flows: usize,
    /// Timestamp of the first packet, if it has one.
    start_ns: Option<i64>,
    /// Whether a part could not be read.
    has_read_errors: bool,
}

/// A source that knows the keys of its flows.
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

fn open(content: &Content) -> Result<OpenedSource, Failure> {
    match content {
        Content::Traffic(options) => {
            let traffic = Traffic::new(options)?;
            Ok(OpenedSource {
                link: LinkType::Ethernet,
                content: format!(
                    "{} {} flows, frame size {} (bytes, including the FCS)",
                    units::count(u64::from(options.flows)),
                    options.order,
                    options.sizes
                ),
                seed: Some(options.seed),
                flows: traffic.flows() as usize,
                source: Box::new(traffic),
                start_ns: None,
                has_read_errors: false,
            })
        }
        Content::Replay(plan) => open_replay(plan),
    }
}

fn open_replay(plan: &ReplayPlan) -> Result<OpenedSource, Failure> {
    let mut files = CaptureFiles::open(&plan.inputs)?;
    let name = plan
        .inputs
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    let recording = Recording::load(&mut files)?;
    for fault in recording.read_errors() {
        warn(fault);
    }
    if recording.truncated() > 0 {
        warn(&format!(
            "{name}: the snaplen truncated {} of its packets; they are sent as captured",
            units::count(recording.truncated())
        ));
    }
    snaplen_warnings::warn(&files.counters().snaplen_errors);
    let (link, packets) = (recording.link(), recording.len() as u64);
    let (start_ns, is_faulty) = (recording.first_ns(), !recording.read_errors().is_empty());
    let options = ReplayOptions {
        loops: plan.loops,
        copies: plan.copies,
        shift: plan.shift,
        ..ReplayOptions::default()
    };
    let replay = Replay::new(recording, &options)?;
    if plan.copies > 1
        && let Some(merged @ 1..) = replay.colliding_flows()
    {
        warn(&format!(
            "{name}: {} flows of the copies have the addresses and ports of captured flows and will be merged with \
             them; --copy-shift 65536 keeps the copies further apart",
            units::count(merged as u64)
        ));
    }
    Ok(OpenedSource {
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
        has_read_errors: is_faulty,
    })
}

fn send_all(arguments: &GenArguments, plan: &SendPlan) -> Result<ExitCode, Failure> {
    let stop = Stop::default();
    signals::stop_on_signals(&stop, signals::HangUp::Ends)
        .map_err(|error| Failure::Message(format!("signals: {error}")))?;
    let opened = open(&plan.content)?;
    // Report a file that cannot be written before anything is sent and before another output file is
    // truncated.
    if let Some(path) = &plan.truth {
        export::check_file(path)?;
    }
    let mut sink = endpoints::sink(&plan.sink, opened.link, &arguments.eal, &stop)?;
    let truth_file = plan.truth.as_deref().map(create).transpose()?;
    let mut options = plan.options;
    if let (SendClock::Virtual(start_ns), Some(first_ns)) = (&mut options.clock, opened.start_ns) {
        *start_ns = first_ns;
    }
    let OpenedSource { mut source, .. } = opened;
    let mut truth = truth_file.as_ref().map(|_| Truth::new(opened.flows));
    let mean_length = source.mean_length();
    let report = run_sender(
        arguments,
        &options,
        source.as_mut(),
        sink.as_mut(),
        truth.as_mut(),
        &stop,
    )
    .map_err(|failure| with_required_mtu(failure, source.slot_bytes()))?;
    // If the peer stays, it has had this time to read what is in flight.
    let _ = sink.wait_for_peer_close(PEER_CLOSE_WAIT)?;
    if report.link_lost {
        warn(&format!(
            "{}: the link was down for {} s: {} of {} packets were sent",
            sink.name(),
            options.link_down_max.as_secs(),
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
    let rate = match plan.options.pacing {
        Pacing::Rate(rate) => Some(rate),
        Pacing::Link | Pacing::Recorded(_) => None,
    };
    let input = SummaryInput {
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
        is_virtual: plan.options.clock != SendClock::Wall,
        cpu_seconds: cpu_time::used().as_secs_f64(),
    };
    let text = match arguments.summary {
        SummaryArgument::None => None,
        SummaryArgument::Json => {
            let json = serde_json::to_string(&input.summary())
                .map_err(|error| Failure::Message(error.to_string()))?;
            Some(json + "\n")
        }
        SummaryArgument::Text if arguments.quiet => None,
        SummaryArgument::Text => Some(input.text()),
    };
    if let Some(text) = text {
        print(&text, uses_standard_output(plan))?;
    }
    if let Some(count) = arguments.count
        && report.source_ended
        && report.intended < count
    {
        warn(&format!(
            "the captures end after {} packets: use --loop to send them again",
            units::count(report.intended)
        ));
    }
    let short = report.sent < report.intended;
    Ok(if opened.has_read_errors {
        ExitCode::from(EXIT_FAILED)
    } else if report.link_lost || (short && arguments.fail_on_loss) {
        ExitCode::from(EXIT_LOSS)
    } else {
        ExitCode::SUCCESS
    })
}

/// Adds to the error about a frame that exceeds the interface's MTU the MTU that the longest frame
/// needs.
fn with_required_mtu(failure: Failure, longest: usize) -> Failure {
    const TOO_LONG: &str = "exceeds the MTU of the interface";
    const HEADER: usize = 14;
    match failure {
        Failure::Message(message) if message.contains(TOO_LONG) => Failure::Message(format!(
            "{message}; the longest frame has {longest} bytes and needs mtu {}",
            longest.saturating_sub(HEADER)
        )),
        failure => failure,
    }
}

fn uses_standard_output(plan: &SendPlan) -> bool {
    let standard_output = Path::new("-");
    plan.sink == Sink::File(standard_output.to_owned())
        || plan.truth.as_deref() == Some(standard_output)
}

/// Sends on another thread, while this one prints progress and checks for signals.
fn run_sender(
    arguments: &GenArguments,
    options: &SendOptions,
    source: &mut dyn Sendable,
    sink: &mut dyn Transmit,
    truth: Option<&mut Truth>,
    stop: &Stop,
) -> Result<SendReport, Failure> {
    // If a signal arrived while the sink was being opened, nothing is sent.
    let control = SendControl {
        stop: AtomicBool::new(stop.is_requested()),
        ..SendControl::default()
    };
    let core = arguments
        .cores
        .as_ref()
        .and_then(|cores| cores.0.first().copied());
    let result = thread::scope(|scope| {
        let main = thread::current();
        let control = &control;
        let sending = hw::threads::spawn_scoped(scope, "sender", move || {
            let pinned = core.map_or(Ok(()), hw::cores::pin);
            let result = match pinned {
                Ok(()) => send(source, sink, options, truth, control),
                Err(error) => Err(PortError::Failed(format!(
                    "--cores: cannot pin to core {}: {error}",
                    core.unwrap_or(0)
                ))),
            };
            main.unpark();
            result
        })
        .map_err(|error| Failure::Message(error.to_string()))?;
        let mut ticker = Ticker::new(arguments.interval.filter(|_| !arguments.quiet));
        while !sending.is_finished() {
            thread::park_timeout(POLL_INTERVAL);
            if stop.is_requested() {
                control.stop.store(true, Ordering::Relaxed);
            }
            for notice in control.take_notices() {
                warn(&notice);
            }
            ticker.tick("packets", || control.sent.load(Ordering::Relaxed));
        }
        for notice in control.take_notices() {
            warn(&notice);
        }
        Ok::<_, Failure>(sending.join())
    })?;
    match result {
        Ok(result) => Ok(result?),
        Err(_) => Err(Failure::Message(
            "a thread panicked: please report this".into(),
        )),
    }
}
