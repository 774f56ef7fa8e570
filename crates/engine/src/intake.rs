//! From frames to the meter's batches: headers read, keys made and hashed, what has no flow counted.

mod device_hash;
mod run;

use crate::books::{Books, Count};
use device_hash::{Identity, Reuse};
use flow::hash::FlowHash;
use flow::{Batch, FlowDefinition, KeyMaker, MeterOptions, Packet, PacketClock, TableKey};
use port::{Burst, Frame};
use run::{PlainRun, Tally};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use wire::plain::{Plain, TOGETHER, Untagged, plain_ipv4};
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
    /// Whether the [runs](PlainRun) of the last burst were [long](LONG_RUN).
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
        let received = if !self.plain_first(burst.link) {
            self.walk_all::<REUSE>(burst, first, batch)
        } else if self.keys.compact().both_directions() {
            self.read_runs::<REUSE, DETAILS, true>(burst, first, batch)
        } else {
            self.read_runs::<REUSE, DETAILS, false>(burst, first, batch)
        };
        self.finish_burst(burst, received);
    }

    /// Reads frames of a link of which none is plain.
    fn walk_all<const REUSE: bool>(
        &mut self,
        burst: &Burst<'_>,
        first: u64,
        batch: &mut Batch,
    ) -> Count {
        let mut received = Count::default();
        for index in 0..burst.frames.len() {
            self.walk::<REUSE>(burst, index, first, batch, &mut received);
        }
        received
    }

    /// Reads one frame whatever it is.
    #[inline(always)]
    fn walk<const REUSE: bool>(
        &mut self,
        burst: &Burst<'_>,
        index: usize,
        first: u64,
        batch: &mut Batch,
        received: &mut Count,
    ) {
        let frame = &burst.frames[index];
        received.add(frame.wire_length);
        if REUSE {
            let is_plain = self.plain_first(burst.link)
                && plain_ipv4(frame.bytes, frame.wire_length).is_some();
            let hash = frame.rss_hash.filter(|_| is_plain);
            if let Some(reuse) = &mut self.reuse {
                reuse.note(batch.len(), hash);
            }
        }
        self.clock.advance(frame.time_ns);
        self.read_any(burst.link, index, frame, first + index as u64, batch);
    }

    /// Reads frames most of which are plain, the first of them being number `first` of its link. A
    /// function of its own: what it needs fits the processor's registers.
    #[inline(never)]
    fn read_runs<const REUSE: bool, const DETAILS: bool, const BOTH_DIRECTIONS: bool>(
        &mut self,
        burst: &Burst<'_>,
        first: u64,
        batch: &mut Batch,
    ) -> Count {
        let mut received = Count::default();
        let mut begin = 0;
        let mut runs = 0;
        while begin < burst.frames.len() {
            runs += usize::from(burst.frames.len() - begin >= TOGETHER);
            begin += self.read_run::<REUSE, DETAILS, BOTH_DIRECTIONS>(
                burst,
                begin,
                first,
                batch,
                &mut received,
            );
            let Some(frame) = burst.frames.get(begin) else {
                break;
            };
            if !self.clock.moves_to(frame.time_ns) {
                self.walk::<REUSE>(burst, begin, first, batch, &mut received);
                begin += 1;
            }
        }
        self.runs_are_long = runs <= 1 + burst.frames.len() / LONG_RUN;
        received
    }

    /// Reads the plain frames from `begin` on, as long as the clock stands; how many.
    #[inline(always)]
    fn read_run<const REUSE: bool, const DETAILS: bool, const BOTH_DIRECTIONS: bool>(
        &mut self,
        burst: &Burst<'_>,
        begin: usize,
        first: u64,
        batch: &mut Batch,
        received: &mut Count,
    ) -> usize {
        let begun = batch.len();
        let run = PlainRun::<REUSE, DETAILS>::new(
            burst.frames,
            begin,
            first + begin as u64,
            batch.places(),
            self.reuse.as_mut().map(|reuse| (reuse, begun)),
            self.clock.tick(),
        );
        let Tally {
            packets,
            bytes,
            truncated,
        } = run.read::<BOTH_DIRECTIONS>(self.keys.compact().mask(), self.runs_are_long);
        batch.take_places(packets);
        self.books.truncated += truncated;
        *received += Count {
            packets: packets as u64,
            bytes,
        };
        packets
    }

    #[inline(always)]
    fn push_plain(&self, plain: Plain, packet: Packet, batch: &mut Batch) {
        let (key, direction) = self.keys.from_compact(plain.key);
        batch.push(
            key,
            Packet {
                tcp_flags: plain.tcp_flags,
                direction,
                ..packet
            },
        );
    }

    fn finish_burst(&mut self, burst: &Burst<'_>, received: Count) {
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

    #[inline(never)]
    fn read_any(
        &mut self,
        link: LinkType,
        index: usize,
        frame: &Frame<'_>,
        number: u64,
        batch: &mut Batch,
    ) {
        let packet = packet_of(frame, number, self.clock.now_ms());
        if self.plain_first(link) && self.read_plain(index, frame, packet, batch) {
            return;
        }
        let headers = wire::dissect(link, frame.bytes, frame.wire_length, self.decapsulate);
        if !self.judge(link, frame, &headers) {
            return;
        }
        let packet = Packet {
            icmp_type_code: headers.icmp_type_code,
            ..packet
        };
        let mut key = headers.key;
        self.push_key(&mut key, headers.tcp_flags, packet, batch);
        if self.details {
            let mut segment = Segment::of_headers(frame.bytes, &headers);
            segment.frame = index as u16;
            batch.push_segment(segment);
        }
    }

    /// Adds a frame that is plain, be it with a VLAN tag, in IPv6 or without ports; whether it is.
    #[inline(always)]
    fn read_plain(
        &mut self,
        index: usize,
        frame: &Frame<'_>,
        packet: Packet,
        batch: &mut Batch,
    ) -> bool {
        let untagged = Untagged::new(frame.bytes, frame.wire_length);
        let mut segment = Segment::default();
        if let Some(plain) = untagged.plain_ipv4() {
            self.push_plain(plain, packet, batch);
            if self.details {
                segment.read_plain(untagged.frame);
            }
        } else if let Some(mut plain) = untagged.plain_ipv6() {
            self.push_key(&mut plain.key, plain.tcp_flags, packet, batch);
            if self.details {
                segment.read_plain_ipv6(untagged.frame);
            }
        } else if let Some(portless) = untagged.portless_ipv4() {
            let plain = Plain {
                key: portless.key,
                tcp_flags: 0,
            };
            self.push_plain(plain, packet, batch);
            self.books.fragments += u64::from(portless.is_fragment);
            if self.details {
                segment.read_portless(untagged.frame, portless.is_fragment);
            }
        } else {
            return false;
        }
        if self.details {
            segment.frame = index as u16;
            segment.put_tag_back(untagged.tag);
            batch.push_segment(segment);
        }
        self.books.truncated += u64::from(frame.bytes.len() < frame.wire_length as usize);
        true
    }

    #[inline(always)]
    fn push_key(&self, key: &mut FlowKey, tcp_flags: u8, packet: Packet, batch: &mut Batch) {
        let (table_key, direction) = self.keys.from_key(key);
        let packet = Packet {
            tcp_flags,
            direction,
            ..packet
        };
        match table_key {
            TableKey::Compact(key) => batch.push(key, packet),
            TableKey::Wide(digest) => batch.push_wide(digest, key, packet),
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
