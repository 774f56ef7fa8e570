//! The cases of `tests/cases`: small captures that were once read wrong, with their right answers, in
//! every model.

use crate::command::{run, watch};
use crate::summary::Summary;
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};

/// The models, and several threads.
const MODELS: [&str; 4] = [
    "",
    "--queues 2",
    "--model pipeline",
    "--model cooperative --monitors 2",
];

/// A line of the table.
#[derive(Debug)]
struct Case {
    name: String,
    flags: String,
    expected: String,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases")
}

fn cases() -> Vec<Case> {
    let table = fs::read_to_string(directory().join("cases.tsv")).unwrap();
    let line = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, flags, expected, reason] = fields[..] else {
            panic!("not four fields: {line}");
        };
        assert!(!reason.is_empty(), "no reason: {line}");
        Case {
            name: name.to_owned(),
            flags: flags.to_owned(),
            expected: expected.to_owned(),
        }
    };
    table.lines().skip(1).map(line).collect()
}

/// The capture of a case, compressed or not.
fn capture(name: &str) -> PathBuf {
    let names = [format!("{name}.pcap"), format!("{name}.pcap.zst")];
    let mut paths = names.iter().map(|name| directory().join(name));
    paths
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("no capture {name}"))
}

type Record = Map<String, Value>;

/// Whether a record has this value in a column; an empty one is absent, empty, or 0.
fn has(record: &Record, column: &str, wanted: &str) -> bool {
    match record.get(column) {
        None | Some(Value::Null) => wanted.is_empty() || wanted == "0",
        Some(Value::String(text)) => text == wanted,
        Some(Value::Number(number)) => {
            let wanted: f64 = if wanted.is_empty() { "0" } else { wanted }
                .parse()
                .unwrap();
            (number.as_f64().unwrap() - wanted).abs() < 1e-9
        }
        Some(Value::Bool(is_set)) => *is_set == (wanted == "1"),
        Some(other) => panic!("{column}: {other}"),
    }
}

/// Returns why a group of expected values does not hold.
fn check_group(group: &str, records: &[Record], summary: &Summary) -> Result<(), String> {
    let found = |column: &str| -> Vec<&Value> {
        records
            .iter()
            .filter_map(|record| record.get(column))
            .take(3)
            .collect()
    };
    let number = |text: &str| text.parse::<usize>().unwrap();
    if let Some(least) = group.strip_prefix("records>=") {
        return (records.len() >= number(least))
            .then_some(())
            .ok_or(format!("{} records, not {group}", records.len()));
    }
    if let Some(exactly) = group.strip_prefix("records=") {
        return (records.len() == number(exactly))
            .then_some(())
            .ok_or(format!("{} records, not {group}", records.len()));
    }
    if group == "no-malformed" {
        let malformed = summary.at("/malformed");
        return (malformed.as_object().unwrap().is_empty())
            .then_some(())
            .ok_or(format!("malformed: {malformed}"));
    }
    let wanted = group.split(' ').map(|pair| pair.split_once('=').unwrap());
    let (empty, filled): (Vec<_>, Vec<_>) = wanted.partition(|(_, value)| value.is_empty());
    for (column, _) in empty {
        if !records.iter().all(|record| has(record, column, "")) {
            return Err(format!("{column} is not empty: {:?}", found(column)));
        }
    }
    let holds = |record: &Record| {
        filled
            .iter()
            .all(|(column, value)| has(record, column, value))
    };
    if !filled.is_empty() && !records.iter().any(holds) {
        let columns = filled
            .iter()
            .map(|(column, _)| format!("{column}: {:?}", found(column)));
        let columns: Vec<String> = columns.collect();
        return Err(format!("no record with {group}; {}", columns.join(", ")));
    }
    Ok(())
}

fn check(case: &Case, model: &str, output: &Path) -> Vec<String> {
    let _ = fs::remove_file(output);
    let mut command = watch("-q --summary json --flow bidirectional --statistics full");
    command
        .args(case.flags.split_whitespace())
        .args(model.split_whitespace());
    command.arg(format!("-ojson:{}", output.display()));
    let outcome = run(command.arg("-r").arg(capture(&case.name)));
    let summary = Summary::balanced(&outcome);
    let mut faults = Vec::new();
    if (outcome.code, &*outcome.stderr) != (Some(0), "") {
        faults.push(format!("{outcome:?}"));
    }
    let text = fs::read_to_string(output).unwrap();
    let records: Vec<Record> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let groups = case.expected.split("; ");
    faults.extend(groups.filter_map(|group| check_group(group, &records, &summary).err()));
    let named = faults
        .into_iter()
        .map(|fault| format!("{} {model}: {fault}", case.name));
    named.collect()
}

#[test]
fn every_case_is_right_in_every_model() {
    let cases = cases();
    assert!(cases.len() >= 35, "{}", cases.len());
    let records = tempfile::tempdir().unwrap();
    let output = records.path().join("flows.json");
    let mut faults = Vec::new();
    for case in &cases {
        for model in MODELS {
            faults.extend(check(case, model, &output));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Each capture has a line in the table, so that none is forgotten.
#[test]
fn every_capture_has_a_case() {
    let known: Vec<PathBuf> = cases().iter().map(|case| capture(&case.name)).collect();
    for entry in fs::read_dir(directory()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(!name.contains(".pcap") || known.contains(&path), "{name}");
    }
}
