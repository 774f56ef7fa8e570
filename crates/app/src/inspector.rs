//! Inspects the payloads of many flows.

use crate::application::Applications;
use crate::base_state::BaseState;
use crate::dns_answer::DnsAnswer;
use crate::flow_state::{FlowState, TEXTS_MAX, Transport};
use crate::inspect_state::{InspectState, Stage};
use crate::limits::InspectorLimits;
use crate::name_cache::NameCounters;
use crate::payload::L4Payload;
use crate::protocols::dns;
use crate::query_table::QueryTable;
use crate::record::{AppRecord, Incomplete};
use crate::services::{DnsPacket, DnsRoute, Services};
use crate::tcp::{self, L4Header, TcpState};
use crate::text_pool::TEXT_MAX;
use crate::udp;
use hw::pool::Pool;
use std::io;
use std::sync::Arc;
use wire::FlowKey;
use wire::ip_protocol;
use wire::tcp::flag;

/// Inspects the payloads of many flows.
#[derive(Debug)]
pub struct Inspector {
    pub(crate) flows: Pool<FlowState>,
    pub(crate) services: Services,
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
            services: Services::new(flows, limits, applications, seed)?,
        })
    }

    /// Takes DNS answers from [`Inspector::learn`] only, not from observed packets.
    pub fn use_dns_feed(&mut self) {
        self.services.dns_route = DnsRoute::Discard;
        self.services.queries = Arc::new(QueryTable::new(0, 0));
    }

    /// Makes the DNS answers in observed packets available through
    /// [`Inspector::take_dns_answers`].
    pub const fn publish_dns_answers(&mut self) {
        self.services.dns_route = DnsRoute::Publish;
    }

    /// Compares responses with the queries in `queries`, which other inspectors may share.
    pub fn share_queries(&mut self, queries: Arc<QueryTable>) {
        self.services.queries = queries;
    }

    /// Reads a DNS datagram without the state of its flow: remembers a query, or returns the answer in
    /// a response. `ends` are the addresses of its sender and receiver, as numbers with the byte order
    /// of [`FlowKey`].
    pub fn observe_dns_datagram(
        &mut self,
        packet: &L4Payload<'_>,
        ends: [u128; 2],
    ) -> Option<DnsAnswer> {
        self.services.dns_packet = Some(DnsPacket {
            ends,
            time_ns: packet.time_ns,
        });
        dns::read_datagram(&mut self.services, packet);
        self.services.published.pop()
    }

    /// What became of the names in DNS responses, and of QUIC's Initial packets.
    pub const fn name_counters(&self) -> NameCounters {
        NameCounters {
            quic_cuts: self.services.initial_work.cuts,
            ..self.services.resolved_names.counters
        }
    }

    /// Returns the DNS answers in the packet that was observed last.
    pub fn take_dns_answers(&mut self) -> impl Iterator<Item = DnsAnswer> {
        self.services.published.drain(..)
    }

    /// Remembers a DNS answer for the flows that its client opens.
    pub fn learn(&mut self, answer: &DnsAnswer) {
        self.services.learn(answer);
    }

    /// Touches the memory of the first flows now, so that packets cause no page faults later.
    pub fn populate(&mut self) {
        self.flows.populate();
        self.services.populate();
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
        let may_start = || tcp::may_start_message(packet.payload, ports);
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
    #[inline]
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

    #[inline]
    fn try_skip_header(
        &mut self,
        state: InspectState,
        header: L4Header,
        may_start: impl FnOnce() -> bool,
    ) -> bool {
        matches!(state.0, Stage::Tracked { handle } if self
            .flows
            .get_mut(handle)
            .is_none_or(|flow| flow.try_skip(header, may_start)))
    }

    /// Parses a packet that [`Inspector::try_skip`] did not skip.
    #[inline]
    pub fn inspect(
        &mut self,
        state: &mut InspectState,
        packet: &L4Payload<'_>,
        key: impl Fn() -> FlowKey,
    ) {
        *state = match state.0 {
            Stage::Tracked { handle } | Stage::Waiting { handle } => {
                self.inspect_tracked(handle, packet, key)
            }
            stage => self.start(stage, packet, key),
        };
    }

    /// Inspects a packet of a flow without a state. Allocates a state, unless the [`InspectState`]
    /// can hold everything that is known.
    #[inline(never)]
    fn start(
        &mut self,
        stage: Stage,
        packet: &L4Payload<'_>,
        key: impl Fn() -> FlowKey,
    ) -> InspectState {
        let mut common = BaseState::default();
        match stage {
            Stage::New { hash } if self.services.has_resolved_names() => {
                self.services
                    .look_up_name(&mut common, hash, &key, packet.time_ns);
            }
            Stage::Resumed { with_loss: true } => common.incomplete.add(Incomplete::TEXT),
            Stage::Probing { packets } => common.packets = packets,
            _ => {}
        }
        if common.resolved.is_empty() && common.incomplete == Incomplete::default() {
            if !matches!(stage, Stage::Probing { .. }) && is_first_syn(packet) {
                let next_sequence = packet.sequence.wrapping_add(1);
                return InspectState(Stage::SynSeen { next_sequence });
            }
            if !matches!(stage, Stage::SynSeen { .. }) && !self.may_match(packet) {
                let is_probed = packet.protocol != ip_protocol::UDP || udp::is_probed(packet);
                return InspectState::probing(common.packets + u8::from(is_probed));
            }
        }
        let handle = self.flows.allocate();
        let Some(flow) = self.flows.get_mut(handle) else {
            self.services.release_common(&common);
            return InspectState(Stage::NoState);
        };
        flow.common = common;
        if let Stage::SynSeen { next_sequence } = stage {
            let mut tcp = TcpState::default();
            tcp.start_stream(0, next_sequence);
            flow.transport = Transport::Tcp(tcp);
        }
        self.inspect_tracked(handle, packet, key)
    }

    /// Whether a packet may be of a known protocol. The flow has had nothing but, possibly, a SYN.
    fn may_match(&self, packet: &L4Payload<'_>) -> bool {
        match packet.protocol {
            ip_protocol::TCP => true,
            ip_protocol::UDP => udp::may_match(&self.services, packet),
            _ => false,
        }
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
        self.services.buffers.flow = handle;
        if dns::has_client(packet.source_port, packet.destination_port) {
            let key = key();
            let mut ends = [key.source, key.destination].map(u128::from_le_bytes);
            if packet.direction != 0 {
                ends.reverse();
            }
            let time_ns = packet.time_ns;
            let dns_packet = Some(DnsPacket { ends, time_ns });
            self.services.start_packet(dns_packet);
        }
        let needs_more = flow.read(&mut self.services, packet);
        while let Some(evicted) = self.services.buffers.next_evicted() {
            // It is another flow's, and not of this packet.
            self.services.start_packet(None);
            if let Some(flow) = self.flows.get_mut(evicted.owner.flow) {
                flow.evict(&mut self.services, &evicted);
            }
        }
        let Some(flow) = self.flows.get_mut(handle) else {
            return InspectState::default();
        };
        if !needs_more {
            flow.release_buffers(&mut self.services);
        }
        if flow.is_worth_keeping(needs_more) {
            return InspectState(match needs_more {
                true if flow.is_waiting() => Stage::Waiting { handle },
                true => Stage::Tracked { handle },
                false => Stage::Done { handle },
            });
        }
        let packets = flow.common.packets;
        self.flows.free(handle);
        match needs_more {
            true => InspectState(Stage::Probing { packets }),
            false => InspectState::DONE,
        }
    }

    /// Prefetches the resolved name of a new flow, and returns the flow's first state.
    pub fn prefetch_new_flow(&self, key: impl FnOnce() -> FlowKey) -> InspectState {
        if self.services.has_resolved_names() {
            let hash = Some(self.services.prefetch_name(&key()));
            InspectState(Stage::New { hash })
        } else {
            InspectState::default()
        }
    }

    /// Prefetches the state of a flow that is about to end.
    pub fn prefetch_flow(&self, state: InspectState) {
        if state.handle() != 0 {
            self.flows.prefetch_all(state.handle());
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
        if state.0 == Stage::NoState {
            record.incomplete.add(Incomplete::STATES);
        }
        let handle = state.handle();
        if let Some(flow) = self.flows.get_mut(handle) {
            self.services.buffers.flow = handle;
            self.services.start_packet(None);
            flow.finish(
                &mut self.services,
                record,
                [key.source_port, key.destination_port],
            );
            self.flows.free(handle);
        }
        self.services.applications.classify(key, record);
    }

    /// Like [`Inspector::finish_into`], for a flow that continues after its active timeout. A
    /// partial handshake stays, so that the flow's next record can complete it.
    ///
    /// On the DNS port nothing stays: the tap that reads DNS for several tables also starts anew
    /// with each record, and both must read the same.
    pub fn snapshot(&mut self, record: &mut AppRecord, state: &mut InspectState, key: &FlowKey) {
        if let Stage::Tracked { handle } | Stage::Waiting { handle } = state.0
            && !dns::has_client(key.source_port, key.destination_port)
            && let Some(flow) = self.flows.get_mut(handle)
            && flow.is_partial()
        {
            self.services.buffers.flow = handle;
            flow.snapshot(&mut self.services, record);
            return self.services.applications.classify(key, record);
        }
        self.finish_into(record, state, key);
    }

    /// Frees the state of a flow that gets no further record.
    pub fn discard(&mut self, state: &mut InspectState) {
        if state.handle() != 0 {
            drop(self.finish(state, &FlowKey::default()));
        }
    }

    /// Starts the next record of a flow that the active timeout split. `is_kept` says whether the
    /// data of the previous record could be kept.
    pub fn resume(&mut self, state: &mut InspectState, is_kept: bool) {
        match state.0 {
            Stage::Tracked { handle } | Stage::Waiting { handle } => {
                if !is_kept && let Some(flow) = self.flows.get_mut(handle) {
                    flow.common.incomplete.add(Incomplete::TEXT);
                }
            }
            _ => {
                let with_loss = !is_kept;
                *state = InspectState(Stage::Resumed { with_loss });
            }
        }
    }

    /// Whether no flow holds a state, a text or a buffer.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.flows.allocated() == 0 && self.services.is_idle()
    }

    /// Memory with all pools full, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.flows.memory_bytes() + self.services.memory_bytes()
    }
}

/// Whether a message of a known protocol may start with the payload of this TCP segment.
pub fn may_start_message(payload: &[u8], info: &wire::PacketInfo) -> bool {
    tcp::may_start_message(payload, [info.source_port, info.destination_port])
}

/// Whether a packet is the bare SYN that opens a flow, of which only the sequence number is kept.
fn is_first_syn(packet: &L4Payload<'_>) -> bool {
    packet.protocol == ip_protocol::TCP
        && packet.tcp_flags & flag::SYN != 0
        && packet.payload_length == 0
        && packet.direction == 0
}
