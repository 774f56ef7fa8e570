//! What reads payloads for flows: the pools and buffers that flows share, apart from their states,
//! so that a state is read and written in its place.

use super::assembly::{Assemblies, Evicted};
use super::quic::{Frame, KeptKeys};
use super::record::{Cut, FoundBy, NamesRecord, ResolvedName};
use super::resolved::Resolved;
use super::state::{
    Common, DnsState, Flow, Messages, Protocol, QuicState, RtpState, State, TcpState, TlsState,
    side,
};
use super::tcp_stream::nothing;
use super::text_pool::{Text, TextPool};
use super::told::Told;
use super::{Applications, NamesLimits, Segment, TCP_TRIES, UDP_TRIES, dns};
use crate::message::dns::Message;
use crate::message::rtp::Rtp;
use crate::message::tls::Ja4Hashes;
use std::io;
use std::sync::Arc;
use wire::FlowKey;
use wire::ip_protocol;
use wire::tcp::flag;

/// What a datagram may be by its ports and first bytes.
enum Datagram {
    Dns,
    Quic,
    /// RTP or RTCP, perhaps.
    Rtp,
    /// Of this class of application.
    Class(u16),
    Unknown,
}

/// Where that goes what DNS responses tell clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswersGo {
    /// To the names that flows of this table look up.
    Here,
    /// Nowhere: [`Names::hear`](super::Names::hear) is told all that there is.
    Nowhere,
    /// Out, for other tables.
    Out,
}

/// What all flows share.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) texts: TextPool,
    pub(super) assemblies: Assemblies,
    pub(super) resolved: Resolved,
    pub(super) applications: Arc<Applications>,
    /// Buffers that are lent out while a packet is read, so that none is made for it.
    pub(super) packet_buffer: Vec<u8>,
    pub(super) joined: Vec<u8>,
    pub(super) list: Vec<u8>,
    pub(super) frames: Vec<Frame>,
    /// The message of DNS that was read last: its place is lent out in the same way.
    pub(super) message: Option<Box<Message>>,
    pub(super) ja4_hashes: Ja4Hashes,
    pub(super) initial_keys: KeptKeys,
    pub(super) answers_go: AnswersGo,
    /// Addresses that a DNS response told, with the place and length of the name.
    pub(super) answers: Vec<(u128, u64, usize)>,
    /// What goes out, of a client that is not in it yet.
    pub(super) told: Vec<Told>,
}

impl Reader {
    /// For a table of `flows` flows.
    pub(super) fn new(
        flows: usize,
        limits: &NamesLimits,
        applications: Arc<Applications>,
        seed: u64,
    ) -> io::Result<Self> {
        Ok(Self {
            texts: TextPool::new(limits.text_bytes(flows))?,
            assemblies: Assemblies::new(limits.assemblies(flows), limits.assembly_bytes)?,
            resolved: Resolved::new(limits.resolved_max, seed)?,
            applications,
            packet_buffer: Vec::new(),
            joined: Vec::new(),
            list: Vec::new(),
            frames: Vec::new(),
            message: None,
            ja4_hashes: Ja4Hashes::default(),
            initial_keys: KeptKeys::default(),
            answers_go: AnswersGo::Here,
            answers: Vec::new(),
            told: Vec::new(),
        })
    }

    /// Takes the memory that is needed in the beginning now.
    pub(super) fn populate(&mut self) {
        self.texts.populate();
        self.assemblies.populate();
        self.resolved.populate();
    }

    /// Whether nothing that flows hold is taken.
    pub(super) fn is_idle(&self) -> bool {
        self.texts.taken() + self.assemblies.taken() == 0
    }

