//! DPDKStat, figure 12: packets of one flow brought together before they are processed.

use super::Experiment;
use super::context::{Context, outcome};
use super::mix::CAMPUS;
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Finding, Holds, Outcome, Table};
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

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "dpdkstat-fig12",
    title: "Sorting by flow before processing",
    source: "DPDKStat, figure 12",
    run,
};

/// Packets a second, by which the frames are stamped: 40 Gbit/s of 716 B.
const RATE: f64 = 6.8e6;

/// Within how many bytes frames are sorted: not at all, some, and all that there are.
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

/// A buffer full of traffic: `packets` frames, of which those of TCP follow one another in sequence.
fn filled(
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
        // Blocks have room that frames do not fill, and what is sorted is at most half of them.
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
            return Err(TrialError::missing(
                "the buffer has no room for the traffic",
            ));
        }
        writer.end_batch(false);
        sink.submit(filled).map_err(TrialError::missing)?;
        number += filled;
    }
    Ok(reader)
}

/// Ticks of each burst: within the port, and between its call and the next.
type Spent = Vec<[u64; 2]>;

/// A port that takes the time of its calls.
struct Timed {
    port: BufferPort,
    left_at: u64,
    spent: Spent,
    told: Arc<Mutex<Spent>>,
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
        if let Some([_, between]) = self.spent.last_mut() {
            *between += entered.saturating_sub(self.left_at);
        }
        self.left_at = left;
        match received {
            Received::Burst(_) => self.spent.push([left.saturating_sub(entered), 0]),
            _ => {
                let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                told.append(&mut self.spent);
            }
        }
        Ok(received)
    }
}

/// Nanoseconds a packet, in the port and between its calls: of each burst the least over trials that
/// were alike, so that what the machine did to one of them does not count.
fn least(trials: &[Spent], packets: usize) -> [f64; 2] {
    let bursts = trials.iter().map(Vec::len).min().unwrap_or(0);
    let rate = TickRate::get();
    [0, 1].map(|which| {
        let least = |burst: usize| trials.iter().map(|trial| trial[burst][which]).min();
        let ticks: u64 = (0..bursts).filter_map(least).sum();
        rate.to_ns(ticks) as f64 / packets as f64
    })
}

/// Packets of one flow in a row, on average.
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

/// Times of each burst of a trial.
fn trial(
    context: &mut Context<'_>,
    port: BufferPort,
    monitor: &Monitor,
    packets: usize,
) -> Result<Spent, TrialError> {
    let told = Arc::<Mutex<Spent>>::default();
    let timed = Timed {
        port,
        left_at: 0,
        spent: Spent::new(),
        told: Arc::clone(&told),
    };
    let watched = monitor.watch(vec![Box::new(timed)], |_| {})?;
    let books = &watched.report.books;
    let mut against = Vec::new();
    if !books.is_balanced() || books.received.packets != packets as u64 {
        against.push("the books do not balance".to_owned());
    }
    if watched.records_lost > 0 {
        against.push("records were lost".to_owned());
    }
    context.trials.count(&against);
    context.trials.example = format!(
        "received {} = in flows {} + in no flow {}",
        books.received.packets,
        books.in_flows.packets,
        books.received.packets - books.in_flows.packets
    );
    let spent = std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(spent)
}

