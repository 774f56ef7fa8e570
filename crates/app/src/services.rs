//! Services for parsers: the pools, caches and buffers that all flows share. They are apart from the
//! states of flows, so that a parser can update a state in place.

use crate::application::Applications;
use crate::base_state::BaseState;
use crate::dns_answer::{DnsAnswer, address_number};
use crate::limits::InspectorLimits;
use crate::message::dns::{self, Message, QUESTION_MAX};
use crate::message::quic::work::WorkBudget;
use crate::message::quic::{FrameSpan, KeyCache};
use crate::message::tls::Ja4Cache;
use crate::name_cache::{CachedName, NameCache};
use crate::payload::L4Payload;
use crate::protocols::dns::{STREAM_MESSAGES_MAX, STREAM_WORK_MAX};
use crate::protocols::media::extra::{EXTRAS_MAX, MediaExtra};
use crate::query_table::{Query, QueryTable};
use crate::reassembly::ReassemblyPool;
use crate::record::{AppRecord, FoundBy, Incomplete, ResolvedName};
use crate::text_pool::{TextId, TextPool};
use core::num::NonZeroU32;
use hw::pool::Pool;
use std::io;
use std::sync::Arc;
use wire::{FlowKey, ip_protocol};

/// Where the answers of observed DNS responses go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DnsRoute {
    /// To the cache of resolved names of this table.
    Local,
    /// Nowhere, because all answers come through [`Inspector::learn`](crate::Inspector::learn).
    Discard,
    /// To the caller, who passes them to other tables.
    Publish,
}

/// A packet that may have DNS messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DnsPacket {
    /// The addresses of the sender and the receiver of its messages.
    pub(crate) ends: [u128; 2],
    /// Its time: that at which messages behind a gap become known, too.
    pub(crate) time_ns: i64,
}

/// The pools, caches and buffers.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) texts: TextPool,
    pub(crate) buffers: ReassemblyPool,
    pub(crate) resolved_names: NameCache,
    pub(crate) applications: Arc<Applications>,
    /// Buffers that are reused from packet to packet, to save an allocation for each. A parser takes
    /// one out while it uses it.
    pub(crate) packet_buffer: Vec<u8>,
    pub(crate) scratch: Vec<u8>,
    pub(crate) list_buffer: Vec<u8>,
    pub(crate) frames: Vec<FrameSpan>,
    /// The last DNS message, reused in the same way.
    pub(crate) dns_message: Option<Box<Message>>,
    pub(crate) ja4_cache: Ja4Cache,
    pub(crate) initial_keys: KeyCache,
    /// What the Initial packets of QUIC may cost.
    pub(crate) initial_work: WorkBudget,
    /// What few media sessions need.
    pub(crate) media: Pool<MediaExtra>,
    pub(crate) dns_route: DnsRoute,
    /// The DNS queries that were seen. All taps of a link share it.
    pub(crate) queries: Arc<QueryTable>,
    /// The packet whose DNS messages are read. `None` outside a packet, where a buffer is read because its
    /// flow ends or another one needs it: names must depend neither on when a table sweeps its flows nor
    /// on how many buffers it has.
    pub(crate) dns_packet: Option<DnsPacket>,
    /// Number of DNS messages of a stream that may be read from this packet on.
    pub(crate) dns_messages_left: u16,
    /// The work that is left for them, in the units of `STREAM_WORK_MAX`.
    pub(crate) dns_work_left: u16,
    /// Answers to publish.
    pub(crate) published: Vec<DnsAnswer>,
}

