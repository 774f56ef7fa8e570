//! DPDKStat, figure 12: packets sorted by flow before they are processed.

use super::context::{Context, parameter};
use super::experiment::Experiment;
use super::mix::CAMPUS;
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Part, Table};
use crate::plot::{Axis, Figure, Point, Series};
use crate::statistics::abba;
use crate::trial::TrialError;
use flow::FlowDefinition;
use flow::statistic::Estimator;
use generator::{FCS_BYTES, Source, Traffic, TrafficOptions};
use hw::time::{TickRate, ticks};
use port::buffer::{self, BufferPort};
use port::{Burst, Frame, NullSink, Port, PortError, Received, Transmit, Wrapper};
use std::sync::{Arc, Mutex, PoisonError};
use wire::fast::simple_ipv4;
use wire::{LinkType, ip_protocol};

/// Packets per second of the frames' timestamps: 40 Gbit/s of 716 B.
const RATE: f64 = 6.8e6;

/// Gains below this are within the spread of the measurement.
const CLEAR_GAIN: f64 = 1.05;

/// Horizons in bytes within which frames are sorted: none, some sizes, all frames.
fn horizons(context: &Context<'_>, all: usize) -> Vec<(String, usize)> {
    const MB: usize = 1_000_000;
    let sizes: &[usize] = context.pick(&[MB / 2, 5 * MB, 50 * MB], &[5 * MB, 50 * MB, 1000 * MB]);
    let mut horizons = vec![("none".to_owned(), 0)];
    horizons.extend(sizes.iter().map(|&bytes| {
        let megabytes = bytes as f64 / MB as f64;
        (format!("{megabytes} MB"), bytes)
    }));
    horizons.push(("all".to_owned(), all));
    horizons
}

fn traffic(flows: u32, seed: u64) -> Result<TrafficOptions, TrialError> {
    Ok(TrafficOptions {
        flows,
        ..CAMPUS.traffic(seed)?
    })
}

/// Fills a buffer with `packets` frames; the TCP segments of a flow have consecutive sequence numbers.
fn fill_buffer(
    options: &TrafficOptions,
    packets: usize,
    bytes: usize,
    sort_bytes: usize,
) -> Result<BufferPort, TrialError> {
    const TCP_SEQUENCE: usize = 14 + 20 + 4;
    const IP_PROTOCOL: usize = 14 + 9;
    let mut traffic = Traffic::new(options).map_err(TrialError::missing)?;
    let mut sink = NullSink::new();
    let mut flows = [0; port::frame::BURST];
    let mut sent = vec![0u32; options.flows as usize];
    let buffer = buffer::Options {
        // Frames do not fill blocks completely, and at most half of the blocks are sorted at a time.
        bytes: bytes * 5 / 2,
        sort_bytes,
        populate: false,
    };
    let (mut writer, reader) =
        buffer::buffer(&buffer, "buffer", None).map_err(TrialError::missing)?;
    let mut number = 0;
    while number < packets {
        let count = flows.len().min(packets - number);
        let slots = sink
            .reserve(count, traffic.slot_bytes())
            .map_err(TrialError::missing)?;
        let filled = traffic
            .fill(slots, &mut flows)
            .map_err(TrialError::missing)?
            .frames;
        for (slot, &flow) in slots.iter_mut().zip(&flows).take(filled) {
            let length = slot.length;
            let frame = &mut slot.bytes[..length];
            if frame.get(IP_PROTOCOL) == Some(&ip_protocol::TCP)
                && let Some(sequence) = frame.get_mut(TCP_SEQUENCE..TCP_SEQUENCE + 4)
                && let Some(sent) = sent.get_mut(flow as usize)
            {
                sequence.copy_from_slice(&sent.to_be_bytes());
                let payload = length.saturating_sub(14 + 20 + 20);
                *sent = sent.wrapping_add(payload as u32);
            }
        }
        let frames: Vec<Frame<'_>> = slots
            .iter()
            .take(filled)
            .zip(number..)
            .map(|(slot, number)| {
                let time_ns = (number as f64 * 1e9 / RATE) as i64;
                let bytes = &slot.bytes[..slot.length];
                Frame::new(bytes, time_ns, (slot.length + FCS_BYTES) as u32)
            })
            .collect();
        let burst = Burst {
            link: LinkType::Ethernet,
            frames: &frames,
        };
        if filled == 0 || writer.copy(&burst, 0) < filled {
            return Err(TrialError::missing("the traffic does not fit the buffer"));
        }
        writer.end_batch(false);
        sink.submit(filled).map_err(TrialError::missing)?;
        number += filled;
    }
    Ok(reader)
}

