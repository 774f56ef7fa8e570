//! A lower bound for a flow meter that reads a capture: read blocks that stay in the cache, walk the
//! records, parse the 5-tuple, hash it, and count in an open-addressing table whose size was chosen
//! for the number of flows. It has no expiry, no output and no extension headers; it reads only
//! classic Ethernet pcap files of this machine's byte order, and folds IPv6 addresses to 64 bits.
//!
//! `bare_loop FILE [LOG2_ENTRIES]`: prints packets, flows and bytes.
#![allow(clippy::print_stdout, reason = "it reports to the person who runs it")]

use std::fs::File;
use std::io::Read;

use hw::memory::{HugeSlice, Line};
use hw::prefetch;

const BLOCK_BYTES: usize = 256 << 10;
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
/// Packets between the prefetch of an entry and its use.
const BURST: usize = 32;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: u16 = 0x88a8;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

/// Marks an entry in use.
const IN_USE: u64 = 1 << 63;

/// The fields of a packet that the table counts.
#[derive(Clone, Copy, Default)]
struct Packet {
    addresses: u64,
    ports_and_protocol: u64,
    time_us: u64,
    bytes: u64,
    tcp_flags: u64,
    index: usize,
}

/// One cache line per flow; the constants below are its words.
type Entry = Line<u64, 8>;
const ADDRESSES: usize = 0;
const PORTS_AND_PROTOCOL: usize = 1;
const PACKETS: usize = 2;
const BYTES: usize = 3;
// Word 4 is the time of the first packet, written once.
const LAST: usize = 5;
const TCP_FLAGS: usize = 6;
const LONGEST: usize = 7;

struct Table {
    entries: HugeSlice<Entry>,
    mask: usize,
    flows: usize,
}

