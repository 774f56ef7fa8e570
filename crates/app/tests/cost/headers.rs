//! Headers below the payload: VLAN tags, extension headers, TCP options and tunnels.

use crate::{Reader, Run, measured};
use std::hint::black_box;
use wire::{Decapsulate, LinkType, MAX_ENCAPSULATIONS, PacketInfo, dissect};

/// How often a frame is read in a run.
const REPETITIONS: usize = 100;

fn run(name: &str, frame: Vec<u8>) -> Run {
    Run::new(name, move || {
        for _ in 0..REPETITIONS {
            let frame = black_box(&frame[..]);
            let length = frame.len() as u32;
            measured(&mut || {
                let headers = dissect(LinkType::Ethernet, frame, length, Decapsulate::Innermost);
                black_box(PacketInfo::from_headers(frame, &headers));
            });
        }
        REPETITIONS
    })
}

fn ethernet(ether_type: u16, content: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(ether_type.to_be_bytes());
    frame.extend(content);
    frame
}

fn ipv4(protocol: u8, content: &[u8]) -> Vec<u8> {
    let length = (20 + content.len() as u16).to_be_bytes();
    let mut packet = vec![
        0x45, 0, length[0], length[1], 0, 1, 0, 0, 64, protocol, 0, 0,
    ];
    packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    let sum: u32 = packet
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(content);
    packet
}

fn ipv6(next: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, length[0], length[1], next, 64];
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1].repeat(2));
    packet.extend(content);
    packet
}

fn udp(port: u16, content: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x30, 0x39];
    packet.extend(port.to_be_bytes());
    packet.extend((8 + content.len() as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(content);
    packet
}

fn tcp(options: &[u8]) -> Vec<u8> {
    let mut packet = vec![0, 80, 0x30, 0x39, 0, 0, 0, 1, 0, 0, 0, 2];
    packet.extend([(5 + options.len() as u8 / 4) << 4, 0x10, 1, 0, 0, 0, 0, 0]);
    packet.extend(options);
    packet
}

fn vxlan(frame: &[u8]) -> Vec<u8> {
    udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0], frame].concat())
}

/// VLAN tags behind an Ethernet header, and what they hold.
fn tags(count: usize, ether_type: u16, content: &[u8]) -> Vec<u8> {
    let [high, low] = ether_type.to_be_bytes();
    let mut bytes = [0, 7, 0x81, 0].repeat(count - 1);
    bytes.extend([0, 7, high, low]);
    bytes.extend(content);
    bytes
}

/// An encapsulation around an IP packet, which is the content of a protocol number of IP.
type Wrap = fn(&[u8]) -> (u8, Vec<u8>);

/// As many of an encapsulation within each other as are followed, and one more.
fn nested(wrap: Wrap) -> Vec<u8> {
    let mut packet = ipv4(17, &udp(53, &[0; 20]));
    for _ in 0..=MAX_ENCAPSULATIONS {
        let (protocol, content) = wrap(&packet);
        packet = ipv4(protocol, &content);
    }
    ethernet(0x0800, &packet)
}

fn tunnels() -> Vec<Run> {
    let wraps: [(&str, Wrap); 8] = [
        ("IP in IP", |packet| (4, packet.to_vec())),
        ("GRE", |packet| (47, [&[0, 0, 8, 0], packet].concat())),
        ("VXLAN", |packet| (17, vxlan(&ethernet(0x0800, packet)))),
        ("VXLAN with all tags", |packet| {
            (17, vxlan(&ethernet(0x8100, &tags(8, 0x0800, packet))))
        }),
        ("GRE with all routes", |packet| {
            let routes = [8, 0, 0, 0].repeat(8);
            (
                47,
                [&[0x40, 0, 8, 0, 0, 0, 0, 0], &routes[..], &[0; 4], packet].concat(),
            )
        }),
        ("all labels", |packet| {
            (
                137,
                [&[0, 0, 0x10, 64].repeat(15)[..], &[0, 0, 0x11, 64], packet].concat(),
            )
        }),
        ("pseudowires with all labels", |packet| {
            let frame = ethernet(0x0800, packet);
            let labels = [0, 0, 0x10, 64].repeat(15);
            (
                137,
                [&labels[..], &[0, 0, 0x11, 64, 0, 0, 0, 0], &frame].concat(),
            )
        }),
        ("GTP-U with all extensions", |packet| {
            let length = (4 + 8 * 4 + packet.len() as u16).to_be_bytes();
            let start = [0x34, 0xff, length[0], length[1], 0, 0, 0, 1, 0, 0, 0, 0x85];
            let extensions = [1, 0, 0, 0x85].repeat(7);
            (
                17,
                udp(
                    2152,
                    &[&start[..], &extensions, &[1, 0, 0, 0], packet].concat(),
                ),
            )
        }),
    ];
    let mut runs: Vec<Run> = wraps
        .into_iter()
        .map(|(name, wrap)| run(&format!("nested: {name}"), nested(wrap)))
        .collect();
    // All extension headers of a frame in the first packet, then the others.
    let inner = ipv6(
        60,
        &[
            &[60, 0, 1, 4, 0, 0, 0, 0].repeat(14)[..],
            &[4, 0, 1, 4, 0, 0, 0, 0],
            &nested(wraps_of_labels)[14..],
        ]
        .concat(),
    );
    runs.push(run(
        "nested: extension headers and labels",
        ethernet(0x86dd, &inner),
    ));
    runs
}

