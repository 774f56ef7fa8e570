//! From frames to the meter's batches: headers read, keys made and hashed, what has no flow counted.

mod device_hash;
mod each;
mod other;
mod run;

use crate::books::{Books, Count};
use device_hash::{Identity, Reuse};
use flow::batch::Place;
use flow::hash::FlowHash;
use flow::{Batch, FlowDefinition, KeyMaker, MeterOptions, Packet, PacketClock, TableKey};
use port::{Burst, Frame};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use wire::plain::Instructions;
use wire::{Decapsulate, FlowKey, Fragment, Headers, LinkType, NoFlow, Segment};

/// Plain frames in a row from which on it pays to read several by one instruction: where these find
/// one that is not plain, they have done too much.
const LONG_RUN: usize = 64;

/// Who numbers the packets, by which gaps are counted.
#[derive(Debug, Default)]
struct Numbers {
    next: u64,
    link: Option<Arc<AtomicU64>>,
}

impl Numbers {
    /// The number of the first of `count` packets: of the queue's, or of the whole link's as far as
    /// its queues have been read.
    fn take(&mut self, count: usize) -> u64 {
        let count = count as u64;
        match &self.link {
            Some(link) => link.fetch_add(count, Ordering::Relaxed),
            None => {
                let first = self.next;
                self.next += count;
                first
            }
        }
    }
}

/// What is known of a packet before its headers are read.
#[inline(always)]
fn packet_of(frame: &Frame<'_>, number: u64, clock_ms: u32) -> Packet {
    Packet {
        time_ns: frame.time_ns,
        number,
        clock_ms,
        length: frame.wire_length,
        ..Packet::default()
    }
}

