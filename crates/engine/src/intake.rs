//! From frames to the meter's batches: headers read, keys made and hashed, what has no flow counted.

use crate::books::{Books, Count};
use flow::hash::FlowHash;
use flow::{Batch, KeyMaker, MeterOptions, Packet, PacketClock, TableKey};
use hw::prefetch;
use port::{Burst, Frame};
use std::time::Instant;
use wire::plain::plain_ipv4;
use wire::{Decapsulate, Fragment, LinkType, NoFlow, dissect};

/// How many frames ahead a frame's headers are asked for.
const AHEAD: usize = 8;

/// Reads the headers of bursts.
#[derive(Debug)]
pub struct Intake {
    keys: KeyMaker,
    hash: FlowHash,
    decapsulate: Decapsulate,
    clock: PacketClock,
    /// Number of the next packet of the link.
    number: u64,
    /// What has no flow is counted here, and all that is not the table's to know.
    books: Books,
    unknown_links: Vec<u16>,
    /// Time stamp of a packet, and the moment from which the machine's time is counted on it.
    anchor: Option<(i64, Instant)>,
    last_ns: i64,
}

impl Intake {
    /// Makes batches for a meter with `options`.
    #[must_use]
    pub fn new(options: &MeterOptions, decapsulate: Decapsulate) -> Self {
        Self {
            keys: options.key_maker(),
            hash: options.flow_hash(),
            decapsulate,
            clock: PacketClock::default(),
            number: 0,
            books: Books::default(),
            unknown_links: Vec::new(),
            anchor: None,
            last_ns: 0,
        }
    }

    /// Adds the packets of `burst` that have a flow to `batch`, which must have room for them all,
    /// and makes their hashes.
    pub fn read(&mut self, burst: &Burst<'_>, batch: &mut Batch) {
        // A tunnel's outer packet looks plain too: whoever wants the innermost walks them all.
        let plain_first =
            burst.link == LinkType::Ethernet && self.decapsulate != Decapsulate::Innermost;
        let begun = batch.len();
        let mut received = Count::default();
        for (index, frame) in burst.frames.iter().enumerate() {
            if let Some(ahead) = burst.frames.get(index + AHEAD) {
                prefetch::ahead(ahead.bytes, 0);
            }
            received.add(frame.wire_length);
            let clock_ms = self.clock.advance(frame.time_ns);
            let number = self.number;
            self.number += 1;
            let packet = Packet {
                time_ns: frame.time_ns,
                number,
                clock_ms,
                length: frame.wire_length,
                ..Packet::default()
            };
            if plain_first && let Some(plain) = plain_ipv4(frame.bytes, frame.wire_length) {
                let (key, direction) = self.keys.from_compact(plain.key);
                batch.push(
                    key,
                    Packet {
                        tcp_flags: plain.tcp_flags,
                        direction,
                        ..packet
                    },
                );
                self.books.truncated += u64::from(frame.bytes.len() < frame.wire_length as usize);
            } else {
                self.read_any(burst.link, frame, packet, batch);
            }
        }
        self.last_ns = burst
            .frames
            .last()
            .map_or(self.last_ns, |frame| frame.time_ns);
        self.books.received += received;
        self.books.processed += received;
        let (keys, hashes) = batch.keys_and_hashes();
        self.hash.hash_burst(&keys[begun..], &mut hashes[begun..]);
    }

    #[inline(never)]
    fn read_any(&mut self, link: LinkType, frame: &Frame<'_>, packet: Packet, batch: &mut Batch) {
        let headers = dissect(link, frame.bytes, frame.wire_length, self.decapsulate);
        self.books.truncated += u64::from(frame.bytes.len() < frame.wire_length as usize);
        self.books.fragments +=
            u64::from(!matches!(headers.fragment, Fragment::No | Fragment::Atomic));
        if let Some(kind) = headers.malformed {
            self.books.malformed[kind as usize] += 1;
        }
        if let Some(reason) = headers.no_flow {
            self.books.no_flow[reason as usize].add(frame.wire_length);
            if reason == NoFlow::UnknownLink {
                self.name_link(link.linktype());
            }
            return;
        }
        let (key, direction) = self.keys.from_key(&headers.key);
        let packet = Packet {
            tcp_flags: headers.tcp_flags,
            icmp_type_code: headers.icmp_type_code,
            direction,
            ..packet
        };
        match key {
            TableKey::Compact(key) => batch.push(key, packet),
            TableKey::Wide(digest, key) => batch.push_wide(digest, key, packet),
        }
    }

    /// Moves the clock on where no packets do, by the time that has passed since the last of them:
    /// their time stamps may be another clock's.
    pub fn tick(&mut self) -> u32 {
        let now = Instant::now();
        match self.anchor {
            Some((last_ns, since)) if last_ns == self.last_ns => {
                let passed = i64::try_from((now - since).as_nanos()).unwrap_or(i64::MAX);
                self.clock.advance(last_ns.saturating_add(passed))
            }
            _ => {
                self.anchor = Some((self.last_ns, now));
                self.clock.now_ms()
            }
        }
    }

    fn name_link(&mut self, link: u16) {
        if !self.unknown_links.contains(&link) {
            self.unknown_links.push(link);
        }
    }

    /// The clock as the packets have driven it.
    #[must_use]
    pub fn clock_ms(&self) -> u32 {
        self.clock.now_ms()
    }

    /// The link types met that flowatch does not read, as libpcap numbers them.
    #[must_use]
    pub fn unknown_links(&self) -> &[u16] {
        &self.unknown_links
    }

    /// What was received, and what of it has no flow.
    #[must_use]
    pub fn books(&self) -> Books {
        Books {
            clock_steps_back: self.clock.steps_back(),
            ..self.books.clone()
        }
    }
}
