//! The meter's input: a burst of packets, each reduced to its key and what is counted of it.

use crate::record::FlowDefinition;
pub use analysis::Packet;
use app::Told;
use hw::hash::KeyedHash;
use wire::{FlowKey, Segment};

/// The most packets in a batch.
pub const BURST: usize = 256;

/// A burst of packets with their keys.
#[derive(Debug)]
pub struct Batch {
    keys: Box<[u128; BURST]>,
    hashes: Box<[u64; BURST]>,
    packets: Box<[Packet; BURST]>,
    wide: Vec<FlowKey>,
    /// Places for the details of packets: none until they are asked for.
    segments: Vec<Segment>,
    /// Whether packets have details: all of them, or none.
    detailed: bool,
    /// Payloads that are kept longer than the frames that they came in.
    payloads: Vec<u8>,
    /// What clients were told, each with the number of packets before it.
    told: Vec<(usize, Told)>,
    length: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            keys: Box::new([0; BURST]),
            hashes: Box::new([0; BURST]),
            packets: Box::new([Packet::default(); BURST]),
            wide: Vec::with_capacity(BURST),
            segments: Vec::new(),
            detailed: false,
            payloads: Vec::new(),
            told: Vec::new(),
            length: 0,
        }
    }
}

impl Batch {
    /// Adds a packet; a full batch takes no more.
    ///
    /// # Panics
    /// When the batch is full.
    #[inline]
    pub fn push(&mut self, key: u128, packet: Packet) {
        let at = self.length;
        self.keys[at] = key;
        self.packets[at] = packet;
        self.length = at + 1;
    }

    /// Adds a packet whose whole key does not fit 16 bytes; `digest` stands for it.
    ///
    /// # Panics
    /// When the batch is full.
    #[inline]
    pub fn push_wide(&mut self, digest: u128, key: &FlowKey, mut packet: Packet) {
        self.wide.push(*key);
        packet.wide = self.wide.len() as u16;
        self.push(digest, packet);
    }

    /// Gives packet `index` another key.
    ///
    /// # Panics
    /// When the batch has no such packet.
    #[inline]
    pub fn set_key(&mut self, index: usize, key: u128) {
        self.keys[..self.length][index] = key;
    }

    /// Adds the details of the packet that was pushed last. Either every packet of a batch has them,
    /// or none.
    #[inline]
    pub fn push_segment(&mut self, segment: Segment) {
        debug_assert!(self.detailed || self.length == 1);
        self.detail();
        if let Some(last) = self.length.checked_sub(1) {
            self.segments[last] = segment;
        }
    }

    /// Every packet that comes into the batch has details.
    #[inline]
    pub fn detail(&mut self) {
        self.detailed = true;
        if self.segments.is_empty() {
            self.segments.resize(BURST, Segment::default());
        }
    }