fn run(context: &mut Context<'_>) -> Result<Outcome, TrialError> {
    let mut outcome = outcome(
        &EXPERIMENT,
        "Time-stamp counter, around each burst: a buffer full of traffic is read to its end by the engine, on one \
         thread, sorted by flow within the horizon (`--sort-buffer`). What the port takes (sorting, and looking up \
         where the next frames lie) and what the monitor takes are told apart. The bursts are the same in each trial; of \
         each the least of its times over the trials counts, which is free of what the machine did.",
    );
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
        context.say(&format!("runs, {name}"));
        lengths.push(run_length(filled(&options, packets, bytes, *horizon)?)?);
    }
    let mut trials = vec![Vec::with_capacity(repetitions); horizons.len()];
    for repetition in 0..repetitions {
        for place in abba(horizons.len(), repetition) {
            let (name, horizon) = &horizons[place];
            context.say(&format!("cost, {name}"));
            let port = filled(&options, packets, bytes, *horizon)?;
            trials[place].push(trial(context, port, &monitor, packets)?);
        }
    }
    let costs: Vec<[f64; 2]> = trials.iter().map(|it| least(it, packets)).collect();
    let mut table = Table::new(
        "horizons",
        "What sorting within a horizon does to runs of packets of one flow, and to the cost of a packet",
        &[
            "horizon",
            "packets within it",
            "packets of a flow in a row",
            "monitor, ns a packet",
            "buffer and sorting, ns a packet",
            "both, ns a packet",
            "both, times those without sorting",
        ],
    );
    let names = || Axis::names("horizon", horizons.iter().map(|(name, _)| name));
    let [mut monitoring, mut both, mut runs] = [Vec::new(), Vec::new(), Vec::new()];
    let none_ns = costs[0][0] + costs[0][1];
    for (place, (name, horizon)) in horizons.iter().enumerate() {
        let [sort_ns, monitor_ns] = costs[place];
        let x = place as f64;
        monitoring.push(Point::new(x, monitor_ns));
        both.push(Point::new(x, sort_ns + monitor_ns));
        runs.push(Point::new(x, lengths[place]));
        table.row(vec![
            name.as_str().into(),
            (*horizon as f64 / mean_bytes).round().into(),
            lengths[place].into(),
            monitor_ns.into(),
            sort_ns.into(),
            (sort_ns + monitor_ns).into(),
            ((sort_ns + monitor_ns) / none_ns).into(),
        ]);
    }
    outcome.tables.push(table);
    outcome.figures.push(
        Figure::new(
            "costs",
            "Cost of a packet by the horizon within which packets are sorted by flow.",
            names(),
            Axis::linear("ns a packet").from_zero(),
        )
        .with(Series::bars("monitor alone", monitoring.clone()))
        .with(Series::bars("with sorting", both.clone())),
    );
    outcome.figures.push(
        Figure::new(
            "runs",
            "Packets of one flow in a row, on average, by the horizon.",
            names(),
            Axis::log10("packets in a row"),
        )
        .with(Series::bars("", runs)),
    );
    let lowest = |points: &[Point]| {
        points
            .iter()
            .skip(1)
            .min_by(|a, b| a.y.total_cmp(&b.y))
            .map_or((0, f64::NAN), |point| (point.x as usize, point.y))
    };
    let (best_alone, alone_ns) = lowest(&monitoring);
    let (best_both, both_ns) = lowest(&both);
    let gain = monitoring[0].y / alone_ns;
    outcome.comparisons.push(Comparison {
        what: "monitor alone, best horizon against none".into(),
        paper: "a gain from 50 MB on, most at about 1 GB, less when all is sorted".into(),
        here: format!("{gain:.2} times faster, with {}", horizons[best_alone].0),
    });
    let pays = both_ns < none_ns;
    outcome.findings.push(Finding {
        paper: "Packets sorted by flow before they are processed are processed faster, from a horizon of 50 MB on; the \
                paper sorted its traces beforehand and left the cost of sorting to further work."
            .into(),
        holds: match (gain > 1.05, pays) {
            (true, true) => Holds::Yes,
            (true, false) => Holds::Partly,
            (false, _) => Holds::No,
        },
        because: format!(
            "Sorted, the monitor alone takes {alone_ns:.0} instead of {:.0} ns a packet ({}). With the sorting that \
             is {:.2} times the time without, at the best horizon ({}): it {}.",
            monitoring[0].y,
            horizons[best_alone].0,
            both_ns / none_ns,
            horizons[best_both].0,
            if pays { "pays" } else { "does not pay" }
        ),
    });
    outcome.settings = vec![
        ("flows".into(), format!("{flows}, Zipf(0.9), TCP and UDP")),
        ("packets".into(), packets.to_string()),
        ("mean frame".into(), format!("{mean_bytes:.0} B")),
        ("statistics".into(), "tcp".into()),
        ("trials".into(), repetitions.to_string()),
    ];
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wider_horizon_makes_longer_runs_and_loses_no_packet() {
        const PACKETS: usize = 20_000;
        let options = traffic(500, 1).unwrap();
        let bytes = PACKETS * 800;
        let lengths: Vec<f64> = [0, 300_000, 3_000_000, bytes]
            .into_iter()
            .map(|horizon| run_length(filled(&options, PACKETS, bytes, horizon).unwrap()).unwrap())
            .collect();
        assert!(lengths.is_sorted() && lengths[0] < 1.2, "{lengths:?}");
        // Sorted as a whole, each flow that has a packet is one run.
        assert!(lengths[3] >= PACKETS as f64 / 500.0, "{lengths:?}");
        let extent = super::super::Extent {
            full: false,
            seed: 1,
            repetitions: None,
            command: String::new(),
        };
        let mut say = |_: &str| {};
        let mut context = Context::new(&extent, &mut say);
        let port = filled(&options, PACKETS, bytes, 300_000).unwrap();
        let monitor = Monitor::counting(1000).with_flow(FlowDefinition::Bidirectional);
        let spent = trial(&mut context, port, &monitor, PACKETS).unwrap();
        assert!(spent.len() >= PACKETS / 256 && spent.iter().all(|burst| burst[1] > 0));
        assert_eq!((context.trials.valid, context.trials.invalid), (1, 0));
    }

    #[test]
    fn the_least_of_each_burst_counts() {
        let ticks = |ns: u64| TickRate::get().to_ticks(ns);
        let of = |times: [[u64; 2]; 2]| times.map(|times| times.map(ticks)).to_vec();
        let trials = [
            of([[1000, 90_000], [2000, 8000]]),
            of([[70_000, 4000], [2000, 6000]]),
        ];
        let [within, between] = least(&trials, 10);
        assert!((within - 300.0).abs() < 2.0 && (between - 1000.0).abs() < 2.0);
    }
}
