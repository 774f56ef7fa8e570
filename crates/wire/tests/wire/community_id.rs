//! Community IDs against tshark's.

use wire::{CommunityId, Decapsulate, dissect};

use crate::captures;

/// Made by golden/community_id.py, which says how.
const EXPECTED: &str = include_str!("golden/community_id.tsv");

#[test]
fn community_ids_are_those_that_tshark_gives() {
    if !traffic::present() {
        return;
    }
    let mut open = ("", Vec::new());
    let mut wrong = Vec::new();
    let mut compared = 0;
    for row in EXPECTED.lines().skip(1) {
        let [capture, packet, expected] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("a line with other fields: {row}");
        };
        if open.0 != capture {
            open = (capture, captures::read(capture));
        }
        let record = &open.1[packet.parse::<usize>().unwrap() - 1];
        let headers = dissect(
            record.link,
            &record.bytes,
            record.wire_length,
            Decapsulate::No,
        );
        let id = CommunityId::new(&headers.key, headers.icmp_type_code, 0);
        compared += 1;
        if id.as_str() != expected {
            wrong.push(format!("{row}: {id} of {headers:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{compared} packets");
}

/// SHA-1 and Base64 by Python's hashlib and base64 over the bytes that the specification lists,
/// for the TCP flow of zeek/communityid__tcp.pcap under the seed 1.
#[test]
fn another_seed_gives_another_id() {
    if !traffic::present() {
        return;
    }
    let record = &captures::read("zeek/communityid__tcp.pcap")[0];
    let headers = dissect(
        record.link,
        &record.bytes,
        record.wire_length,
        Decapsulate::No,
    );
    let id = CommunityId::new(&headers.key, 0, 1);
    assert_eq!(id.as_str(), "1:3V71V58M3Ksw/yuFALMcW0LAHvc=");
    assert_eq!(id, CommunityId::new(&headers.key.reversed(), 0, 1));
}
