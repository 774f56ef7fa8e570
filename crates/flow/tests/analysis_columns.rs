//! docs/analysis.md has the table of columns that the code has.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use flow::analysis::{AnalysisKind, COLUMNS};
use std::collections::HashSet;
use std::path::Path;

const BEGIN: &str = "<!-- columns: begin (written by the test of this table) -->\n";
const END: &str = "<!-- columns: end -->";

fn table() -> String {
    let mut table = String::from(
        "| column | of the responder | IPFIX | type | unit | Tstat | definition |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for column in COLUMNS.iter().filter(|column| column.side == 0) {
        let reverse = COLUMNS.iter().find(|other| {
            other.side == 1
                && other
                    .name
                    .eq_ignore_ascii_case(&format!("reverse{}", column.name))
        });
        let kind = match column.kind {
            AnalysisKind::Number8 => "unsigned8",
            AnalysisKind::Number16 => "unsigned16",
            AnalysisKind::Number => "unsigned64",
            AnalysisKind::Real => "float64",
            AnalysisKind::Time => "dateTimeNanoseconds",
            AnalysisKind::Word | AnalysisKind::List => "string",
        };
        let cells = [
            format!("`{}`", column.name),
            reverse.map_or(String::new(), |other| format!("`{}`", other.name)),
            column
                .ipfix
                .map_or(String::new(), |number| number.to_string()),
            kind.to_owned(),
            column.unit.to_owned(),
            match reverse {
                Some(other) if !column.tstat.is_empty() => {
                    format!("{}, {}", column.tstat, other.tstat)
                }
                _ => column.tstat.clone(),
            },
            column.definition.replace('|', "\\|"),
        ];
        table.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    table
}

/// With `UPDATE_DOCS=1` in the environment, the page is written instead of compared.
#[test]
fn analysis_md_has_the_table_of_columns() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/analysis.md");
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
            "docs/analysis.md is behind the code: run this test with UPDATE_DOCS=1"
        );
    }
}

#[test]
fn no_two_columns_have_one_name_and_every_one_is_defined() {
    let names: HashSet<&str> = COLUMNS.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names.len(), COLUMNS.len());
    assert!(
        COLUMNS
            .iter()
            .all(|column| column.definition.ends_with(['.', ')']))
    );
}
