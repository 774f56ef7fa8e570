//! Addresses that are not told.

use super::example;
use crate::command::run;
use crate::records::{self, Row};
use crate::summary::Summary;
use std::fs;
use std::net::Ipv4Addr;

/// The records of the example with these flags.
fn example_records(flags: &str) -> Vec<Row> {
    let flags = format!("-o json --sort --summary none {flags}");
    records::json(&run(&mut example(&flags)).quiet_success())
}

#[test]
fn addresses_are_replaced_everywhere_and_prefixes_kept() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    fs::write(&key, [7; 32]).unwrap();
    let how = format!("--anonymise crypto-pan={}", key.display());
    let plain = example_records("--flow bidirectional");
    let ours = example_records(&format!("--flow bidirectional {how}"));
    assert_eq!(plain.len(), ours.len());
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
    let lengths = |rows: &[Row]| {
        let mut lengths: Vec<u32> = Vec::new();
        let mut all = addresses(rows);
        all.sort_unstable();
        all.dedup();
        for (place, first) in all.iter().enumerate() {
            let others = &all[place + 1..];
            lengths.extend(others.iter().map(|second| (first ^ second).leading_zeros()));
        }
        lengths.sort_unstable();
        lengths
    };
    let (theirs, replaced) = (lengths(&plain), lengths(&ours));
    assert!(!theirs.is_empty());
    assert_eq!(theirs, replaced);
    let theirs: std::collections::HashSet<u32> = addresses(&plain).into_iter().collect();
    assert!(
        addresses(&ours)
            .iter()
            .any(|address| !theirs.contains(address))
    );

    // The summary tells the same addresses as the records.
    for how in [how.as_str(), "--anonymize truncate=16/32"] {
        let file = directory.path().join("flows.json");
        let flags = format!("-q --summary json -o json:{} {how}", file.display());
        let summary = Summary::balanced(&run(&mut example(&flags)));
        let rows = records::json(&fs::read(&file).unwrap());
        let sources: Vec<&String> = rows.iter().flat_map(|row| row.values()).collect();
        let top = summary.at("/top_flows").as_array().unwrap();
        assert!(!top.is_empty());
        for flow in top {
            for side in ["source", "destination"] {
                let address = flow[side].as_str().unwrap().to_owned();
                assert!(sources.contains(&&address), "{address}");
                if how.contains("truncate") && address.contains('.') {
                    assert!(address.ends_with(".0.0"), "{address}");
                }
            }
        }
    }
}

/// An unspecified address is replaced as any other; one that is no part of the key is none.
#[test]
fn addresses_that_the_key_lacks_are_told_as_without_replacing() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    fs::write(&key, [7; 32]).unwrap();
    let how = format!("--anonymise crypto-pan={}", key.display());
    for (flow, there, lacking) in [
        ("src", "source", "destination"),
        ("dst", "destination", "source"),
    ] {
        let [plain, ours] = ["", how.as_str()].map(|how| {
            let flags = format!("-q --summary json --flow {flow} {how}");
            let summary = Summary::balanced(&run(&mut example(&flags)));
            summary.at("/top_flows").as_array().unwrap().clone()
        });
        assert!(!plain.is_empty());
        for (plain, ours) in plain.iter().zip(&ours) {
            for flow in [plain, ours] {
                assert!(flow.get(lacking).is_none() && flow.get("protocolIdentifier").is_none());
            }
            assert_ne!(plain[there], ours[there], "{flow}");
        }
    }
}

#[test]
fn a_key_that_is_none_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    fs::write(&key, [7; 31]).unwrap();
    for (how, said) in [
        (format!("crypto-pan={}", key.display()), "31 bytes"),
        ("crypto-pan=/no/such/key".to_owned(), "/no/such/key"),
        ("truncate=33/48".to_owned(), "at most 32 and 128"),
        ("md5".to_owned(), "crypto-pan=KEYFILE"),
    ] {
        let outcome = run(&mut example(&format!("--anonymise {how}")));
        assert_eq!(outcome.code, Some(2));
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    }
    let outcome = run(&mut example("--flow rss --anonymise truncate=24/48"));
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
}
