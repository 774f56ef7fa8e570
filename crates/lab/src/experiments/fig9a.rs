//! FloWatcher-DPDK, figure 9a: clients in a closed loop, counted flow by flow.

use super::context::{Context, parameter};
use super::experiment::Experiment;
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::trial::TrialError;
use flow::FlowDefinition;
use generator::closed_loop::{Clients, ClientsOptions, EchoServer};
use generator::{FCS_BYTES, FlowFields, MacAddresses, Protocol, WIRE_OVERHEAD};
use port::{Burst, Frame, MemoryPort, MemoryReceiver, MemorySender, Port, Received, memory_link};
use std::collections::VecDeque;
use std::time::Duration;
use wire::LinkType;

const CLIENTS: [u32; 9] = [1, 10, 50, 100, 200, 400, 600, 800, 1000];

/// The link in each direction: bits per second, and one-way delay in nanoseconds.
const LINK_BPS: f64 = 10e9;
const DELAY_NS: i64 = 50_000;

/// Jain's index above which the shares are fair.
const FAIR: f64 = 0.9;

/// Step of the simulation, in nanoseconds.
const STEP_NS: i64 = 1_000;

/// Frames that a direction holds; a closed loop has a few per client at most.
const CAPACITY: usize = 1 << 14;

/// One direction of the link: a rate and a delay.
struct Direction {
    sender: MemorySender,
    receiver: MemoryReceiver,
    /// When the last frame has been sent.
    free_ns: f64,
    /// Frames in flight with their arrival times.
    in_flight: VecDeque<(i64, Vec<u8>)>,
}

impl Direction {
    fn new() -> Self {
        let (sender, receiver) = memory_link(CAPACITY, LinkType::Ethernet);
        Self {
            sender,
            receiver,
            free_ns: 0.0,
            in_flight: VecDeque::new(),
        }
    }

    /// Transmits the frames that were sent, and records them in the tap.
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
                self.in_flight
                    .push_back((left_ns + DELAY_NS, frame.bytes.to_vec()));
            }
        }
    }

    /// Removes and returns the frames that have arrived.
    fn take_arrived(&mut self, now_ns: i64) -> Vec<Vec<u8>> {
        let due = self
            .in_flight
            .iter()
            .take_while(|(at, _)| *at <= now_ns)
            .count();
        self.in_flight
            .drain(..due)
            .map(|(_, frame)| frame)
            .collect()
    }
}