/// Ticks of each burst: in the port, and in the monitor between two calls of the port.
type BurstTicks = Vec<[u64; 2]>;

/// A port that measures the time of its calls and between them.
struct Timed {
    port: BufferPort,
    /// When the last call returned, in ticks.
    returned_at: u64,
    bursts: BurstTicks,
    /// Receives the bursts at the end of the port.
    results: Arc<Mutex<BurstTicks>>,
}

impl Wrapper for Timed {
    type Inner = BufferPort;

    fn inner(&self) -> &BufferPort {
        &self.port
    }

    fn inner_mut(&mut self) -> &mut BufferPort {
        &mut self.port
    }

    fn wrap_receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        let entered = ticks();
        let received = self.port.receive()?;
        let left = ticks();
        if let Some([_, between]) = self.bursts.last_mut() {
            *between += entered.saturating_sub(self.returned_at);
        }
        self.returned_at = left;
        match received {
            Received::Burst(_) => self.bursts.push([left.saturating_sub(entered), 0]),
            _ => {
                let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
                results.append(&mut self.bursts);
            }
        }
        Ok(received)
    }
}

/// Nanoseconds per packet in the port and in the monitor: the minimum of each burst over identical
/// trials, which excludes disturbances by the machine.
fn minimum(trials: &[BurstTicks], packets: usize) -> [f64; 2] {
    let bursts = trials.iter().map(Vec::len).min().unwrap_or(0);
    let rate = TickRate::get();
    [0, 1].map(|which| {
        let fastest = |burst: usize| trials.iter().map(|trial| trial[burst][which]).min();
        let ticks: u64 = (0..bursts).filter_map(fastest).sum();
        rate.to_ns(ticks) as f64 / packets as f64
    })
}

/// Returns the mean number of consecutive packets of one flow.
fn run_length(mut port: BufferPort) -> Result<f64, TrialError> {
    let (mut packets, mut runs, mut last) = (0u64, 0u64, None);
    while let Received::Burst(burst) = port.receive().map_err(TrialError::missing)? {
        for frame in burst.frames {
            let key = simple_ipv4(frame.bytes, frame.wire_length).map(|plain| plain.key);
            runs += u64::from(key.is_none() || key != last);
            packets += 1;
            last = key;
        }
    }
    Ok(packets as f64 / runs as f64)
}

