//! docs/records.md has the table of columns that the code has.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use analysis::Level;
use export::column::{COLUMNS, Element};
use export::{ExportOptions, Format, Spec, Target};
use flow::{FlowDefinition, RecordBatch, Schema, statistic};

fn table() -> String {
    let mut table = String::from(
        "| column | IPFIX | type | unit | in runs with | empty where | definition |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for column in COLUMNS {
        let element = match column.element {
            Element::None => String::new(),
            Element::Iana(number) => number.to_string(),
            Element::Reverse(number) => format!("29305/{number}"),
        };
        let cells = [
            &format!("`{}`", column.name),
            element.as_str(),
            column.kind.name(),
            column.unit,
            column.presence.description(),
            column.empty,
            column.definition,
        ];
        table.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    table
}

/// One test, for two that write one page at a time would undo each other.
#[test]
fn records_md_has_the_tables_of_columns() {
    tables::assert_in_page("records.md", "columns", &table());
    tables::assert_in_page("records.md", "statistics", &statistics_table());
}

#[test]
fn the_page_names_the_version_of_the_schema() {
    let page = tables::page("records.md");
    let version = format!("schema version **{}**", export::SCHEMA_VERSION);
    assert!(page.contains(&version), "{version}");
}

/// Every statistic, percentiles with and without a point.
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

/// The names that a file has with everything chosen that can be.
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

/// As README promises.
#[test]
fn every_column_is_in_a_page() {
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
                // The docs have one percentile of each value.
                let name = name
                    .replace("99_9", "99")
                    .replace("Percentile50", "Percentile99");
                !pages.contains(&format!("| `{name}` |"))
            })
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

/// The tables of docs/tstat.md, columns that mean the same on both sides in one row.
fn tstat_tables() -> String {
    let mut tables = String::new();
    for (title, columns) in [
        (
            "TCP: `log_tcp_nocomplete` has the first 44 columns, `log_tcp_complete` all 134",
            &export::tstat::TCP[..],
        ),
        ("UDP: `log_udp_complete`", &export::tstat::UDP[..]),
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
fn tstat_md_has_the_tables_of_columns() {
    tables::assert_in_page("tstat.md", "columns", &tstat_tables());
}
