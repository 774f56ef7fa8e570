//! The table of columns in docs/analysis.md equals that of the code.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use analysis::{AnalysisKind, COLUMNS};
use std::collections::HashSet;

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

#[test]
fn analysis_md_has_the_table_of_columns() {
    tables::assert_in_page("analysis.md", "columns", &table());
}

#[test]
fn column_names_are_unique_and_every_column_has_a_definition() {
    let names: HashSet<&str> = COLUMNS.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names.len(), COLUMNS.len());
    assert!(
        COLUMNS
            .iter()
            .all(|column| column.definition.ends_with(['.', ')']))
    );
}
