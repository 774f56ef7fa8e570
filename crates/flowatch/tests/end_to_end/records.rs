//! Flow records as the command writes them.

use serde_json::Value;
use std::collections::BTreeMap;

/// A record: the columns that have a value, as text.
pub(crate) type Row = BTreeMap<String, String>;

/// Parses the records of a CSV output.
pub(crate) fn csv(bytes: &[u8]) -> Vec<Row> {
    let mut reader = csv::Reader::from_reader(bytes);
    let names = reader.headers().unwrap().clone();
    reader
        .records()
        .map(|record| {
            let record = record.unwrap();
            assert_eq!(record.len(), names.len());
            let columns = names.iter().zip(&record);
            columns
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect()
        })
        .collect()
}

/// Parses the records of a JSON output with schema version 1.
pub(crate) fn json(bytes: &[u8]) -> Vec<Row> {
    let text = std::str::from_utf8(bytes).unwrap();
    text.lines()
        .map(|line| {
            let Value::Object(columns) = serde_json::from_str(line).unwrap() else {
                panic!("{line}");
            };
            assert_eq!(columns["schemaVersion"], 1, "{line}");
            let text = |value: Value| match value {
                Value::Null => None,
                Value::String(text) => Some(text),
                other => Some(other.to_string()),
            };
            columns
                .into_iter()
                .filter(|(name, _)| name != "schemaVersion")
                .filter_map(|(name, value)| Some((name, text(value)?)))
                .collect()
        })
        .collect()
}

/// Returns a number of a record; 0 if the column is empty.
pub(crate) fn number(row: &Row, name: &str) -> u64 {
    row.get(name).map_or(0, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name}: {text}"))
    })
}

/// Returns the nanoseconds since the Unix epoch of a time such as `2024-02-29T12:34:56.123456789Z`,
/// always in this format.
pub(crate) fn time_ns(text: &str) -> i64 {
    assert!(text.len() == 30 && text.ends_with('Z'), "{text}");
    let part = |from: usize, to: usize| text[from..to].parse::<i64>().expect("digits");
    let (year, month, day) = (part(0, 4), part(5, 7), part(8, 10));
    // Days since year 0, with years starting in March, so that the leap day is the last of a year.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let days_to_1970 = 719_468;
    let seconds =
        (days - days_to_1970) * 86_400 + part(11, 13) * 3600 + part(14, 16) * 60 + part(17, 19);
    seconds * 1_000_000_000 + part(20, 29)
}

#[test]
fn parses_times_as_date_does() {
    // date -u -d 2024-02-29T12:34:56 +%s
    assert_eq!(
        time_ns("2024-02-29T12:34:56.123456789Z"),
        1_709_210_096_123_456_789
    );
    assert_eq!(time_ns("1970-01-01T00:00:00.000000001Z"), 1);
}
