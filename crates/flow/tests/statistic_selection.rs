//! The list of statistics on the command line, and its columns.

use flow::Outputs;
use flow::statistic::{Estimator, Selection, SelectionError, Value};
use hw::lines::Rows;

fn parse(list: &str) -> Result<Selection, SelectionError> {
    Selection::parse(list, Estimator::default())
}

fn columns(list: &str, estimator: Estimator) -> Vec<String> {
    let selection = Selection::parse(list, estimator).expect("a good list");
    let statistics = selection.build(&mut Rows::try_separate(1, 2).expect("memory"));
    let columns = statistics
        .iter()
        .flat_map(|(_, statistic)| statistic.columns());
    let mut values = Vec::new();
    for (_, statistic) in &statistics {
        statistic.summarise(0, f64::NAN, &mut values);
    }
    let mut names: Vec<String> = columns.map(|column| column.name).collect();
    assert_eq!(values.len(), names.len());
    if selection.gap_mean {
        names.insert(0, "gapMean".to_owned());
    }
    let selected = selection.columns().into_iter().map(|column| column.name);
    assert!(selected.eq(names.iter().cloned()));
    assert!(values.iter().all(|value| value.is_nan()));
    names
}

#[test]
fn count_adds_no_column() {
    assert_eq!(parse("count").unwrap(), Selection::default());
    assert!(columns("count", Estimator::LogLinear).is_empty());
}

#[test]
fn moments_selects_the_moments_of_all_values() {
    let all = parse("count,moments").unwrap();
    assert_eq!(all.moments, Value::ALL);
    assert_eq!(parse("size, iat,gap,moments").unwrap(), all);
    assert_eq!(
        columns("moments", Estimator::LogLinear),
        [
            "minimumLayer2TotalLength",
            "sizeMeanBytes",
            "sizeStandardDeviationBytes",
            "maximumLayer2TotalLength",
            "interArrivalTimeMinimumSeconds",
            "interArrivalTimeMeanSeconds",
            "interArrivalTimeStandardDeviationSeconds",
            "interArrivalTimeMaximumSeconds",
            "gapMinimum",
            "gapMean",
            "gapStandardDeviation",
            "gapMaximum",
        ]
    );
}

#[test]
fn the_mean_gap_needs_no_state_and_has_one_column() {
    let list = "gap-percentile=99,gap-mean";
    assert_eq!(
        columns(list, Estimator::LogLinear),
        ["gapMean", "gapPercentile99"]
    );
    assert_eq!(parse("gap,gap-mean"), parse("gap"));
    assert_eq!(parse("gap-mean,moments"), parse("moments"));
}

#[test]
fn percentiles_have_the_same_columns_with_either_estimator() {
    for estimator in Estimator::ALL {
        assert_eq!(
            columns(
                "size-percentile=50,iat-percentile=95,gap-percentile=50/99/99.9/50",
                estimator
            ),
            [
                "sizePercentile50Bytes",
                "interArrivalTimePercentile95Seconds",
                "gapPercentile50",
                "gapPercentile99",
                "gapPercentile99_9",
            ]
        );
        assert_eq!(
            columns(
                "gap-percentile=99,size-percentile=50,gap-percentile=50",
                estimator
            ),
            [
                "gapPercentile99",
                "gapPercentile50",
                "sizePercentile50Bytes"
            ]
        );
    }
}

#[test]
fn a_histogram_serves_all_percentiles_of_a_value_and_p_square_only_one() {
    let list = "gap-percentile=50/99";
    let statistics = |estimator| {
        Selection::parse(list, estimator)
            .unwrap()
            .build(&mut Rows::try_separate(4, 2).unwrap())
            .len()
    };
    assert_eq!(
        (
            statistics(Estimator::LogLinear),
            statistics(Estimator::PSquare)
        ),
        (1, 2)
    );
    let selection = parse(list).unwrap();
    assert!(
        selection
            .build(&mut Rows::try_separate(4, 2).unwrap())
            .iter()
            .all(|(value, each)| { *value == Value::Gap && each.bytes_per_flow() == 64 })
    );
}

#[test]
fn only_times_and_gaps_need_the_previous_packet() {
    let outputs = |gaps, inter_arrival| Outputs {
        numbers: false,
        gaps,
        inter_arrival,
    };
    let numbers = Outputs {
        numbers: true,
        ..Outputs::default()
    };
    for (list, expected) in [
        ("count", outputs(false, false)),
        ("size,gap-mean", numbers),
        ("size-percentile=50", outputs(false, false)),
        ("iat", outputs(false, true)),
        ("iat-percentile=50,size", outputs(false, true)),
        ("gap-percentile=99", outputs(true, false)),
        ("gap,iat-percentile=50", outputs(true, true)),
    ] {
        let selection = parse(list).unwrap();
        assert_eq!(selection.table_outputs(), expected, "{list}");
        assert_eq!(selection.needs_gaps(), list.contains("gap"), "{list}");
    }
}

#[test]
fn errors_name_the_invalid_part_and_the_valid_ones() {
    for (list, wrong) in [
        ("gaps", "`gaps`"),
        ("count,", "``"),
        ("tls", "`tls`"),
        ("rtt-percentile=5", "`rtt-percentile=5`"),
        ("gap=5", "`gap=5`"),
        ("gap-percentile", "`gap-percentile`"),
        ("gap-percentile=", "``"),
        ("gap-percentile=50/", "``"),
        ("gap-percentile=101", "`101`"),
        ("gap-percentile=-1", "`-1`"),
        ("gap-percentile=nan", "`nan`"),
        ("gap-percentile=1e1", "`1e1`"),
    ] {
        let error = parse(list).unwrap_err().to_string();
        assert!(
            error.contains(wrong) && error.contains("gap-percentile="),
            "{list}: {error}"
        );
    }
    assert_eq!("psquare".parse(), Ok(Estimator::PSquare));
    let error = "t-digest".parse::<Estimator>().unwrap_err().to_string();
    assert!(error.contains("log-linear or psquare"), "{error}");
}
