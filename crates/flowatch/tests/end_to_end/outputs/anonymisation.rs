//! Anonymised addresses.

use super::example;
use crate::command::run;
use crate::records::{self, Row};
use crate::summary::Summary;
use std::fs;
use std::net::Ipv4Addr;

/// Returns the records of the example with these flags.
fn example_records(flags: &str) -> Vec<Row> {
    let flags = format!("-o json --sort --summary none {flags}");
    records::json(&run(&mut example(&flags)).quiet_success())
}

#[test]
fn anonymises_every_output_and_keeps_prefixes() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    fs::write(&key, [7; 32]).unwrap();
    let anonymise = format!("--anonymise crypto-pan={}", key.display());
    let plain = example_records("--flow bidirectional");
    let replaced = example_records(&format!("--flow bidirectional {anonymise}"));
    assert_eq!(plain.len(), replaced.len());
    let addresses = |rows: &[Row]| -> Vec<u32> {
        let columns = ["sourceIPv4Address", "destinationIPv4Address"];
        let texts = rows
            .iter()
            .flat_map(|row| columns.map(|column| row.get(column)));
        texts
            .flatten()
            .map(|text| text.parse::<Ipv4Addr>().unwrap().into())
            .collect()
    };
    let prefix_lengths = |rows: &[Row]| {
        let mut lengths: Vec<u32> = Vec::new();
        let mut all = addresses(rows);
        all.sort_unstable();
        all.dedup();
        for (index, first) in all.iter().enumerate() {
            let others = &all[index + 1..];
            lengths.extend(others.iter().map(|second| (first ^ second).leading_zeros()));
        }
        lengths.sort_unstable();
        lengths
    };
    let plain_lengths = prefix_lengths(&plain);
    assert!(!plain_lengths.is_empty());
    assert_eq!(plain_lengths, prefix_lengths(&replaced));
    let originals: std::collections::HashSet<u32> = addresses(&plain).into_iter().collect();
    assert!(
        addresses(&replaced)
            .iter()
            .any(|address| !originals.contains(address))
    );

    // The summary has the same addresses as the records.
    for anonymise in [anonymise.as_str(), "--anonymize truncate=16/32"] {
        let file = directory.path().join("flows.json");
        let flags = format!(
            "-q --summary json --overwrite -o json:{} {anonymise}",
            file.display()
        );
        let summary = Summary::balanced(&run(&mut example(&flags)));
        let rows = records::json(&fs::read(&file).unwrap());
        let sources: Vec<&String> = rows.iter().flat_map(|row| row.values()).collect();
        let top = summary.at("/top_flows").as_array().unwrap();
        assert!(!top.is_empty());
        for flow in top {
            for side in ["source", "destination"] {
                let address = flow[side].as_str().unwrap().to_owned();
                assert!(sources.contains(&&address), "{address}");
                if anonymise.contains("truncate") && address.contains('.') {
                    assert!(address.ends_with(".0.0"), "{address}");
                }
            }
        }
    }
}

/// An unspecified address is replaced like any other; an address outside the flow key stays absent.
#[test]
fn addresses_outside_the_flow_key_stay_absent() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    fs::write(&key, [7; 32]).unwrap();
    let anonymise = format!("--anonymise crypto-pan={}", key.display());
    for (flow, present, absent) in [
        ("src", "source", "destination"),
        ("dst", "destination", "source"),
    ] {
        let [plain, replaced] = ["", anonymise.as_str()].map(|anonymise| {
            let flags = format!("-q --summary json --flow {flow} {anonymise}");
            let summary = Summary::balanced(&run(&mut example(&flags)));
            summary.at("/top_flows").as_array().unwrap().clone()
        });
        assert!(!plain.is_empty());
        for (plain, replaced) in plain.iter().zip(&replaced) {
            for flow in [plain, replaced] {
                assert!(flow.get(absent).is_none() && flow.get("protocolIdentifier").is_none());
            }
            assert_ne!(plain[present], replaced[present], "{flow}");
        }
    }
}

#[test]
fn rejects_invalid_anonymisation_keys() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    fs::write(&key, [7; 31]).unwrap();
    for (method, message) in [
        (format!("crypto-pan={}", key.display()), "31 bytes"),
        ("crypto-pan=/no/such/key".to_owned(), "/no/such/key"),
        ("truncate=33/48".to_owned(), "at most 32 and 128"),
        ("md5".to_owned(), "crypto-pan=KEYFILE"),
    ] {
        let outcome = run(&mut example(&format!("--anonymise {method}")));
        assert_eq!(outcome.code, Some(2));
        assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
    }
    let outcome = run(&mut example("--flow rss --anonymise truncate=24/48"));
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
}
