//! docs/records.md has the table of columns that the code has.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use export::column::{COLUMNS, Element};
use std::path::Path;

const BEGIN: &str = "<!-- columns: begin (written by the test of this table) -->\n";
const END: &str = "<!-- columns: end -->";

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

/// With `UPDATE_DOCS=1` in the environment, the page is written instead of compared.
#[test]
fn records_md_has_the_table_of_columns() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page
        .split_once(BEGIN)
        .expect("the table's beginning is marked");
    let (old, after) = rest.split_once(END).expect("the table's end is marked");
    let table = table();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert_eq!(
            old, table,
            "docs/records.md is behind the code: run this test with UPDATE_DOCS=1"
        );
    }
}

#[test]
fn the_page_names_the_version_of_the_schema() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records.md");
    let page = std::fs::read_to_string(path).unwrap();
    let version = format!("schema version **{}**", export::SCHEMA_VERSION);
    assert!(page.contains(&version), "{version}");
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

/// With `UPDATE_DOCS=1` in the environment, the page is written instead of compared.
#[test]
fn tstat_md_has_the_tables_of_columns() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tstat.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page
        .split_once(BEGIN)
        .expect("the tables' beginning is marked");
    let (old, after) = rest.split_once(END).expect("the tables' end is marked");
    let tables = tstat_tables();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{tables}{END}{after}")).unwrap();
    } else {
        assert_eq!(
            old, tables,
            "docs/tstat.md is behind the code: run this test with UPDATE_DOCS=1"
        );
    }
}