/// Reads the headers of bursts.
#[derive(Debug)]
pub struct Intake {
    flow: FlowDefinition,
    keys: KeyMaker,
    hash: FlowHash,
    /// Where flows are known by hash.
    identity: Option<Identity>,
    /// Where the device's hashes are the table's.
    reuse: Option<Reuse>,
    decapsulate: Decapsulate,
    /// Whether the meter asks for the details of each packet.
    details: bool,
    clock: PacketClock,
    numbers: Numbers,
    /// Whether the runs of plain frames in the last burst were [long](LONG_RUN).
    runs_are_long: bool,
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
            flow: options.flow,
            keys: options.key_maker(),
            hash: options.flow_hash(),
            identity: options.identity_hash().map(Identity::new),
            reuse: None,
            decapsulate,
            details: options.statistics.analysis.is_some(),
            clock: PacketClock::default(),
            numbers: Numbers::default(),
            runs_are_long: true,
            books: Books::default(),
            unknown_links: Vec::new(),
            anchor: None,
            last_ns: 0,
        }
    }

    /// Numbers packets over all queues of a link by their common counter, not by queue.
    #[must_use]
    pub fn numbered_by(mut self, link: Option<Arc<AtomicU64>>) -> Self {
        self.numbers.link = link;
        self
    }

    /// Takes the hashes of a device that makes Toeplitz hashes under `key` (see
    /// [`port::Port::rss_key`]) where they are the very hashes that the table is to have.
    pub fn trust_device_hashes(&mut self, key: Option<&[u8]>) {
        const LENGTH: usize = 40;
        let ours = self.hash.rss_key();
        let same = ours.is_some_and(|ours| key.and_then(|key| key.get(..LENGTH)) == Some(ours));
        let covers_key = match self.flow {
            FlowDefinition::FiveTuple => true,
            FlowDefinition::Bidirectional => ours == Some(&wire::toeplitz::SYMMETRIC_KEY[..]),
            _ => false,
        };
        self.reuse = (same && covers_key).then(Reuse::default);
    }

    /// Adds the packets of `burst` that have a flow to `batch`, which must have room for them all,
    /// and makes their hashes.
    pub fn read(&mut self, burst: &Burst<'_>, batch: &mut Batch) {
        if self.identity.is_some() {
            return self.read_identities(burst, batch);
        }
        let begun = batch.len();
        if self.reuse.is_some() {
            if self.details {
                self.read_headers::<true, true>(burst, batch);
            } else {
                self.read_headers::<true, false>(burst, batch);
            }
            self.reuse_hashes(batch, begun);
        } else {
            if self.details {
                self.read_headers::<false, true>(burst, batch);
            } else {
                self.read_headers::<false, false>(burst, batch);
            }
            let (keys, hashes) = batch.keys_and_hashes();
            self.hash.hash_burst(&keys[begun..], &mut hashes[begun..]);
        }
    }

    /// Whether plain frames of a link can be told. A tunnel's outer packet looks plain too: whoever
    /// wants the innermost walks them all.
    fn plain_first(&self, link: LinkType) -> bool {
        link == LinkType::Ethernet && self.decapsulate != Decapsulate::Innermost
    }

    /// Makes the keys of a burst; `REUSE`: notes the device's hashes; `DETAILS`: adds what an
    /// analysis asks for.
    fn read_headers<const REUSE: bool, const DETAILS: bool>(
        &mut self,
        burst: &Burst<'_>,
        batch: &mut Batch,
    ) {
        let first = self.numbers.take(burst.frames.len());
        if DETAILS {
            batch.detail();
        }
        let bytes = if !self.plain_first(burst.link) {
            self.walk_all::<REUSE>(burst, first, batch)
        } else if self.keys.compact().both_directions() {
            self.read_plain_first::<REUSE, DETAILS, true>(burst, first, batch)
        } else {
            self.read_plain_first::<REUSE, DETAILS, false>(burst, first, batch)
        };
        self.finish_burst(burst, bytes);
    }

    /// Reads frames of a link of which none is plain; how many bytes they have.
    fn walk_all<const REUSE: bool>(
        &mut self,
        burst: &Burst<'_>,
        first: u64,
        batch: &mut Batch,
    ) -> u64 {
        let mut bytes = 0;
        for (index, frame) in burst.frames.iter().enumerate() {
            bytes += u64::from(frame.wire_length);
            if REUSE && let Some(reuse) = &mut self.reuse {
                reuse.note(batch.len(), None);
            }
            self.clock.advance(frame.time_ns);
            let number = first + index as u64;
            let has_flow = self.walk(burst.link, index, frame, number, batch.place());
            batch.take_places(usize::from(has_flow));
        }
        bytes
    }

    /// Reads frames most of which are plain, the first of them being number `first` of its link; how
    /// many bytes they have.
    fn read_plain_first<const REUSE: bool, const DETAILS: bool, const BOTH_DIRECTIONS: bool>(
        &mut self,
        burst: &Burst<'_>,
        first: u64,
        batch: &mut Batch,
    ) -> u64 {
        let frames = burst.frames.len();
        let (breaks, bytes) = match Instructions::detect().filter(|_| self.runs_are_long) {
            Some(instructions) => {
                self.read_runs::<REUSE, DETAILS, BOTH_DIRECTIONS>(instructions, burst, first, batch)
            }
            None => {
                self.read_each::<REUSE, DETAILS, BOTH_DIRECTIONS>(burst, 0..frames, first, batch)
            }
        };
        self.runs_are_long = breaks <= frames / LONG_RUN;
        bytes
    }

    fn finish_burst(&mut self, burst: &Burst<'_>, bytes: u64) {
        let received = Count {
            packets: burst.frames.len() as u64,
            bytes,
        };
        self.last_ns = burst
            .frames
            .last()
            .map_or(self.last_ns, |frame| frame.time_ns);
        self.books.received += received;
        self.books.processed += received;
    }

    /// Counts what is remarkable in the headers of a frame; whether it has a flow.
    #[inline]
    fn judge(&mut self, link: LinkType, frame: &Frame<'_>, headers: &Headers) -> bool {
        self.books.truncated += u64::from(frame.bytes.len() < frame.wire_length as usize);
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
            self.name_link(link.linktype());
        }
        false
    }

    /// Reads one frame whatever it is, where the clock stands, into its place; whether it has a flow.
    #[inline(never)]
    fn walk(
        &mut self,
        link: LinkType,
        index: usize,
        frame: &Frame<'_>,
        number: u64,
        mut place: Place<'_>,
    ) -> bool {
        let headers = wire::dissect(link, frame.bytes, frame.wire_length, self.decapsulate);
        if !self.judge(link, frame, &headers) {
            return false;
        }
        let packet = Packet {
            icmp_type_code: headers.icmp_type_code,
            ..packet_of(frame, number, self.clock.now_ms())
        };
        let mut key = headers.key;
        self.put_key(&mut key, headers.tcp_flags, packet, &mut place);
        if let Some(segment) = place.segment {
            *segment = Segment::of_headers(frame.bytes, &headers);
            segment.frame = index as u16;
        }
        true
    }

    #[inline(always)]
    fn put_key(&self, key: &mut FlowKey, tcp_flags: u8, packet: Packet, place: &mut Place<'_>) {
        let (table_key, direction) = self.keys.from_key(key);
        let packet = Packet {
            tcp_flags,
            direction,
            ..packet
        };
        match table_key {
            TableKey::Compact(key) => place.put(key, packet),
            TableKey::Wide(digest) => place.put_wide(digest, key, packet),
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

    /// Packets read so far.
    pub(crate) const fn received(&self) -> u64 {
        self.books.received.packets
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
            clock_steps_forward: self.clock.steps_forward(),
            ..self.books.clone()
        }
    }
}
