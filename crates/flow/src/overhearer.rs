//! Listens to what DNS responses tell clients, for tables that do not see them all: datagrams as they
//! are, and TCP connections as the table of each would read them, by the same code.

use crate::batch::{Batch, Payloads};
use crate::entry::{Entry, FlowEntry};
use crate::expiry::Expiry;
use crate::meter::MeterOptions;
use app::{Names, NamesLimits, Progress, Segment, Told, dns};
use hw::hash::KeyedHash;
use std::io;
use wire::{FlowKey, ip_protocol};

/// Connections of DNS that are listened to at a time: with the default idle time-out as many as 270
/// new ones a second. Of a set of [`WAYS`] the one that was silent for the longest makes room.
const CONNECTIONS: usize = 4096;
const WAYS: usize = 8;
const SETS: usize = CONNECTIONS / WAYS;

/// Messages that are put together at a time. One is under way for as long as its segments follow each
/// other, a round trip or two: with a tenth of a second each, as many as 2,560 a second.
const ASSEMBLIES: u16 = 256;

/// Listens to the packets that one thread hands to several tables, or that threads share.
pub struct Overhearer {
    names: Names,
    expiry: Expiry,
    connections: Box<[Connection]>,
    hash: KeyedHash,
    /// The set that is looked through for ended connections next.
    swept: usize,
}

/// A connection of DNS, with all by which its table tells when it ends; without a key, none.
#[derive(Clone, Copy, Default)]
struct Connection {
    entry: Entry,
    key: FlowKey,
    progress: Progress,
    /// Direction, by the table's key, of its first packet.
    initiator: u8,
}

impl Overhearer {
    /// For tables with `options`.
    ///
    /// # Errors
    /// When the machine has no room for it.
    pub fn new(options: &MeterOptions) -> io::Result<Self> {
        let limits = NamesLimits {
            assemblies_max: ASSEMBLIES,
            // Nobody reads what flows know, nor looks names up here: the least of it.
            text_bytes: 1,
            resolved_max: 1,
            ..NamesLimits::default()
        };
        let applications = options.applications.clone().unwrap_or_default();
        let mut names = Names::new(CONNECTIONS, &limits, applications, options.seed)?;
        names.tell();
        if options.populate {
            names.populate();
        }
        Ok(Self {
            names,
            expiry: options.expiry(),
            connections: vec![Connection::default(); CONNECTIONS].into(),
            hash: KeyedHash::new(options.seed),
            swept: 0,
        })
    }

    /// Takes in the packets of `batch` from `first` on; `tell` has what responses that are whole by one
    /// of them tell its receiver, with the number of the packet.
    #[inline]
    pub fn listen(
        &mut self,
        batch: &Batch,
        first: usize,
        payloads: &impl Payloads,
        mut tell: impl FnMut(usize, Told),
    ) {
        let segments = batch.segments().get(first..).unwrap_or_default();
        for (segment, index) in segments.iter().zip(first..) {
            if dns::tells_a_client(segment.source_port, segment.destination_port) {
                self.listen_closely(batch, index, payloads, |told| tell(index, told));
            }
        }
    }

    #[inline(never)]
    fn listen_closely(
        &mut self,
        batch: &Batch,
        index: usize,
        payloads: &impl Payloads,
        mut tell: impl FnMut(Told),
    ) {
        let (packet, segment) = (&batch.packets()[index], &batch.segments()[index]);
        let key = batch.flow_key(index);
        let client = u128::from_le_bytes(if packet.direction == 0 {
            key.destination
        } else {
            key.source
        });
        let mut tell = |told: Told| tell(told.to(client));
        match segment.transport {
            ip_protocol::UDP => {
                let bytes = payloads.payload(batch, segment);
                Told::of_datagram(bytes, packet.time_ns).map(tell);
            }
            ip_protocol::TCP => {
                self.sweep(packet.clock_ms);
                let place = self.place(batch, index, &key);
                let connection = &mut self.connections[place];
                let side = usize::from(packet.direction ^ connection.initiator);
                let segment = Segment::of(packet.time_ns, side, segment, || {
                    payloads.payload(batch, segment)
                });
                self.names
                    .observe(&mut connection.progress, &segment, || key);
                self.names.told().for_each(&mut tell);
            }
            _ => {}
        }
    }

