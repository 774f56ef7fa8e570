//! Reads the DNS responses for several flow tables, because a table does not receive all responses for
//! its own flows. DNS over TCP is read by the inspector that the tables use, so that the answers are
//! the same as with a single table.

use crate::batch::{Batch, Packet, Payloads};
use crate::entry::{Entry, FlowEntry};
use crate::expiry::{Evidence, Expiry};
use crate::meter::MeterOptions;
use analysis::Tcp;
use analysis::tcp::TcpColdPool;
use app::{DnsAnswer, InspectState, Inspector, InspectorLimits, L4Payload, QueryTable, dns};
use hw::hash::KeyedHash;
use std::io;
use std::sync::Arc;
use wire::{FlowKey, PacketInfo, ip_protocol};

/// The most concurrent DNS connections. It is enough for 270 new ones a second with the default idle
/// timeout. A full set of [`WAYS`] connections evicts the one that was idle for longest.
const CONNECTIONS: usize = 4096;
/// Slots of a set.
const WAYS: usize = 8;
/// Number of sets.
const SETS: usize = CONNECTIONS / WAYS;

/// The most messages that are reassembled at a time. A message takes a round trip or two. If that is a
/// tenth of a second, the limit is 2,560 messages a second.
const REASSEMBLY_BUFFERS: u16 = 256;

/// Extracts the DNS answers from packets before these are distributed to several tables.
pub struct DnsTap {
    inspector: Inspector,
    expiry: Expiry,
    connections: Box<[Connection]>,
    /// What the tables' analysis of TCP knows of each connection, if there is one: it decides with it
    /// whether flows are closed.
    tcp: Option<TcpStates>,
    hash: KeyedHash,
    /// First slot of the set that was swept last.
    sweep_position: usize,
}

/// The TCP states of the connections, by slot.
struct TcpStates {
    states: Box<[Tcp]>,
    cold: TcpColdPool,
}

impl TcpStates {
    fn new() -> io::Result<Self> {
        Ok(Self {
            states: vec![Tcp::default(); CONNECTIONS].into(),
            cold: TcpColdPool::new(CONNECTIONS)?,
        })
    }

    fn release(&mut self, slot: usize) {
        std::mem::take(&mut self.states[slot]).release(&mut self.cold);
    }
}

/// A DNS connection, with the entry by which its table decides when the flow ends. The slot is empty
/// if the entry has no key.
#[derive(Clone, Copy, Default)]
struct Connection {
    entry: Entry,
    key: FlowKey,
    state: InspectState,
    /// Direction of its initiator, relative to the table's key.
    initiator: u8,
}

impl DnsTap {
    /// Creates a tap for tables with `options`.
    ///
    /// # Errors
    /// If the memory cannot be allocated.
    pub fn new(options: &MeterOptions) -> io::Result<Self> {
        let limits = InspectorLimits {
            reassembly_buffers_max: REASSEMBLY_BUFFERS,
            // The tap needs neither the texts of flows nor resolved names, so their memory is minimal.
            text_bytes: 1,
            resolved_names_max: 1,
            ..InspectorLimits::default()
        };
        let applications = options.applications.clone().unwrap_or_default();
        let mut inspector = Inspector::new(CONNECTIONS, &limits, applications, options.seed)?;
        inspector.publish_dns_answers();
        if options.populate {
            inspector.populate();
        }
        Ok(Self {
            inspector,
            expiry: options.expiry(),
            connections: vec![Connection::default(); CONNECTIONS].into(),
            tcp: match options.statistics.analysis {
                Some(level) if level.has_tcp() => Some(TcpStates::new()?),
                _ => None,
            },
            hash: KeyedHash::new(options.seed),
            sweep_position: 0,
        })
    }

    /// Shares the queries that other taps see, because responses may come to another tap than their
    /// queries.
    pub fn share_queries(&mut self, queries: &Arc<QueryTable>) {
        self.inspector.share_queries(Arc::clone(queries));
    }

    /// Creates the queries that the taps of tables with `options` can share.
    #[must_use]
    pub fn queries(options: &MeterOptions) -> Arc<QueryTable> {
        let queries_max = InspectorLimits::default().dns_queries_max;
        Arc::new(QueryTable::new(queries_max, options.seed))
    }

