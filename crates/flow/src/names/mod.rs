//! The names behind flows: per-flow state that is fed payload and yields a [`NamesRecord`].
//!
//! [`Names`] holds a word for each slot of the flow table. A flow that may still tell something has
//! a state in a bounded pool; once its names are known, or it is given up, a packet of it costs a
//! look at the word.

mod application;
mod assembly;
mod column;
mod dns;
mod http;
mod limits;
mod quic;
mod record;
mod resolved;
mod rtp;
mod slab;
mod state;
mod tcp_stream;
#[cfg(test)]
mod tests;
mod text_pool;
mod tls;

pub use application::{Applications, ApplicationsError};
pub use column::{COLUMNS, NameColumn, NameKind, NamePart, NameValue};
pub use limits::NamesLimits;
pub use record::{
    Application, Cut, DnsRecord, FoundBy, HttpRecord, NamesRecord, QuicRecord, ResolvedName,
    RtpRecord, TlsRecord,
};

use assembly::Assemblies;
use hw::memory::HugeSlice;
use hw::prefetch;
use quic::KeptKeys;
use resolved::Resolved;
use slab::Slab;
use state::{DnsState, Flow, HttpState, Protocol, QuicState, RtpState, TlsState};
use std::io;
use std::sync::Arc;
use text_pool::TextPool;
use wire::FlowKey;
use wire::app::rtp::Rtp;
use wire::app::tls::Ja4Hashes;
use wire::ip_protocol;
use wire::tcp::flag;

/// One packet of a flow, as far as names need it.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Time of the packet, nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// 0 from the flow's initiator, 1 to it.
    pub direction: u8,
    /// Protocol of the transport header (protocolIdentifier).
    pub protocol: u8,
    /// TCP control bits, 0 without TCP.
    pub tcp_flags: u8,
    /// TCP sequence number of the first byte of payload (of the SYN, where there is one).
    pub sequence: u32,
    /// Port of the sender of this packet.
    pub source_port: u16,
    /// Port of its receiver.
    pub destination_port: u16,
    /// Payload behind the transport header, as far as it was captured.
    pub payload: &'a [u8],
    /// Bytes of payload on the wire.
    pub payload_length: u32,
}

/// What a slot's word says of its flow, in bits 32 to 39; the low half is a number.
mod stage {
    /// No packet yet.
    pub(super) const NEW: u64 = 0;
    /// A SYN; the number is the sequence number behind it.
    pub(super) const SYN: u64 = 1;
    /// A few packets, none of which told anything; the number is how many.
    pub(super) const TRIED: u64 = 2;
    /// To be looked at; the number is the state's handle.
    pub(super) const WATCHED: u64 = 3;
    /// Nothing more to learn; the number is the state's handle, or 0.
    pub(super) const QUIET: u64 = 4;
    /// No state was free.
    pub(super) const LOST: u64 = 5;
}

const fn word(stage: u64, number: u32) -> u64 {
    stage << 32 | number as u64
}

/// Datagrams of a UDP flow in which a protocol is looked for.
const UDP_TRIES: u8 = 8;

/// Packets with payload of a TCP stream in which a protocol is looked for: another may come before
/// it (STARTTLS).
const TCP_TRIES: u8 = 40;

/// The names of many flows.
#[derive(Debug)]
pub struct Names {
    words: HugeSlice<u64>,
    flows: Slab<Flow>,
    tls: Slab<TlsState>,
    http: Slab<HttpState>,
    dns: Slab<DnsState>,
    quic: Slab<QuicState>,
    rtp: Slab<RtpState>,
    texts: TextPool,
    assemblies: Assemblies,
    resolved: Resolved,
    applications: Arc<Applications>,
    limits: NamesLimits,
    /// Buffers that are lent out while a packet is read, so that none is made for it.
    stream_buffer: Vec<u8>,
    packet_buffer: Vec<u8>,
    joined: Vec<u8>,
    list: Vec<u8>,
    ja4_hashes: Ja4Hashes,
    initial_keys: KeptKeys,
    /// Addresses that a DNS response told, with the place and length of the name.
    answers: Vec<(u128, u64, usize)>,
}

