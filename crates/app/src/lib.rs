//! Application-layer inspection: reads the payloads of flows and produces an [`AppRecord`] for each.
//!
//! The flow's entry holds only an [`InspectState`], two words. While a flow can still yield
//! something, it also has a state in the bounded pool of the [`Inspector`], which is updated in
//! place. As soon as everything is known, or the flow is given up, a packet costs one look at the
//! [`InspectState`]. Texts (names, user agents and so on) are interned in a pool that all flows
//! share.

mod application;
mod column;
mod connection;
pub mod dns;
pub mod dns_answer;
mod http;
mod limits;
pub mod message;
mod name_cache;
mod parsers;
mod quic;
mod reassembly;
mod record;
mod rtp;
mod state;
mod tcp_stream;
#[cfg(test)]
mod tests;
mod text_pool;
mod tls;

pub use application::{Applications, ApplicationsError};
pub use column::{AppColumn, AppGroup, AppType, AppValue, COLUMNS};
pub use dns_answer::DnsAnswer;
pub use limits::InspectorLimits;
pub use record::{
    AppRecord, AppText, Application, DnsRecord, FoundBy, HttpRecord, Incomplete, QuicRecord,
    ResolvedName, RtpRecord, TlsRecord, UnmatchedDns,
};

use hw::pool::Pool;
use parsers::{DnsRoute, Parsers};
use state::{
    Common, FlowState, L4Header, ProtocolState, StreamProtocol, TEXTS_MAX, TcpState, side_flag,
};
use std::io;
use std::sync::Arc;
use text_pool::TEXT_MAX;
use wire::FlowKey;
use wire::ip_protocol;
use wire::tcp::flag;

/// The payload of one packet and the header fields that inspection needs.
#[derive(Clone, Copy, Debug)]
pub struct L4Payload<'a> {
    /// Time of the packet, nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// 0: sent by the flow's initiator, 1: sent by the responder.
    pub direction: u8,
    /// Protocol of the transport header (protocolIdentifier).
    pub protocol: u8,
    /// TCP control bits; 0 if the packet is not TCP.
    pub tcp_flags: u8,
    /// TCP sequence number: of the SYN if the packet has one, else of the first payload byte.
    pub sequence: u32,
    /// Source port of this packet.
    pub source_port: u16,
    /// Destination port of this packet.
    pub destination_port: u16,
    /// Captured part of the payload after the transport header.
    pub payload: &'a [u8],
    /// Bytes of payload on the wire.
    pub payload_length: u32,
}

impl<'a> L4Payload<'a> {
    /// Takes the header fields from `info`. Calls `payload` only if payload was captured.
    #[inline(always)]
    pub fn new(
        time_ns: i64,
        side: usize,
        info: &wire::PacketInfo,
        payload: impl FnOnce() -> &'a [u8],
    ) -> Self {
        Self {
            time_ns,
            direction: side as u8,
            protocol: info.transport,
            tcp_flags: info.tcp_flags,
            sequence: info.sequence,
            source_port: info.source_port,
            destination_port: info.destination_port,
            payload: if info.payload_captured > 0 {
                payload()
            } else {
                &[]
            },
            payload_length: info.payload_length,
        }
    }
}

/// Stages of the inspection of a flow. Each gives the value of an [`InspectState`] its meaning.
///
/// The order matters: flows below `TRACKED` have no state in the pool, flows below `DONE` need more
/// packets.
mod stage {
    /// No packet yet. Value: the hash of the flow's addresses, at least `InspectState::HASH_MIN`, or
    /// one of the special values below it.
    pub(super) const NEW: u32 = 0;
    /// Only a SYN so far. Value: the sequence number after it.
    pub(super) const SYN_SEEN: u32 = 1;
    /// A few packets, none of a known protocol. Value: their number.
    pub(super) const PROBING: u32 = 2;
    /// Has a state and needs more packets. Value: the handle of the state.
    pub(super) const TRACKED: u32 = 3;
    /// Needs no more packets. Value: the handle of the state, 0 if there is none.
    pub(super) const DONE: u32 = 4;
    /// Not inspected, because the pool had no free state.
    pub(super) const NO_STATE: u32 = 5;
}