fn wraps_of_labels(packet: &[u8]) -> (u8, Vec<u8>) {
    (
        137,
        [&[0, 0, 0x10, 64].repeat(15)[..], &[0, 0, 0x11, 64], packet].concat(),
    )
}

pub(crate) fn readers() -> Vec<Reader> {
    let payload = udp(443, &[0; 40]);
    let sack = [1, 1, 5, 34].into_iter().chain(0..32);
    let sack = sack.chain([1; 4]).collect::<Vec<u8>>();
    let handshake = [
        2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    let tagged = |count| ethernet(0x8100, &tags(count, 0x0800, &ipv4(17, &payload)));
    let options = |kind: u8, count: usize| {
        ethernet(
            0x86dd,
            &ipv6(
                kind,
                &[
                    &[kind, 0, 1, 4, 0, 0, 0, 0].repeat(count - 1)[..],
                    &[17, 0, 1, 4, 0, 0, 0, 0],
                    &payload,
                ]
                .concat(),
            ),
        )
    };
    let tcp_frame = |options: &[u8]| ethernet(0x0800, &ipv4(6, &tcp(options)));
    let authentication = |count: usize| {
        let more = [51, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0].repeat(count - 1);
        let last = [17, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        ethernet(0x0800, &ipv4(51, &[&more[..], &last, &payload].concat()))
    };
    let labels = |count: usize| {
        let more = [0, 0, 0x10, 64].repeat(count - 1);
        ethernet(
            0x8847,
            &[&more[..], &[0, 0, 0x11, 64], &ipv4(17, &payload)].concat(),
        )
    };
    vec![
        Reader {
            benign: run("benign VLAN tag", tagged(1)),
            hostile: vec![
                run("eight VLAN tags", tagged(8)),
                run("too many VLAN tags", tagged(300)),
            ],
        },
        Reader {
            benign: run("benign MPLS", labels(2)),
            hostile: vec![
                run("sixteen labels", labels(16)),
                run("too many labels", labels(300)),
            ],
        },
        Reader {
            benign: run("benign extension header", options(0, 1)),
            hostile: vec![
                run("sixteen extension headers", options(60, 16)),
                run("too many extension headers", options(60, 150)),
                run("hop-by-hop headers", options(0, 150)),
                run("authentication headers", authentication(16)),
                run("too many authentication headers", authentication(100)),
            ],
        },
        Reader {
            benign: run("benign TCP options", tcp_frame(&handshake)),
            hostile: vec![
                run("padding as options", tcp_frame(&[1; 40])),
                run("unknown options", tcp_frame(&[99, 2].repeat(20))),
                run(
                    "timestamps again and again",
                    tcp_frame(&[8, 10, 0, 0, 0, 1, 0, 0, 0, 2].repeat(4)),
                ),
                run("segment sizes", tcp_frame(&[2, 4, 5, 180].repeat(10))),
                run("permissions", tcp_frame(&[4, 2].repeat(20))),
                run("empty acknowledgements", tcp_frame(&[5, 2].repeat(20))),
                run("acknowledgements", tcp_frame(&sack)),
            ],
        },
        Reader {
            benign: run(
                "benign tunnel",
                ethernet(
                    0x0800,
                    &ipv4(17, &vxlan(&ethernet(0x0800, &ipv4(17, &payload)))),
                ),
            ),
            hostile: tunnels(),
        },
    ]
}