    /// The place of the next packet, to be filled and [taken](Self::take_places).
    ///
    /// # Panics
    /// When the batch is full.
    #[inline]
    pub fn place(&mut self) -> Place<'_> {
        let at = self.length;
        Place {
            key: &mut self.keys[at],
            packet: &mut self.packets[at],
            segment: match self.detailed {
                true => self.segments.get_mut(at),
                false => None,
            },
            wide: &mut self.wide,
        }
    }

    /// The places behind the batch's packets, to be filled in order and [taken](Self::take_places).
    #[inline]
    pub fn places(&mut self) -> Places<'_> {
        let detailed = match self.detailed {
            true => self.length,
            false => BURST,
        };
        Places {
            keys: &mut self.keys[self.length..],
            packets: &mut self.packets[self.length..],
            segments: self.segments.get_mut(detailed..).unwrap_or_default(),
            wide: &mut self.wide,
        }
    }

    /// Makes so many places that were filled part of the batch.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn take_places(&mut self, count: usize) {
        assert!(count <= BURST - self.length);
        self.length += count;
    }

    /// Copies the payloads of the packets from `first` on out of their frames, so that the batch can
    /// outlive these; `frame` gives the bytes of a frame by its number in the burst.
    pub fn keep_payloads<'a>(&mut self, first: usize, frame: impl Fn(u16) -> &'a [u8]) {
        let details = first..self.details();
        for segment in self.segments.get_mut(details).unwrap_or_default() {
            let start = segment.payload_at as usize;
            let end = start + segment.payload_captured as usize;
            let bytes = frame(segment.frame).get(start..end).unwrap_or_default();
            segment.payload_at = self.payloads.len() as u32;
            segment.payload_captured = bytes.len() as u32;
            self.payloads.extend_from_slice(bytes);
        }
    }

    /// Adds packet `index` of another batch, with its hash and its details; a payload that the other
    /// batch has kept is left behind.
    ///
    /// # Panics
    /// When the batch is full.
    pub fn push_from(&mut self, other: &Self, index: usize) {
        let packet = other.packets[index];
        self.hashes[self.length] = other.hashes[index];
        match other.wide_key(&packet) {
            Some(key) => self.push_wide(other.keys[index], &key, packet),
            None => self.push(other.keys[index], packet),
        }
        if let Some(&segment) = other.segments().get(index) {
            self.push_segment(segment);
        }
    }

    /// Takes all packets out.
    pub fn clear(&mut self) {
        self.length = 0;
        self.wide.clear();
        self.detailed = false;
        self.payloads.clear();
        self.told.clear();
    }

    /// Takes the packets out, and leaves what was told.
    pub fn drop_packets(&mut self) {
        let told = std::mem::take(&mut self.told);
        self.clear();
        self.told = told;
        for (before, _) in &mut self.told {
            *before = 0;
        }
    }

    /// Adds what a client was told, with the number of packets before it: in the order of these.
    pub fn tell(&mut self, before: usize, told: Told) {
        self.told.push((before, told));
    }

    /// What clients were told, each with the number of packets before it.
    #[inline]
    #[must_use]
    pub fn told(&self) -> &[(usize, Told)] {
        &self.told
    }

    /// Packets in the batch.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none, and nothing was told.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0 && self.told.is_empty()
    }

    /// Whether no more fit.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.length == BURST
    }

    /// Keys in the form that tables compare: compact keys, or digests of wide ones.
    #[inline]
    #[must_use]
    pub fn keys(&self) -> &[u128] {
        &self.keys[..self.length]
    }

    /// Hashes of the keys.
    #[inline]
    #[must_use]
    pub fn hashes(&self) -> &[u64] {
        &self.hashes[..self.length]
    }

    /// Keys, and the place for their hashes.
    #[inline]
    pub fn keys_and_hashes(&mut self) -> (&[u128], &mut [u64]) {
        (&self.keys[..self.length], &mut self.hashes[..self.length])
    }

    /// What is counted of each packet.
    #[inline]
    #[must_use]
    pub fn packets(&self) -> &[Packet] {
        &self.packets[..self.length]
    }

    /// The details of each packet, if they were asked for.
    #[inline]
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments[..self.details()]
    }

    /// How many packets have details.
    #[inline]
    fn details(&self) -> usize {
        if self.detailed { self.length } else { 0 }
    }

    /// Whether the table key of any packet is a digest.
    #[inline]
    #[must_use]
    pub fn has_wide_keys(&self) -> bool {
        !self.wide.is_empty()
    }

    /// The whole key of a packet whose table key is a digest.
    #[inline]
    #[must_use]
    pub fn wide_key(&self, packet: &Packet) -> Option<FlowKey> {
        self.wide
            .get(usize::from(packet.wide).wrapping_sub(1))
            .copied()
    }

    /// The whole key of packet `index`.
    #[must_use]
    pub fn flow_key(&self, index: usize) -> FlowKey {
        self.wide_key(&self.packets[index])
            .unwrap_or_else(|| FlowKey::from_compact(self.keys[index]))
    }
}

/// Places for packets.
#[derive(Debug)]
pub struct Places<'b> {
    /// For their keys.
    pub keys: &'b mut [u128],
    /// For what is counted of them.
    pub packets: &'b mut [Packet],
    /// For their details; none where these are not [asked for](Batch::detail). What stands there is to
    /// be written over, all of it.
    pub segments: &'b mut [Segment],
    /// The whole keys of those that have a digest in the place of their key.
    pub wide: &'b mut Vec<FlowKey>,
}