/// How far the inspection of a flow is. The flow table keeps it in the flow's entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InspectState {
    value: u32,
    stage: u32,
}

impl InspectState {
    const fn new(stage: u32, value: u32) -> Self {
        Self { value, stage }
    }

    /// After this number of packets of no known protocol.
    const fn probing(packets: u8) -> Self {
        if packets < UDP_PROBE_PACKETS {
            Self::new(stage::PROBING, packets as u32)
        } else {
            Self::DONE
        }
    }

    /// The flow needs no inspection.
    pub const DONE: Self = Self::new(stage::DONE, 0);

    /// No packet yet since the active timeout split the flow, and the data of the previous record
    /// could not be kept.
    const RESUMED_WITH_LOSS: Self = Self::new(stage::NEW, 1);

    /// No packet yet since the active timeout split the flow. The resolved name is not looked up
    /// again: it must be the one that the initiator had when it opened the flow.
    const RESUMED: Self = Self::new(stage::NEW, 2);

    /// The smallest hash; smaller values of `stage::NEW` are the special ones above.
    const HASH_MIN: u32 = 3;

    /// No packet yet; `hash` is the hash of the flow's addresses.
    const fn with_hash(hash: u32) -> Self {
        Self::new(stage::NEW, hash)
    }

    /// The hash of the flow's addresses, if it was computed. Valid in `stage::NEW` only.
    const fn hash(self) -> Option<u32> {
        match self.value() {
            hash @ Self::HASH_MIN.. => Some(hash),
            _ => None,
        }
    }

    #[inline(always)]
    const fn stage(self) -> u32 {
        self.stage
    }

    #[inline(always)]
    const fn value(self) -> u32 {
        self.value
    }

    /// Whether [`Inspector::observe`] needs a packet with this payload length and these TCP control
    /// bits. For other packets it would do nothing.
    #[inline(always)]
    #[must_use]
    pub const fn needs_packet(self, payload_length: u32, tcp_flags: u8) -> bool {
        // If the compiler knows whether there is payload, each branch is a single comparison.
        if payload_length > 0 {
            return self.stage() < stage::DONE;
        }
        self.stage() < stage::PROBING || self.stage() < stage::DONE && tcp_flags & flag::SYN != 0
    }
}

/// Number of datagrams of a UDP flow that are probed for a known protocol.
const UDP_PROBE_PACKETS: u8 = 8;

/// Number of packets with payload of a TCP flow that are probed for a known protocol. It is large
/// because TLS may follow another protocol (STARTTLS).
const TCP_PROBE_PACKETS: u8 = 40;

/// Inspects the payloads of many flows.
#[derive(Debug)]
pub struct Inspector {
    flows: Pool<FlowState>,
    parsers: Parsers,
}

impl Inspector {
    /// Size of a flow's state in bytes, the same for all protocols. Texts are in a shared pool and
    /// streams in reassembly buffers.
    pub const BYTES_PER_FLOW: usize = size_of::<FlowState>();

    /// The most bytes of texts that one flow holds if it shares none with other flows.
    pub const TEXT_BYTES_PER_FLOW_MAX: usize = TEXTS_MAX * TEXT_MAX;

    /// Creates an inspector for up to `flows` flows at a time. Memory is touched as flows arrive, up
    /// to [`Inspector::memory_bytes`]. `seed` keys the hash of addresses and must be secret.
    ///
    /// # Errors
    /// If the memory cannot be allocated.
    pub fn new(
        flows: usize,
        limits: &InspectorLimits,
        applications: Arc<Applications>,
        seed: u64,
    ) -> io::Result<Self> {
        Ok(Self {
            flows: Pool::new(flows)?,
            parsers: Parsers::new(flows, limits, applications, seed)?,
        })
    }

    /// Takes DNS answers from [`Inspector::learn`] only, not from observed packets.
    pub const fn use_dns_feed(&mut self) {
        self.parsers.dns_route = DnsRoute::Discard;
    }