/// Runs a trial and returns the times of its bursts.
fn trial(
    context: &mut Context<'_>,
    port: BufferPort,
    monitor: &Monitor,
    packets: usize,
) -> Result<BurstTicks, TrialError> {
    let results = Arc::<Mutex<BurstTicks>>::default();
    let timed = Timed {
        port,
        returned_at: 0,
        bursts: BurstTicks::new(),
        results: Arc::clone(&results),
    };
    let run = monitor.run(vec![Box::new(timed)], |_| {})?;
    let books = &run.report.books;
    let mut reasons = Vec::new();
    if !books.is_balanced() || books.received.packets != packets as u64 {
        reasons.push("the books do not balance".to_owned());
    }
    if run.records_lost > 0 {
        reasons.push("records were lost".to_owned());
    }
    context.trials.count(&reasons);
    context.trials.example = format!(
        "received {} = in flows {} + in no flow {}",
        books.received.packets,
        books.in_flows.packets,
        books.received.packets - books.in_flows.packets
    );
    let bursts = std::mem::take(&mut *results.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(bursts)
}

pub(super) struct DpdkstatFig12;

pub(super) struct Results {
    flows: u32,
    packets: usize,
    repetitions: usize,
    mean_bytes: f64,
    /// By horizon, the first of which is none.
    horizons: Vec<Measured>,
}

struct Measured {
    name: String,
    /// In bytes.
    horizon: usize,
    /// Packets of one flow in a row, on average.
    run_length: f64,
    /// Time per packet in the port and in the monitor.
    sort_ns: f64,
    monitor_ns: f64,
}

impl Measured {
    fn total_ns(&self) -> f64 {
        self.sort_ns + self.monitor_ns
    }
}

impl Results {
    /// Without sorting.
    fn unsorted(&self) -> &Measured {
        &self.horizons[0]
    }

    /// The horizon with the lowest time.
    fn best(&self, ns: fn(&Measured) -> f64) -> &Measured {
        let sorted = self.horizons.iter().skip(1);
        sorted
            .min_by(|a, b| ns(a).total_cmp(&ns(b)))
            .unwrap_or(self.unsorted())
    }

    /// The monitor's time without sorting as a multiple of its time with the best horizon.
    fn gain(&self) -> f64 {
        self.unsorted().monitor_ns / self.best(|measured| measured.monitor_ns).monitor_ns
    }
}

impl Experiment for DpdkstatFig12 {
    type Results = Results;

    const NAME: &'static str = "dpdkstat-fig12";
    const TITLE: &'static str = "Sorting by flow before processing";
    const SOURCE: &'static str = "DPDKStat, figure 12";

    fn instrument() -> String {
        "Timestamp counter around each burst: the engine reads a buffer of traffic to its end, on one thread, sorted by \
         flow within the horizon (`--sort-buffer`). The time of the port (sorting, and the lookup of the next frames) \
         and that of the monitor are measured separately. The bursts are the same in each trial; the minimum of each \
         over the trials counts, which excludes disturbances by the machine."
            .into()
    }

    fn measure(context: &mut Context<'_>) -> Result<Results, TrialError> {
        let flows: u32 = context.pick(1 << 16, 1 << 18);
        let packets = context.pick(1 << 19, 3 << 20);
        let repetitions = context.repetitions(5, 11);
        let options = traffic(flows, context.seed())?;
        let mean_bytes = (64.0 * 4.0 + 300.0 * 2.0 + 1000.0 + 1518.0 * 4.0) / 11.0;
        let bytes = (packets as f64 * mean_bytes) as usize;
        let horizons = horizons(context, bytes);
        let monitor = Monitor::counting(flows as usize + flows as usize / 8)
            .with_flow(FlowDefinition::Bidirectional)
            .with_statistics("tcp", Estimator::LogLinear)
            .map_err(TrialError::missing)?;
        let mut lengths = Vec::new();
        for (name, horizon) in &horizons {
            context.progress(&format!("runs, {name}"));
            let port = fill_buffer(&options, packets, bytes, *horizon)?;
            lengths.push(run_length(port)?);
        }
        let mut trials = vec![Vec::with_capacity(repetitions); horizons.len()];
        for repetition in 0..repetitions {
            for index in abba(horizons.len(), repetition) {
                let (name, horizon) = &horizons[index];
                context.progress(&format!("cost, {name}"));
                let port = fill_buffer(&options, packets, bytes, *horizon)?;
                trials[index].push(trial(context, port, &monitor, packets)?);
            }
        }
        let measured = horizons.into_iter().zip(lengths).zip(&trials);
        Ok(Results {
            flows,
            packets,
            repetitions,
            mean_bytes,
            horizons: measured
                .map(|(((name, horizon), run_length), trials)| {
                    let [sort_ns, monitor_ns] = minimum(trials, packets);
                    Measured {
                        name,
                        horizon,
                        run_length,
                        sort_ns,
                        monitor_ns,
                    }
                })
                .collect(),
        })
    }

    fn parameters(results: &Results) -> Vec<(String, String)> {
        vec![
            parameter(
                "flows",
                format!("{}, Zipf(0.9), TCP and UDP", results.flows),
            ),
            parameter("packets", results.packets),
            parameter("mean frame", format!("{:.0} B", results.mean_bytes)),
            parameter("statistics", "tcp"),
            parameter("trials", results.repetitions),
        ]
    }

    fn judge(results: &Results) -> Vec<Finding> {
        let unsorted = results.unsorted();
        let alone = results.best(|measured| measured.monitor_ns);
        let total = results.best(Measured::total_ns);
        let pays = total.total_ns() < unsorted.total_ns();
        vec![Finding::new(
            "Packets sorted by flow before they are processed are processed faster, from a horizon of 50 MB on; the \
             paper sorted its traces beforehand and left the cost of sorting to further work.",
            [
                Part::compared(
                    "Sorted packets are processed faster.",
                    results.gain() > CLEAR_GAIN,
                    format!(
                        "With sorted packets the monitor alone takes {:.0} instead of {:.0} ns per packet ({}).",
                        alone.monitor_ns, unsorted.monitor_ns, alone.name
                    ),
                ),
                Part::compared(
                    "Sorting pays, its own cost included (left open by the paper).",
                    pays,
                    format!(
                        "Sorting and monitor together take {:.2} times the time without sorting, at the best horizon \
                         ({}).",
                        total.total_ns() / unsorted.total_ns(),
                        total.name
                    ),
                ),
            ],
        )]
    }

    fn compare(results: &Results) -> Vec<Comparison> {
        let alone = results.best(|measured| measured.monitor_ns);
        vec![Comparison::new(
            "monitor alone, best horizon against none",
            "a gain from 50 MB on, most at about 1 GB, less when all is sorted",
            format!("{:.2} times faster, with {}", results.gain(), alone.name),
        )]
    }

    fn tabulate(results: &Results) -> Vec<Table> {
        let mut table = Table::new(
            "horizons",
            "Runs of packets of one flow, and the cost of a packet, by the horizon within which packets are sorted",
            &[
                "horizon",
                "packets within it",
                "packets of a flow in a row",
                "monitor, ns per packet",
                "buffer and sorting, ns per packet",
                "both, ns per packet",
                "both, times those without sorting",
            ],
        );
        for measured in &results.horizons {
            table.row(vec![
                measured.name.as_str().into(),
                (measured.horizon as f64 / results.mean_bytes)
                    .round()
                    .into(),
                measured.run_length.into(),
                measured.monitor_ns.into(),
                measured.sort_ns.into(),
                measured.total_ns().into(),
                (measured.total_ns() / results.unsorted().total_ns()).into(),
            ]);
        }
        vec![table]
    }

    fn draw(results: &Results) -> Vec<Figure> {
        let names = || {
            let names = results.horizons.iter().map(|measured| &measured.name);
            Axis::names("horizon", names)
        };
        let points = |value: fn(&Measured) -> f64| {
            let horizons = results.horizons.iter().enumerate();
            horizons
                .map(|(index, measured)| Point::new(index as f64, value(measured)))
                .collect()
        };
        vec![
            Figure::new(
                "costs",
                "Cost of a packet by the horizon within which packets are sorted by flow.",
                names(),
                Axis::linear("ns per packet").from_zero(),
            )
            .with(Series::bars(
                "monitor alone",
                points(|measured| measured.monitor_ns),
            ))
            .with(Series::bars("with sorting", points(Measured::total_ns))),
            Figure::new(
                "runs",
                "Packets of one flow in a row, on average, by the horizon.",
                names(),
                Axis::log10("packets in a row"),
            )
            .with(Series::bars("", points(|measured| measured.run_length))),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wider_horizons_make_longer_runs_and_lose_no_packet() {
        const PACKETS: usize = 20_000;
        let options = traffic(500, 1).unwrap();
        let bytes = PACKETS * 800;
        let lengths: Vec<f64> = [0, 300_000, 3_000_000, bytes]
            .into_iter()
            .map(|horizon| {
                run_length(fill_buffer(&options, PACKETS, bytes, horizon).unwrap()).unwrap()
            })
            .collect();
        assert!(lengths.is_sorted() && lengths[0] < 1.2, "{lengths:?}");
        // Sorted completely, each flow is one run.
        assert!(lengths[3] >= PACKETS as f64 / 500.0, "{lengths:?}");
        let extent = crate::experiments::context::Extent {
            full: false,
            seed: 1,
            repetitions: None,
            command: String::new(),
        };
        let mut progress = |_: &str| {};
        let mut context = Context::new(&extent, &mut progress);
        let port = fill_buffer(&options, PACKETS, bytes, 300_000).unwrap();
        let monitor = Monitor::counting(1000).with_flow(FlowDefinition::Bidirectional);
        let bursts = trial(&mut context, port, &monitor, PACKETS).unwrap();
        assert!(bursts.len() >= PACKETS / 256 && bursts.iter().all(|burst| burst[1] > 0));
        assert_eq!((context.trials.valid, context.trials.invalid), (1, 0));
    }

    #[test]
    fn minimum_of_each_burst_counts() {
        let ticks = |ns: u64| TickRate::get().to_ticks(ns);
        let of = |times: [[u64; 2]; 2]| times.map(|times| times.map(ticks)).to_vec();
        let trials = [
            of([[1000, 90_000], [2000, 8000]]),
            of([[70_000, 4000], [2000, 6000]]),
        ];
        let [within, between] = minimum(&trials, 10);
        assert!((within - 300.0).abs() < 2.0 && (between - 1000.0).abs() < 2.0);
    }
}
