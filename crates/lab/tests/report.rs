//! Result files and the page: results are read back as written, and every kind of figure is drawn.
#![allow(clippy::unwrap_used, reason = "a failing test shows the line")]

use lab::experiments::{self, Extent};
use lab::outcome::{Finding, Part};
use lab::plot::{self, Axis, Figure, Point, Series};
use lab::{report, results};

fn extent() -> Extent {
    Extent {
        full: false,
        seed: 3,
        repetitions: Some(1),
        command: "a <test> & more".into(),
    }
}

#[test]
fn results_are_read_back_as_written() {
    let directory = tempfile::tempdir().unwrap();
    let experiment = experiments::find("fig6a").unwrap();
    let outcome = experiment.run(&extent(), &mut |_| {}).unwrap();
    let files = results::write(directory.path(), &outcome).unwrap();
    assert!(files.iter().all(|file| file.exists()));
    let back = results::read(directory.path()).unwrap();
    assert_eq!(back.len(), 1);
    assert_eq!(back[0].findings, outcome.findings);
    assert_eq!(back[0].provenance, outcome.provenance);
    let page = report::html(&back).unwrap();
    assert!(page.contains("a &lt;test&gt; &amp; more") && !page.contains("<test>"));
}

#[test]
fn page_has_a_verdict_for_each_part() {
    let experiment = experiments::find("fig6a").unwrap();
    let mut outcome = experiment.run(&extent(), &mut |_| {}).unwrap();
    outcome.findings = vec![Finding::new(
        "A is fast and B is slow.",
        [
            Part::compared("A is fast.", true, "It took 1 ns."),
            Part::compared("B is slow.", false, "It took 2 ns."),
            Part::not_compared("C exists.", "There is no C."),
        ],
    )];
    let page = report::html(&[outcome]).unwrap();
    let row = |claim: &str, class: &str, verdict: &str| {
        format!("<td>{claim}</td><td><span class=\"mark {class}\">{verdict}</span></td>")
    };
    assert!(page.contains(&row("A is fast.", "yes", "holds")));
    assert!(page.contains(&row("B is slow.", "no", "does not hold")));
    assert!(page.contains(&row("C exists.", "unknown", "not compared")));
    assert!(page.contains("rowspan=\"3\"") && page.contains("There is no C."));
}

#[test]
fn every_experiment_has_a_name_for_files() {
    for experiment in experiments::ALL {
        let is_safe = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        assert!(experiment.name.chars().all(is_safe), "{}", experiment.name);
        assert!(!experiment.source.is_empty());
    }
}

#[test]
fn rejects_a_file_of_another_version_by_name() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("gate.json"), "{\"name\": 5}").unwrap();
    let error = results::read(directory.path()).unwrap_err().to_string();
    assert!(
        error.contains("gate.json") && error.contains("run the experiment again"),
        "{error}"
    );
}

#[test]
fn draws_every_kind_of_figure_with_any_values() {
    let points = |values: &[(f64, f64)]| -> Vec<Point> {
        values.iter().map(|&(x, y)| Point::new(x, y)).collect()
    };
    let odd = [
        (1.0, 0.0),
        (2.0, f64::NAN),
        (4.0, 1e-9),
        (8.0, f64::INFINITY),
        (16.0, 3e5),
    ];
    for x in [
        Axis::linear("x"),
        Axis::log2("x"),
        Axis::log10("x"),
        Axis::names("x", ["a", "b"]),
    ] {
        for y in [
            Axis::linear("y").from_zero(),
            Axis::log10("y").within(1e-8, 1.0),
        ] {
            for values in [&odd[..], &[], &[(1.0, 5.0)]] {
                let figure = Figure::new("f", "", x.clone(), y.clone())
                    .with(Series::line("line", points(values)))
                    .with(Series::bars("bars", points(values)))
                    .with(Series::curve("curve <&>", points(values)))
                    .with(Series::line("bounds", vec![Point::ratio(1.0, 0, 1000)]))
                    .horizontal("level", 2.0)
                    .vertical("upright", 3.0);
                let svg = plot::svg(&figure).unwrap();
                assert!(svg.contains("</svg>") && svg.contains("curve &lt;&amp;&gt;"));
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }
}

#[test]
fn experiment_names_are_unique() {
    for (index, experiment) in experiments::ALL.iter().enumerate() {
        let found = experiments::find(experiment.name).unwrap();
        assert_eq!(found.title, experiment.title);
        let earlier = &experiments::ALL[..index];
        assert!(earlier.iter().all(|other| other.name != experiment.name));
    }
}

#[test]
fn figures_keep_nan_points_in_files() {
    let figure = Figure::new(
        "f",
        "",
        Axis::linear("x").within(f64::NAN, 2.0),
        Axis::log10("y"),
    )
    .with(Series::line(
        "s",
        vec![Point::new(1.0, f64::NAN), Point::new(2.0, 3.0)],
    ));
    let text = serde_json::to_string(&figure).unwrap();
    let back: Figure = serde_json::from_str(&text).unwrap();
    assert_eq!((back.x.least, back.x.most), (None, Some(2.0)));
    assert!(back.series[0].points[0].y.is_nan());
    assert_eq!(back.series[0].points[1], Point::new(2.0, 3.0));
}
