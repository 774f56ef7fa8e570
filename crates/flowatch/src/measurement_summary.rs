//! The measurements beside the flow table in the summary, as text and JSON.

use crate::protocol_name::protocol_name;
use crate::units;
use engine::{Count, MeasurementReport, Report, ReportRow};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A measurement.
#[derive(Debug, Serialize)]
pub(crate) struct SummaryMeasurement {
    /// Packets and bytes that it counted.
    counted: SummaryCount,
    /// Processed packets that it did not count, by reason.
    skipped: BTreeMap<String, SummaryCount>,
    /// Whether counted and skipped packets add up to the processed ones, and each table to the counted
    /// ones.
    balanced: bool,
    #[serde(flatten)]
    tables: BTreeMap<&'static str, BTreeMap<String, SummaryCount>>,
}

#[derive(Debug, Serialize)]
struct SummaryCount {
    packets: u64,
    bytes: u64,
}

impl From<Count> for SummaryCount {
    fn from(Count { packets, bytes }: Count) -> Self {
        Self { packets, bytes }
    }
}

fn summary_rows(rows: &[ReportRow]) -> BTreeMap<String, SummaryCount> {
    let row = |row: &ReportRow| (row.name.clone(), row.count.into());
    rows.iter().map(row).collect()
}

impl SummaryMeasurement {
    /// Summarises all measurements of a run, by name.
    pub(crate) fn all(report: &Report) -> BTreeMap<&'static str, Self> {
        let summarise = |measurement: &MeasurementReport| {
            let tables = measurement.tables.iter();
            let summary = Self {
                counted: measurement.counted.into(),
                skipped: summary_rows(&measurement.skipped),
                balanced: measurement.is_balanced(report.books.processed),
                tables: tables
                    .map(|table| (table.name, summary_rows(&table.rows)))
                    .collect(),
            };
            (measurement.name, summary)
        };
        report.measurements.iter().map(summarise).collect()
    }
}

/// Appends the tables of all measurements.
pub(crate) fn measurements(text: &mut String, report: &Report) -> std::fmt::Result {
    for measurement in &report.measurements {
        for table in &measurement.tables {
            writeln!(text, "\n{}: {}", measurement.title, table.title)?;
            let counted = measurement.counted.packets;
            for row in table.rows.iter().filter(|row| row.count.packets > 0) {
                writeln!(
                    text,
                    "  {:<28}{:>16}  {:>10}  ({})",
                    label(&row.name),
                    units::count(row.count.packets),
                    units::bytes(row.count.bytes),
                    units::share(row.count.packets, counted),
                )?;
            }
        }
        for reason in &measurement.skipped {
            let (name, packets) = (label(&reason.name), reason.count.packets);
            writeln!(
                text,
                "  not counted: {name:<15}{:>16}",
                units::count(packets)
            )?;
        }
    }
    Ok(())
}

/// Returns the label of a row: its name as words, with the name of a protocol number.
fn label(name: &str) -> String {
    let number = name.strip_prefix("protocol_");
    let number = number.and_then(|number| number.parse::<u8>().ok());
    match number {
        Some(number) => match protocol_name(number) {
            Some(protocol) => format!("protocol {number} ({protocol})"),
            None => format!("protocol {number}"),
        },
        // A range such as 65_127.
        None if name.starts_with(|first: char| first.is_ascii_digit()) => name.replace('_', " to "),
        None => match name.strip_prefix("no_flow_") {
            Some(reason) => format!("no flow: {}", reason.replace('_', " ")),
            None => name.replace('_', " "),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn labels_are_words() {
        for (name, expected) in [
            ("tcp", "tcp"),
            ("protocol_47", "protocol 47 (gre)"),
            ("protocol_200", "protocol 200"),
            ("65_127", "65 to 127"),
            ("above_1518", "above 1518"),
            ("no_flow_not_ip", "no flow: not ip"),
        ] {
            assert_eq!(label(name), expected);
        }
    }
}