impl Services {
    /// Creates the services for a table of `flows` flows.
    pub(crate) fn new(
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
            initial_work: WorkBudget::default(),
            media: Pool::new(flows.min(EXTRAS_MAX))?,
            dns_route: DnsRoute::Local,
            queries: Arc::new(QueryTable::new(limits.dns_queries_max, seed)),
            dns_packet: None,
            dns_messages_left: 0,
            dns_work_left: 0,
            published: Vec::new(),
        })
    }

    /// Touches the first part of all memory now.
    pub(crate) fn populate(&mut self) {
        self.texts.populate();
        self.buffers.populate();
        self.resolved_names.populate();
    }

    /// Whether no flow holds a text or a buffer.
    pub(crate) fn is_idle(&self) -> bool {
        self.texts.allocated() + self.buffers.allocated() == 0 && self.media.allocated() == 0
    }

    /// Memory with all pools full, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.texts.memory_bytes()
            + self.buffers.memory_bytes()
            + self.resolved_names.memory_bytes()
            + self.queries.memory_bytes()
            + Ja4Cache::MEMORY_BYTES
            + KeyCache::MEMORY_BYTES
            + self.media.memory_bytes()
    }

    /// Whether the cache of resolved names was ever filled.
    #[inline]
    pub(crate) const fn has_resolved_names(&self) -> bool {
        !self.resolved_names.is_empty()
    }

    /// Interns a text for a flow. Sets [`Incomplete::TEXT`] if it was truncated.
    pub(crate) fn intern(&mut self, incomplete: &mut Incomplete, text: &[u8]) -> TextId {
        let (text, was_cut) = self.texts.intern(text);
        if was_cut {
            incomplete.add(Incomplete::TEXT);
        }
        text
    }

    /// Prefetches what [`Services::look_up_name`] will read, and returns the hash that it needs.
    pub(crate) fn prefetch_name(&self, key: &FlowKey) -> NonZeroU32 {
        let hash = self.resolved_names.hash(addresses(key));
        self.resolved_names.prefetch(hash);
        hash
    }

    /// Sets the name that the initiator had resolved to the responder's address.
    pub(crate) fn look_up_name(
        &mut self,
        common: &mut BaseState,
        hash: Option<NonZeroU32>,
        key: impl Fn() -> FlowKey,
        time_ns: i64,
    ) {
        let addresses = || addresses(&key());
        let hash = hash.unwrap_or_else(|| self.resolved_names.hash(addresses()));
        let Some(found) = self.resolved_names.find(hash, addresses) else {
            return;
        };
        let (text, is_truncated) = self.texts.intern(found.name);
        common.resolved = text;
        common.set_resolved_unasked(!found.is_asked);
        if is_truncated {
            common.incomplete.add(Incomplete::TEXT);
        }
        let age = time_ns.saturating_sub(found.time_ns).max(0) / 1000;
        common.resolved_age_us = u32::try_from(age).unwrap_or(u32::MAX);
    }

    /// Starts a packet that may have DNS messages, or (`None`) the reading of a buffer without a packet.
    pub(crate) fn start_packet(&mut self, packet: Option<DnsPacket>) {
        self.dns_packet = packet;
        self.dns_messages_left = STREAM_MESSAGES_MAX;
        self.dns_work_left = STREAM_WORK_MAX;
    }

    /// Swaps the ends of the current packet, to read messages of the other direction.
    pub(crate) fn reverse_dns_packet(&mut self) {
        if let Some(packet) = &mut self.dns_packet {
            packet.ends.reverse();
        }
    }

    /// Remembers a query, the message `bytes`, to compare its response with it.
    pub(crate) fn observe_query(&mut self, packet: &L4Payload<'_>, bytes: &[u8]) {
        let Some(DnsPacket { ends, time_ns }) = self.dns_packet else {
            return;
        };
        if self.dns_route == DnsRoute::Discard {
            return;
        }
        let mut question = [0; QUESTION_MAX];
        let ports = [packet.source_port, packet.destination_port];
        if let Some(query) = query(packet, ends, ports, bytes, &mut question) {
            self.queries.insert(&query, time_ns);
        }
    }

    /// Takes the answer in a response, the message `bytes`.
    pub(crate) fn observe_response(
        &mut self,
        packet: &L4Payload<'_>,
        message: &Message,
        bytes: &[u8],
    ) {
        let (Some((name, _)), Some(dns_packet)) = (message.question(), self.dns_packet) else {
            return;
        };
        if message.addresses().is_empty() || self.dns_route == DnsRoute::Discard {
            return;
        }
        let mut question = [0; QUESTION_MAX];
        let (time_ns, [sender, receiver]) = (dns_packet.time_ns, dns_packet.ends);
        let ports = [packet.destination_port, packet.source_port];
        let query = query(packet, [receiver, sender], ports, bytes, &mut question);
        let is_asked = query.is_some_and(|query| self.queries.has(&query, time_ns));
        if self.dns_route == DnsRoute::Publish {
            if let Some(mut answer) = DnsAnswer::from_message(message, time_ns) {
                (answer.client, answer.is_asked) = (receiver, is_asked);
                self.published.push(answer);
            }
            return;
        }
        let found = CachedName {
            name: name.as_bytes(),
            time_ns,
            is_asked,
        };
        self.resolved_names.counters.unasked += u64::from(!is_asked);
        for address in message.addresses() {
            let server = address_number(address);
            self.resolved_names.insert([receiver, server], found);
        }
    }

    /// Adds an answer to the cache.
    pub(crate) fn learn(&mut self, answer: &DnsAnswer) {
        let found = CachedName {
            name: answer.name(),
            time_ns: answer.time_ns,
            is_asked: answer.is_asked,
        };
        self.resolved_names.counters.unasked += u64::from(!answer.is_asked);
        for &server in answer.servers() {
            self.resolved_names.insert([answer.client, server], found);
        }
    }

    /// Writes the part of the record that all flows have, and releases its text.
    pub(crate) fn write_common(&mut self, common: &mut BaseState, record: &mut AppRecord) {
        if let Some(name) = self.texts.take(common.resolved) {
            record.resolved = Some(ResolvedName {
                name,
                age_ns: u64::from(common.resolved_age_us) * 1000,
                is_asked: !common.is_resolved_unasked(),
            });
        }
        record.incomplete.add(common.incomplete);
        if let Some(class) = common.class() {
            record.application = self.applications.application(class, FoundBy::Bytes);
        }
    }

    /// Releases the texts in the common part of a flow.
    pub(crate) fn release_common(&mut self, common: &BaseState) {
        self.texts.release(common.resolved);
    }
}

/// The addresses of the client and the server.
fn addresses(key: &FlowKey) -> [u128; 2] {
    [key.source, key.destination].map(u128::from_le_bytes)
}

/// The query of a message, with the addresses and ports of the client and of the server. `None` if it
/// has no question.
fn query<'a>(
    packet: &L4Payload<'_>,
    addresses: [u128; 2],
    ports: [u16; 2],
    bytes: &[u8],
    question: &'a mut [u8; QUESTION_MAX],
) -> Option<Query<'a>> {
    Some(Query {
        addresses,
        ports,
        is_tcp: packet.protocol == ip_protocol::TCP,
        id: dns::Header::read(bytes)?.id,
        question: dns::question(bytes, question)?,
    })
}