impl Places<'_> {
    /// Place `at`.
    ///
    /// # Panics
    /// When there are not so many.
    #[inline]
    pub fn place(&mut self, at: usize) -> Place<'_> {
        Place {
            key: &mut self.keys[at],
            packet: &mut self.packets[at],
            segment: self.segments.get_mut(at),
            wide: self.wide,
        }
    }
}

/// The place of a packet.
#[derive(Debug)]
pub struct Place<'b> {
    /// For its key.
    pub key: &'b mut u128,
    /// For what is counted of it.
    pub packet: &'b mut Packet,
    /// For its details, where these are asked for.
    pub segment: Option<&'b mut Segment>,
    /// See [`Places::wide`].
    pub wide: &'b mut Vec<FlowKey>,
}

impl Place<'_> {
    /// Puts a packet there, but for its details.
    #[inline]
    pub fn put(&mut self, key: u128, packet: Packet) {
        *self.key = key;
        *self.packet = packet;
    }

    /// The same of one whose whole key does not fit 16 bytes; `digest` stands for it.
    #[inline]
    pub fn put_wide(&mut self, digest: u128, key: &FlowKey, packet: Packet) {
        self.wide.push(*key);
        let wide = self.wide.len() as u16;
        self.put(digest, Packet { wide, ..packet });
    }
}

/// Where the payloads of a batch's packets lie.
pub trait Payloads {
    /// The captured payload of a packet of `batch` with these details.
    fn payload<'a>(&'a self, batch: &'a Batch, segment: &Segment) -> &'a [u8];
}

/// In the batch itself, which has [kept](Batch::keep_payloads) them; or nobody asks for them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept;

impl Payloads for Kept {
    #[inline]
    fn payload<'a>(&'a self, batch: &'a Batch, segment: &Segment) -> &'a [u8] {
        let start = segment.payload_at as usize;
        let end = start + segment.payload_captured as usize;
        batch.payloads.get(start..end).unwrap_or_default()
    }
}

/// In the frames of the burst that was read into the batch, which are still there: nothing is copied.
#[derive(Clone, Copy, Debug)]
pub struct InFrames<'f, F>(
    /// The frames.
    pub &'f [F],
);

impl<F: AsRef<[u8]>> Payloads for InFrames<'_, F> {
    #[inline]
    fn payload<'a>(&'a self, _: &'a Batch, segment: &Segment) -> &'a [u8] {
        let start = segment.payload_at as usize;
        let end = start + segment.payload_captured as usize;
        self.0
            .get(usize::from(segment.frame))
            .and_then(|frame| frame.as_ref().get(start..end))
            .unwrap_or_default()
    }
}

/// Makes table keys of 5-tuples: keeps the fields of the chosen flow definition, and brings both
/// directions of a bidirectional flow to one form.
#[derive(Clone, Debug)]
pub struct KeyMaker {
    definition: FlowDefinition,
    vlan: bool,
    compact_mask: u128,
    digest: KeyedHash,
}

/// A key as tables compare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKey {
    /// The whole key.
    Compact(u128),
    /// A digest of the whole key.
    Wide(u128),
}

impl KeyMaker {
    /// For flows by `definition` (for [`FlowDefinition::Rss`], the 5-tuples that are hashed where the
    /// device has not), with VLAN tags as part of the key or not. `seed` is secret.
    #[must_use]
    pub fn new(definition: FlowDefinition, vlan: bool, seed: u64) -> Self {
        const MARK: u128 = 0xff;
        const VLAN: u128 = 0xffff << 16;
        const SOURCE: u128 = 0xffff_ffff << 32;
        const DESTINATION: u128 = SOURCE << 32;
        const PORTS_AND_PROTOCOL: u128 = 0xffff_ffff << 96 | 0xff << 8;
        let fields = match definition {
            FlowDefinition::FiveTuple | FlowDefinition::Bidirectional | FlowDefinition::Rss => {
                SOURCE | DESTINATION | PORTS_AND_PROTOCOL
            }
            FlowDefinition::Source => SOURCE,
            FlowDefinition::Destination => DESTINATION,
            FlowDefinition::SourceDestination => SOURCE | DESTINATION,
        };
        let compact_mask = fields | MARK | if vlan { VLAN } else { 0 };
        Self {
            definition,
            vlan,
            compact_mask,
            digest: KeyedHash::new(!seed),
        }
    }

