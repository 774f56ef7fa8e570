//! The mixed real traffic against the counts that its README gives, which an independent program
//! computed; it looks through VLAN tags alone, and gives ports to TCP, UDP and SCTP.

use std::collections::{BTreeMap, HashSet};

use wire::{Decapsulate, FlowKey, Fragment, Malformed, NoFlow, dissect};

use crate::captures;

#[test]
fn packets_and_flows_of_the_mix_equal_the_reference() {
    if !traffic::present() {
        return;
    }
    let (mut ipv4, mut ipv6, mut tags, mut fragments) = (0, 0, 0, 0);
    let mut protocols: BTreeMap<&str, u64> = BTreeMap::new();
    let mut no_flow: BTreeMap<&str, u64> = BTreeMap::new();
    let mut malformed: BTreeMap<&str, u64> = BTreeMap::new();
    let mut flows = HashSet::new();
    let mut pairs = HashSet::new();
    let mut truncated = 0;
    for record in captures::read("mix-200k.pcap.zst") {
        let headers = dissect(
            record.link,
            &record.bytes,
            record.wire_length,
            Decapsulate::No,
        );
        truncated += u64::from((record.bytes.len() as u64) < u64::from(record.wire_length));
        if let Some(fault) = headers.malformed {
            *malformed.entry(fault.name()).or_default() += 1;
        }
        if let Some(reason) = headers.no_flow {
            *no_flow.entry(reason.name()).or_default() += 1;
            continue;
        }
        let key = headers.key;
        match key.version {
            4 => ipv4 += 1,
            _ => ipv6 += 1,
        }
        let protocol = match key.protocol {
            6 => "tcp",
            17 => "udp",
            1 | 58 => "icmp",
            _ => "other",
        };
        *protocols.entry(protocol).or_default() += 1;
        tags += key.vlan.iter().filter(|&&tag| tag != 0).count();
        fragments += usize::from(headers.fragment != Fragment::No);
        let key = FlowKey {
            vlan: [0; 2],
            ..key
        };
        flows.insert(key);
        pairs.insert(key.min(key.reversed()));
    }
    println!("no flow: {no_flow:?}\nmalformed: {malformed:?}\nVLAN tags of IP packets: {tags}");
    assert_eq!((ipv4, ipv6), (188_973, 6_656));
    assert_eq!(no_flow.values().sum::<u64>(), 4_371);
    assert_eq!(no_flow[NoFlow::Arp.name()], 3_832);
    assert_eq!(no_flow[NoFlow::Llc.name()], 154);
    assert_eq!(
        protocols,
        BTreeMap::from([
            ("tcp", 149_960),
            ("udp", 39_036),
            ("icmp", 312),
            ("other", 6_321)
        ])
    );
    assert_eq!(fragments, 10_774);
    assert_eq!(truncated, 2_115);
    assert_eq!(flows.len(), 17_699);
    assert_eq!(pairs.len(), 13_147);
    assert!(
        malformed
            .keys()
            .all(|name| Malformed::ALL.iter().any(|kind| kind.name() == *name))
    );
}