    /// The place of the connection of packet `index`, which is counted there: a new one's, where there
    /// is none yet or the table's flow has ended before this packet.
    fn place(&mut self, batch: &Batch, index: usize, key: &FlowKey) -> usize {
        let (packet, table_key) = (&batch.packets()[index], batch.keys()[index]);
        let set = self.hash.digest(&[table_key, 0, 0]) as usize % SETS * WAYS;
        let places = set..set + WAYS;
        let known = places.clone().find(|&place| {
            let connection = &self.connections[place];
            connection.entry.key() == table_key && connection.key == *key
        });
        if let Some(place) = known {
            let entry = &mut self.connections[place].entry;
            if self.expiry.ended_before(entry, packet).is_none() {
                entry.count::<false>(packet);
                return place;
            }
        }
        let silence = |&place: &usize| {
            let entry = &self.connections[place].entry;
            match entry.key() {
                0 => u64::MAX,
                _ => u64::from(packet.clock_ms.wrapping_sub(entry.last_clock_ms())),
            }
        };
        let place = known.or_else(|| places.max_by_key(silence)).unwrap_or(set);
        self.forget(place);
        let connection = &mut self.connections[place];
        let active_tick = self.expiry.active_tick(packet.clock_ms);
        connection.entry.open(table_key, packet, active_tick);
        connection.key = *key;
        connection.initiator = packet.direction;
        place
    }

    /// Lets the connections of a set go that have ended, with the buffers that they hold.
    fn sweep(&mut self, clock_ms: u32) {
        self.swept = (self.swept + WAYS) % CONNECTIONS;
        for place in self.swept..self.swept + WAYS {
            let entry = &self.connections[place].entry;
            if entry.key() != 0 && self.expiry.ended(entry, clock_ms).is_some() {
                self.forget(place);
            }
        }
    }

    fn forget(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        drop(self.names.take(&mut connection.progress, &connection.key));
        *connection = Connection::default();
    }

    /// Memory when all is taken, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.names.memory_bytes() + size_of_val(&*self.connections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timeouts;
    use crate::batch::{InFrames, Packet, TableKey};
    use crate::record::FlowDefinition;
    use std::time::Duration;

    const IDLE_MS: u32 = 1000;

    struct Listening {
        overhearer: Overhearer,
        options: MeterOptions,
        clock_ms: u32,
    }

    impl Listening {
        fn new() -> Self {
            let options = MeterOptions {
                flow: FlowDefinition::Bidirectional,
                timeouts: Timeouts {
                    idle: Some(Duration::from_millis(u64::from(IDLE_MS))),
                    ..Timeouts::default()
                },
                ..MeterOptions::default()
            };
            Self {
                overhearer: Overhearer::new(&options).unwrap(),
                options,
                clock_ms: 0,
            }
        }

