//! FloWatcher-DPDK, figure 9a: clients in a closed loop, watched flow by flow.

use super::Experiment;
use super::context::{Context, outcome};
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Holds, Outcome, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::trial::TrialError;
use flow::FlowDefinition;
use generator::closed_loop::{Clients, ClientsOptions, EchoServer};
use generator::{FCS_BYTES, FlowFields, MacAddresses, Protocol, WIRE_OVERHEAD};
use port::{Burst, Frame, MemoryPort, MemoryReceiver, MemorySender, Port, Received, memory_link};
use std::collections::VecDeque;
use std::time::Duration;
use wire::LinkType;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig9a",
    title: "Clients in a closed loop, watched flow by flow",
    source: "FloWatcher-DPDK, figure 9a",
    run,
};

const CLIENTS: [u32; 9] = [1, 10, 50, 100, 200, 400, 600, 800, 1000];

/// The link in each direction: bits a second, and nanoseconds from end to end.
const LINK_BPS: f64 = 10e9;
const DELAY_NS: i64 = 50_000;

/// Nanoseconds of a step of the simulation.
const STEP_NS: i64 = 1_000;

/// Frames that a direction holds; a closed loop has a few a client at most.
const CAPACITY: usize = 1 << 14;

/// One direction of the link: a rate and a delay.
struct Direction {
    sender: MemorySender,
    receiver: MemoryReceiver,
    /// When the last frame has left.
    free_ns: f64,
    /// Frames on their way, with the times at which they arrive.
    on_the_way: VecDeque<(i64, Vec<u8>)>,
}

impl Direction {
    fn new() -> Self {
        let (sender, receiver) = memory_link(CAPACITY, LinkType::Ethernet);
        Self {
            sender,
            receiver,
            free_ns: 0.0,
            on_the_way: VecDeque::new(),
        }
    }

    /// Puts what was sent on its way, and tells the monitor's tap of it.
    fn carry(&mut self, now_ns: i64, tap: &mut Vec<(i64, u32, Vec<u8>)>) -> Result<(), TrialError> {
        loop {
            let burst = match self.receiver.receive().map_err(TrialError::missing)? {
                Received::Burst(burst) => burst,
                Received::Idle | Received::End => return Ok(()),
                Received::Fault(message) => return Err(TrialError::missing(message)),
            };
            for frame in burst.frames {
                let wire_length = frame.bytes.len() + FCS_BYTES;
                let bits = (wire_length + WIRE_OVERHEAD) as f64 * 8.0;
                self.free_ns = self.free_ns.max(now_ns as f64) + bits * 1e9 / LINK_BPS;
                let left_ns = self.free_ns as i64;
                tap.push((left_ns, wire_length as u32, frame.bytes.to_vec()));
                self.on_the_way
                    .push_back((left_ns + DELAY_NS, frame.bytes.to_vec()));
            }
        }
    }

    /// The frames that have arrived.
    fn arrived(&mut self, now_ns: i64) -> Vec<Vec<u8>> {
        let due = self
            .on_the_way
            .iter()
            .take_while(|(at, _)| *at <= now_ns)
            .count();
        self.on_the_way
            .drain(..due)
            .map(|(_, frame)| frame)
            .collect()
    }
}

