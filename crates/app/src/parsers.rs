//! The parsers, with the pools, caches and buffers that all flows share. They are apart from the
//! states of flows, so that a parser can update a state in place.

use super::dns_answer::DnsAnswer;
use super::name_cache::NameCache;
use super::quic::{Frame, KeyCache};
use super::reassembly::{Evicted, ReassemblyPool};
use super::record::{AppRecord, FoundBy, Incomplete, ResolvedName};
use super::state::{
    Common, DnsState, FlowState, MessageState, ProtocolState, QuicState, RtpState, StreamProtocol,
    TcpState, TlsState, side_flag,
};
use super::tcp_stream::empty_segment;
use super::text_pool::{TextId, TextPool};
use super::{Applications, InspectorLimits, L4Payload, TCP_PROBE_PACKETS, UDP_PROBE_PACKETS, dns};
use crate::message::dns::Message;
use crate::message::rtp::Rtp;
use crate::message::tls::Ja4Cache;
use std::io;
use std::sync::Arc;
use wire::FlowKey;
use wire::ip_protocol;
use wire::tcp::flag;

/// The protocol of a datagram, as its ports and first bytes suggest.
enum Datagram {
    Dns,
    Quic,
    /// Possibly RTP or RTCP.
    Rtp,
    /// An application class from the table.
    Class(u16),
    Unknown,
}

/// Where the answers of observed DNS responses go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DnsRoute {
    /// To the cache of resolved names of this table.
    Local,
    /// Nowhere, because all answers come through [`Inspector::learn`](super::Inspector::learn).
    Discard,
    /// To the caller, who passes them to other tables.
    Publish,
}

/// The parsers and everything that all flows share.
#[derive(Debug)]
pub(super) struct Parsers {
    pub(super) texts: TextPool,
    pub(super) buffers: ReassemblyPool,
    pub(super) resolved_names: NameCache,
    pub(super) applications: Arc<Applications>,
    /// Buffers that are reused from packet to packet, to save an allocation for each. A parser takes
    /// one out while it uses it.
    pub(super) packet_buffer: Vec<u8>,
    pub(super) scratch: Vec<u8>,
    pub(super) list_buffer: Vec<u8>,
    pub(super) frames: Vec<Frame>,
    /// The last DNS message, reused in the same way.
    pub(super) dns_message: Option<Box<Message>>,
    pub(super) ja4_cache: Ja4Cache,
    pub(super) initial_keys: KeyCache,
    pub(super) dns_route: DnsRoute,
    /// Addresses in the DNS responses of this packet, each with the position and length of the name
    /// in the cache. They wait for the client's address.
    pub(super) pending_answers: Vec<(u128, u64, usize)>,
    /// Answers to publish, without their client.
    pub(super) published: Vec<DnsAnswer>,
}

impl Parsers {
    /// Creates the parsers for a table of `flows` flows.
    pub(super) fn new(
        flows: usize,
        limits: &InspectorLimits,
        applications: Arc<Applications>,
        seed: u64,
    ) -> io::Result<Self> {
        Ok(Self {
            texts: TextPool::new(limits.text_bytes(flows))?,
            buffers: ReassemblyPool::new(
                limits.reassembly_buffers(flows),
                limits.reassembly_bytes,
            )?,
            resolved_names: NameCache::new(limits.resolved_names_max, seed)?,
            applications,
            packet_buffer: Vec::new(),
            scratch: Vec::new(),
            list_buffer: Vec::new(),
            frames: Vec::new(),
            dns_message: None,
            ja4_cache: Ja4Cache::default(),
            initial_keys: KeyCache::default(),
            dns_route: DnsRoute::Local,
            pending_answers: Vec::new(),
            published: Vec::new(),
        })
    }

    /// Touches the first part of all memory now.
    pub(super) fn populate(&mut self) {
        self.texts.populate();
        self.buffers.populate();
        self.resolved_names.populate();
    }

    /// Whether no flow holds a text or a buffer.
    pub(super) fn is_idle(&self) -> bool {
        self.texts.allocated() + self.buffers.allocated() == 0
    }

