//! Both programming models against each other: the same packets give the same records and the same
//! books, whatever the number of threads.

use engine::{Books, Input, Model, Options, Progress, Stop};
use flow::{MeterOptions, Record, Timeouts};
use port::{MemoryPort, Port};
use proptest::prelude::*;
use std::time::Duration;
use wire::{Decapsulate, LinkType};

/// A UDP frame between two small hosts; every ninth is ARP, which has no flow.
fn frame(flow: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(if flow.is_multiple_of(9) {
        &[0x08, 0x06]
    } else {
        &[0x08, 0x00]
    });
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&46u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..34].copy_from_slice(&[10, 0, 0, flow, 10, 0, 1, flow / 4]);
    frame[34..40].copy_from_slice(&[0x10, flow, 0, 53, 0, 26]);
    frame
}

fn run(
    packets: &[(u8, i64)],
    model: Model,
    ports: usize,
    monitors: usize,
    timeouts: Timeouts,
) -> (Vec<Record>, Books) {
    let frames: Vec<_> = packets.iter().map(|&(flow, _)| frame(flow)).collect();
    let memory = MemoryPort::new(
        LinkType::Ethernet,
        frames
            .iter()
            .zip(packets)
            .map(|(bytes, &(_, time_ns))| (time_ns, 64, bytes)),
    );
    let options = Options {
        model,
        meter: MeterOptions {
            flows_max: 1000,
            seed: 4,
            timeouts,
            ..MeterOptions::default()
        },
        decapsulate: Decapsulate::No,
        cores: Vec::new(),
        monitors,
        ring: 512,
        stop: Stop::default(),
    };
    let meters = engine::meters(&options, ports).expect("memory");
    let threads = options.threads(ports);
    let (records, returned) = engine::channel(threads, true);
    let input = Input {
        ports: (0..ports)
            .map(|_| Box::new(memory.clone()) as Box<dyn Port>)
            .collect(),
        same_packets: ports > 1,
        live: false,
    };
    let collector = std::thread::spawn(move || {
        let mut all = Vec::new();
        while let Ok(Some(batch)) = returned.next_within(Duration::from_secs(60)) {
            all.extend_from_slice(&batch.records);
        }
        all
    });
    let report =
        engine::run(&options, input, meters, &records, &Progress::new(threads)).expect("a run");
    drop(records);
    let mut records = collector.join().expect("a collector");
    records.sort_by_key(|record| (record.start_ns, record.key));
    assert!(report.books.balance());
    assert_eq!(report.flows.records, records.len() as u64);
    (records, report.books)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn every_number_of_threads_gives_the_same_records(
        steps in prop::collection::vec((any::<u8>(), prop_oneof![9 => 0i64..3_000_000, 1 => -20_000_000_000i64..20_000_000_000]), 1..1500),
        idle_ms in prop::option::of(1u64..2000),
    ) {
        let mut now_ns = 1_700_000_000_000_000_000;
        let packets: Vec<(u8, i64)> = steps
            .into_iter()
            .map(|(flow, step)| {
                now_ns += step;
                (flow, now_ns)
            })
            .collect();
        let timeouts = Timeouts { idle: idle_ms.map(Duration::from_millis), ..Timeouts::default() };
        let one = run(&packets, Model::RunToCompletion, 1, 1, timeouts);
        prop_assert_eq!(one.1.received.packets, packets.len() as u64);
        for (model, ports, monitors) in [
            (Model::RunToCompletion, 2, 1),
            (Model::RunToCompletion, 3, 1),
            (Model::Pipeline, 1, 1),
            (Model::Pipeline, 1, 3),
        ] {
            prop_assert_eq!(&run(&packets, model, ports, monitors, timeouts), &one, "{:?} {} {}", model, ports, monitors);
        }
    }

    /// Clocks that jump by years, back and forth: three flows over months.
    #[test]
    fn jumps_of_the_clock_end_flows_alike_in_every_model(jumps in prop::collection::vec(any::<i32>(), 1..700)) {
        let mut now_ns = 0i64;
        let packets: Vec<(u8, i64)> = jumps
            .into_iter()
            .map(|jump| {
                now_ns = now_ns.saturating_add(i64::from(jump) * 40_000_000);
                (1 + (jump & 3) as u8, now_ns)
            })
            .collect();
        let one = run(&packets, Model::RunToCompletion, 1, 1, Timeouts::default());
        prop_assert_eq!(&run(&packets, Model::RunToCompletion, 3, 1, Timeouts::default()), &one);
        prop_assert_eq!(&run(&packets, Model::Pipeline, 1, 4, Timeouts::default()), &one);
    }
}