    /// Makes the DNS answers in observed packets available through
    /// [`Inspector::take_dns_answers`].
    pub const fn publish_dns_answers(&mut self) {
        self.parsers.dns_route = DnsRoute::Publish;
    }

    /// Returns the DNS answers in the packet that was observed last. Their client is not set.
    pub fn take_dns_answers(&mut self) -> impl Iterator<Item = DnsAnswer> {
        self.parsers.published.drain(..)
    }

    /// Remembers a DNS answer for the flows that its client opens.
    pub fn learn(&mut self, answer: &DnsAnswer) {
        self.parsers.learn(answer);
    }

    /// Touches the memory of the first flows now, so that packets cause no page faults later.
    pub fn populate(&mut self) {
        self.flows.populate();
        self.parsers.populate();
    }

    /// Inspects a packet of the flow with this `state`. Call it for every packet of the flow, also
    /// for those without payload. `key` returns the flow key as the initiator sent it; it is called
    /// rarely.
    #[inline]
    pub fn observe(
        &mut self,
        state: &mut InspectState,
        packet: &L4Payload<'_>,
        key: impl Fn() -> FlowKey,
    ) {
        if !state.needs_packet(packet.payload_length, packet.tcp_flags) {
            return;
        }
        let header = L4Header {
            direction: packet.direction,
            tcp_flags: packet.tcp_flags,
            sequence: packet.sequence,
            payload_length: packet.payload_length,
        };
        let ports = [packet.source_port, packet.destination_port];
        let may_start = || tcp_stream::may_start_message(packet.payload, ports);
        if !self.try_skip_header(*state, header, may_start) {
            self.inspect(state, packet, key);
        }
    }

    /// The fast path: counts a packet of which nothing needs to be parsed. Returns false if the
    /// packet must go to [`Inspector::inspect`].
    ///
    /// Call it only for packets that the flow [needs](InspectState::needs_packet). `may_start`
    /// returns whether a message [may start](may_start_message) with the payload; it is called
    /// rarely.
    #[inline(always)]
    pub fn try_skip(
        &mut self,
        state: InspectState,
        side: usize,
        info: &wire::PacketInfo,
        may_start: impl FnOnce() -> bool,
    ) -> bool {
        let header = L4Header {
            direction: side as u8,
            tcp_flags: info.tcp_flags,
            sequence: info.sequence,
            payload_length: info.payload_length,
        };
        self.try_skip_header(state, header, may_start)
    }

    #[inline(always)]
    fn try_skip_header(
        &mut self,
        state: InspectState,
        header: L4Header,
        may_start: impl FnOnce() -> bool,
    ) -> bool {
        state.stage() == stage::TRACKED
            && self
                .flows
                .get_mut(state.value())
                .is_none_or(|flow| flow.try_skip(header, may_start))
    }

    /// Parses a packet that [`Inspector::try_skip`] did not skip.
    #[inline(always)]
    pub fn inspect(
        &mut self,
        state: &mut InspectState,
        packet: &L4Payload<'_>,
        key: impl Fn() -> FlowKey,
    ) {
        *state = match state.stage() {
            stage::TRACKED => self.inspect_tracked(state.value(), packet, key),
            _ => self.start(*state, packet, key),
        };
    }

