//! Parses frames into the batches of a meter: reads headers, builds and hashes flow keys, and counts
//! packets that belong to no flow.

mod device_hash;
mod fast;
mod rss_flows;
mod uncommon;

use crate::books::{Books, Count};
use device_hash::{DeviceHashes, PendingHashes};
use flow::batch::BatchSlot;
use flow::hash::FlowHash;
use flow::{Batch, FlowDefinition, KeyMaker, MeterOptions, Packet, PacketClock, TableKey};
use port::{Burst, Frame};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use wire::fast::ChunkParser;
use wire::{Decapsulate, FlowKey, Fragment, Headers, LinkType, NoFlow, PacketInfo};

/// The packet numbers from which interleaving gaps are computed.
#[derive(Debug, Default)]
struct PacketNumbers {
    next: u64,
    link_counter: Option<Arc<AtomicU64>>,
}

impl PacketNumbers {
    /// Reserves `count` numbers and returns the first: counted per queue, or over all queues of the link
    /// in the order in which they are read.
    fn reserve(&mut self, count: usize) -> u64 {
        let count = count as u64;
        match &self.link_counter {
            Some(link) => link.fetch_add(count, Ordering::Relaxed),
            None => {
                let first = self.next;
                self.next += count;
                first
            }
        }
    }
}

/// Creates a packet with everything that is known before its headers are parsed.
#[inline]
fn new_packet(frame: &Frame<'_>, number: u64, clock_ms: u32) -> Packet {
    Packet {
        time_ns: frame.time_ns,
        number,
        clock_ms,
        length: frame.wire_length,
        ..Packet::default()
    }
}

/// Parses the headers of bursts of frames.
#[derive(Debug)]
pub struct PacketParser {
    flow: FlowDefinition,
    keys: KeyMaker,
    /// The parser of simple frames.
    chunks: ChunkParser,
    hash: FlowHash,
    /// Present if the flow key is the device's hash.
    pending_hashes: Option<PendingHashes>,
    /// Present if the device's hashes can be used for the flow table.
    device_hashes: Option<DeviceHashes>,
    decapsulate: Decapsulate,
    /// Whether the meter needs the details of each packet.
    details: bool,
    clock: PacketClock,
    numbers: PacketNumbers,
    /// The packet accounting, except for what the flow table counts.
    books: Books,
    unknown_links: Vec<u16>,
    /// Timestamp of the last packet and the time at which the link became idle.
    idle_since: Option<(i64, Instant)>,
    last_packet_ns: i64,
}

impl PacketParser {
    /// Creates a parser for a meter with `options`.
    #[must_use]
    pub fn new(options: &MeterOptions, decapsulate: Decapsulate) -> Self {
        let keys = options.key_maker();
        let compact = keys.compact();
        Self {
            flow: options.flow,
            keys,
            chunks: ChunkParser::new(compact.mask(), compact.both_directions()),
            hash: options.flow_hash(),
            pending_hashes: options.identity_hash().map(PendingHashes::new),
            device_hashes: None,
            decapsulate,
            details: options.statistics.analysis.is_some(),
            clock: PacketClock::default(),
            numbers: PacketNumbers::default(),
            books: Books::default(),
            unknown_links: Vec::new(),
            idle_since: None,
            last_packet_ns: 0,
        }
    }

    /// Numbers packets with a counter that all queues of a link share, instead of per queue.
    #[must_use]
    pub fn with_link_counter(mut self, link_counter: Option<Arc<AtomicU64>>) -> Self {
        self.numbers.link_counter = link_counter;
        self
    }

    /// Uses the RSS hashes of a device for the flow table if they equal those that the table needs.
    /// `key` is the device's Toeplitz key (see [`port::Port::rss_key`]).
    pub fn trust_device_hashes(&mut self, key: Option<&[u8]>) {
        const LENGTH: usize = 40;
        let table_key = self.hash.rss_key();
        let same_key =
            table_key.is_some_and(|ours| key.and_then(|key| key.get(..LENGTH)) == Some(ours));
        let covers_key = match self.flow {
            FlowDefinition::FiveTuple => true,
            FlowDefinition::Bidirectional => table_key == Some(&wire::toeplitz::SYMMETRIC_KEY[..]),
            _ => false,
        };
        self.device_hashes = (same_key && covers_key).then(DeviceHashes::default);
    }

    /// Parses `burst` and appends its packets that belong to a flow, with their hashes, to `batch`, which
    /// must have room for all of them.
    pub fn parse(&mut self, burst: &Burst<'_>, batch: &mut Batch) {
        if self.pending_hashes.is_some() {
            return self.parse_hash_flows(burst, batch);
        }
        let start = batch.len();
        self.parse_headers(burst, batch);
        if let Some(device_hashes) = &mut self.device_hashes {
            device_hashes.fill(&self.hash, batch, start, &mut self.books);
            // After a single mismatch, the device's hashes are never used again.
            if self.books.hashes_mismatched > 0 {
                self.device_hashes = None;
            }
        } else {
            let (keys, hashes) = batch.keys_and_hashes();
            self.hash.hash_burst(&keys[start..], &mut hashes[start..]);
        }
    }

    /// Returns whether the fast path applies to a link. It does not look into tunnels, whose outer
    /// packet is a simple frame, so it cannot find the innermost packet.
    fn has_fast_path(&self, link: LinkType) -> bool {
        link == LinkType::Ethernet && self.decapsulate != Decapsulate::Innermost
    }