    /// Reads the packets of `batch` from index `first` on. Calls `publish` for each answer that a packet
    /// completes, with the index of the packet.
    #[inline]
    pub fn observe(
        &mut self,
        batch: &Batch,
        first: usize,
        payloads: &impl Payloads,
        mut publish: impl FnMut(usize, DnsAnswer),
    ) {
        let infos = batch.details().get(first..).unwrap_or_default();
        for (info, index) in infos.iter().zip(first..) {
            if dns::has_client(info.source_port, info.destination_port) {
                self.observe_dns_packet(batch, index, payloads, |answer| publish(index, answer));
            }
        }
    }

    #[inline(never)]
    fn observe_dns_packet(
        &mut self,
        batch: &Batch,
        index: usize,
        payloads: &impl Payloads,
        mut publish: impl FnMut(DnsAnswer),
    ) {
        let (packet, info) = (&batch.packets()[index], &batch.details()[index]);
        let key = batch.flow_key(index);
        match info.transport {
            ip_protocol::UDP => {
                let mut ends = [key.source, key.destination].map(u128::from_le_bytes);
                if packet.direction != 0 {
                    ends.reverse();
                }
                let payload =
                    L4Payload::new(packet.time_ns, 0, info, || payloads.payload(batch, info));
                self.inspector
                    .observe_dns_datagram(&payload, ends)
                    .into_iter()
                    .for_each(publish);
            }
            ip_protocol::TCP => {
                self.sweep(packet.clock_ms);
                let slot = self.find_or_insert(batch, index, &key);
                let connection = &mut self.connections[slot];
                let side = usize::from(packet.direction ^ connection.initiator);
                if let Some(tcp) = &mut self.tcp {
                    tcp.states[slot].count(side, packet.time_ns, info, &mut tcp.cold);
                }
                let payload =
                    L4Payload::new(packet.time_ns, side, info, || payloads.payload(batch, info));
                // The side is relative to the initiator, so the key must be as well.
                let key = match connection.initiator {
                    1 => key.reversed(),
                    _ => key,
                };
                self.inspector
                    .observe(&mut connection.state, &payload, || key);
                self.inspector.take_dns_answers().for_each(&mut publish);
            }
            _ => {}
        }
    }

    /// Returns the slot of the connection of packet `index`, and counts the packet there. Starts a new
    /// connection if there is none, or if the table's flow has ended before this packet.
    fn find_or_insert(&mut self, batch: &Batch, index: usize, key: &FlowKey) -> usize {
        let (packet, table_key) = (&batch.packets()[index], batch.keys()[index]);
        let set = self.hash.digest(&[table_key, 0, 0]) as usize % SETS * WAYS;
        let slots = set..set + WAYS;
        let known = slots.clone().find(|&slot| {
            let connection = &self.connections[slot];
            connection.entry.key() == table_key && connection.key == *key
        });
        if let Some(slot) = known
            && !self.has_ended_before(slot, packet, &batch.details()[index])
        {
            self.connections[slot].entry.count::<false>(packet);
            return slot;
        }
        let idle_time = |&slot: &usize| {
            let entry = &self.connections[slot].entry;
            match entry.key() {
                0 => u64::MAX,
                _ => u64::from(packet.clock_ms.wrapping_sub(entry.last_clock_ms())),
            }
        };
        let slot = known.or_else(|| slots.max_by_key(idle_time)).unwrap_or(set);
        self.remove(slot);
        let connection = &mut self.connections[slot];
        let active_tick = self.expiry.active_tick(packet.clock_ms);
        connection.entry.open(table_key, packet, active_tick);
        connection.key = *key;
        connection.initiator = self.expiry.initiator(packet);
        slot
    }

    /// Returns whether the table's flow has ended before this packet of the connection in `slot`.
    fn has_ended_before(&self, slot: usize, packet: &Packet, info: &PacketInfo) -> bool {
        let connection = &self.connections[slot];
        let evidence = || {
            let side = usize::from(packet.direction ^ connection.initiator);
            self.evidence(slot, Some((side, info)))
        };
        let (expiry, entry) = (&self.expiry, &connection.entry);
        expiry.ended_before(entry, packet).is_some()
            && expiry
                .ended_before_knowing(entry, packet, evidence())
                .is_some()
    }

