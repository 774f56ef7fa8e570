//! `gen --clients N` and `gen --echo`: TCP clients, and the server that echoes their data.

use super::endpoints::{self, PEER_CLOSE_WAIT};
use super::failure::Failure;
use super::output::{create, print};
use super::plan::ClosedLoopPlan;
use super::ticker::Ticker;
use crate::arguments::generate::GenArguments;
use crate::arguments::value::SummaryArgument;
use crate::file_identity;
use crate::messages::warn;
use crate::signals;
use crate::units;
use crate::watch::EXIT_LOSS;
use engine::Stop;
use generator::closed_loop::{ClientCounts, Clients, EchoServer, ServerCounts};
use hw::time::monotonic_raw_ns;
use port::{Counters, Port, Received, Transmit};
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Goes up when a field changes its meaning or is removed.
const SCHEMA_VERSION: u32 = 1;

/// How long open connections may take to end when no more are started.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// The summary of the clients.
#[derive(Debug, Serialize)]
struct ClientsSummary {
    schema_version: u32,
    version: &'static str,
    clients: u32,
    started: u64,
    completed: u64,
    failed: u64,
    open: u64,
    repeated: u64,
    echoed_bytes: u64,
    wrong_bytes: u64,
    segments_sent: u64,
    segments_received: u64,
    dropped: u64,
    missed: u64,
    seconds: f64,
}

/// The summary of the server.
#[derive(Debug, Serialize)]
struct ServerSummary {
    schema_version: u32,
    version: &'static str,
    accepted: u64,
    closed: u64,
    open: u64,
    forgotten: u64,
    turned_away: u64,
    echoed_bytes: u64,
    repeated: u64,
    unexpected: u64,
    segments_sent: u64,
    segments_received: u64,
    dropped: u64,
    missed: u64,
    seconds: f64,
}

/// One of the two ends.
enum Peer {
    Clients(Box<Clients>),
    Server {
        server: Box<EchoServer>,
        /// Number of connections to serve; `None` for no limit.
        connections: Option<u64>,
    },
}