/// Hands frames over as a burst.
fn hand(frames: &[Vec<u8>], now_ns: i64, take: impl FnOnce(&Burst<'_>)) {
    let list: Vec<Frame<'_>> = frames
        .iter()
        .map(|bytes| Frame::new(bytes, now_ns, (bytes.len() + FCS_BYTES) as u32))
        .collect();
    if !list.is_empty() {
        take(&Burst {
            link: LinkType::Ethernet,
            frames: &list,
        });
    }
}

/// What one number of clients came to.
struct Loop {
    completed: u64,
    failed: u64,
    repeated: u64,
    /// Connections of the client that made fewest and of the one that made most.
    extremes: [u64; 2],
    /// Jain's index of fairness over the clients.
    fairness: f64,
    tap: Vec<(i64, u32, Vec<u8>)>,
}

/// Clients and server over the link for a time, and until all has arrived.
fn turn(clients: u32, time_ns: i64, seed: u64) -> Result<Loop, TrialError> {
    let fields = FlowFields::ipv4(Protocol::Tcp);
    let server_port = 7;
    let mut all = Clients::new(ClientsOptions {
        clients,
        addresses: fields.source,
        ports: fields.source_ports,
        server: fields.destination,
        server_port,
        connections: None,
        timeout: Duration::from_secs(1),
        max_retries: 5,
        mac: MacAddresses::default(),
        seed,
    })
    .map_err(TrialError::missing)?;
    let mut server =
        EchoServer::new(None, server_port, MacAddresses::default()).map_err(TrialError::missing)?;
    let (mut there, mut back) = (Direction::new(), Direction::new());
    let mut tap = Vec::new();
    let mut now_ns = 0;
    while now_ns < time_ns || all.open_connections() > 0 {
        if now_ns > 20 * time_ns + 1_000_000_000 {
            return Err(TrialError::missing("the clients do not come to an end"));
        }
        all.send(&mut there.sender, now_ns, now_ns >= time_ns)
            .map_err(TrialError::missing)?;
        there.carry(now_ns, &mut tap)?;
        hand(&there.arrived(now_ns), now_ns, |burst| {
            server.receive(burst, now_ns);
        });
        server
            .send(&mut back.sender, now_ns)
            .map_err(TrialError::missing)?;
        back.carry(now_ns, &mut tap)?;
        hand(&back.arrived(now_ns), now_ns, |burst| {
            all.receive(burst, now_ns);
        });
        now_ns += STEP_NS;
    }
    // The last acknowledgements.
    all.send(&mut there.sender, now_ns, true)
        .map_err(TrialError::missing)?;
    there.carry(now_ns, &mut tap)?;
    let each: Vec<u64> = all.per_client().map(|counts| counts.completed).collect();
    let sum: f64 = each.iter().map(|&count| count as f64).sum();
    let squares: f64 = each.iter().map(|&count| (count as f64).powi(2)).sum();
    let counts = all.counts();
    tap.sort_by_key(|(time, ..)| *time);
    Ok(Loop {
        completed: counts.completed,
        failed: counts.failed,
        repeated: counts.retransmissions,
        extremes: [
            each.iter().copied().min().unwrap_or(0),
            each.iter().copied().max().unwrap_or(0),
        ],
        fairness: sum * sum / (each.len() as f64 * squares.max(f64::MIN_POSITIVE)),
        tap,
    })
}

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(
        &EXPERIMENT,
        "The generator's TCP clients and echo server over a link in memory of 10 Gbit/s and 50 µs each way, in the \
         simulation's own time; the engine counts the flows of what a tap on the link has seen.",
    );
    let time_ns = context.pick(10_000_000, 200_000_000);
    let mut table = Table::new(
        "clients",
        "Connections of 512 bytes there and back",
        &[
            "clients",
            "completed",
            "failed",
            "repeated",
            "thousand connections a second",
            "least of a client",
            "most of a client",
            "fairness (Jain)",
            "packets on the link",
            "packets in flows",
            "flows",
        ],
    );
    let (mut rates, mut fairness) = (Vec::new(), Vec::new());
    let mut all_seen = true;
    let seconds = time_ns as f64 / 1e9;
    for clients in CLIENTS {
        context.say(&format!("{clients} clients"));
        let result = turn(clients, time_ns, context.seed())?;
        let mut monitor = Monitor::counting(1 << 18).with_flow(FlowDefinition::Bidirectional);
        monitor.options.meter.populate = false;
        let packets = result.tap.len() as u64;
        let port: Box<dyn Port> = Box::new(MemoryPort::new(LinkType::Ethernet, result.tap));
        let mut flows = 0u64;
        let watched = monitor.watch(vec![port], |batch| flows += batch.records.len() as u64)?;
        let in_flows = watched.report.books.in_flows.packets;
        let mut against = Vec::new();
        if !watched.report.books.is_balanced() || in_flows != packets {
            against.push("the monitor has not every packet of the link in a flow".to_owned());
        }
        context.trials.count(&against);
        all_seen &= against.is_empty();
        let rate = result.completed as f64 / seconds / 1e3;
        rates.push(Point::new(f64::from(clients), rate));
        fairness.push(result.fairness);
        table.row(vec![
            clients.into(),
            result.completed.into(),
            result.failed.into(),
            result.repeated.into(),
            rate.into(),
            result.extremes[0].into(),
            result.extremes[1].into(),
            result.fairness.into(),
            packets.into(),
            in_flows.into(),
            flows.into(),
        ]);
    }
    // The knee: where the rate falls behind what one client's rate promises.
    let one = rates[0].y;
    let knee = rates
        .iter()
        .find(|point| point.y < 0.9 * one * point.x)
        .map_or(f64::INFINITY, |point| point.x);
    let most = rates.iter().map(|point| point.y).fold(0.0, f64::max);
    outcome.figures.push(
        Figure::new(
            "clients",
            "Connections completed a second by the number of clients in a closed loop.",
            Axis::linear("clients").from_zero(),
            Axis::linear("thousand connections a second").from_zero(),
        )
        .with(Series::line("all clients", rates)),
    );
    outcome.tables.push(table);
    let least = fairness.iter().copied().fold(f64::INFINITY, f64::min);
    outcome.comparisons.push(Comparison {
        what: "where the rate stops growing".into(),
        paper: "about 400 clients, then the link bounds it".into(),
        here: format!("between the steps below and at {knee:.0} clients, at {most:.0} thousand connections a second"),
    });
    outcome.findings.push(Finding {
        paper: "The total grows with the clients up to about 400, then the link bounds it; each client has its share."
            .into(),
        holds: if all_seen && least > 0.9 && knee.is_finite() {
            Holds::Yes
        } else if all_seen {
            Holds::Partly
        } else {
            Holds::No
        },
        because: format!(
            "The knee is at {knee:.0} clients or just below, set by the link's rate and round trip, which are chosen \
             here; Jain's index over the clients is at least {least:.3}; {} on the link is in the monitor's flows.",
            if all_seen { "every packet" } else { "not every packet" },
        ),
    });
    outcome.settings = vec![
        ("link".into(), "10 Gbit/s, 50 µs each way".into()),
        ("time".into(), format!("{} ms", time_ns / 1_000_000)),
    ];
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_clients_share_the_link_and_all_of_it_is_seen() {
        let result = turn(5, 2_000_000, 1).unwrap();
        assert_eq!((result.failed, result.repeated), (0, 0));
        // Three round trips of 100 µs a connection.
        assert!(result.completed >= 5 * 5 && result.completed <= 5 * 8);
        assert!(result.extremes[1] - result.extremes[0] <= 1);
        // Three segments open it, two carry data, three close it; acknowledgements may ride along.
        assert!(result.tap.len() as u64 >= 7 * result.completed);
    }
}
