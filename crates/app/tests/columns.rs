//! The table of columns in docs/names.md must match the code.

#![allow(clippy::unwrap_used, reason = "a test fails if something is missing")]

use app::{AppType, COLUMNS};
use std::collections::HashSet;

fn table() -> String {
    let mut table = String::from(
        "| column | IPFIX | type | unit | Tstat | definition |\n\
         |---|---|---|---|---|---|\n",
    );
    for column in COLUMNS {
        let kind = match column.kind {
            AppType::Text | AppType::Hexadecimal => "string",
            AppType::Number => "unsigned64",
            AppType::Real => "float64",
        };
        let cells = [
            format!("`{}`", column.name),
            column
                .ipfix
                .map_or(String::new(), |number| number.to_string()),
            kind.to_owned(),
            column.unit.to_owned(),
            column.tstat.to_owned(),
            column.definition.replace('|', "\\|"),
        ];
        table.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    table
}

#[test]
fn names_md_has_the_columns_of_the_code() {
    tables::assert_in_page("names.md", "columns", &table());
}

#[test]
fn columns_have_unique_names_and_definitions() {
    let names: HashSet<&str> = COLUMNS.iter().map(|column| column.name).collect();
    assert_eq!(names.len(), COLUMNS.len());
    for column in COLUMNS {
        assert!(column.definition.ends_with(['.', ')']), "{}", column.name);
        let is_time = column.name.ends_with("Seconds");
        assert_eq!(column.unit == "seconds", is_time, "{}", column.name);
    }
}