/// Delivers frames as a burst; calls nothing if there are none.
fn deliver(frames: &[Vec<u8>], now_ns: i64, receive: impl FnOnce(&Burst<'_>)) {
    let list: Vec<Frame<'_>> = frames
        .iter()
        .map(|bytes| Frame::new(bytes, now_ns, (bytes.len() + FCS_BYTES) as u32))
        .collect();
    if !list.is_empty() {
        receive(&Burst {
            link: LinkType::Ethernet,
            frames: &list,
        });
    }
}

/// The result of a closed loop.
struct Loop {
    completed: u64,
    failed: u64,
    repeated: u64,
    /// The fewest and the most connections of a client.
    extremes: [u64; 2],
    /// Jain's index of fairness over the clients.
    fairness: f64,
    tap: Vec<(i64, u32, Vec<u8>)>,
}

/// Runs clients and server over the link for a time, and until the last connection has ended.
fn run_loop(clients: u32, time_ns: i64, seed: u64) -> Result<Loop, TrialError> {
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
    let (mut forward, mut back) = (Direction::new(), Direction::new());
    let mut tap = Vec::new();
    let mut now_ns = 0;
    while now_ns < time_ns || all.open_connections() > 0 {
        if now_ns > 20 * time_ns + 1_000_000_000 {
            return Err(TrialError::missing(
                "the clients do not finish their connections",
            ));
        }
        all.send(&mut forward.sender, now_ns, now_ns >= time_ns)
            .map_err(TrialError::missing)?;
        forward.carry(now_ns, &mut tap)?;
        deliver(&forward.take_arrived(now_ns), now_ns, |burst| {
            server.receive(burst, now_ns);
        });
        server
            .send(&mut back.sender, now_ns)
            .map_err(TrialError::missing)?;
        back.carry(now_ns, &mut tap)?;
        deliver(&back.take_arrived(now_ns), now_ns, |burst| {
            all.receive(burst, now_ns);
        });
        now_ns += STEP_NS;
    }
    // Send the last acknowledgements.
    all.send(&mut forward.sender, now_ns, true)
        .map_err(TrialError::missing)?;
    forward.carry(now_ns, &mut tap)?;
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

/// The measurements with one number of clients.
struct Measured {
    clients: u32,
    result: Loop,
    /// Packets on the link, and those in the monitor's flows.
    packets: u64,
    in_flows: u64,
    flows: u64,
    is_complete: bool,
}

impl Measured {
    /// Runs the clients, then the monitor over the packets of the tap.
    fn measure(context: &mut Context<'_>, clients: u32, time_ns: i64) -> Result<Self, TrialError> {
        context.progress(&format!("{clients} clients"));
        let mut result = run_loop(clients, time_ns, context.seed())?;
        let mut monitor = Monitor::counting(1 << 18).with_flow(FlowDefinition::Bidirectional);
        monitor.options.meter.populate = false;
        let tap = std::mem::take(&mut result.tap);
        let packets = tap.len() as u64;
        let port: Box<dyn Port> = Box::new(MemoryPort::new(LinkType::Ethernet, tap));
        let mut flows = 0u64;
        let run = monitor.run(vec![port], |batch| flows += batch.records.len() as u64)?;
        let in_flows = run.report.books.in_flows.packets;
        let mut reasons = Vec::new();
        if !run.report.books.is_balanced() || in_flows != packets {
            reasons.push("not every packet of the link is in a flow".to_owned());
        }
        context.trials.count(&reasons);
        Ok(Self {
            clients,
            result,
            packets,
            in_flows,
            flows,
            is_complete: reasons.is_empty(),
        })
    }
}

pub(super) struct Fig9a;

pub(super) struct Results {
    time_ns: i64,
    measured: Vec<Measured>,
}

impl Results {
    /// Connections of all clients, in thousands per second.
    fn rate(&self, measured: &Measured) -> f64 {
        measured.result.completed as f64 / (self.time_ns as f64 / 1e9) / 1e3
    }

    /// The number of clients at which the rate no longer grows with the clients; infinite if it always
    /// does.
    fn knee(&self) -> f64 {
        let one = self.rate(&self.measured[0]);
        let knee = self
            .measured
            .iter()
            .find(|measured| self.rate(measured) < 0.9 * one * f64::from(measured.clients));
        knee.map_or(f64::INFINITY, |measured| f64::from(measured.clients))
    }

    /// The least of Jain's indices.
    fn fairness(&self) -> f64 {
        let indices = self
            .measured
            .iter()
            .map(|measured| measured.result.fairness);
        indices.fold(f64::INFINITY, f64::min)
    }
}

impl Experiment for Fig9a {
    type Results = Results;

    const NAME: &'static str = "fig9a";
    const TITLE: &'static str = "Clients in a closed loop, watched flow by flow";
    const SOURCE: &'static str = "FloWatcher-DPDK, figure 9a";

    fn instrument() -> String {
        "The generator's TCP clients and echo server over a simulated link of 10 Gbit/s and 50 µs each way, in \
         simulated time; the engine counts the flows of the packets that a tap on the link records."
            .into()
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let time_ns = context.pick(10_000_000, 200_000_000);
        let mut measured = Vec::new();
        for clients in CLIENTS {
            measured.push(Measured::measure(context, clients, time_ns)?);
        }
        Ok(Results { time_ns, measured })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        vec![
            parameter("link", "10 Gbit/s, 50 µs each way"),
            parameter("time", format!("{} ms", results.time_ns / 1_000_000)),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let (knee, fairness) = (results.knee(), results.fairness());
        let is_complete = results.measured.iter().all(|measured| measured.is_complete);
        vec![Finding::new(
            "The total grows with the clients up to about 400, then the link bounds it; each client has its share.",
            [
                Part::compared(
                    "The total grows with the clients, then the link bounds it.",
                    knee.is_finite(),
                    format!(
                        "The knee is at {knee:.0} clients or just below; the link's rate and round trip, which are \
                         chosen here, set it."
                    ),
                ),
                Part::compared(
                    "Each client has its share.",
                    fairness > FAIR,
                    format!("Jain's index over the clients is at least {fairness:.3}."),
                ),
                Part::compared(
                    "The monitor sees every packet.",
                    is_complete,
                    format!(
                        "{} on the link is in the monitor's flows.",
                        if is_complete {
                            "Every packet"
                        } else {
                            "Not every packet"
                        }
                    ),
                ),
            ],
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let rates = results
            .measured
            .iter()
            .map(|measured| results.rate(measured));
        vec![Comparison::new(
            "where the rate stops growing",
            "about 400 clients, then the link bounds it",
            format!(
                "between the step below and {:.0} clients, at {:.0} thousand connections per second",
                results.knee(),
                rates.fold(0.0, f64::max)
            ),
        )]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let mut table = Table::new(
            "clients",
            "Connections of 512 bytes in each direction",
            &[
                "clients",
                "completed",
                "failed",
                "repeated",
                "thousand connections per second",
                "fewest of a client",
                "most of a client",
                "fairness (Jain)",
                "packets on the link",
                "packets in flows",
                "flows",
            ],
        );
        for measured in &results.measured {
            let result = &measured.result;
            table.row(vec![
                measured.clients.into(),
                result.completed.into(),
                result.failed.into(),
                result.repeated.into(),
                results.rate(measured).into(),
                result.extremes[0].into(),
                result.extremes[1].into(),
                result.fairness.into(),
                measured.packets.into(),
                measured.in_flows.into(),
                measured.flows.into(),
            ]);
        }
        vec![table]
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let points = results
            .measured
            .iter()
            .map(|measured| Point::new(f64::from(measured.clients), results.rate(measured)));
        vec![
            Figure::new(
                "clients",
                "Connections completed per second by the number of clients in a closed loop.",
                Axis::linear("clients").from_zero(),
                Axis::linear("thousand connections per second").from_zero(),
            )
            .with(Series::line("all clients", points.collect())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_clients_share_the_link_fairly() {
        let result = run_loop(5, 2_000_000, 1).unwrap();
        assert_eq!((result.failed, result.repeated), (0, 0));
        // Three round trips of 100 µs per connection.
        assert!(result.completed >= 5 * 5 && result.completed <= 5 * 8);
        assert!(result.extremes[1] - result.extremes[0] <= 1);
        // Three segments open it, two carry data, three close it; acknowledgements may be piggybacked.
        assert!(result.tap.len() as u64 >= 7 * result.completed);
    }
}