    /// Memory with all pools full, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.texts.memory_bytes()
            + self.buffers.memory_bytes()
            + self.resolved_names.memory_bytes()
            + Ja4Cache::MEMORY_BYTES
            + KeyCache::MEMORY_BYTES
    }

    /// Whether the cache of resolved names was ever filled.
    #[inline]
    pub(super) const fn has_resolved_names(&self) -> bool {
        !self.resolved_names.is_empty()
    }

    /// Whether the current packet had addresses of a name.
    #[inline]
    pub(super) const fn has_pending_answers(&self) -> bool {
        !self.pending_answers.is_empty()
    }

    /// Interns a text for a flow. Sets [`Incomplete::TEXT`] if it was truncated.
    pub(super) fn intern(&mut self, incomplete: &mut Incomplete, text: &[u8]) -> TextId {
        let (text, was_cut) = self.texts.intern(text);
        if was_cut {
            incomplete.add(Incomplete::TEXT);
        }
        text
    }

    /// Prefetches what [`Parsers::look_up_name`] will read, and returns the hash that it needs.
    pub(super) fn prefetch_name(&self, key: &FlowKey) -> u32 {
        let hash = self.resolved_names.hash(addresses(key));
        self.resolved_names.prefetch(hash);
        hash
    }

    /// Sets the name that the initiator had resolved to the responder's address.
    pub(super) fn look_up_name(
        &mut self,
        common: &mut Common,
        hash: Option<u32>,
        key: impl Fn() -> FlowKey,
        time_ns: i64,
    ) {
        let addresses = || addresses(&key());
        let hash = hash.unwrap_or_else(|| self.resolved_names.hash(addresses()));
        let Some((name, answer_ns)) = self.resolved_names.find(hash, addresses) else {
            return;
        };
        let (text, is_truncated) = self.texts.intern(name);
        common.resolved = text;
        if is_truncated {
            common.incomplete.add(Incomplete::TEXT);
        }
        let age = time_ns.saturating_sub(answer_ns).max(0) / 1000;
        common.resolved_age_us = u32::try_from(age).unwrap_or(u32::MAX);
    }

    /// Reads a TCP segment. Returns false if the flow needs no more packets.
    pub(super) fn read_tcp(&mut self, flow: &mut FlowState, segment: &L4Payload<'_>) -> bool {
        let FlowState { common, state } = flow;
        if matches!(state, ProtocolState::Unknown) {
            *state = ProtocolState::Tcp(TcpState::default());
        }
        let ProtocolState::Tcp(tcp) = state else {
            return false;
        };
        let is_syn = segment.tcp_flags & flag::SYN != 0;
        let sequence = segment.sequence.wrapping_add(u32::from(is_syn));
        if is_syn {
            self.read_syn(common, tcp, segment, sequence);
        }
        if segment.payload_length == 0 {
            return true;
        }
        common.packets = common.packets.saturating_add(1);
        self.read_segment(common, tcp, segment, sequence);
        let is_done = tcp.sides.iter().all(|it| it.has(side_flag::DONE));
        let is_given_up =
            tcp.protocol == StreamProtocol::Unknown && common.packets >= TCP_PROBE_PACKETS;
        if is_given_up {
            for direction in 0..2 {
                if self.has_gap(tcp, direction) {
                    common.incomplete.add(Incomplete::GAP);
                }
                self.flush_buffer(common, tcp, direction);
            }
        }
        !is_done && !is_given_up
    }

    /// Whether a packet may be of a known protocol. The flow has had nothing but, possibly, a SYN.
    pub(super) fn may_match(&self, packet: &L4Payload<'_>) -> bool {
        match packet.protocol {
            ip_protocol::TCP => true,
            ip_protocol::UDP => !matches!(self.classify_datagram(packet), Datagram::Unknown),
            _ => false,
        }
    }

    /// Classifies a datagram of a flow of no known protocol.
    fn classify_datagram(&self, datagram: &L4Payload<'_>) -> Datagram {
        let payload = datagram.payload;
        if dns::is_dns_port(datagram.source_port, datagram.destination_port) {
            let header = crate::message::dns::Header::LENGTH;
            let is_truncated = payload.len() < header && datagram.payload_length as usize >= header;
            match crate::message::dns::Header::read(payload) {
                None if !is_truncated => Datagram::Unknown,
                _ => Datagram::Dns,
            }
        } else if crate::message::quic::has_known_version(payload)
            || is_version_negotiation(datagram)
        {
            Datagram::Quic
        } else if Rtp::plausible(payload, datagram.payload_length as usize).is_some()
            || crate::message::rtp::is_rtcp(payload, datagram.payload_length as usize)
        {
            Datagram::Rtp
        } else {
            let class = self.applications.by_bytes(payload);
            class.map_or(Datagram::Unknown, Datagram::Class)
        }
    }

    /// Reads a datagram. Returns false if the flow needs no more packets.
    pub(super) fn read_udp(&mut self, flow: &mut FlowState, datagram: &L4Payload<'_>) -> bool {
        if datagram.payload_length == 0 {
            return true;
        }
        let FlowState { common, state } = flow;
        common.packets = common.packets.saturating_add(1);
        if let ProtocolState::Quic(quic) = state
            && quic.is_only_negotiation()
            && !crate::message::quic::has_known_version(datagram.payload)
            && !is_version_negotiation(datagram)
        {
            // The client did not start again after Version Negotiation, so it was something else.
            *state = ProtocolState::Unknown;
        }
        if matches!(state, ProtocolState::Unknown) {
            match self.classify_datagram(datagram) {
                Datagram::Dns => *state = ProtocolState::Dns(DnsState::default()),
                Datagram::Quic => {
                    *state = ProtocolState::Quic(QuicState {
                        key_slot: self.initial_keys.allocate_slot(),
                        ..QuicState::default()
                    });
                }
                Datagram::Rtp => *state = ProtocolState::Rtp(RtpState::default()),
                Datagram::Class(class) if common.class == 0 => common.class = class + 1,
                Datagram::Class(_) | Datagram::Unknown => {}
            }
        }
        match state {
            ProtocolState::Dns(dns) => {
                let is_truncated = datagram.payload.len() < datagram.payload_length as usize;
                self.read_dns(
                    &mut common.incomplete,
                    dns,
                    datagram,
                    datagram.payload,
                    is_truncated,
                );
                true
            }
            ProtocolState::Quic(quic) => self.read_quic(&mut common.incomplete, quic, datagram),
            ProtocolState::Rtp(rtp) => {
                let is_rtp = super::rtp::read(rtp, common.packets, datagram);
                if !is_rtp {
                    *state = ProtocolState::Unknown;
                }
                is_rtp || common.packets < UDP_PROBE_PACKETS
            }
            ProtocolState::Unknown | ProtocolState::Tcp(_) => common.packets < UDP_PROBE_PACKETS,
        }
    }

    /// Moves the results of a flow to its record.
    pub(super) fn write_record(&mut self, flow: &mut FlowState, record: &mut AppRecord) {
        let FlowState { common, state } = flow;
        match state {
            ProtocolState::Unknown => {}
            ProtocolState::Tcp(tcp) => {
                for direction in 0..2 {
                    if tcp.sides[direction].buffer != 0 {
                        common.incomplete.add(Incomplete::GAP);
                        self.flush_buffer(common, tcp, direction);
                    }
                }
                record.tls = self.tls_record(&tcp.tls);
                match &tcp.messages {
                    MessageState::None => {}
                    MessageState::Http(http) => record.http = self.http_record(http),
                    MessageState::Dns(dns) => record.dns = self.dns_record(dns),
                }
            }
            ProtocolState::Dns(dns) => record.dns = self.dns_record(dns),
            ProtocolState::Quic(quic) => {
                self.finish_quic(&mut common.incomplete, quic);
                record.tls = self.quic_hello_record(quic);
                record.quic = super::quic::record(quic);
            }
            ProtocolState::Rtp(rtp) => record.rtp = super::rtp::records(rtp),
        }
        self.write_common(common, record);
    }

    /// Writes the record of a flow whose partial handshake continues in its next record. The record
    /// has the fields of the partial handshake; the state does not, since the next record will have
    /// those of the complete one.
    pub(super) fn write_snapshot(&mut self, flow: &mut FlowState, record: &mut AppRecord) {
        let FlowState { common, state } = flow;
        // The record takes the texts out of the pool, but the flow needs them again.
        let kept = self.texts.retain(common.resolved);
        match state {
            ProtocolState::Tcp(tcp) => {
                let mut kept = TlsState::default();
                for (text, retained) in tcp.tls.texts().into_iter().zip(kept.texts()) {
                    *retained = self.texts.retain(*text);
                }
                record.tls = self.tls_record(&tcp.tls);
                for (text, retained) in tcp.tls.texts().into_iter().zip(kept.texts()) {
                    *text = *retained;
                }
                if record.tls.is_none() && tcp.protocol == StreamProtocol::Tls {
                    let hello = self.partial_hello(common, tcp);
                    record.tls = self.tls_record(&hello);
                }
                match std::mem::take(&mut tcp.messages) {
                    MessageState::None => {}
                    MessageState::Http(http) => record.http = self.http_record(&http),
                    MessageState::Dns(dns) => record.dns = self.dns_record(&dns),
                }
            }
            ProtocolState::Quic(quic) => {
                record.tls = self.partial_quic_hello_record(&mut common.incomplete, quic);
                record.quic = super::quic::record(quic);
                quic.spin.reset_counts();
            }
            ProtocolState::Unknown | ProtocolState::Dns(_) | ProtocolState::Rtp(_) => {}
        }
        self.write_common(common, record);
        common.resolved = kept;
    }

    /// The fields in the first part of a ClientHello that is not complete yet.
    fn partial_hello(&mut self, common: &mut Common, tcp: &TcpState) -> TlsState {
        let mut hello = TlsState::default();
        for (direction, side) in (0..).zip(&tcp.sides) {
            let Some(stream) = self.buffers.get_mut(side.buffer, direction) else {
                continue;
            };
            let length = stream.contiguous().len();
            let bytes = stream.take_bytes();
            let segment = empty_segment(direction);
            self.read_truncated_hello(
                &mut common.incomplete,
                &mut hello,
                &segment,
                &bytes[..length],
            );
            if let Some(stream) = self.buffers.get_mut(side.buffer, direction) {
                stream.put_bytes(bytes);
            }
        }
        hello
    }

    fn write_common(&mut self, common: &mut Common, record: &mut AppRecord) {
        if let Some(name) = self.texts.take(common.resolved) {
            record.resolved = Some(ResolvedName {
                name,
                age_ns: u64::from(common.resolved_age_us) * 1000,
            });
        }
        record.incomplete.add(common.incomplete);
        if common.class != 0 {
            record.application = self
                .applications
                .application(common.class - 1, FoundBy::Bytes);
        }
    }

    /// Reads the contents of a flow's buffer that was evicted.
    pub(super) fn read_evicted(&mut self, flow: &mut FlowState, evicted: &Evicted) {
        let FlowState { common, state } = flow;
        common.incomplete.add(Incomplete::REASSEMBLY);
        match state {
            ProtocolState::Tcp(tcp) => {
                let direction = evicted.owner.direction;
                if let Some(side) = tcp.sides.get_mut(usize::from(direction)) {
                    side.reset_position();
                }
                let segment = empty_segment(direction);
                self.read_truncated(common, tcp, &segment, &evicted.bytes);
            }
            ProtocolState::Quic(quic) => {
                quic.buffer = 0;
                self.read_hello(&mut common.incomplete, quic, &evicted.bytes);
            }
            ProtocolState::Unknown | ProtocolState::Dns(_) | ProtocolState::Rtp(_) => {}
        }
    }

    /// Releases the buffers of a flow.
    pub(super) fn release_buffers(&mut self, flow: &mut FlowState) {
        match &mut flow.state {
            ProtocolState::Tcp(tcp) => {
                for (direction, side) in (0..).zip(&mut tcp.sides) {
                    self.buffers.release(&mut side.buffer, direction);
                }
            }
            ProtocolState::Quic(quic) => self.buffers.release(&mut quic.buffer, 0),
            ProtocolState::Unknown | ProtocolState::Dns(_) | ProtocolState::Rtp(_) => {}
        }
    }

    /// Releases the texts in the common part of a flow.
    pub(super) fn release_common(&mut self, common: &Common) {
        self.texts.release(common.resolved);
    }
}

/// Whether a datagram is a Version Negotiation packet from the responder.
fn is_version_negotiation(datagram: &L4Payload<'_>) -> bool {
    datagram.direction == 1 && crate::message::quic::is_version_negotiation(datagram.payload)
}

/// The addresses of the client and the server.
fn addresses(key: &FlowKey) -> [u128; 2] {
    [key.source, key.destination].map(u128::from_le_bytes)
}
