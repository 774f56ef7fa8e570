//! Tests of the sample.

use super::*;
use crate::memory::MemoryPort;
use wire::LinkType;

const SECOND: i64 = 1_000_000_000;

/// A UDP datagram in an IPv4 packet.
fn datagram(source: [u8; 4], destination: [u8; 4], ports: [u16; 2]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend(source);
    packet.extend(destination);
    packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    packet.extend([0, 8, 0, 0]);
    packet
}

fn server(number: u32) -> [u8; 4] {
    (0xc633_6400 + number).to_be_bytes()
}

/// Conversations between clients and a server each, one packet per millisecond, from `start_ns` on.
fn port(link: u8, conversations: u32, packets: i64, start_ns: i64, back: bool) -> MemoryPort {
    let frames = (0..packets).map(|number| {
        let conversation = number as u32 % conversations;
        let (client, server) = ([10, link, 0, 1], server(conversation));
        let bytes = match back {
            false => datagram(client, server, [5000, 53]),
            true => datagram(server, client, [53, 5000]),
        };
        (start_ns + number * 1_000_000, 28, bytes)
    });
    MemoryPort::new(LinkType::Raw, frames)
}

/// Reads inputs one after the other, and returns what was found.
fn read(live: bool, inputs: Vec<(&str, MemoryPort)>) -> Option<SharedInputs> {
    let shared = SharedConversations::new(live);
    for (name, port) in inputs {
        let mut port = shared.observe(port, Some(name.to_owned()));
        while !matches!(port.receive().unwrap(), Received::End) {}
    }
    let found = shared.take_found();
    assert_eq!(shared.take_found(), None, "said twice");
    found
}

#[test]
fn halves_are_found_at_any_size() {
    for (conversations, packets) in [(1, 2), (1, 100), (100_000, 200_000), (1000, 200_000)] {
        for live in [false, true] {
            let found = read(
                live,
                vec![
                    ("rx", port(1, conversations, packets, 0, false)),
                    ("tx", port(1, conversations, packets, 1_000, true)),
                ],
            );
            let found = found.unwrap_or_else(|| panic!("{conversations} {packets} {live}"));
            assert_eq!(found.names, ["rx", "tx"]);
            assert!(found.is_one_direction_each);
        }
    }
}

#[test]
fn copies_are_found() {
    let found = read(
        false,
        vec![
            ("a", port(1, 10, 100, 0, false)),
            ("b", port(1, 10, 100, 0, false)),
        ],
    );
    assert!(found.is_some_and(|found| !found.is_one_direction_each));
}

#[test]
fn many_files_are_compared_within_bounded_memory() {
    let mut names = Vec::new();
    for hour in 0..200 {
        names.push((format!("rx-{hour}"), hour, false));
    }
    names.push(("tx-7".to_owned(), 7, true));
    let inputs = names
        .iter()
        .map(|(name, hour, back)| (&**name, port(1, 5000, 5000, hour * 5 * SECOND, *back)));
    let found = read(false, inputs.collect()).unwrap();
    assert_eq!(found.names, ["rx-7", "tx-7"]);
}

#[test]
fn disjoint_links_and_series_of_files_are_not_found() {
    // Two links.
    let links = |live| {
        read(
            live,
            vec![
                ("a", port(1, 1000, 100_000, 0, false)),
                ("b", port(2, 1000, 100_000, 0, true)),
            ],
        )
    };
    assert_eq!((links(true), links(false)), (None, None));
    // A series of files, each of which begins shortly before the end of the one before.
    let files = (0..5i64).map(|number| {
        port(
            1,
            10,
            10_000,
            number * 10 * SECOND - number,
            number % 2 == 1,
        )
    });
    let names = ["0", "1", "2", "3", "4"];
    assert_eq!(read(false, names.into_iter().zip(files).collect()), None);
    // Addresses that occur on every link.
    for (source, destination) in [
        ([0, 0, 0, 0], [255, 255, 255, 255]),
        ([10, 0, 0, 1], [224, 0, 0, 251]),
        ([169, 254, 1, 1], [169, 254, 1, 2]),
    ] {
        let port = || {
            let packet = datagram(source, destination, [68, 67]);
            MemoryPort::new(LinkType::Raw, [(0, 28, packet)])
        };
        assert_eq!(read(true, vec![("a", port()), ("b", port())]), None);
    }
}

#[test]
fn a_conversation_that_moves_to_another_link_is_not_shared() {
    let found = read(
        true,
        vec![
            ("a", port(1, 10, 100, 0, false)),
            ("b", port(1, 10, 100, 5 * SECOND, true)),
        ],
    );
    assert_eq!(found, None);
}
