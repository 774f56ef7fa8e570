//! docs/names.md has the table of columns that the code has.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use app::{COLUMNS, NameKind};
use std::collections::HashSet;

fn table() -> String {
    let mut table = String::from(
        "| column | IPFIX | type | unit | Tstat | definition |\n\
         |---|---|---|---|---|---|\n",
    );
    for column in COLUMNS {
        let kind = match column.kind {
            NameKind::Text => "string",
            NameKind::Number => "unsigned64",
            NameKind::Real => "float64",
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
fn names_md_has_the_table_of_columns() {
    tables::assert_in_page("names.md", "columns", &table());
}

#[test]
fn no_two_columns_have_one_name_and_every_one_is_defined() {
    let names: HashSet<&str> = COLUMNS.iter().map(|column| column.name).collect();
    assert_eq!(names.len(), COLUMNS.len());
    for column in COLUMNS {
        assert!(column.definition.ends_with(['.', ')']), "{}", column.name);
        let is_time = column.name.ends_with("Seconds");
        assert_eq!(column.unit == "seconds", is_time, "{}", column.name);
    }
}