impl Peer {
    fn send(
        &mut self,
        sink: &mut dyn Transmit,
        now_ns: i64,
        draining: bool,
    ) -> Result<(), Failure> {
        match self {
            Self::Clients(clients) => clients.send(sink, now_ns, draining)?,
            Self::Server { server, .. } => server.send(sink, now_ns)?,
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        match self {
            Self::Clients(clients) => clients.is_done(),
            Self::Server {
                server,
                connections,
            } => {
                let counts = server.counts();
                connections.is_some_and(|number| counts.closed + counts.timed_out >= number)
            }
        }
    }

    /// Returns the number of connections that have ended.
    fn finished(&self) -> u64 {
        match self {
            Self::Clients(clients) => clients.counts().completed,
            Self::Server { server, .. } => server.counts().closed,
        }
    }

    fn open(&self) -> usize {
        match self {
            Self::Clients(clients) => clients.open_connections(),
            Self::Server { server, .. } => server.open_connections(),
        }
    }
}

/// Runs until all connections have ended, the time is up, or a signal arrives.
pub(super) fn run(arguments: &GenArguments, plan: ClosedLoopPlan) -> Result<ExitCode, Failure> {
    let stop = Stop::default();
    signals::stop_on_signals(&stop, signals::HangUp::Ends)
        .map_err(|error| Failure::Message(format!("signals: {error}")))?;
    let truth = arguments.truth.as_deref().map(file_identity::normalize);
    if let Some(path) = &truth {
        export::check_file(path)?;
    }
    let mut peer = match plan.clients {
        Some(options) => Peer::Clients(Box::new(Clients::new(options)?)),
        None => Peer::Server {
            server: Box::new(EchoServer::new(plan.server, plan.port, plan.mac)?),
            connections: arguments.count,
        },
    };
    let (mut port, mut sink) = endpoints::both(&plan.interface, &arguments.eal, &stop)?;
    let mut file = truth.as_deref().map(create).transpose()?;
    let started = Instant::now();
    let counters = run_loop(arguments, &stop, &mut peer, port.as_mut(), sink.as_mut())?;
    let elapsed = started.elapsed();
    let is_json = arguments.summary == SummaryArgument::Json;
    let is_silent = arguments.summary == SummaryArgument::None || (arguments.quiet && !is_json);
    let (text, complete) = match &peer {
        Peer::Clients(clients) => {
            if let Some(file) = &mut file {
                write_clients(file, clients)
                    .map_err(|error| Failure::Message(error.to_string()))?;
            }
            let counts = clients.counts();
            if counts.started > 0 && clients.segments().1 == 0 {
                warn(
                    "no answer was received: is `flowatch gen --echo` running at the other end, with the same --dport?",
                );
            }
            let summary = clients_summary(clients, &counters, elapsed);
            let text = if is_json {
                json(&summary)?
            } else {
                clients_text(&summary)
            };
            (text, counts.completed == counts.started)
        }
        Peer::Server { server, .. } => {
            let summary = server_summary(server, &counters, elapsed);
            let text = if is_json {
                json(&summary)?
            } else {
                server_text(&summary)
            };
            (text, true)
        }
    };
    if !is_silent {
        print(&text, truth.as_deref() == Some(Path::new("-")))?;
    }
    Ok(if arguments.fail_on_loss && !complete {
        ExitCode::from(EXIT_LOSS)
    } else {
        ExitCode::SUCCESS
    })
}

/// Receives and sends in turn until the run is over. Returns the port's counters.
fn run_loop(
    arguments: &GenArguments,
    stop: &Stop,
    peer: &mut Peer,
    port: &mut dyn Port,
    sink: &mut dyn Transmit,
) -> Result<Counters, Failure> {
    let started = Instant::now();
    let mut ticker = Ticker::new(arguments.interval.filter(|_| !arguments.quiet));
    let mut draining = None;
    while !peer.is_done() {
        ticker.tick("connections", || peer.finished());
        let is_over = stop.is_requested()
            || arguments
                .duration
                .is_some_and(|duration| started.elapsed() >= duration);
        if is_over {
            let since = *draining.get_or_insert_with(Instant::now);
            if peer.open() == 0 || since.elapsed() >= DRAIN_TIME {
                break;
            }
        }
        peer.send(sink, now_ns(), draining.is_some())?;
        // Once done, clients receive nothing more: the server may have exited already.
        if peer.is_done() {
            break;
        }
        match port.receive()? {
            Received::Burst(burst) => match peer {
                Peer::Clients(clients) => clients.receive(&burst, now_ns()),
                Peer::Server { server, .. } => server.receive(&burst, now_ns()),
            },
            Received::Idle => {
                if let Peer::Server { server, .. } = peer {
                    server.sweep(now_ns());
                }
            }
            Received::Fault(message) => warn(&message),
            Received::End => break,
        }
    }
    // Send the last acknowledgements.
    peer.send(sink, now_ns(), true)?;
    sink.flush()?;
    if matches!(peer, Peer::Clients(_)) && !sink.wait_for_peer_close(PEER_CLOSE_WAIT)? {
        warn(&format!(
            "{}: the server is still running and may crash when its peer closes; run --echo with the same -c as its \
             clients (docs/dpdk.md)",
            sink.name()
        ));
    }
    Ok(port.counters())
}

fn now_ns() -> i64 {
    monotonic_raw_ns().cast_signed()
}

fn json(summary: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(summary)
        .map(|json| json + "\n")
        .map_err(|error| Failure::Message(error.to_string()))
}

/// Writes a CSV line per client.
fn write_clients(file: &mut dyn Write, clients: &Clients) -> io::Result<()> {
    writeln!(
        file,
        "client,started,completed,failed,repeated,echoedBytes,wrongBytes"
    )?;
    for (number, counts) in clients.per_client().enumerate() {
        writeln!(
            file,
            "{number},{},{},{},{},{},{}",
            counts.started,
            counts.completed,
            counts.failed,
            counts.retransmissions,
            counts.echoed_bytes,
            counts.wrong_bytes
        )?;
    }
    file.flush()
}

fn clients_summary(clients: &Clients, counters: &Counters, elapsed: Duration) -> ClientsSummary {
    let ClientCounts {
        started,
        completed,
        failed,
        retransmissions: repeated,
        echoed_bytes,
        wrong_bytes,
    } = clients.counts();
    let (segments_sent, segments_received) = clients.segments();
    ClientsSummary {
        schema_version: SCHEMA_VERSION,
        version: env!("CARGO_PKG_VERSION"),
        clients: clients.per_client().count() as u32,
        started,
        completed,
        failed,
        open: clients.open_connections() as u64,
        repeated,
        echoed_bytes,
        wrong_bytes,
        segments_sent,
        segments_received,
        dropped: counters.dropped,
        missed: counters.missed,
        seconds: elapsed.as_secs_f64(),
    }
}

fn server_summary(server: &EchoServer, counters: &Counters, elapsed: Duration) -> ServerSummary {
    let ServerCounts {
        accepted,
        closed,
        timed_out: forgotten,
        refused: turned_away,
        echoed_bytes,
        received,
        retransmissions: repeated,
        unexpected,
        sent,
    } = server.counts();
    ServerSummary {
        schema_version: SCHEMA_VERSION,
        version: env!("CARGO_PKG_VERSION"),
        accepted,
        closed,
        open: server.open_connections() as u64,
        forgotten,
        turned_away,
        echoed_bytes,
        repeated,
        unexpected,
        segments_sent: sent,
        segments_received: received,
        dropped: counters.dropped,
        missed: counters.missed,
        seconds: elapsed.as_secs_f64(),
    }
}

/// Formats counts as lines. Zero counts are left out, except for the first `always`.
fn lines(heading: String, always: usize, counts: &[(&str, u64)]) -> String {
    counts
        .iter()
        .enumerate()
        .filter(|(index, (_, count))| *index < always || *count > 0)
        .fold(heading + "\n", |text, (_, (name, count))| {
            text + &format!("  {name:<28}{:>16}\n", units::count(*count))
        })
}

fn clients_text(summary: &ClientsSummary) -> String {
    let rate = summary.completed as f64 / summary.seconds.max(1e-9);
    let heading = format!(
        "{} clients, {} connections completed in {} ({} per second)",
        units::count(u64::from(summary.clients)),
        units::count(summary.completed),
        units::seconds(summary.seconds),
        units::compact(rate)
    );
    lines(
        heading,
        5,
        &[
            ("connections started", summary.started),
            ("completed", summary.completed),
            ("failed", summary.failed),
            ("segments sent", summary.segments_sent),
            ("segments received", summary.segments_received),
            ("left open", summary.open),
            ("retransmitted", summary.repeated),
            ("bytes echoed wrongly", summary.wrong_bytes),
            ("dropped by the kernel", summary.dropped),
            ("missed by the device", summary.missed),
        ],
    )
}

fn server_text(summary: &ServerSummary) -> String {
    let heading = format!(
        "{} connections served in {}, {} echoed",
        units::count(summary.closed),
        units::seconds(summary.seconds),
        units::bytes(summary.echoed_bytes)
    );
    lines(
        heading,
        4,
        &[
            ("connections accepted", summary.accepted),
            ("closed", summary.closed),
            ("segments sent", summary.segments_sent),
            ("segments received", summary.segments_received),
            ("left open", summary.open),
            ("timed out", summary.forgotten),
            ("refused, too many", summary.turned_away),
            ("retransmissions received", summary.repeated),
            ("segments of no connection", summary.unexpected),
            ("dropped by the kernel", summary.dropped),
            ("missed by the device", summary.missed),
        ],
    )
}