        /// What is told by a segment of the resolver, from `port`, to client `number`.
        fn hear(&mut self, number: u16, port: u16, sequence: u32, payload: &[u8]) -> Vec<Told> {
            let mut key = FlowKey {
                version: 4,
                protocol: ip_protocol::TCP,
                source_port: port,
                destination_port: 4000,
                ..FlowKey::default()
            };
            key.source[0] = 200;
            key.destination[..2].copy_from_slice(&number.to_le_bytes());
            let maker = self.options.key_maker();
            let (TableKey::Compact(table_key), direction) = maker.from_key(&mut key) else {
                panic!("a key of IPv4 is compact");
            };
            let mut batch = Batch::default();
            let packet = Packet {
                time_ns: i64::from(self.clock_ms) * 1_000_000,
                clock_ms: self.clock_ms,
                direction,
                ..Packet::default()
            };
            batch.push(table_key, packet);
            batch.push_segment(wire::Segment {
                sequence,
                payload_length: payload.len() as u32,
                payload_captured: payload.len() as u32,
                source_port: port,
                destination_port: 4000,
                transport: ip_protocol::TCP,
                ..wire::Segment::default()
            });
            let mut told = Vec::new();
            let payloads = InFrames(&[payload]);
            self.overhearer
                .listen(&batch, 0, &payloads, |_, it| told.push(it));
            told
        }
    }

    /// Of `a.example`, behind its length.
    fn response(address: u8) -> Vec<u8> {
        let mut bytes = vec![0, 43, 0, 1, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        bytes.extend(b"\x01a\x07example\0\0\x01\0\x01");
        bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, address]);
        bytes
    }

    #[test]
    fn a_response_is_told_by_its_last_segment() {
        let mut listening = Listening::new();
        let bytes = [response(7), response(8), response(9)].concat();
        assert_eq!(listening.hear(1, 53, 100, &bytes[..20]), []);
        // What comes before a gap is filled waits.
        assert_eq!(listening.hear(1, 53, 150, &bytes[50..]), []);
        let told = listening.hear(1, 53, 120, &bytes[20..60]);
        let server = |told: &Told| told.servers().to_vec();
        let expected = [7, 8, 9].map(|it| vec![u128::from(u32::from_le_bytes([192, 0, 2, it]))]);
        assert_eq!(told.iter().map(server).collect::<Vec<_>>(), expected);
        assert!(told.iter().all(|it| it.client == 1));
        assert!(told.iter().all(|it| it.name() == b"a.example"));
        assert_eq!(listening.hear(1, 53, 120, &bytes[20..60]), []);
    }

    #[test]
    fn what_was_told_outlives_packets_that_are_dropped() {
        let told = Told::of_datagram(&response(1)[2..], 5).unwrap();
        let mut batch = Batch::default();
        batch.push(7, Packet::default());
        batch.tell(1, told.clone());
        batch.drop_packets();
        assert_eq!((batch.len(), batch.told()), (0, &[(0, told)][..]));
    }

    #[test]
    fn other_ports_are_not_listened_to() {
        let mut listening = Listening::new();
        assert_eq!(listening.hear(1, 5353, 1, &response(1)), []);
        assert!(listening.overhearer.names.is_idle());
        let empty = |it: &Connection| it.entry.key() == 0;
        assert!(listening.overhearer.connections.iter().all(empty));
    }

    #[test]
    fn what_is_kept_is_bounded_and_is_given_back() {
        let mut listening = Listening::new();
        let bytes = response(1);
        for number in 0..2 * CONNECTIONS as u16 {
            assert_eq!(listening.hear(number, 53, 1, &bytes[..30]), []);
        }
        // The last have buffers.
        let wholes = |listening: &mut Listening, numbers: std::ops::Range<u16>| {
            numbers
                .filter(|&number| !listening.hear(number, 53, 31, &bytes[30..]).is_empty())
                .count()
        };
        let heard = wholes(&mut listening, 0..2 * CONNECTIONS as u16);
        assert!(heard <= usize::from(ASSEMBLIES), "{heard}");
        // Without a further packet, connections that have ended hold nothing for long.
        listening.clock_ms += IDLE_MS + 1;
        for _ in 0..SETS {
            assert_eq!(listening.hear(1, 53, 1, &[]), []);
        }
        assert_eq!(wholes(&mut listening, 1..2), 0);
        for number in 2..100 {
            assert_eq!(listening.hear(number, 53, 1, &bytes[..30]), []);
        }
        assert_eq!(wholes(&mut listening, 2..100), 98);
    }
}
