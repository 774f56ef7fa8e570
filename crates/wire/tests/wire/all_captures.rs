//! Every capture of the shared traffic goes through every way of reading a frame.

use wire::{Decapsulate, LinkType, NoFlow, dissect, simple_ipv4};

use crate::{agreement, captures};

/// Packets and bytes are capinfos' (MANIFEST.tsv), so no record is missed; the readings of each
/// frame agree with each other, and with themselves when the frame is cut shorter.
#[test]
fn every_record_of_every_capture_is_read_without_contradiction() {
    if !traffic::present() {
        return;
    }
    let (mut files, mut records, mut keyed, mut malformed) = (0, 0u64, 0u64, 0u64);
    for listed in captures::listed() {
        let capture = captures::read(&listed.name);
        assert_eq!(capture.len() as u64, listed.packets, "{}", listed.name);
        // Of some link types that flowatch does not read, capinfos leaves out a pseudo-header.
        if !capture.iter().any(|r| matches!(r.link, LinkType::Other(_))) {
            let bytes: u64 = capture.iter().map(|r| u64::from(r.wire_length)).sum();
            assert_eq!(bytes, listed.bytes, "{}", listed.name);
        }
        files += 1;
        for record in &capture {
            let [outer, ..] = agreement::check(record.link, &record.bytes, record.wire_length);
            records += 1;
            keyed += u64::from(outer.no_flow.is_none());
            malformed += u64::from(outer.malformed.is_some());
        }
    }
    println!("{files} captures, {records} records, {keyed} with a key, {malformed} malformed");
    assert!(files > 1700);
}

/// A frame cut by the snaplen never has a fault that the whole frame does not have.
#[test]
fn a_snaplen_makes_no_packet_malformed() {
    if !traffic::present() {
        return;
    }
    for listed in captures::listed() {
        for record in captures::read(&listed.name).iter().take(20) {
            let whole = u32::try_from(record.bytes.len())
                .unwrap()
                .max(record.wire_length);
            for decapsulate in [Decapsulate::No, Decapsulate::Innermost] {
                let uncut = dissect(record.link, &record.bytes, whole, decapsulate);
                for snap in 0..record.bytes.len().min(160) {
                    let cut = dissect(record.link, &record.bytes[..snap], whole, decapsulate);
                    assert!(
                        cut.malformed.is_none() || cut.malformed == uncut.malformed,
                        "{}: {snap} bytes: {:?}, whole: {:?}",
                        listed.name,
                        cut.malformed,
                        uncut.malformed
                    );
                    if cut.no_flow.is_none() && decapsulate == Decapsulate::No {
                        assert_eq!(uncut.no_flow, None);
                        assert_eq!(cut.key.source, uncut.key.source);
                        assert!(cut.truncated || cut.key == uncut.key);
                    }
                }
            }
        }
    }
}

/// Most of real traffic takes the fast path, or it would be none.
#[test]
fn most_tcp_and_udp_packets_of_the_mix_are_simple() {
    if !traffic::present() {
        return;
    }
    let mix = captures::read("mix-200k.pcap.zst");
    let simple = mix
        .iter()
        .filter(|r| simple_ipv4(&r.bytes, r.wire_length).is_some())
        .count();
    println!("{simple} of {} records are simple", mix.len());
    assert!(simple > mix.len() * 4 / 5);
}

#[test]
fn reports_other_link_types_as_unknown() {
    let headers = dissect(LinkType::Other(105), &[0; 64], 64, Decapsulate::Innermost);
    assert_eq!(headers.no_flow, Some(NoFlow::UnknownLink));
    assert_eq!(headers.malformed, None);
}
