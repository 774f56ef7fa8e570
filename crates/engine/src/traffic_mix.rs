//! The traffic mix: packets and bytes by IP protocol and by frame size.
//!
//! Frame sizes are in the classes of RMON (RFC 2819, `etherStatsPkts64Octets` and following), whose octets
//! include the frame check sequence (FCS). Captures and drivers leave the FCS out, so four bytes are added
//! to each length on the wire to choose the class. The bytes that are counted are those of the books,
//! without the FCS.
//!
//! It is not on by default: counting alone takes 12 ns per packet (64-byte frames, 2^16 flows, from a
//! file), and the mix adds 11 to 15 % to that.

use crate::books::{Books, Count};
use crate::measurement::{
    Findings, Measurement, MeasurementReport, MeasurementSpec, PacketInput, Packets, ReportRow,
    ReportTable,
};
use crate::record_channel::RecordSender;
use flow::{BURST, Batch, MeterOptions, Packet};
use port::Frame;
use std::any::Any;
use wire::NoFlow;

/// Counts the traffic mix.
pub const TRAFFIC_MIX: MeasurementSpec = MeasurementSpec {
    name: "traffic mix",
    input: PacketInput::Headers,
    at_receiver: true,
    build: |options| Ok(Box::new(MixCounter::new(options))),
};

/// Bytes of the frame check sequence.
const FCS: usize = 4;

/// The size classes: their names, and the largest frame of each, with its FCS.
const SIZES: [(&str, usize); 8] = [
    ("below_64", 63),
    ("64", 64),
    ("65_127", 127),
    ("128_255", 255),
    ("256_511", 511),
    ("512_1023", 1023),
    ("1024_1518", 1518),
    ("above_1518", usize::MAX),
];

/// The first length on the wire in the last size class.
const LAST_SIZE_FROM: usize = 1518 - FCS + 1;

/// The size class of each length on the wire up to [`LAST_SIZE_FROM`]: a load instead of seven
/// comparisons per packet.
static SIZE_OF_LENGTH: [u8; LAST_SIZE_FROM + 1] = {
    let mut table = [0; LAST_SIZE_FROM + 1];
    let mut length = 0;
    while length <= LAST_SIZE_FROM {
        while length + FCS > SIZES[table[length] as usize].1 {
            table[length] += 1;
        }
        length += 1;
    }
    table
};

/// Returns the size class of a frame of `length` bytes on the wire.
#[inline]
fn size_class(length: u32) -> usize {
    usize::from(SIZE_OF_LENGTH[(length as usize).min(LAST_SIZE_FROM)])
}

/// The protocols that most packets have: their names and numbers.
const PROTOCOLS: [(&str, u8); 4] = [("tcp", 6), ("udp", 17), ("icmp", 1), ("icmpv6", 58)];

/// The class of the protocols that are counted by number only.
const OTHER_PROTOCOL: usize = PROTOCOLS.len();

/// The class of each protocol number.
static PROTOCOL_CLASSES: [u8; 256] = {
    let mut table = [OTHER_PROTOCOL as u8; 256];
    let mut class = 0;
    while class < PROTOCOLS.len() {
        table[PROTOCOLS[class].1 as usize] = class as u8;
        class += 1;
    }
    table
};

/// Cells of a [`Pending`]: a protocol class and a size class, rounded up to a power of two so that an
/// index needs no bounds check.
const CELLS: usize = 64;

/// Copies of the cells, used in turn: consecutive packets of one class would otherwise wait for each
/// other's sums.
const COPIES: usize = 4;

/// Batches after which a pending cell could overflow: it has room for 2^16 packets.
const PENDING_BATCHES_MAX: usize = (1 << 16) / BURST - 1;

/// Bits of a pending cell that count bytes; the rest counts packets. 2^16 packets of 2^32 bytes fit.
const BYTES_BITS: u32 = 48;

/// The packets and bytes of the last batches, with one addition per packet.
#[derive(Debug)]
struct Pending {
    cells: [[u64; CELLS]; COPIES],
    batches: usize,
}

