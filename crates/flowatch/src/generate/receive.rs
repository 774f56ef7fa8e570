//! `gen --receive`: counts the numbered packets that arrive.

use super::endpoints;
use super::failure::Failure;
use super::output::print;
use super::plan::ReceivePlan;
use super::summary::Percentiles;
use super::ticker::Ticker;
use crate::arguments::generate::GenArguments;
use crate::arguments::value::SummaryArgument;
use crate::messages::warn;
use crate::signals;
use crate::snaplen_warnings;
use crate::units;
use crate::watch::{EXIT_FAILED, EXIT_LOSS};
use engine::Stop;
use generator::{Arrivals, SequenceCounts};
use port::{CaptureFiles, Counters, Port, Received};
use serde::Serialize;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Goes up when a field changes its meaning or is removed.
const SCHEMA_VERSION: u32 = 1;

/// How long to wait for duplicates after the last missing packet has arrived.
const DUPLICATE_WAIT: Duration = Duration::from_millis(100);

/// One JSON object.
#[derive(Debug, Serialize)]
struct Summary {
    schema_version: u32,
    version: &'static str,
    source: String,
    /// Packets with a number.
    packets: u64,
    bytes: u64,
    /// Packets without a number.
    other: u64,
    distinct: u64,
    lost: u64,
    duplicates: u64,
    reordered: u64,
    reordered_most: u64,
    stale: u64,
    foreign: u64,
    dropped: u64,
    missed: u64,
    latency: Option<Percentiles>,
    before_sent: u64,
    seconds: f64,
}

/// Counts until all packets have arrived, the time is up, the capture ends, or a signal arrives.
pub(super) fn run(arguments: &GenArguments, plan: &ReceivePlan) -> Result<ExitCode, Failure> {
    let stop = Stop::default();
    signals::stop_on_signals(&stop, signals::HangUp::Ends)
        .map_err(|error| Failure::Message(format!("signals: {error}")))?;
    let mut port: Box<dyn Port> = match plan {
        ReceivePlan::Interface(name) => endpoints::source(name, &arguments.eal)?,
        ReceivePlan::Files(inputs) => Box::new(CaptureFiles::open(inputs)?),
    };
    let mut arrivals = Arrivals::new(arguments.expect);
    let started = Instant::now();
    let mut ticker = Ticker::new(arguments.interval.filter(|_| !arguments.quiet));
    let mut complete_at = None;
    let (mut stopping, mut is_faulty) = (false, false);
    loop {
        ticker.tick("numbered packets", || arrivals.totals().0);
        match port.receive()? {
            Received::Burst(burst) => arrivals.record(&burst),
            Received::Idle => {}
            Received::Fault(message) => {
                warn(&message);
                is_faulty |= matches!(plan, ReceivePlan::Files(_));
            }
            Received::End => break,
        }
        if complete_at.is_none() && arrivals.is_complete() {
            complete_at = Some(Instant::now());
        }
        let is_over = stop.is_requested()
            || arguments
                .duration
                .is_some_and(|duration| started.elapsed() >= duration)
            || complete_at.is_some_and(|at| at.elapsed() >= DUPLICATE_WAIT);
        if is_over && !stopping {
            stopping = true;
            port.stop();
        }
    }
    let elapsed = started.elapsed();
    let counters = port.counters();
    let counts = arrivals.sequence();
    if arrivals.truncated() > 0 {
        warn(&format!(
            "{}: the snaplen truncated {} of the packets without a number; they may have had one",
            port.name(),
            units::count(arrivals.truncated())
        ));
    }
    snaplen_warnings::warn(&counters.snaplen_errors);
    match arguments.summary {
        SummaryArgument::None => {}
        SummaryArgument::Json => {
            let summary = summary(&arrivals, &counters, port.name(), elapsed);
            let json = serde_json::to_string(&summary)
                .map_err(|error| Failure::Message(error.to_string()))?;
            print(&(json + "\n"), false)?;
        }
        SummaryArgument::Text if arguments.quiet => {}
        SummaryArgument::Text => print(&text(&arrivals, &counters, port.name(), elapsed), false)?,
    }
    Ok(if is_faulty {
        ExitCode::from(EXIT_FAILED)
    } else if arguments.fail_on_loss && counts.lost > 0 {
        ExitCode::from(EXIT_LOSS)
    } else {
        ExitCode::SUCCESS
    })
}

fn summary(arrivals: &Arrivals, counters: &Counters, name: &str, elapsed: Duration) -> Summary {
    let counts = arrivals.sequence();
    let (packets, bytes) = arrivals.totals();
    let latency = arrivals.latency();
    Summary {
        schema_version: SCHEMA_VERSION,
        version: env!("CARGO_PKG_VERSION"),
        source: name.to_owned(),
        packets,
        bytes,
        other: arrivals.unnumbered(),
        distinct: counts.distinct,
        lost: counts.lost,
        duplicates: counts.duplicates,
        reordered: counts.reordered,
        reordered_most: counts.reorder_distance_max,
        stale: counts.stale,
        foreign: counts.foreign,
        dropped: counters.dropped,
        missed: counters.missed,
        latency: (latency.count() > 0).then(|| Percentiles::of(latency)),
        before_sent: arrivals.negative_latencies(),
        seconds: elapsed.as_secs_f64(),
    }
}

fn text(arrivals: &Arrivals, counters: &Counters, name: &str, elapsed: Duration) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_text(&mut text, arrivals, counters, name, elapsed);
    text
}

fn write_text(
    text: &mut String,
    arrivals: &Arrivals,
    counters: &Counters,
    name: &str,
    elapsed: Duration,
) -> std::fmt::Result {
    let (packets, bytes) = arrivals.totals();
    writeln!(
        text,
        "{} numbered packets, {} from {name}, {}",
        units::count(packets),
        units::bytes(bytes),
        units::seconds(elapsed.as_secs_f64())
    )?;
    let SequenceCounts {
        distinct,
        duplicates,
        reordered,
        reorder_distance_max: reordered_most,
        stale,
        foreign,
        lost,
        ..
    } = arrivals.sequence();
    let share = units::share(lost, distinct + lost);
    let furthest = format!("(by at most {})", units::count(reordered_most));
    let lines: [(&str, u64, &str); 10] = [
        ("distinct numbers", distinct, ""),
        ("lost", lost, &format!("({share})")),
        ("duplicates", duplicates, ""),
        (
            "reordered",
            reordered,
            if reordered > 0 { &furthest } else { "" },
        ),
        ("too old to classify", stale, "(more than 2^20 behind)"),
        ("never sent", foreign, "(numbers of --expect or above)"),
        ("packets without a number", arrivals.unnumbered(), ""),
        ("dropped by the kernel", counters.dropped, ""),
        ("missed by the device", counters.missed, ""),
        (
            "received before sent",
            arrivals.negative_latencies(),
            "(the clocks differ)",
        ),
    ];
    for (index, (name, count, note)) in lines.into_iter().enumerate() {
        if index < 4 || count > 0 {
            let space = if note.is_empty() { "" } else { "  " };
            writeln!(text, "  {name:<28}{:>16}{space}{note}", units::count(count))?;
        }
    }
    let latency = arrivals.latency();
    if latency.count() > 0 {
        writeln!(
            text,
            "  latency                     {}",
            Percentiles::of(latency).text()
        )?;
    }
    Ok(())
}