impl Table {
    // A lower bound must not pay for a call per packet.
    #[inline(always)]
    fn update(&mut self, packet: &Packet) {
        let mut index = packet.index;
        loop {
            let Line(entry) = &mut self.entries[index];
            if entry[ADDRESSES] == packet.addresses
                && entry[PORTS_AND_PROTOCOL] == packet.ports_and_protocol
            {
                entry[PACKETS] += 1;
                entry[BYTES] += packet.bytes;
                entry[LAST] = packet.time_us;
                entry[TCP_FLAGS] |= packet.tcp_flags;
                entry[LONGEST] = entry[LONGEST].max(packet.bytes);
                return;
            }
            if entry[PORTS_AND_PROTOCOL] == 0 {
                *entry = [
                    packet.addresses,
                    packet.ports_and_protocol,
                    1,
                    packet.bytes,
                    packet.time_us,
                    packet.time_us,
                    packet.tcp_flags,
                    packet.bytes,
                ];
                self.flows += 1;
                assert!(self.flows < self.entries.len(), "more flows than entries");
                return;
            }
            index = (index + 1) & self.mask;
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Multiplies both halves, mixed with constants, and folds the product.
// A lower bound must not pay for a call per packet.
#[inline(always)]
fn hash(first: u64, second: u64) -> u64 {
    let product =
        u128::from(first ^ 0xa076_1d64_78bd_642f) * u128::from(second ^ 0xe703_7ed1_a0b4_28db);
    let folded = product as u64 ^ (product >> 64) as u64;
    folded ^ folded >> 32
}

/// The key and length of an IP packet in an Ethernet frame; `None` for anything else.
// A lower bound must not pay for a call per packet.
#[inline(always)]
fn parse(frame: &[u8]) -> Option<Packet> {
    let ethernet = frame.first_chunk::<14>()?;
    let mut ethertype = u16::from_be_bytes([ethernet[12], ethernet[13]]);
    let mut network = &frame[14..];
    while ethertype == ETHERTYPE_VLAN || ethertype == ETHERTYPE_QINQ {
        let (tag, rest) = network.split_first_chunk::<4>()?;
        ethertype = u16::from_be_bytes([tag[2], tag[3]]);
        network = rest;
    }
    let mut packet = Packet::default();
    let (protocol, transport, has_ports) = match ethertype {
        ETHERTYPE_IPV4 => {
            let header = network.first_chunk::<20>()?;
            if header[0] >> 4 != 4 {
                return None;
            }
            packet.addresses = u64::from_ne_bytes(*header[12..].first_chunk()?);
            packet.bytes = u64::from(u16::from_be_bytes([header[2], header[3]]));
            // Only the first fragment of a datagram has ports.
            let first = (header[6] & 0x1f) | header[7] == 0;
            let length = usize::from(header[0] & 15) * 4;
            (header[9], network.get(length..), first)
        }
        ETHERTYPE_IPV6 => {
            let (header, rest) = network.split_first_chunk::<40>()?;
            let part = |at: usize| Some(u64::from_ne_bytes(*header[at..].first_chunk()?));
            packet.addresses =
                hash(part(8)?, part(16)?).rotate_left(21) ^ hash(part(24)?, !part(32)?);
            packet.bytes = 40 + u64::from(u16::from_be_bytes([header[4], header[5]]));
            (header[6], Some(rest), true)
        }
        _ => return None,
    };
    packet.ports_and_protocol = IN_USE | u64::from(protocol) << 32;
    if has_ports
        && (protocol == PROTOCOL_TCP || protocol == PROTOCOL_UDP)
        && let Some(transport) = transport
        && let Some(ports) = transport.first_chunk::<4>()
    {
        packet.ports_and_protocol |= u64::from(u32::from_ne_bytes(*ports));
        if protocol == PROTOCOL_TCP
            && let Some(flags) = transport.get(13)
        {
            packet.tcp_flags = u64::from(*flags);
        }
    }
    Some(packet)
}

/// Counts the complete records of `block`; returns their number and their length in bytes.
fn count(block: &[u8], table: &mut Table) -> (u64, usize) {
    let mut packets = 0;
    let mut burst = [Packet::default(); BURST];
    let mut filled = 0;
    let mut rest = block;
    while let Some((header, after)) = rest.split_first_chunk::<RECORD_HEADER>() {
        let field = |at: usize| {
            u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let Some((frame, after)) = after.split_at_checked(field(8) as usize) else {
            break;
        };
        rest = after;
        packets += 1;
        let Some(mut packet) = parse(frame) else {
            continue;
        };
        packet.time_us = u64::from(field(0)) * 1_000_000 + u64::from(field(4));
        packet.index = hash(packet.addresses, packet.ports_and_protocol) as usize & table.mask;
        prefetch::read(&table.entries, packet.index);
        burst[filled] = packet;
        filled += 1;
        if filled == BURST {
            for packet in &burst {
                table.update(packet);
            }
            filled = 0;
        }
    }
    for packet in &burst[..filled] {
        table.update(packet);
    }
    (packets, block.len() - rest.len())
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        anyhow::bail!("bare_loop FILE [LOG2_ENTRIES]");
    };
    let log2_entries: u32 = arguments.next().map_or(Ok(19), |text| text.parse())?;
    let mut table = Table {
        entries: HugeSlice::try_zeroed(1 << log2_entries)?,
        mask: (1 << log2_entries) - 1,
        flows: 0,
    };
    let mut file = File::open(&path)?;
    let mut header = [0; FILE_HEADER];
    file.read_exact(&mut header)?;
    anyhow::ensure!(
        word(&header, 0) == Some(MAGIC_MICROSECONDS) && word(&header, 20) == Some(1),
        "{path}: not an Ethernet pcap of this machine's byte order, in microseconds"
    );
    let mut buffer = vec![0; BLOCK_BYTES];
    let (mut packets, mut held) = (0, 0);
    loop {
        let read = file.read(&mut buffer[held..])?;
        if read == 0 {
            break;
        }
        held += read;
        let (counted, used) = count(&buffer[..held], &mut table);
        anyhow::ensure!(
            used > 0 || held < BLOCK_BYTES,
            "a record longer than a block"
        );
        packets += counted;
        buffer.copy_within(used..held, 0);
        held -= used;
    }
    let total = |word: usize| table.entries.iter().map(|entry| entry.0[word]).sum::<u64>();
    println!(
        "packets: {packets} flows: {} IP packets: {} IP bytes: {}",
        table.flows,
        total(PACKETS),
        total(BYTES)
    );
    Ok(())
}