    fn evidence(&self, slot: usize, packet: Option<(usize, &PacketInfo)>) -> Evidence {
        let tcp = self.tcp.as_ref();
        tcp.map_or_else(Evidence::default, |tcp| {
            Evidence::of(&tcp.states[slot], packet)
        })
    }

    /// Removes the ended connections of the next set, and with them their buffers.
    fn sweep(&mut self, clock_ms: u32) {
        self.sweep_position = (self.sweep_position + WAYS) % CONNECTIONS;
        for slot in self.sweep_position..self.sweep_position + WAYS {
            let entry = &self.connections[slot].entry;
            let has_ended = || {
                let evidence = self.evidence(slot, None);
                self.expiry.ended_knowing(entry, clock_ms, evidence)
            };
            if entry.key() != 0 && has_ended().is_some() {
                self.remove(slot);
            }
        }
    }

    fn remove(&mut self, slot: usize) {
        if let Some(tcp) = &mut self.tcp {
            tcp.release(slot);
        }
        let connection = &mut self.connections[slot];
        drop(
            self.inspector
                .finish(&mut connection.state, &connection.key),
        );
        *connection = Connection::default();
    }

    /// Memory with all pools full, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let tcp = self.tcp.as_ref();
        self.inspector.memory_bytes()
            + size_of_val(&*self.connections)
            + tcp.map_or(0, |tcp| size_of_val(&*tcp.states) + tcp.cold.memory_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timeouts;
    use crate::batch::{FramePayloads, TableKey};
    use crate::definition::FlowDefinition;
    use crate::statistic::Selection;
    use analysis::Level;
    use std::time::Duration;
    use wire::tcp::flag::{ACK, RST};

    const IDLE_MS: u32 = 1000;
    const CLOSE_MS: u32 = 100;

    struct Fixture {
        tap: DnsTap,
        options: MeterOptions,
        clock_ms: u32,
    }

    impl Fixture {
        fn new() -> Self {
            Self::with_level(Level::Application)
        }

        fn with_level(level: Level) -> Self {
            let options = MeterOptions {
                flow: FlowDefinition::Bidirectional,
                timeouts: Timeouts {
                    idle: Some(Duration::from_millis(u64::from(IDLE_MS))),
                    tcp_close: Some(Duration::from_millis(u64::from(CLOSE_MS))),
                    ..Timeouts::default()
                },
                statistics: Selection {
                    analysis: Some(level),
                    ..Selection::default()
                },
                ..MeterOptions::default()
            };
            Self {
                tap: DnsTap::new(&options).unwrap(),
                options,
                clock_ms: 0,
            }
        }

        /// The answers that a segment completes, sent by the resolver from `port` to client `number`.
        fn observe_segment(
            &mut self,
            number: u16,
            port: u16,
            sequence: u32,
            payload: &[u8],
        ) -> Vec<DnsAnswer> {
            self.observe_flags(number, port, ACK, sequence, payload)
        }

        fn observe_flags(
            &mut self,
            number: u16,
            port: u16,
            tcp_flags: u8,
            sequence: u32,
            payload: &[u8],
        ) -> Vec<DnsAnswer> {
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
                panic!("an IPv4 key is compact");
            };
            let mut batch = Batch::default();
            let packet = Packet {
                time_ns: i64::from(self.clock_ms) * 1_000_000,
                clock_ms: self.clock_ms,
                direction,
                tcp_flags,
                ..Packet::default()
            };
            batch.push(table_key, packet);
            batch.push_details(PacketInfo {
                sequence,
                payload_length: payload.len() as u32,
                payload_captured: payload.len() as u32,
                source_port: port,
                destination_port: 4000,
                transport: ip_protocol::TCP,
                tcp_flags,
                ..PacketInfo::default()
            });
            let mut answers = Vec::new();
            let payloads = FramePayloads(&[payload]);
            self.tap
                .observe(&batch, 0, &payloads, |_, it| answers.push(it));
            answers
        }
    }

