//! The round-robin oracle: if the packets of N flows arrive in turn, every gap is N - 1. So are the
//! minimum, mean, maximum and every percentile, for both estimators, all models and all batch sizes.

use crate::runs;
use engine::{Model, Options};
use flow::statistic::{Estimator, Selection};
use flow::{MeterOptions, TableKind};
use port::{MemoryPort, Port};
use proptest::prelude::*;
use std::sync::Arc;
use wire::LinkType;

const STATISTICS: &str = "gap,gap-percentile=1/50/99";

fn frame(flow: u32) -> Vec<u8> {
    let mut frame = runs::frame(1);
    frame[26..30].copy_from_slice(&flow.to_be_bytes());
    frame
}

fn round_robin(flows: u32, rounds: u32) -> MemoryPort {
    let packets = (0..rounds).flat_map(|_| 0..flows).zip(1_000_000i64..);
    MemoryPort::new(
        LinkType::Ethernet,
        packets.map(|(flow, time_ns)| (time_ns, 64, frame(flow))),
    )
}

fn options(estimator: Estimator, model: Model, monitors: usize, table: TableKind) -> Options {
    options_for(STATISTICS, estimator, model, monitors, table)
}

fn options_for(
    statistics: &str,
    estimator: Estimator,
    model: Model,
    monitors: usize,
    table: TableKind,
) -> Options {
    Options {
        model,
        monitors,
        ring: 512,
        meter: MeterOptions {
            flows_max: 10_000,
            table,
            statistics: Selection::parse(statistics, estimator).unwrap(),
            ..MeterOptions::default()
        },
        ..Options::default()
    }
}

/// Asserts that every column is `gap`, except for the standard deviation, which is 0.
#[track_caller]
fn assert_gaps(result: &runs::RunResult, options: &Options, flows: usize, gap: f64) {
    let columns = options.meter.schema().statistics;
    assert_eq!(result.records.len(), flows);
    for row in &result.values {
        for (column, &value) in columns.iter().zip(row) {
            let expected = if column.name.contains("tandardDeviation") {
                0.0
            } else {
                gap
            };
            assert_eq!(value, expected, "{} of {flows} flows", column.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn every_gap_of_n_flows_in_turn_is_n_minus_1(
        flows in prop_oneof![1u32..20, 1u32..1500], rounds in 7u32..20, burst in 1usize..=256,
        psquare: bool, mean_alone: bool,
    ) {
        let statistics = if mean_alone { "gap-mean" } else { STATISTICS };
        let estimator = if psquare { Estimator::PSquare } else { Estimator::LogLinear };
        let memory = round_robin(flows, rounds).with_burst_size(burst);
        for (model, monitors) in [
            (Model::RunToCompletion, 1),
            (Model::SharedReading, 2),
            (Model::Pipeline, 1),
            (Model::Pipeline, 3),
            (Model::Cooperative, 1),
            (Model::Cooperative, 2),
        ] {
            let options = options_for(statistics, estimator, model, monitors, TableKind::Bucket);
            let result = runs::run(&options, vec![Box::new(memory.clone())], false);
            assert_gaps(&result, &options, flows as usize, f64::from(flows - 1));
        }
    }
}

/// Gaps so large that they share a histogram bin with others.
#[test]
fn large_gaps_are_exact_if_all_are_equal() {
    for (flows, rounds) in [(2049, 20), (9000, 30), (4100, 300)] {
        let memory = round_robin(flows, rounds);
        for model in runs::EVERY_MODEL {
            let options = options(Estimator::LogLinear, model, 1, TableKind::Bucket);
            let result = runs::run(&options, vec![Box::new(memory.clone())], false);
            assert_gaps(&result, &options, flows as usize, f64::from(flows - 1));
        }
    }
}

/// Two queues of a link, each with flows in turn.
#[test]
fn gaps_count_the_packets_of_the_queue_or_of_the_link() {
    for model in runs::EVERY_MODEL {
        let queues = || -> Vec<Box<dyn Port>> {
            vec![
                Box::new(round_robin(10, 500)),
                Box::new(round_robin(40, 500)),
            ]
        };
        let mut options = options(Estimator::LogLinear, model, 1, TableKind::Bucket);
        let result = runs::run(&options, queues(), false);
        // Both queues have flows with the same keys, which are separate records.
        assert_eq!(result.records.len(), 50);
        let column = |name: &str| {
            let columns = options.meter.schema().statistics;
            columns
                .iter()
                .position(|column| column.name == name)
                .unwrap()
        };
        let (least, most) = (column("gapMinimum"), column("gapMaximum"));
        for gap in [9.0, 39.0] {
            let expected = gap as usize + 1;
            let exact = |row: &&Vec<f64>| row[least] == gap && row[most] == gap;
            assert_eq!(result.values.iter().filter(exact).count(), expected);
        }
        // Numbered over the link, a gap can only be longer, and is bounded by the packets of both queues.
        options.link_packet_counter = Some(Arc::default());
        let result = runs::run(&options, queues(), false);
        assert_eq!(result.records.len(), 50);
        for row in &result.values {
            assert!(row[least] >= 9.0);
            assert!(row[most] < 25_000.0);
        }
        let mean = column("gapMean");
        let sum: f64 = result.values.iter().map(|row| row[mean]).sum();
        assert!(sum >= 10.0 * 9.0 + 40.0 * 39.0);
    }
}