/// The traffic mix of one thread.
#[derive(Debug)]
struct MixCounter {
    /// Whether the flow key contains the protocol.
    key_has_protocol: bool,
    pending: Pending,
    mix: TrafficMix,
}

/// Packets and bytes by protocol and frame size.
#[derive(Clone, Debug)]
struct TrafficMix {
    by_protocol: Box<[Count; 256]>,
    /// Packets in flows whose key does not contain the protocol.
    protocol_not_in_key: Count,
    /// Packets without a flow.
    no_flow: [Count; NoFlow::ALL.len()],
    by_size: [Count; SIZES.len()],
}

impl MixCounter {
    fn new(options: &MeterOptions) -> Self {
        Self {
            key_has_protocol: options.flow.has_ports(),
            pending: Pending {
                cells: [[0; CELLS]; COPIES],
                batches: 0,
            },
            mix: TrafficMix {
                by_protocol: Box::new([Count::default(); 256]),
                protocol_not_in_key: Count::default(),
                no_flow: [Count::default(); NoFlow::ALL.len()],
                by_size: [Count::default(); SIZES.len()],
            },
        }
    }

    /// Counts packets of the given protocols.
    #[inline]
    fn count(&mut self, batch: &Batch, protocol: impl Fn(usize, u128, &Packet) -> u8) {
        let packets = batch.packets().iter().zip(batch.keys());
        for (index, (packet, &key)) in packets.enumerate() {
            let protocol = protocol(index, key, packet);
            let class = usize::from(PROTOCOL_CLASSES[usize::from(protocol)]);
            if class == OTHER_PROTOCOL {
                self.mix.by_protocol[usize::from(protocol)].add(packet.length);
            }
            let cell = class * SIZES.len() + size_class(packet.length);
            self.pending.cells[index % COPIES][cell % CELLS] +=
                (1 << BYTES_BITS) | u64::from(packet.length);
        }
    }

    /// Adds the pending counts to the others.
    fn flush(&mut self) {
        self.pending.batches = 0;
        for (at, cell) in self.pending.cells.iter_mut().flatten().enumerate() {
            let sum = std::mem::take(cell);
            let count = Count {
                packets: sum >> BYTES_BITS,
                bytes: sum & ((1 << BYTES_BITS) - 1),
            };
            let (class, size) = (at % CELLS / SIZES.len(), at % SIZES.len());
            self.mix.by_size[size] += count;
            if !self.key_has_protocol {
                self.mix.protocol_not_in_key += count;
            } else if let Some((_, number)) = PROTOCOLS.get(class) {
                self.mix.by_protocol[usize::from(*number)] += count;
            }
        }
    }
}

impl Measurement for MixCounter {
    fn process(&mut self, packets: &Packets<'_>, _: &mut RecordSender) {
        let batch = packets.batch;
        if !self.key_has_protocol {
            // Any protocol that has a class.
            self.count(batch, |_, _, _| PROTOCOLS[0].1);
        } else if batch.has_wide_keys() {
            self.count(batch, |index, _, _| batch.flow_key(index).protocol);
        } else {
            self.count(batch, |_, key, _| wire::FlowKey::from_compact(key).protocol);
        }
        self.pending.batches += 1;
        if self.pending.batches == PENDING_BATCHES_MAX {
            self.flush();
        }
    }

    fn count_without_flow(&mut self, frames: &[Frame<'_>], in_flows: &[Packet]) {
        let by_size = &mut self.mix.by_size;
        for frame in frames {
            by_size[size_class(frame.wire_length)].add(frame.wire_length);
        }
        for packet in in_flows {
            let count = &mut by_size[size_class(packet.length)];
            count.packets -= 1;
            count.bytes -= u64::from(packet.length);
        }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.mix.by_protocol)
    }

    fn report(&mut self, books: Option<&Books>) -> Option<Box<dyn Findings>> {
        self.flush();
        if let Some(books) = books {
            self.mix.no_flow = books.no_flow;
        }
        Some(Box::new(self.mix.clone()))
    }
}