impl Names {
    /// For `slots` flows. Memory is taken as flows come, up to [`Names::memory_bytes`].
    ///
    /// # Errors
    /// When the machine has no room for them.
    pub fn new(
        slots: usize,
        limits: &NamesLimits,
        applications: Arc<Applications>,
    ) -> io::Result<Self> {
        let blocks = match limits.text_blocks_max {
            0 => slots.saturating_mul(4),
            blocks => blocks,
        };
        Ok(Self {
            words: HugeSlice::try_zeroed(slots)?,
            flows: Slab::new(slots)?,
            tls: Slab::new(slots)?,
            http: Slab::new(slots)?,
            dns: Slab::new(slots)?,
            quic: Slab::new(slots)?,
            rtp: Slab::new(slots)?,
            texts: TextPool::new(blocks)?,
            assemblies: Assemblies::new(limits.assemblies_max, limits.assembly_bytes)?,
            resolved: Resolved::new(limits.resolved_max)?,
            applications,
            limits: *limits,
            stream_buffer: Vec::new(),
            packet_buffer: Vec::new(),
            joined: Vec::new(),
            list: Vec::new(),
            ja4_hashes: Ja4Hashes::default(),
            initial_keys: KeptKeys::default(),
            answers: Vec::new(),
        })
    }

    /// Takes the memory of the first flows now.
    pub(crate) fn populate(&mut self) {
        self.words.populate();
        self.flows.populate();
        self.tls.populate();
        self.http.populate();
        self.dns.populate();
        self.quic.populate();
        self.rtp.populate();
        self.texts.populate();
        self.assemblies.populate();
        self.resolved.populate();
    }