    /// Inspects a packet of a flow without a state. Allocates a state, unless the [`InspectState`]
    /// can hold everything that is known.
    #[inline(never)]
    fn start(
        &mut self,
        state: InspectState,
        packet: &L4Payload<'_>,
        key: impl Fn() -> FlowKey,
    ) -> InspectState {
        let stage = state.stage();
        let value = match stage {
            stage::NEW => 0,
            _ => state.value(),
        };
        let mut common = Common::default();
        let opens = stage == stage::NEW
            && state != InspectState::RESUMED
            && state != InspectState::RESUMED_WITH_LOSS;
        if opens && self.parsers.has_resolved_names() {
            let hash = state.hash();
            self.parsers
                .look_up_name(&mut common, hash, &key, packet.time_ns);
        }
        if state == InspectState::RESUMED_WITH_LOSS {
            common.incomplete.add(Incomplete::TEXT);
        }
        if common.resolved.is_empty() && common.incomplete == Incomplete::default() {
            if stage <= stage::SYN_SEEN && is_first_syn(packet) {
                let next_sequence = packet.sequence.wrapping_add(1);
                return InspectState::new(stage::SYN_SEEN, next_sequence);
            }
            if stage != stage::SYN_SEEN && !self.parsers.may_match(packet) {
                let is_empty = packet.protocol == ip_protocol::UDP && packet.payload_length == 0;
                return InspectState::probing(value as u8 + u8::from(!is_empty));
            }
        }
        let handle = self.flows.allocate();
        let Some(flow) = self.flows.get_mut(handle) else {
            self.parsers.release_common(&common);
            return InspectState::new(stage::NO_STATE, 0);
        };
        match stage {
            stage::NEW => flow.common = common,
            stage::SYN_SEEN => {
                let mut tcp = TcpState::default();
                tcp.start_stream(0, value);
                flow.state = ProtocolState::Tcp(tcp);
            }
            _ => flow.common.packets = value as u8,
        }
        self.inspect_tracked(handle, packet, key)
    }

    /// Parses a packet of a flow that has a state.
    #[inline(never)]
    fn inspect_tracked(
        &mut self,
        handle: u32,
        packet: &L4Payload<'_>,
        key: impl Fn() -> FlowKey,
    ) -> InspectState {
        let Some(flow) = self.flows.get_mut(handle) else {
            return InspectState::default();
        };
        self.parsers.buffers.flow = handle;
        let needs_more = match packet.protocol {
            ip_protocol::TCP => self.parsers.read_tcp(flow, packet),
            ip_protocol::UDP => self.parsers.read_udp(flow, packet),
            // Another protocol, or a fragment without its transport header.
            _ => {
                flow.common.packets = flow.common.packets.saturating_add(1);
                flow.common.packets < UDP_PROBE_PACKETS
            }
        };
        if self.parsers.has_pending_answers() {
            let key = key();
            // A response goes to the client. The client is the initiator, unless the query was not
            // captured.
            let client = if packet.direction == 0 {
                key.destination
            } else {
                key.source
            };
            self.parsers
                .commit_answers(u128::from_le_bytes(client), packet.time_ns);
        }
        while let Some(evicted) = self.parsers.buffers.next_evicted() {
            if let Some(flow) = self.flows.get_mut(evicted.owner.flow) {
                self.parsers.read_evicted(flow, &evicted);
            }
        }
        let Some(flow) = self.flows.get_mut(handle) else {
            return InspectState::default();
        };
        if !needs_more {
            self.parsers.release_buffers(flow);
        }
        if flow.is_worth_keeping(needs_more) {
            return InspectState::new(
                if needs_more {
                    stage::TRACKED
                } else {
                    stage::DONE
                },
                handle,
            );
        }
        let packets = flow.common.packets;
        self.flows.free(handle);
        if needs_more {
            InspectState::new(stage::PROBING, u32::from(packets))
        } else {
            InspectState::new(stage::DONE, 0)
        }
    }

    /// Prefetches the resolved name of a new flow, and returns the flow's first state.
    pub fn prefetch_new_flow(&self, key: impl FnOnce() -> FlowKey) -> InspectState {
        if self.parsers.has_resolved_names() {
            InspectState::with_hash(self.parsers.prefetch_name(&key()))
        } else {
            InspectState::default()
        }
    }

    /// Prefetches the state of a flow that is about to end.
    pub fn prefetch_flow(&self, state: InspectState) {
        if state.stage() >= stage::TRACKED {
            self.flows.prefetch_all(state.value());
        }
    }