    /// What makes keys of compact 5-tuples.
    #[inline]
    #[must_use]
    pub fn compact(&self) -> CompactKeyMaker {
        CompactKeyMaker {
            mask: self.compact_mask,
            both_directions: self.definition == FlowDefinition::Bidirectional,
        }
    }

    /// The table key of a compact 5-tuple, and the packet's direction in it.
    #[inline(always)]
    #[must_use]
    pub fn from_compact(&self, five_tuple: u128) -> (u128, u8) {
        self.compact().make(five_tuple)
    }

    /// The table key of any 5-tuple, and the packet's direction in it. A key of which a digest is in the
    /// table becomes what the flow is known by: without the fields that do not count, in the order of
    /// both directions.
    #[inline]
    #[must_use]
    pub fn from_key(&self, key: &mut FlowKey) -> (TableKey, u8) {
        match key.compact() {
            Some(compact) => {
                let (key, direction) = self.from_compact(compact);
                (TableKey::Compact(key), direction)
            }
            None => self.wide_table_key(key),
        }
    }

    /// The same of one that does not fit 16 bytes, unless that is for VLAN tags that do not count.
    #[inline(never)]
    fn wide_table_key(&self, key: &mut FlowKey) -> (TableKey, u8) {
        if !self.vlan {
            key.vlan = [0; 2];
            if key.version == 4 {
                return self.from_key(key);
            }
        }
        let mut direction = 0;
        match self.definition {
            FlowDefinition::FiveTuple | FlowDefinition::Rss => {}
            FlowDefinition::Bidirectional => {
                // As for compact keys, any order will do.
                let source = u128::from_le_bytes(key.source);
                let destination = u128::from_le_bytes(key.destination);
                let same = source == destination;
                if source > destination || same && key.source_port > key.destination_port {
                    *key = key.reversed();
                    direction = 1;
                }
            }
            FlowDefinition::Source
            | FlowDefinition::Destination
            | FlowDefinition::SourceDestination => {
                key.source_port = 0;
                key.destination_port = 0;
                key.protocol = 0;
                match self.definition {
                    FlowDefinition::Source => key.destination = [0; 16],
                    FlowDefinition::Destination => key.source = [0; 16],
                    _ => {}
                }
            }
        }
        let digest = self.digest.digest(&words(key)) | FlowKey::WIDE_MARK;
        (TableKey::Wide(digest), direction)
    }
}

/// The part of a [`KeyMaker`] for 5-tuples that fit 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct CompactKeyMaker {
    mask: u128,
    both_directions: bool,
}

impl CompactKeyMaker {
    /// The table key of a compact 5-tuple, and the packet's direction in it.
    #[inline(always)]
    #[must_use]
    pub fn make(self, five_tuple: u128) -> (u128, u8) {
        let key = five_tuple & self.mask;
        if self.both_directions {
            FlowKey::compact_in_order(key)
        } else {
            (key, 0)
        }
    }

    /// The fields that count.
    #[must_use]
    pub const fn mask(self) -> u128 {
        self.mask
    }

    /// Whether both directions are one flow.
    #[must_use]
    pub const fn both_directions(self) -> bool {
        self.both_directions
    }
}

/// A flow key as three words: what a table keeps of a wide key, and what is digested.
#[must_use]
pub(crate) fn words(key: &FlowKey) -> [u128; 3] {
    let ports = u128::from(key.source_port) | u128::from(key.destination_port) << 16;
    let vlan = u128::from(key.vlan[0]) << 32 | u128::from(key.vlan[1]) << 48;
    let kind = u128::from(key.protocol) << 64 | u128::from(key.version) << 72;
    [
        u128::from_le_bytes(key.source),
        u128::from_le_bytes(key.destination),
        ports | vlan | kind,
    ]
}