    /// Asks for the cache lines of a flow, some time before [`Names::observe`].
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        prefetch::read(&self.words, slot as usize);
    }

    /// Whether a packet of the flow in `slot` with so many bytes of payload is to be shown to
    /// [`Names::observe`], which would do nothing otherwise.
    #[inline(always)]
    #[must_use]
    pub fn wants(&self, slot: u32, payload_length: u32) -> bool {
        let stage = self.words.get(slot as usize).copied().unwrap_or(u64::MAX) >> 32;
        stage < stage::TRIED || (stage < stage::QUIET && payload_length > 0)
    }

    /// Takes in a packet of the flow in `slot`. Every packet of the flow is to be shown, also those
    /// without payload; `key` gives the flow's key as its initiator sent it, and is called seldom.
    #[inline]
    pub fn observe(&mut self, slot: u32, segment: &Segment<'_>, key: impl FnOnce() -> FlowKey) {
        let Some(&word) = self.words.get(slot as usize) else {
            return;
        };
        if !self.wants(slot, segment.payload_length) {
            return;
        }
        if word >> 32 == stage::WATCHED
            && let Some(flow) = self.flows.get_mut(word as u32)
            && flow.pass_over(segment)
        {
            return;
        }
        self.look(slot, word, segment, key);
    }

    #[inline(never)]
    fn look(&mut self, slot: u32, old: u64, segment: &Segment<'_>, key: impl FnOnce() -> FlowKey) {
        let (stage, number) = (old >> 32, old as u32);
        let mut key = Some(key);
        let mut known_key = None;
        let mut flow = Flow::default();
        let mut handle = 0;
        match stage {
            stage::NEW => {
                let tcp = segment.protocol == ip_protocol::TCP;
                flow.blocks = if tcp {
                    self.limits.tcp_text_blocks
                } else {
                    self.limits.udp_text_blocks
                };
                if !self.resolved.is_empty() {
                    known_key = key.take().map(|key| key());
                    if let Some(key) = &known_key {
                        self.look_up(&mut flow, key, segment.time_ns);
                    }
                }
            }
            stage::SYN => {
                flow.blocks = self.limits.tcp_text_blocks;
                flow.sides[0].expected = number;
                flow.sides[0].known = true;
                flow.sides[0].from_syn = true;
            }
            stage::TRIED => {
                flow.blocks = self.limits.udp_text_blocks;
                flow.packets = number as u8;
            }
            _ => {
                handle = number;
                let Some(&kept) = self.flows.get(handle) else {
                    return;
                };
                flow = kept;
            }
        }
        let on = match segment.protocol {
            ip_protocol::TCP => {
                let syn = segment.tcp_flags & flag::SYN != 0;
                let lone = syn && segment.payload_length == 0 && flow.resolved.is_none();
                if lone && segment.direction == 0 && stage <= stage::SYN {
                    let behind = segment.sequence.wrapping_add(1);
                    self.words[slot as usize] = word(stage::SYN, behind);
                    return;
                }
                self.read_tcp(&mut flow, segment)
            }
            ip_protocol::UDP => self.read_udp(&mut flow, segment),
            // Another protocol, or a fragment without its transport header.
            _ => {
                flow.packets = flow.packets.saturating_add(1);
                flow.packets < UDP_TRIES
            }
        };
        if !self.answers.is_empty() {
            if known_key.is_none() {
                known_key = key.take().map(|key| key());
            }
            if let Some(key) = &known_key {
                // A response goes to the client: to the initiator, unless the query was not seen.
                let client = if segment.direction == 0 {
                    key.destination
                } else {
                    key.source
                };
                self.note_answers(u128::from_le_bytes(client), segment.time_ns);
            }
            self.answers.clear();
        }
        self.put_back(slot, handle, flow, on);
    }

    /// Stores what is known of a flow after a packet, and decides whether to look on.
    fn put_back(&mut self, slot: u32, mut handle: u32, mut flow: Flow, on: bool) {
        if !on {
            for side in &mut flow.sides {
                self.assemblies.release(&mut side.assembly);
            }
        }
        let unknown = flow.protocol == Protocol::Unknown;
        let known_side = flow.sides.iter().any(|side| side.known);
        let nothing = unknown
            && flow.resolved.is_none()
            && flow.class == 0
            && flow.cut == Cut::default()
            && !(on && known_side);
        if nothing && (handle == 0 || !on) {
            self.flows.release(handle);
            self.words[slot as usize] = if on {
                word(stage::TRIED, u32::from(flow.packets))
            } else {
                word(stage::QUIET, 0)
            };
            return;
        }
        if handle == 0 {
            handle = self.flows.take();
        }
        let stage = if on { stage::WATCHED } else { stage::QUIET };
        let new_word = word(stage, handle);
        match self.flows.get_mut(handle) {
            Some(place) => {
                *place = flow;
                self.words[slot as usize] = new_word;
            }
            None => {
                self.release(&mut flow);
                self.words[slot as usize] = word(stage::LOST, 0);
            }
        }
    }

    /// Notes the name that the initiator had resolved for the responder.
    fn look_up(&mut self, flow: &mut Flow, key: &FlowKey, time_ns: i64) {
        let client = u128::from_le_bytes(key.source);
        let server = u128::from_le_bytes(key.destination);
        let Some((name, told_ns)) = self.resolved.find(client, server) else {
            return;
        };
        let (text, cut) = self.texts.keep(name, &mut flow.blocks);
        flow.resolved = text;
        if cut {
            flow.cut.add(Cut::TEXT);
        }
        let age = time_ns.saturating_sub(told_ns).max(0) / 1000;
        flow.resolved_age_us = u32::try_from(age).unwrap_or(u32::MAX);
    }

    /// Takes in a TCP segment; false where there is nothing more to learn.
    fn read_tcp(&mut self, flow: &mut Flow, segment: &Segment<'_>) -> bool {
        let syn = segment.tcp_flags & flag::SYN != 0;
        let sequence = segment.sequence.wrapping_add(u32::from(syn));
        if syn {
            let side = &mut flow.sides[usize::from(segment.direction & 1)];
            if !side.known {
                side.expected = sequence;
                side.known = true;
                side.from_syn = true;
            }
        }
        if segment.payload_length == 0 {
            return true;
        }
        flow.packets = flow.packets.saturating_add(1);
        self.read_segment(flow, segment, sequence);
        let closed = flow.sides.iter().all(|side| side.closed);
        let given_up = flow.protocol == Protocol::Unknown && flow.packets >= TCP_TRIES;
        if given_up {
            for direction in 0..2 {
                self.drop_assembly(flow, segment, direction);
            }
        }
        !closed && !given_up
    }

    /// Takes in a datagram; false where there is nothing more to learn.
    fn read_udp(&mut self, flow: &mut Flow, segment: &Segment<'_>) -> bool {
        if segment.payload_length == 0 {
            return true;
        }
        flow.packets = flow.packets.saturating_add(1);
        let payload = segment.payload;
        if flow.protocol == Protocol::Unknown {
            if dns::is_port(segment.source_port, segment.destination_port) {
                if wire::app::dns::Header::read(payload).is_some() && !self.open_dns(flow) {
                    return self.no_state(flow);
                }
            } else if wire::app::quic::begins(payload) {
                flow.other = self.quic.take();
                flow.kind = Protocol::Quic;
                flow.protocol = Protocol::Quic;
                if flow.other == 0 {
                    return self.no_state(flow);
                }
            } else if Rtp::plausible(payload).is_some() || wire::app::rtp::is_rtcp(payload) {
                flow.other = self.rtp.take();
                flow.kind = Protocol::Rtp;
                flow.protocol = Protocol::Rtp;
                if flow.other == 0 {
                    return self.no_state(flow);
                }
            } else if flow.class == 0
                && let Some(class) = self.applications.by_bytes(payload)
            {
                flow.class = class + 1;
            }
        }
        match flow.protocol {
            Protocol::Dns => {
                self.read_dns(flow, segment, payload);
                true
            }
            Protocol::Quic => self.read_quic(flow, segment),
            Protocol::Rtp => {
                let on = self.read_rtp(flow, segment);
                if !on {
                    self.rtp.release(flow.other);
                    flow.other = 0;
                    flow.kind = Protocol::Unknown;
                    flow.protocol = Protocol::Unknown;
                }
                on || flow.packets < UDP_TRIES
            }
            _ => flow.packets < UDP_TRIES,
        }
    }

    fn no_state(&mut self, flow: &mut Flow) -> bool {
        flow.kind = Protocol::Unknown;
        flow.protocol = Protocol::Unknown;
        flow.cut.add(Cut::STATES);
        false
    }

    /// Takes out what is known of the flow in `slot`, whose key (as its initiator sent it) is
    /// `key`, and forgets it.
    #[must_use]
    pub fn take(&mut self, slot: u32, key: &FlowKey) -> NamesRecord {
        let word = self.words.get(slot as usize).copied().unwrap_or(0);
        let mut record = NamesRecord::default();
        if word >> 32 == stage::LOST {
            record.cut.add(Cut::STATES);
        }
        if word >> 32 >= stage::WATCHED
            && let Some(&flow) = self.flows.get(word as u32)
        {
            self.describe(flow, &mut record);
            self.flows.release(word as u32);
        }
        self.classify(key, &mut record);
        if let Some(word) = self.words.get_mut(slot as usize) {
            *word = 0;
        }
        record
    }

    /// Moves what is known of a flow to its record.
    fn describe(&mut self, mut flow: Flow, record: &mut NamesRecord) {
        if flow.kind == Protocol::Quic {
            self.finish_quic(&mut flow);
            for side in &mut flow.sides {
                self.assemblies.release(&mut side.assembly);
            }
        } else {
            let end = Segment {
                time_ns: 0,
                direction: 0,
                protocol: ip_protocol::TCP,
                tcp_flags: 0,
                sequence: 0,
                source_port: 0,
                destination_port: 0,
                payload: &[],
                payload_length: 0,
            };
            for direction in 0..2 {
                if flow.sides[direction].assembly != 0 {
                    flow.cut.add(Cut::GAP);
                }
                self.drop_assembly(&mut flow, &end, direction);
            }
        }
        if let Some(name) = self.texts.string(flow.resolved) {
            record.resolved = Some(ResolvedName {
                name,
                age_ns: u64::from(flow.resolved_age_us) * 1000,
            });
        }
        self.texts.release(flow.resolved);
        record.tls = self.tls_record(flow.tls, flow.kind == Protocol::Quic);
        match flow.kind {
            Protocol::Http => record.http = self.http_record(flow.other),
            Protocol::Dns => record.dns = self.dns_record(flow.other),
            Protocol::Quic => record.quic = self.quic_record(flow.other),
            Protocol::Rtp => record.rtp = self.rtp_records(flow.other),
            Protocol::Tls | Protocol::Unknown => {}
        }
        record.cut.add(flow.cut);
        if flow.class != 0 {
            record.application = self
                .applications
                .application(flow.class - 1, FoundBy::Bytes);
        }
    }

    /// Finds the class of application, by the surest way that tells one.
    fn classify(&self, key: &FlowKey, record: &mut NamesRecord) {
        let table = &self.applications;
        let protocols = table.protocols;
        let by_sni = || {
            let name = record.tls.as_ref()?.server_name.as_ref()?;
            Some((table.by_name(name)?, FoundBy::Sni))
        };
        let by_host = || {
            let host = record.http.as_ref()?.host.as_ref()?;
            let host = host.rsplit_once(':').map_or(&**host, |(host, _)| host);
            Some((table.by_name(host)?, FoundBy::Host))
        };
        let by_protocol = || {
            let has_rtp = record.rtp.iter().any(Option::is_some);
            let class = match record {
                _ if has_rtp => protocols.rtp,
                NamesRecord { dns: Some(_), .. } => protocols.dns,
                _ => return None,
            };
            Some((class, FoundBy::Bytes))
        };
        let by_dns = || {
            let name = &record.resolved.as_ref()?.name;
            Some((table.by_name(name)?, FoundBy::Dns))
        };
        // What carries anything says less than whom it is carried for.
        let by_carrier = || {
            let class = match record {
                NamesRecord { quic: Some(_), .. } => protocols.quic,
                NamesRecord { tls: Some(_), .. } => protocols.tls,
                NamesRecord { http: Some(_), .. } => protocols.http,
                _ => return None,
            };
            Some((class, FoundBy::Bytes))
        };
        let by_port = || {
            let class = table.by_port(key.protocol, key.source_port, key.destination_port)?;
            Some((class, FoundBy::Port))
        };
        let found = by_sni().or_else(by_host).or_else(by_protocol);
        let found = match (found, &record.application) {
            (None, Some(_)) => return,
            (found, _) => found.or_else(by_dns).or_else(by_carrier).or_else(by_port),
        };
        record.application = found.and_then(|(class, by)| table.application(class, by));
    }

    /// Gives back all that a flow holds.
    fn release(&mut self, flow: &mut Flow) {
        for side in &mut flow.sides {
            self.assemblies.release(&mut side.assembly);
        }
        self.texts.release(flow.resolved);
        self.release_tls(flow.tls);
        match flow.kind {
            Protocol::Http => self.release_http(flow.other),
            Protocol::Dns => self.release_dns(flow.other),
            Protocol::Quic => self.quic.release(flow.other),
            Protocol::Rtp => self.rtp.release(flow.other),
            Protocol::Tls | Protocol::Unknown => {}
        }
    }

    /// Forgets the flow in `slot`.
    pub fn clear(&mut self, slot: u32) {
        let Some(word) = self.words.get_mut(slot as usize).map(std::mem::take) else {
            return;
        };
        if word >> 32 >= stage::WATCHED
            && let Some(&flow) = self.flows.get(word as u32)
        {
            let mut flow = flow;
            self.release(&mut flow);
            self.flows.release(word as u32);
        }
    }

    /// Moves the flow in slot `from` to the free slot `to`.
    pub fn relocate(&mut self, from: u32, to: u32) {
        if from != to
            && (to as usize) < self.words.len()
            && let Some(word) = self.words.get_mut(from as usize)
        {
            let moved = std::mem::take(word);
            self.words[to as usize] = moved;
        }
    }

    /// The most memory that names of one flow take, buffers of handshakes apart, in bytes: of a TCP
    /// flow and of a UDP flow.
    #[must_use]
    pub const fn bytes_per_flow_max(limits: &NamesLimits) -> [usize; 2] {
        const BLOCK: usize = 32;
        const HANDLES: usize = 3 * size_of::<u32>();
        let flow = size_of::<u64>() + size_of::<Flow>() + HANDLES;
        let tcp = size_of::<TlsState>() + size_of::<HttpState>();
        let udp = size_of::<TlsState>() + size_of::<QuicState>();
        [
            flow + tcp + limits.tcp_text_blocks as usize * BLOCK,
            flow + udp + limits.udp_text_blocks as usize * BLOCK,
        ]
    }

    /// Whether no flow holds anything: all that was taken has been given back.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let states = self.flows.taken() + self.tls.taken() + self.http.taken();
        let others = self.dns.taken() + self.quic.taken() + self.rtp.taken();
        states + others + self.texts.taken() + self.assemblies.taken() == 0
    }

    /// Memory when every flow holds all that it may, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let others = [
            self.http.memory_bytes(),
            self.dns.memory_bytes(),
            self.quic.memory_bytes(),
            self.rtp.memory_bytes(),
        ];
        // A flow holds one of these.
        let largest = others.into_iter().max().unwrap_or(0);
        self.words.len() * size_of::<u64>()
            + self.flows.memory_bytes()
            + self.tls.memory_bytes()
            + largest
            + self.texts.memory_bytes()
            + self.assemblies.memory_bytes()
            + self.resolved.memory_bytes()
            + Ja4Hashes::MEMORY_BYTES
            + KeptKeys::MEMORY_BYTES
    }
}