    /// Ends the inspection of a flow: returns its record and frees its state. `key` is the flow key
    /// as the initiator sent it.
    #[must_use]
    pub fn finish(&mut self, state: &mut InspectState, key: &FlowKey) -> AppRecord {
        let mut record = AppRecord::default();
        self.finish_into(&mut record, state, key);
        record
    }

    /// Like [`Inspector::finish`], but writes to `record`, which must be empty. It saves a copy of
    /// the record.
    pub fn finish_into(&mut self, record: &mut AppRecord, state: &mut InspectState, key: &FlowKey) {
        let state = std::mem::take(state);
        if state.stage() == stage::NO_STATE {
            record.incomplete.add(Incomplete::STATES);
        }
        if state.stage() >= stage::TRACKED
            && let Some(flow) = self.flows.get_mut(state.value())
        {
            self.parsers.buffers.flow = state.value();
            self.parsers.write_record(flow, record);
            self.flows.free(state.value());
        }
        self.parsers.applications.classify(key, record);
    }

    /// Like [`Inspector::finish_into`], for a flow that continues after its active timeout. A
    /// partial handshake stays, so that the flow's next record can complete it.
    ///
    /// On the DNS port nothing stays: the tap that reads DNS for several tables also starts anew
    /// with each record, and both must read the same.
    pub fn snapshot(&mut self, record: &mut AppRecord, state: &mut InspectState, key: &FlowKey) {
        if state.stage() == stage::TRACKED
            && !dns::has_client(key.source_port, key.destination_port)
            && let Some(flow) = self.flows.get_mut(state.value())
            && flow.has_partial_handshake()
        {
            self.parsers.buffers.flow = state.value();
            self.parsers.write_snapshot(flow, record);
            return self.parsers.applications.classify(key, record);
        }
        self.finish_into(record, state, key);
    }

    /// Frees the state of a flow that gets no further record.
    pub fn discard(&mut self, state: &mut InspectState) {
        if state.stage() >= stage::TRACKED {
            drop(self.finish(state, &FlowKey::default()));
        }
    }

    /// Starts the next record of a flow that the active timeout split. `is_kept` says whether the
    /// data of the previous record could be kept.
    pub fn resume(&mut self, state: &mut InspectState, is_kept: bool) {
        if state.stage() != stage::TRACKED {
            *state = match is_kept {
                true => InspectState::RESUMED,
                false => InspectState::RESUMED_WITH_LOSS,
            };
        } else if !is_kept && let Some(flow) = self.flows.get_mut(state.value()) {
            flow.common.incomplete.add(Incomplete::TEXT);
        }
    }

    /// Whether no flow holds a state, a text or a buffer.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.flows.allocated() == 0 && self.parsers.is_idle()
    }

    /// Memory with all pools full, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.flows.memory_bytes() + self.parsers.memory_bytes()
    }
}

/// Whether a message of a known protocol may start with the payload of this TCP segment.
pub fn may_start_message(payload: &[u8], info: &wire::PacketInfo) -> bool {
    tcp_stream::may_start_message(payload, [info.source_port, info.destination_port])
}

/// Whether a packet is the bare SYN that opens a flow, of which only the sequence number is kept.
fn is_first_syn(packet: &L4Payload<'_>) -> bool {
    packet.protocol == ip_protocol::TCP
        && packet.tcp_flags & flag::SYN != 0
        && packet.payload_length == 0
        && packet.direction == 0
}

impl FlowState {
    /// Whether the state holds something for the record, or a stream position that is still needed.
    fn is_worth_keeping(&self, needs_more: bool) -> bool {
        let state = match &self.state {
            ProtocolState::Unknown => false,
            ProtocolState::Tcp(tcp) => {
                tcp.protocol != StreamProtocol::Unknown
                    || tcp.tls.has_hello()
                    || (needs_more && tcp.sides.iter().any(|it| it.has(side_flag::SYNCED)))
            }
            ProtocolState::Dns(_) | ProtocolState::Quic(_) | ProtocolState::Rtp(_) => true,
        };
        state
            || !self.common.resolved.is_empty()
            || self.common.class != 0
            || self.common.incomplete != Incomplete::default()
    }
}
