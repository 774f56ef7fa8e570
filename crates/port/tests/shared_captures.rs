//! Packets and bytes of every shared capture equal those that capinfos counts.

use port::{CaptureFile, CaptureFiles, Input, Port, PortError, Received};
use std::fs;

/// Captures of link types that capinfos 4.0 does not know and rejects. The counts are those of the
/// records in the files, all of which tcpdump 4.99 reads.
const UNKNOWN_TO_CAPINFOS: [(&str, u64); 14] = [
    ("tcpdump/brcm-tag-prepend.pcap", 15),
    ("tcpdump/brcm-tag.pcap", 23),
    ("tcpdump/dsa-high-vid.pcap", 4),
    ("tcpdump/dsa.pcap", 8),
    ("tcpdump/edsa-high-vid.pcap", 4),
    ("tcpdump/edsa.pcap", 10),
    ("tcpdump/frf16_magic_ie-oobr.pcap", 1),
    ("tcpdump/hoobr_juniper3.pcap", 1),
    ("tcpdump/juniper_es_oobr.pcap", 1),
    ("tcpdump/juniper_monitor_invalid_cookie_length.pcap", 1),
    ("tcpdump/kday6.pcap", 1),
    ("tcpdump/vtp_asan-2.pcap", 1),
    ("tcpdump/vtp_asan-3.pcap", 1),
    ("tcpdump/vtp_asan.pcap", 5),
];

/// Returns packets, bytes and fault messages.
fn read(port: &mut dyn Port) -> Result<(u64, u64, Vec<String>), PortError> {
    let (mut packets, mut bytes, mut faults) = (0, 0, Vec::new());
    loop {
        match port.receive()? {
            Received::Burst(burst) => {
                packets += burst.frames.len() as u64;
                bytes += burst
                    .frames
                    .iter()
                    .map(|frame| u64::from(frame.wire_length))
                    .sum::<u64>();
            }
            Received::Idle => {}
            Received::Fault(message) => faults.push(message),
            Received::End => break,
        }
    }
    let counters = port.counters();
    assert_eq!((counters.frames, counters.bytes), (packets, bytes));
    assert_eq!(counters.position, counters.size);
    Ok((packets, bytes, faults))
}

#[test]
fn packets_and_bytes_of_every_capture_equal_capinfos() {
    if !traffic::present() {
        return;
    }
    let directory = traffic::directory();
    let manifest = fs::read_to_string(directory.join("MANIFEST.tsv")).expect("MANIFEST.tsv");
    let mut mismatches = Vec::new();
    let mut files = 0;
    let mut total = (0, 0);
    for line in manifest.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, kind, _, packets, bytes] = columns[..] else {
            panic!("{line}");
        };
        files += 1;
        let input = Input::Path(directory.join(name));
        let found = CaptureFile::open(&input).and_then(|mut file| read(&mut file));
        let expected = if kind == "unreadable by capinfos" {
            let known = UNKNOWN_TO_CAPINFOS.iter().find(|(known, _)| *known == name);
            known.map(|(_, packets)| (*packets, None))
        } else {
            let number = |text: &str| text.parse::<u64>().expect("a number");
            Some((number(packets), Some(number(bytes))))
        };
        match (found, expected) {
            (Ok((packets, bytes, faults)), Some(expected))
                if packets == expected.0
                    && expected.1.is_none_or(|expected| bytes == expected)
                    && faults.is_empty() =>
            {
                total = (total.0 + packets, total.1 + bytes);
            }
            (found, expected) => mismatches.push(format!("{name}: {found:?}, not {expected:?}")),
        }
    }
    assert!(
        mismatches.is_empty(),
        "{} of {files}:\n{}",
        mismatches.len(),
        mismatches.join("\n")
    );
    assert_eq!(files, 1762);
}

#[test]
fn zstd_compressed_mix_is_read() {
    if !traffic::present() {
        return;
    }
    let input = Input::Path(traffic::directory().join("mix-200k.pcap.zst"));
    let mut file = CaptureFile::open(&input).expect("a capture");
    // The counts in the README of the captures.
    assert_eq!(
        read(&mut file).expect("no error"),
        (200_000, 75_592_684, vec![])
    );
}

#[test]
fn sequence_of_all_captures_is_read_by_one_port() {
    if !traffic::present() {
        return;
    }
    let directory = traffic::directory();
    let manifest = fs::read_to_string(directory.join("MANIFEST.tsv")).expect("MANIFEST.tsv");
    let rows = || {
        manifest
            .lines()
            .skip(1)
            .map(|line| line.split('\t').collect::<Vec<_>>())
    };
    let readable: Vec<_> = rows()
        .filter(|row| row[1].ends_with("pcap") || row[1] == "pcapng")
        .collect();
    let inputs: Vec<Input> = readable
        .iter()
        .map(|row| Input::Path(directory.join(row[0])))
        .collect();
    let sum = |column: usize| -> u64 {
        readable
            .iter()
            .map(|row| row[column].parse::<u64>().expect("a number"))
            .sum()
    };
    let mut port = CaptureFiles::open(&inputs).expect("captures");
    assert_eq!(read(&mut port).expect("no error"), (sum(3), sum(4), vec![]));
}
