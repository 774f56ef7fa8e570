//! The tables in the documentation match the columns in the code.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use analysis::Level;
use export::column::{COLUMNS, IpfixElement};
use export::{ExportOptions, Format, Spec, Target};
use flow::{FlowDefinition, RecordBatch, Schema, statistic};

fn table() -> String {
    let mut table = String::from(
        "| column | IPFIX | type | unit | in runs with | empty if | definition |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for column in COLUMNS {
        let element = match column.element {
            IpfixElement::None => String::new(),
            IpfixElement::Iana(number) => number.to_string(),
            IpfixElement::Reverse(number) => format!("29305/{number}"),
        };
        let cells = [
            &format!("`{}`", column.name),
            element.as_str(),
            column.data_type.name(),
            column.unit,
            column.availability.description(),
            column.empty_when,
            column.definition,
        ];
        table.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    table
}

/// A single test: two tests that update the same page would overwrite each other's changes.
#[test]
fn records_md_matches_the_code() {
    tables::assert_in_page("records.md", "columns", &table());
    tables::assert_in_page("records.md", "statistics", &statistics_table());
}

#[test]
fn records_md_names_the_schema_version() {
    let page = tables::page("records.md");
    let version = format!("schema version **{}**", export::SCHEMA_VERSION);
    assert!(page.contains(&version), "{version}");
}

/// All statistics; percentiles with and without a decimal point.
fn statistics(percentiles: &str) -> Vec<flow::Column> {
    let list = ["size", "iat", "gap"].map(|value| format!("{value}-percentile={percentiles}"));
    let list = format!("moments,{}", list.join(","));
    let selection = statistic::Selection::parse(&list, statistic::Estimator::default());
    selection.unwrap().columns()
}

fn statistics_table() -> String {
    let mut table = String::from(
        "| column | IPFIX | type | unit | chosen by | definition |\n|---|---|---|---|---|---|\n",
    );
    for column in statistics("99") {
        let element = match column.name.as_str() {
            "minimumLayer2TotalLength" => "422",
            "maximumLayer2TotalLength" => "423",
            _ => "",
        };
        let value = match column.unit {
            "bytes" => "size",
            "seconds" => "iat",
            _ => "gap",
        };
        let chosen_by = match column.name.as_str() {
            "gapMean" => "`moments`, `gap`, `gap-mean`".to_owned(),
            name if name.contains("Percentile") => format!("`{value}-percentile=99`"),
            _ => format!("`moments`, `{value}`"),
        };
        let definition = column
            .definition
            .replace("a log-linear histogram", "`--estimator`");
        table.push_str(&format!(
            "| `{}` | {element} | float64 | {} | {chosen_by} | {definition} |\n",
            column.name, column.unit
        ));
    }
    table
}

/// Returns the column names of a file with all optional columns.
fn names_of(flow: FlowDefinition, vlan: bool) -> Vec<String> {
    let schema = Schema {
        flow,
        vlan,
        statistics: statistics("50/99.9"),
        analysis: Some(Level::Full),
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flows.csv");
    let spec = Spec {
        format: Format::Csv,
        target: Target::Path(path.clone()),
        compression: None,
        step_s: None,
    };
    let options = ExportOptions {
        community_id: true,
        ..ExportOptions::default()
    };
    let mut exporter = export::open(&spec, &schema, &options).unwrap();
    exporter.write(&RecordBatch::default()).unwrap();
    exporter.finish().unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let names = text.lines().next().unwrap().split(',');
    names.map(ToOwned::to_owned).collect()
}

/// As the README promises.
#[test]
fn every_column_is_documented() {
    let pages = ["records.md", "analysis.md", "names.md"]
        .map(tables::page)
        .concat();
    for (flow, vlan) in [
        (FlowDefinition::Bidirectional, false),
        (FlowDefinition::Bidirectional, true),
        (FlowDefinition::Rss, false),
    ] {
        let names = names_of(flow, vlan);
        for name in ["gapPercentile99_9", "firstPacketGaps", "namesCut"] {
            assert!(names.iter().any(|other| other == name), "{name}");
        }
        let missing: Vec<&String> = names
            .iter()
            .filter(|name| {
                // The documentation shows one percentile of each value.
                let name = name
                    .replace("99_9", "99")
                    .replace("Percentile50", "Percentile99");
                !pages.contains(&format!("| `{name}` |"))
            })
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

/// The tables of docs/tstat.md.
fn tstat_tables() -> String {
    let mut tables = String::new();
    for (title, columns) in [
        (
            "TCP: `log_tcp_nocomplete` has the first 44 columns, `log_tcp_complete` all 134",
            &export::compat::tstat::TCP[..],
        ),
        ("UDP: `log_udp_complete`", &export::compat::tstat::UDP[..]),
    ] {
        tables.push_str(&format!(
            "\n## {title}\n\n| number | column | statistics | what it holds |\n|---|---|---|---|\n"
        ));
        for (column, number) in columns.iter().zip(1..) {
            let (meaning, statistics) = column.description();
            tables.push_str(&format!(
                "| {number} | `{}` | {statistics} | {meaning} |\n",
                column.name
            ));
        }
    }
    tables
}

#[test]
fn tstat_md_matches_the_code() {
    tables::assert_in_page("tstat.md", "columns", &tstat_tables());
}