    /// Memory when everything is full, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.texts.memory_bytes()
            + self.assemblies.memory_bytes()
            + self.resolved.memory_bytes()
            + Ja4Hashes::MEMORY_BYTES
            + KeptKeys::MEMORY_BYTES
    }

    /// Whether any name was resolved yet.
    #[inline]
    pub(super) const fn has_resolved(&self) -> bool {
        !self.resolved.is_empty()
    }

    /// Whether the packet at hand told addresses of a name.
    #[inline]
    pub(super) const fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Holds a text for a flow; notes what was cut.
    pub(super) fn keep(&mut self, cut: &mut Cut, text: &[u8]) -> Text {
        let (text, was_cut) = self.texts.keep(text);
        if was_cut {
            cut.add(Cut::TEXT);
        }
        text
    }

    /// Asks for what [`Reader::look_up`] will look at, by the hash that it will want.
    pub(super) fn expect(&self, key: &FlowKey) -> u32 {
        let hash = self.resolved.hash(addresses(key));
        self.resolved.prefetch(hash);
        hash
    }

    /// Notes the name that the initiator had resolved for the responder.
    pub(super) fn look_up(
        &mut self,
        common: &mut Common,
        hash: Option<u32>,
        key: impl Fn() -> FlowKey,
        time_ns: i64,
    ) {
        let addresses = || addresses(&key());
        let hash = hash.unwrap_or_else(|| self.resolved.hash(addresses()));
        let Some((name, told_ns)) = self.resolved.find(hash, addresses) else {
            return;
        };
        let (text, cut) = self.texts.keep(name);
        common.resolved = text;
        if cut {
            common.cut.add(Cut::TEXT);
        }
        let age = time_ns.saturating_sub(told_ns).max(0) / 1000;
        common.resolved_age_us = u32::try_from(age).unwrap_or(u32::MAX);
    }

    /// Takes in a TCP segment; false where there is nothing more to learn.
    pub(super) fn read_tcp(&mut self, flow: &mut Flow, segment: &Segment<'_>) -> bool {
        let Flow { common, state } = flow;
        if matches!(state, State::Unknown) {
            *state = State::Tcp(TcpState::default());
        }
        let State::Tcp(tcp) = state else {
            return false;
        };
        let syn = segment.tcp_flags & flag::SYN != 0;
        let sequence = segment.sequence.wrapping_add(u32::from(syn));
        if syn {
            self.open_stream(common, tcp, segment, sequence);
        }
        if segment.payload_length == 0 {
            return true;
        }
        common.packets = common.packets.saturating_add(1);
        self.read_segment(common, tcp, segment, sequence);
        let closed = tcp.sides.iter().all(|it| it.is(side::CLOSED));
        let given_up = tcp.protocol == Protocol::Unknown && common.packets >= TCP_TRIES;
        if given_up {
            for direction in 0..2 {
                if self.has_gap(tcp, direction) {
                    common.cut.add(Cut::GAP);
                }
                self.drop_assembly(common, tcp, direction);
            }
        }
        !closed && !given_up
    }

    /// Whether a packet of a flow that nothing is known of, but perhaps a SYN, can tell anything.
    pub(super) fn may_tell(&self, segment: &Segment<'_>) -> bool {
        match segment.protocol {
            ip_protocol::TCP => true,
            ip_protocol::UDP => !matches!(self.datagram(segment), Datagram::Unknown),
            _ => false,
        }
    }

    /// What a datagram tells of a flow that nothing is known of.
    fn datagram(&self, segment: &Segment<'_>) -> Datagram {
        let payload = segment.payload;
        if dns::is_port(segment.source_port, segment.destination_port) {
            let header = crate::message::dns::Header::LENGTH;
            let is_cut = payload.len() < header && segment.payload_length as usize >= header;
            match crate::message::dns::Header::read(payload) {
                None if !is_cut => Datagram::Unknown,
                _ => Datagram::Dns,
            }
        } else if crate::message::quic::begins(payload) || negotiates(segment) {
            Datagram::Quic
        } else if Rtp::plausible(payload, segment.payload_length as usize).is_some()
            || crate::message::rtp::is_rtcp(payload, segment.payload_length as usize)
        {
            Datagram::Rtp
        } else {
            let class = self.applications.by_bytes(payload);
            class.map_or(Datagram::Unknown, Datagram::Class)
        }
    }

    /// Takes in a datagram; false where there is nothing more to learn.
    pub(super) fn read_udp(&mut self, flow: &mut Flow, segment: &Segment<'_>) -> bool {
        if segment.payload_length == 0 {
            return true;
        }
        let Flow { common, state } = flow;
        common.packets = common.packets.saturating_add(1);
        if let State::Quic(quic) = state
            && quic.has_but_negotiated()
            && !crate::message::quic::begins(segment.payload)
            && !negotiates(segment)
        {
            // Nobody began a connection anew: it was something else.
            *state = State::Unknown;
        }
        if matches!(state, State::Unknown) {
            match self.datagram(segment) {
                Datagram::Dns => *state = State::Dns(DnsState::default()),
                Datagram::Quic => {
                    *state = State::Quic(QuicState {
                        keys: self.initial_keys.place(),
                        ..QuicState::default()
                    });
                }
                Datagram::Rtp => *state = State::Rtp(RtpState::default()),
                Datagram::Class(class) if common.class == 0 => common.class = class + 1,
                Datagram::Class(_) | Datagram::Unknown => {}
            }
        }
        match state {
            State::Dns(dns) => {
                let is_cut = segment.payload.len() < segment.payload_length as usize;
                self.read_dns(&mut common.cut, dns, segment, segment.payload, is_cut);
                true
            }
            State::Quic(quic) => self.read_quic(&mut common.cut, quic, segment),
            State::Rtp(rtp) => {
                let on = super::rtp::read(rtp, common.packets, segment);
                if !on {
                    *state = State::Unknown;
                }
                on || common.packets < UDP_TRIES
            }
            State::Unknown | State::Tcp(_) => common.packets < UDP_TRIES,
        }
    }

    /// Moves what is known of a flow to its record.
    pub(super) fn describe(&mut self, flow: &mut Flow, record: &mut NamesRecord) {
        let Flow { common, state } = flow;
        match state {
            State::Unknown => {}
            State::Tcp(tcp) => {
                for direction in 0..2 {
                    if tcp.sides[direction].assembly != 0 {
                        common.cut.add(Cut::GAP);
                        self.drop_assembly(common, tcp, direction);
                    }
                }
                record.tls = self.tls_record(&tcp.tls);
                match &tcp.messages {
                    Messages::None => {}
                    Messages::Http(http) => record.http = self.http_record(http),
                    Messages::Dns(dns) => record.dns = self.dns_record(dns),
                }
            }
            State::Dns(dns) => record.dns = self.dns_record(dns),
            State::Quic(quic) => {
                self.finish_quic(&mut common.cut, quic);
                record.tls = self.quic_hello_record(quic);
                record.quic = super::quic::record(quic);
            }
            State::Rtp(rtp) => record.rtp = super::rtp::records(rtp),
        }
        self.describe_common(common, record);
    }

    /// Tells what is known of a flow whose half-read handshake goes on in its next record. What is
    /// told of the half is not kept: the whole will be.
    pub(super) fn describe_so_far(&mut self, flow: &mut Flow, record: &mut NamesRecord) {
        let Flow { common, state } = flow;
        // A record takes the texts, and the flow keeps them.
        let kept = self.texts.hold(common.resolved);
        match state {
            State::Tcp(tcp) => {
                let mut kept = TlsState::default();
                for (text, again) in tcp.tls.texts().into_iter().zip(kept.texts()) {
                    *again = self.texts.hold(*text);
                }
                record.tls = self.tls_record(&tcp.tls);
                for (text, again) in tcp.tls.texts().into_iter().zip(kept.texts()) {
                    *text = *again;
                }
                if record.tls.is_none() && tcp.protocol == Protocol::Tls {
                    let hello = self.half_hello(common, tcp);
                    record.tls = self.tls_record(&hello);
                }
                match std::mem::take(&mut tcp.messages) {
                    Messages::None => {}
                    Messages::Http(http) => record.http = self.http_record(&http),
                    Messages::Dns(dns) => record.dns = self.dns_record(&dns),
                }
            }
            State::Quic(quic) => {
                record.tls = self.half_quic_hello_record(&mut common.cut, quic);
                record.quic = super::quic::record(quic);
                quic.spin.begin_count();
            }
            State::Unknown | State::Dns(_) | State::Rtp(_) => {}
        }
        self.describe_common(common, record);
        common.resolved = kept;
    }

    /// What the beginning of a ClientHello says whose end is yet to come.
    fn half_hello(&mut self, common: &mut Common, tcp: &TcpState) -> TlsState {
        let mut hello = TlsState::default();
        for (direction, side) in (0..).zip(&tcp.sides) {
            let Some(stream) = self.assemblies.get_mut(side.assembly, direction) else {
                continue;
            };
            let there = stream.contiguous().len();
            let bytes = stream.lend();
            let segment = nothing(direction);
            self.read_cut_hello(&mut common.cut, &mut hello, &segment, &bytes[..there]);
            if let Some(stream) = self.assemblies.get_mut(side.assembly, direction) {
                stream.take_back(bytes);
            }
        }
        hello
    }

    fn describe_common(&mut self, common: &mut Common, record: &mut NamesRecord) {
        if let Some(name) = self.texts.take(common.resolved) {
            record.resolved = Some(ResolvedName {
                name,
                age_ns: u64::from(common.resolved_age_us) * 1000,
            });
        }
        record.cut.add(common.cut);
        if common.class != 0 {
            record.application = self
                .applications
                .application(common.class - 1, FoundBy::Bytes);
        }
    }

    /// Reads what was in a flow's buffer that had to make room for another's.
    pub(super) fn read_evicted(&mut self, flow: &mut Flow, evicted: &Evicted) {
        let Flow { common, state } = flow;
        common.cut.add(Cut::ASSEMBLY);
        match state {
            State::Tcp(tcp) => {
                let direction = evicted.owner.direction;
                if let Some(side) = tcp.sides.get_mut(usize::from(direction)) {
                    side.forget_place();
                }
                let segment = nothing(direction);
                self.read_what_there_is(common, tcp, &segment, &evicted.bytes);
            }
            State::Quic(quic) => {
                quic.assembly = 0;
                self.read_hello(&mut common.cut, quic, &evicted.bytes);
            }
            State::Unknown | State::Dns(_) | State::Rtp(_) => {}
        }
    }

    /// Gives back the buffers of a flow.
    pub(super) fn release_assemblies(&mut self, flow: &mut Flow) {
        match &mut flow.state {
            State::Tcp(tcp) => {
                for (direction, side) in (0..).zip(&mut tcp.sides) {
                    self.assemblies.release(&mut side.assembly, direction);
                }
            }
            State::Quic(quic) => self.assemblies.release(&mut quic.assembly, 0),
            State::Unknown | State::Dns(_) | State::Rtp(_) => {}
        }
    }

    /// Gives back what a flow has of the shared pools whatever it is.
    pub(super) fn release_common(&mut self, common: &Common) {
        self.texts.release(common.resolved);
    }
}

/// Whether a datagram is Version Negotiation, which a server sends in answer to a client.
fn negotiates(segment: &Segment<'_>) -> bool {
    segment.direction == 1 && crate::message::quic::negotiates(segment.payload)
}

/// The addresses of the client and the server.
fn addresses(key: &FlowKey) -> [u128; 2] {
    [key.source, key.destination].map(u128::from_le_bytes)
}
