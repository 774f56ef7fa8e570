//! The list of statistics on the command line, and the columns that it leads to.

use flow::Wanted;
use flow::statistic::{Estimator, Selection, SelectionError, Value};
use hw::lines::Rows;

fn parse(list: &str) -> Result<Selection, SelectionError> {
    Selection::parse(list, Estimator::default())
}

fn columns(list: &str, estimator: Estimator) -> Vec<String> {
    let selection = Selection::parse(list, estimator).expect("a good list");
    let statistics = selection.build(&mut Rows::try_apart(1, 2).expect("memory"));
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
    let told = selection.columns().into_iter().map(|column| column.name);
    assert!(told.eq(names.iter().cloned()));
    assert!(values.iter().all(|value| value.is_nan()));
    names
}

#[test]
fn counting_needs_no_column() {
    assert_eq!(parse("count").unwrap(), Selection::default());
    assert!(columns("count", Estimator::LogLinear).is_empty());
}

#[test]
fn moments_are_those_of_all_values() {
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
fn the_mean_of_the_gap_costs_no_state_and_is_told_once() {
    let list = "gap-percentile=99,gap-mean";
    assert_eq!(
        columns(list, Estimator::LogLinear),
        ["gapMean", "gapPercentile99"]
    );
    assert_eq!(parse("gap,gap-mean"), parse("gap"));
    assert_eq!(parse("gap-mean,moments"), parse("moments"));
}

#[test]
fn percentiles_have_the_same_columns_by_either_estimator() {
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
fn one_histogram_serves_all_percentiles_of_a_value_and_p_square_one() {
    let list = "gap-percentile=50/99";
    let arrays = |estimator| {
        Selection::parse(list, estimator)
            .unwrap()
            .build(&mut Rows::try_apart(4, 2).unwrap())
            .len()
    };
    assert_eq!(
        (arrays(Estimator::LogLinear), arrays(Estimator::PSquare)),
        (1, 2)
    );
    let selection = parse(list).unwrap();
    assert!(
        selection
            .build(&mut Rows::try_apart(4, 2).unwrap())
            .iter()
            .all(|(value, each)| { *value == Value::Gap && each.bytes_per_flow() == 64 })
    );
}

#[test]
fn only_times_and_gaps_ask_for_the_previous_packet() {
    let wanted = |gaps, inter_arrival| Wanted {
        numbers: false,
        gaps,
        inter_arrival,
    };
    let numbers = Wanted {
        numbers: true,
        ..Wanted::default()
    };
    for (list, expected) in [
        ("count", wanted(false, false)),
        ("size,gap-mean", numbers),
        ("size-percentile=50", wanted(false, false)),
        ("iat", wanted(false, true)),
        ("iat-percentile=50,size", wanted(false, true)),
        ("gap-percentile=99", wanted(true, false)),
        ("gap,iat-percentile=50", wanted(true, true)),
    ] {
        let selection = parse(list).unwrap();
        assert_eq!(selection.wanted(), expected, "{list}");
        assert_eq!(selection.tells_gaps(), list.contains("gap"), "{list}");
    }
}

#[test]
fn what_is_wrong_is_named_with_what_there_is() {
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
    assert!(error.contains("log-linear and psquare"), "{error}");
}