    /// Parses the headers of a burst.
    fn parse_headers(&mut self, burst: &Burst<'_>, batch: &mut Batch) {
        let first = self.numbers.reserve(burst.frames.len());
        if self.details {
            batch.enable_details();
        }
        let bytes = if self.has_fast_path(burst.link) {
            self.parse_fast(burst, first, batch)
        } else {
            self.parse_all_slow(burst, first, batch)
        };
        self.finish_burst(burst, bytes);
    }

    /// Parses a burst without the fast path. Returns its bytes on the wire.
    fn parse_all_slow(&mut self, burst: &Burst<'_>, first: u64, batch: &mut Batch) -> u64 {
        let mut bytes = 0;
        for (index, frame) in burst.frames.iter().enumerate() {
            bytes += u64::from(frame.wire_length);
            if let Some(device_hashes) = &mut self.device_hashes {
                device_hashes.set(batch.len(), None);
            }
            self.count_truncated(frame);
            let clock_ms = self.clock.advance(frame.time_ns);
            let packet = new_packet(frame, first + index as u64, clock_ms);
            let has_flow = self.parse_slow(burst.link, index, frame, packet, batch.next_slot());
            batch.commit(usize::from(has_flow));
        }
        bytes
    }

    fn finish_burst(&mut self, burst: &Burst<'_>, bytes: u64) {
        let received = Count {
            packets: burst.frames.len() as u64,
            bytes,
        };
        self.last_packet_ns = burst
            .frames
            .last()
            .map_or(self.last_packet_ns, |frame| frame.time_ns);
        self.books.received += received;
        self.books.processed += received;
    }

    /// Counts a frame that was not captured completely.
    #[inline]
    fn count_truncated(&mut self, frame: &Frame<'_>) {
        self.books.truncated += u64::from(frame.bytes.len() < frame.wire_length as usize);
    }

    /// Counts a frame that is fragmented, malformed or without a flow. Returns whether it has a flow.
    #[inline]
    fn count_headers(&mut self, link: LinkType, frame: &Frame<'_>, headers: &Headers) -> bool {
        self.books.fragments +=
            u64::from(!matches!(headers.fragment, Fragment::No | Fragment::Atomic));
        if let Some(kind) = headers.malformed {
            self.books.malformed[kind as usize] += 1;
        }
        let Some(reason) = headers.no_flow else {
            return true;
        };
        self.books.no_flow[reason as usize].add(frame.wire_length);
        if reason == NoFlow::UnknownLink {
            self.note_unknown_link(link.linktype());
        }
        false
    }

    /// Parses a frame of any kind into its slot. `packet` is its [new packet](new_packet). Returns whether
    /// it has a flow.
    #[inline(never)]
    fn parse_slow(
        &mut self,
        link: LinkType,
        index: usize,
        frame: &Frame<'_>,
        packet: Packet,
        mut slot: BatchSlot<'_>,
    ) -> bool {
        let headers = wire::dissect(link, frame.bytes, frame.wire_length, self.decapsulate);
        if !self.count_headers(link, frame, &headers) {
            return false;
        }
        let packet = Packet {
            icmp_type_code: headers.icmp_type_code,
            ..packet
        };
        let mut key = headers.key;
        self.write_key(&mut key, headers.tcp_flags, packet, &mut slot);
        if let Some(info) = slot.details {
            *info = PacketInfo::from_headers(frame.bytes, &headers);
            info.frame = index as u16;
        }
        true
    }

    #[inline]
    fn write_key(
        &self,
        key: &mut FlowKey,
        tcp_flags: u8,
        packet: Packet,
        slot: &mut BatchSlot<'_>,
    ) {
        let (table_key, direction) = self.keys.from_key(key);
        let packet = Packet {
            tcp_flags,
            direction,
            ..packet
        };
        match table_key {
            TableKey::Compact(key) => slot.write(key, packet),
            TableKey::Wide(digest) => slot.write_wide(digest, key, packet),
        }
    }

    /// Advances the packet clock of an idle link by the time elapsed since the last packet, and returns
    /// it in milliseconds. Timestamps may come from another clock, so the machine's time of day cannot be
    /// used.
    pub fn tick(&mut self) -> u32 {
        let now = Instant::now();
        match self.idle_since {
            Some((last_ns, since)) if last_ns == self.last_packet_ns => {
                let elapsed = i64::try_from((now - since).as_nanos()).unwrap_or(i64::MAX);
                self.clock.advance(last_ns.saturating_add(elapsed))
            }
            _ => {
                self.idle_since = Some((self.last_packet_ns, now));
                self.clock.now_ms()
            }
        }
    }

    fn note_unknown_link(&mut self, link: u16) {
        if !self.unknown_links.contains(&link) {
            self.unknown_links.push(link);
        }
    }

    /// Returns the packet clock, in milliseconds.
    #[must_use]
    pub fn clock_ms(&self) -> u32 {
        self.clock.now_ms()
    }

    /// Returns the unsupported link types that occurred, as libpcap numbers (LINKTYPE).
    #[must_use]
    pub fn unknown_links(&self) -> &[u16] {
        &self.unknown_links
    }

    /// Returns the packet accounting, without what the flow table counts.
    #[must_use]
    pub fn books(&self) -> Books {
        Books {
            clock_steps_back: self.clock.steps_back(),
            clock_steps_forward: self.clock.steps_forward(),
            ..self.books.clone()
        }
    }
}