/// The flow key that [`words`] took apart.
#[must_use]
pub(crate) fn from_words(words: &[u128; 3]) -> FlowKey {
    let [source, destination, rest] = *words;
    FlowKey {
        version: (rest >> 72) as u8,
        protocol: (rest >> 64) as u8,
        source: source.to_le_bytes(),
        destination: destination.to_le_bytes(),
        source_port: rest as u16,
        destination_port: (rest >> 16) as u16,
        vlan: [(rest >> 32) as u16, (rest >> 48) as u16],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys() -> impl Strategy<Value = FlowKey> {
        (
            any::<bool>(),
            any::<u8>(),
            any::<[u8; 16]>(),
            any::<[u8; 16]>(),
            any::<[u16; 4]>(),
        )
            .prop_map(
                |(v6, protocol, mut source, mut destination, [sport, dport, vlan, inner])| {
                    if !v6 {
                        source[4..].fill(0);
                        destination[4..].fill(0);
                    }
                    FlowKey {
                        version: if v6 { 6 } else { 4 },
                        protocol,
                        source,
                        destination,
                        source_port: sport % 4,
                        destination_port: dport % 4,
                        vlan: [
                            vlan & 0x1fff,
                            if inner % 4 == 0 { inner & 0x1fff } else { 0 },
                        ],
                    }
                },
            )
    }

    /// What a flow is known by, and the direction in it.
    fn made(maker: &KeyMaker, mut key: FlowKey) -> (FlowKey, u8) {
        match maker.from_key(&mut key) {
            (TableKey::Compact(key), direction) => (FlowKey::from_compact(key), direction),
            (TableKey::Wide(_), direction) => (key, direction),
        }
    }

    #[test]
    fn packets_have_details_where_these_are_asked_for() {
        let mut batch = Batch::default();
        batch.push(1, Packet::default());
        assert_eq!(batch.segments(), []);
        batch.clear();
        batch.detail();
        for sequence in 1..=2 {
            let place = batch.place();
            *place.segment.unwrap() = Segment {
                sequence,
                ..Segment::default()
            };
            batch.take_places(1);
        }
        let other = std::mem::take(&mut batch);
        batch.push_from(&other, 1);
        let sequences = |batch: &Batch| {
            let segments = batch.segments().iter();
            segments.map(|segment| segment.sequence).collect::<Vec<_>>()
        };
        assert_eq!(
            (sequences(&other), sequences(&batch)),
            (vec![1, 2], vec![2])
        );
        batch.clear();
        batch.push(1, Packet::default());
        assert!(batch.place().segment.is_none());
        assert_eq!(batch.segments(), []);
    }

    proptest! {
        #[test]
        fn both_directions_of_a_bidirectional_flow_have_one_key(key in keys()) {
            let maker = KeyMaker::new(FlowDefinition::Bidirectional, true, 1);
            let [table_key, table_key_back] = [key, key.reversed()].map(|mut key| maker.from_key(&mut key).0);
            prop_assert_eq!(table_key, table_key_back);
            let (forward, there) = made(&maker, key);
            let (backward, back) = made(&maker, key.reversed());
            prop_assert_eq!(forward, backward);
            prop_assert_eq!(if there == 1 { forward.reversed() } else { forward }, key);
            prop_assert!(there != back || key == key.reversed());
        }

        #[test]
        fn a_key_keeps_the_fields_of_its_definition(key in keys(), vlan: bool) {
            let keep = |source: bool, destination: bool, rest: bool| FlowKey {
                version: key.version,
                protocol: if rest { key.protocol } else { 0 },
                source: if source { key.source } else { [0; 16] },
                destination: if destination { key.destination } else { [0; 16] },
                source_port: if rest { key.source_port } else { 0 },
                destination_port: if rest { key.destination_port } else { 0 },
                vlan: if vlan { key.vlan } else { [0; 2] },
            };
            for (definition, expected) in [
                (FlowDefinition::FiveTuple, keep(true, true, true)),
                (FlowDefinition::Source, keep(true, false, false)),
                (FlowDefinition::Destination, keep(false, true, false)),
                (FlowDefinition::SourceDestination, keep(true, true, false)),
            ] {
                let maker = KeyMaker::new(definition, vlan, 1);
                prop_assert_eq!(made(&maker, key), (expected, 0));
            }
        }

        #[test]
        fn words_and_back(key in keys()) {
            prop_assert_eq!(from_words(&words(&key)), key);
        }
    }
}