impl Findings for TrafficMix {
    fn merge(&mut self, other: Box<dyn Any>) {
        let Ok(other) = other.downcast::<Self>() else {
            return;
        };
        add(&mut self.by_protocol[..], &other.by_protocol[..]);
        add(&mut self.no_flow, &other.no_flow);
        add(&mut self.by_size, &other.by_size);
        self.protocol_not_in_key += other.protocol_not_in_key;
    }

    fn report(&self) -> MeasurementReport {
        let mut counted = Count::default();
        self.by_size.iter().for_each(|count| counted += *count);
        MeasurementReport {
            name: "traffic_mix",
            title: "Traffic mix",
            counted,
            skipped: Vec::new(),
            tables: vec![
                ReportTable {
                    name: "protocols",
                    title: "IP protocol",
                    rows: self.protocol_rows(),
                },
                ReportTable {
                    name: "frame_sizes",
                    title: "frame size in bytes, with FCS",
                    rows: (SIZES.iter().zip(&self.by_size))
                        .map(|((name, _), &count)| row(*name, count))
                        .collect(),
                },
            ],
        }
    }
}

impl TrafficMix {
    /// Returns the rows of the protocols that occurred: named ones, other numbers, and the packets without
    /// a flow as the books name them.
    fn protocol_rows(&self) -> Vec<ReportRow> {
        let named = PROTOCOLS
            .iter()
            .map(|&(name, number)| row(name, self.by_protocol[usize::from(number)]));
        let others = (0..=u8::MAX)
            .filter(|number| PROTOCOLS.iter().all(|(_, named)| named != number))
            .map(|number| {
                row(
                    format!("protocol_{number}"),
                    self.by_protocol[usize::from(number)],
                )
            });
        let no_flow = NoFlow::ALL.iter().map(|&reason| {
            let name = format!("no_flow_{}", reason.name());
            row(name, self.no_flow[reason as usize])
        });
        named
            .chain(others)
            .chain([row("not_in_flow_key", self.protocol_not_in_key)])
            .chain(no_flow)
            .filter(|row| row.count.packets > 0)
            .collect()
    }
}

fn row(name: impl Into<String>, count: Count) -> ReportRow {
    ReportRow {
        name: name.into(),
        count,
    }
}

fn add(sums: &mut [Count], others: &[Count]) {
    for (sum, other) in sums.iter_mut().zip(others) {
        *sum += *other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_are_those_of_rmon() {
        let class = |frame: u32| SIZES[size_class(frame - FCS as u32)].0;
        for (first, last, name) in [
            (4, 63, "below_64"),
            (64, 64, "64"),
            (65, 127, "65_127"),
            (128, 255, "128_255"),
            (256, 511, "256_511"),
            (512, 1023, "512_1023"),
            (1024, 1518, "1024_1518"),
            (1519, u32::MAX, "above_1518"),
        ] {
            assert_eq!((class(first), class(last)), (name, name));
        }
    }

    #[test]
    fn pending_cells_do_not_overflow() {
        let mut counter = MixCounter::new(&MeterOptions::default());
        let mut batch = Batch::default();
        let packet = Packet {
            length: u32::MAX,
            ..Packet::default()
        };
        for _ in 0..BURST {
            // A compact key of protocol 6.
            batch.push(6 << 8, packet);
        }
        let (mut records, _receiver) = crate::record_channel::channel(1, true);
        let packets = Packets {
            batch: &batch,
            frames: None,
        };
        let batches = 2 * PENDING_BATCHES_MAX + 1;
        for _ in 0..batches {
            counter.process(&packets, &mut records);
        }
        let findings = Measurement::report(&mut counter, None).unwrap();
        let packets = (batches * BURST) as u64;
        let counted = Count {
            packets,
            bytes: packets * u64::from(u32::MAX),
        };
        assert!(findings.report().is_balanced(counted));
        assert_eq!(findings.report().tables[0].rows, [row("tcp", counted)]);
    }
}
