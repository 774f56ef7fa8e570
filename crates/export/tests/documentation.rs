//! docs/records.md has the table of columns that the code has.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use export::column::{COLUMNS, Element};

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

#[test]
fn records_md_has_the_table_of_columns() {
    tables::assert_in_page("records.md", "columns", &table());
}

#[test]
fn the_page_names_the_version_of_the_schema() {
    let page = tables::page("records.md");
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

#[test]
fn tstat_md_has_the_tables_of_columns() {
    tables::assert_in_page("tstat.md", "columns", &tstat_tables());
}