    /// A response for `a.example`, after its length.
    fn response(address: u8) -> Vec<u8> {
        let mut bytes = vec![0, 43, 0, 1, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        bytes.extend(b"\x01a\x07example\0\0\x01\0\x01");
        bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, address]);
        bytes
    }

    #[test]
    fn last_segment_of_a_response_gives_its_answer() {
        let mut fixture = Fixture::new();
        let bytes = [response(7), response(8), response(9)].concat();
        assert_eq!(fixture.observe_segment(1, 53, 100, &bytes[..20]), []);
        // A segment after a gap waits.
        assert_eq!(fixture.observe_segment(1, 53, 150, &bytes[50..]), []);
        let answers = fixture.observe_segment(1, 53, 120, &bytes[20..60]);
        let server = |answer: &DnsAnswer| answer.servers().to_vec();
        let expected = [7, 8, 9].map(|it| vec![u128::from(u32::from_le_bytes([192, 0, 2, it]))]);
        assert_eq!(answers.iter().map(server).collect::<Vec<_>>(), expected);
        assert!(answers.iter().all(|it| it.client == 1));
        assert!(answers.iter().all(|it| it.name() == b"a.example"));
        assert_eq!(fixture.observe_segment(1, 53, 120, &bytes[20..60]), []);
    }

    #[test]
    fn answers_stay_when_packets_are_cleared() {
        let answer = DnsAnswer::from_datagram(&response(1)[2..], 5).unwrap();
        let mut batch = Batch::default();
        batch.push(7, Packet::default());
        batch.push_dns_answer(1, answer.clone());
        batch.clear_packets();
        assert_eq!((batch.len(), batch.dns_answers()), (0, &[(0, answer)][..]));
    }

    /// A reset outside the window does not end the flow in a table that analyses TCP, and neither does it
    /// here. Without that analysis it does in both.
    #[test]
    fn a_refused_reset_ends_a_connection_only_without_an_analysis_of_tcp() {
        let bytes = response(7);
        for (level, answers) in [(Level::Full, 1), (Level::Application, 0)] {
            let mut fixture = Fixture::with_level(level);
            fixture.observe_segment(1, 53, 100, &bytes[..20]);
            fixture.observe_flags(1, 53, RST, 90_000_000, &[]);
            fixture.clock_ms += CLOSE_MS + 1;
            // Another connection's packets sweep this one.
            for _ in 0..SETS {
                fixture.observe_segment(2, 53, 1, &[]);
            }
            let rest = fixture.observe_segment(1, 53, 120, &bytes[20..]);
            assert_eq!(rest.len(), answers, "{level:?}");
        }
    }

    #[test]
    fn ignores_other_ports() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.observe_segment(1, 5353, 1, &response(1)), []);
        assert!(fixture.tap.inspector.is_idle());
        let empty = |it: &Connection| it.entry.key() == 0;
        assert!(fixture.tap.connections.iter().all(empty));
    }

    #[test]
    fn memory_is_bounded_and_released() {
        let mut fixture = Fixture::new();
        let bytes = response(1);
        for number in 0..2 * CONNECTIONS as u16 {
            assert_eq!(fixture.observe_segment(number, 53, 1, &bytes[..30]), []);
        }
        // Only the last ones still have buffers.
        let completed = |fixture: &mut Fixture, numbers: std::ops::Range<u16>| {
            numbers
                .filter(|&number| {
                    !fixture
                        .observe_segment(number, 53, 31, &bytes[30..])
                        .is_empty()
                })
                .count()
        };
        let count = completed(&mut fixture, 0..2 * CONNECTIONS as u16);
        assert!(count <= usize::from(REASSEMBLY_BUFFERS), "{count}");
        // Ended connections are swept soon, also without further packets of their own.
        fixture.clock_ms += IDLE_MS + 1;
        for _ in 0..SETS {
            assert_eq!(fixture.observe_segment(1, 53, 1, &[]), []);
        }
        assert_eq!(completed(&mut fixture, 1..2), 0);
        for number in 2..100 {
            assert_eq!(fixture.observe_segment(number, 53, 1, &bytes[..30]), []);
        }
        assert_eq!(completed(&mut fixture, 2..100), 98);
    }
}
