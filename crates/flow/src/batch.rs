//! The meter's input: a burst of packets, each reduced to its key and the fields that the meter counts.

use crate::definition::FlowDefinition;
pub use analysis::Packet;
use app::DnsAnswer;
use hw::hash::KeyedHash;
use wire::{FlowKey, PacketInfo};

/// The maximum number of packets in a batch.
pub const BURST: usize = 256;

/// A burst of packets with their keys.
#[derive(Debug)]
pub struct Batch {
    keys: Box<[u128; BURST]>,
    hashes: Box<[u64; BURST]>,
    packets: Box<[Packet; BURST]>,
    wide: Vec<FlowKey>,
    /// Header details of packets; empty until [enabled](Batch::enable_details).
    details: Vec<PacketInfo>,
    /// Whether packets have details: either all of them or none.
    has_details: bool,
    /// Payloads copied out of their frames.
    payloads: Vec<u8>,
    /// DNS answers, each with the number of packets before it.
    dns_answers: Vec<(usize, DnsAnswer)>,
    length: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            keys: Box::new([0; BURST]),
            hashes: Box::new([0; BURST]),
            packets: Box::new([Packet::default(); BURST]),
            wide: Vec::with_capacity(BURST),
            details: Vec::new(),
            has_details: false,
            payloads: Vec::new(),
            dns_answers: Vec::new(),
            length: 0,
        }
    }
}

impl Batch {
    /// Adds a packet.
    ///
    /// # Panics
    /// If the batch is full.
    #[inline]
    pub fn push(&mut self, key: u128, packet: Packet) {
        let at = self.length;
        self.keys[at] = key;
        self.packets[at] = packet;
        self.length = at + 1;
    }

    /// Adds a packet whose key does not fit 16 bytes. Tables compare `digest` first, then the whole
    /// key.
    ///
    /// # Panics
    /// If the batch is full.
    #[inline]
    pub fn push_wide(&mut self, digest: u128, key: &FlowKey, mut packet: Packet) {
        self.wide.push(*key);
        packet.wide = self.wide.len() as u16;
        self.push(digest, packet);
    }

    /// Replaces the key of packet `index`.
    ///
    /// # Panics
    /// If `index` is out of range.
    #[inline]
    pub fn set_key(&mut self, index: usize, key: u128) {
        self.keys[..self.length][index] = key;
    }

    /// Adds the details of the packet that was pushed last. Either all packets of a batch have details
    /// or none.
    #[inline]
    pub fn push_details(&mut self, info: PacketInfo) {
        debug_assert!(self.has_details || self.length == 1);
        self.enable_details();
        if let Some(last) = self.length.checked_sub(1) {
            self.details[last] = info;
        }
    }

    /// Declares that every packet of the batch has details.
    #[inline]
    pub fn enable_details(&mut self) {
        self.has_details = true;
        if self.details.is_empty() {
            self.details.resize(BURST, PacketInfo::default());
        }
    }

    /// Returns the slot of the next packet. The packet becomes part of the batch with
    /// [`Batch::commit`].
    ///
    /// # Panics
    /// If the batch is full.
    #[inline]
    pub fn next_slot(&mut self) -> BatchSlot<'_> {
        let at = self.length;
        BatchSlot {
            key: &mut self.keys[at],
            packet: &mut self.packets[at],
            details: match self.has_details {
                true => self.details.get_mut(at),
                false => None,
            },
            wide: &mut self.wide,
        }
    }

    /// Returns the free slots, to be filled in order. The packets become part of the batch with
    /// [`Batch::commit`].
    #[inline]
    pub fn free_slots(&mut self) -> BatchSlots<'_> {
        let first_details = match self.has_details {
            true => self.length,
            false => BURST,
        };
        BatchSlots {
            keys: &mut self.keys[self.length..],
            packets: &mut self.packets[self.length..],
            details: self.details.get_mut(first_details..).unwrap_or_default(),
            wide: &mut self.wide,
        }
    }

    /// Adds the first `count` filled slots to the batch.
    ///
    /// # Panics
    /// If the batch has fewer free slots.
    pub fn commit(&mut self, count: usize) {
        assert!(count <= BURST - self.length);
        self.length += count;
    }

    /// Copies the payloads of the packets from `first` on into the batch, so that it can outlive their
    /// frames. `frame` returns the bytes of a frame by its index in the burst.
    pub fn copy_payloads<'a>(&mut self, first: usize, frame: impl Fn(u16) -> &'a [u8]) {
        let packets = first..self.details_len();
        for info in self.details.get_mut(packets).unwrap_or_default() {
            let start = info.payload_at as usize;
            let end = start + info.payload_captured as usize;
            let bytes = frame(info.frame).get(start..end).unwrap_or_default();
            info.payload_at = self.payloads.len() as u32;
            info.payload_captured = bytes.len() as u32;
            self.payloads.extend_from_slice(bytes);
        }
    }

    /// Adds packets of another batch by their indices, as many as there is room for, with their hashes and
    /// details but without their copied payloads. Returns how many were added.
    pub fn append(&mut self, other: &Self, indices: &[u8]) -> usize {
        let first = self.length;
        let indices = &indices[..indices.len().min(BURST - first)];
        let end = first + indices.len();
        // An index of 8 bits is within every array, so there is no check in the loops.
        gather(&mut self.keys[first..end], &other.keys, indices);
        gather(&mut self.hashes[first..end], &other.hashes, indices);
        gather(&mut self.packets[first..end], &other.packets, indices);
        if let Some(details) = other.details.first_chunk()
            && other.has_details
        {
            self.enable_details();
            gather(&mut self.details[first..end], details, indices);
        }
        if other.has_wide_keys() {
            for packet in &mut self.packets[first..end] {
                if let Some(key) = other.wide_key(packet) {
                    self.wide.push(key);
                    packet.wide = self.wide.len() as u16;
                }
            }
        }
        self.length = end;
        indices.len()
    }

    /// Removes all packets and DNS answers.
    pub fn clear(&mut self) {
        self.length = 0;
        self.wide.clear();
        self.has_details = false;
        self.payloads.clear();
        self.dns_answers.clear();
    }

    /// Removes all packets and keeps the DNS answers.
    pub fn clear_packets(&mut self) {
        let answers = std::mem::take(&mut self.dns_answers);
        self.clear();
        self.dns_answers = answers;
        for (before, _) in &mut self.dns_answers {
            *before = 0;
        }
    }

    /// Adds a DNS answer that comes after the first `before` packets. Answers must come in this order.
    pub fn push_dns_answer(&mut self, before: usize, answer: DnsAnswer) {
        self.dns_answers.push((before, answer));
    }

    /// Returns the DNS answers, each with the number of packets before it.
    #[inline]
    #[must_use]
    pub fn dns_answers(&self) -> &[(usize, DnsAnswer)] {
        &self.dns_answers
    }

    /// Returns the number of packets.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether the batch has neither packets nor DNS answers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0 && self.dns_answers.is_empty()
    }

    /// Returns whether the batch has [`BURST`] packets.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.length == BURST
    }

    /// Returns the table keys: compact keys, or digests of wide keys.
    #[inline]
    #[must_use]
    pub fn keys(&self) -> &[u128] {
        &self.keys[..self.length]
    }

    /// Returns the hashes of the keys.
    #[inline]
    #[must_use]
    pub fn hashes(&self) -> &[u64] {
        &self.hashes[..self.length]
    }

    /// Returns the keys, and the hashes to be written.
    #[inline]
    pub fn keys_and_hashes(&mut self) -> (&[u128], &mut [u64]) {
        (&self.keys[..self.length], &mut self.hashes[..self.length])
    }

    /// Returns the packets.
    #[inline]
    #[must_use]
    pub fn packets(&self) -> &[Packet] {
        &self.packets[..self.length]
    }

    /// Returns the details of each packet; empty if details are not enabled.
    #[inline]
    #[must_use]
    pub fn details(&self) -> &[PacketInfo] {
        &self.details[..self.details_len()]
    }

    #[inline]
    fn details_len(&self) -> usize {
        if self.has_details { self.length } else { 0 }
    }

    /// Returns whether the table key of any packet is a digest.
    #[inline]
    #[must_use]
    pub fn has_wide_keys(&self) -> bool {
        !self.wide.is_empty()
    }

    /// Returns the whole key of a packet whose table key is a digest; `None` for compact keys.
    #[inline]
    #[must_use]
    pub fn wide_key(&self, packet: &Packet) -> Option<FlowKey> {
        self.wide
            .get(usize::from(packet.wide).wrapping_sub(1))
            .copied()
    }

    /// Returns the whole key of packet `index`.
    #[must_use]
    pub fn flow_key(&self, index: usize) -> FlowKey {
        self.wide_key(&self.packets[index])
            .unwrap_or_else(|| FlowKey::from_compact(self.keys[index]))
    }
}

/// Copies the elements of `from` at these indices.
fn gather<T: Copy>(to: &mut [T], from: &[T; BURST], indices: &[u8]) {
    for (to, &index) in to.iter_mut().zip(indices) {
        *to = from[usize::from(index)];
    }
}

/// The free slots of a batch.
#[derive(Debug)]
pub struct BatchSlots<'b> {
    /// The table keys.
    pub keys: &'b mut [u128],
    /// The packets.
    pub packets: &'b mut [Packet],
    /// The details of the packets; empty if not [enabled](Batch::enable_details). The slots may hold
    /// old values, so every field must be written.
    pub details: &'b mut [PacketInfo],
    /// The whole keys of packets whose table key is a digest.
    pub wide: &'b mut Vec<FlowKey>,
}

impl BatchSlots<'_> {
    /// Returns slot `at`.
    ///
    /// # Panics
    /// If `at` is out of range.
    #[inline]
    pub fn slot(&mut self, at: usize) -> BatchSlot<'_> {
        BatchSlot {
            key: &mut self.keys[at],
            packet: &mut self.packets[at],
            details: self.details.get_mut(at),
            wide: self.wide,
        }
    }

    /// Closes the [gaps](close_gaps) that unused slots leave. Returns the number of slots that are filled
    /// then.
    pub fn close_gaps(&mut self, filled: usize, unused: u64) -> usize {
        if !self.details.is_empty() {
            close_gaps(self.details, filled, unused);
        }
        close_gaps(self.packets, filled, unused);
        close_gaps(self.keys, filled, unused)
    }
}

/// Moves the first `filled` elements of `slots` up, so that those in the mask `unused` (bit 0 is the first)
/// leave no gap. Returns the number of elements left.
pub fn close_gaps<T: Copy>(slots: &mut [T], filled: usize, mut unused: u64) -> usize {
    let mut end = (unused.trailing_zeros() as usize).min(filled);
    while unused != 0 {
        let gap = unused.trailing_zeros() as usize;
        unused &= unused - 1;
        let next = (unused.trailing_zeros() as usize).min(filled);
        slots.copy_within(gap + 1..next, end);
        end += next - gap - 1;
    }
    end
}

/// The slot of one packet.
#[derive(Debug)]
pub struct BatchSlot<'b> {
    /// The table key.
    pub key: &'b mut u128,
    /// The packet.
    pub packet: &'b mut Packet,
    /// The packet's details, if enabled.
    pub details: Option<&'b mut PacketInfo>,
    /// See [`BatchSlots::wide`].
    pub wide: &'b mut Vec<FlowKey>,
}

impl BatchSlot<'_> {
    /// Writes a packet without its details.
    #[inline]
    pub fn write(&mut self, key: u128, packet: Packet) {
        *self.key = key;
        *self.packet = packet;
    }

    /// Writes a packet whose key does not fit 16 bytes; `digest` becomes its table key.
    #[inline]
    pub fn write_wide(&mut self, digest: u128, key: &FlowKey, packet: Packet) {
        self.wide.push(*key);
        let wide = self.wide.len() as u16;
        self.write(digest, Packet { wide, ..packet });
    }
}

/// The source of the payloads of a batch's packets.
pub trait Payloads {
    /// Returns the captured payload of the packet of `batch` with the details `info`.
    fn payload<'a>(&'a self, batch: &'a Batch, info: &PacketInfo) -> &'a [u8];
}

/// Payloads that [`Batch::copy_payloads`] copied into the batch. Also serves when payloads are not
/// needed.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopiedPayloads;

impl Payloads for CopiedPayloads {
    #[inline]
    fn payload<'a>(&'a self, batch: &'a Batch, info: &PacketInfo) -> &'a [u8] {
        let start = info.payload_at as usize;
        let end = start + info.payload_captured as usize;
        batch.payloads.get(start..end).unwrap_or_default()
    }
}

/// Payloads in the frames of the burst that the batch was parsed from, without a copy.
#[derive(Clone, Copy, Debug)]
pub struct FramePayloads<'f, F>(
    /// The frames of the burst.
    pub &'f [F],
);

impl<F: AsRef<[u8]>> Payloads for FramePayloads<'_, F> {
    #[inline]
    fn payload<'a>(&'a self, _: &'a Batch, info: &PacketInfo) -> &'a [u8] {
        let start = info.payload_at as usize;
        let end = start + info.payload_captured as usize;
        self.0
            .get(usize::from(info.frame))
            .and_then(|frame| frame.as_ref().get(start..end))
            .unwrap_or_default()
    }
}

/// Makes table keys from 5-tuples: masks the fields that the flow definition ignores, and orders the
/// endpoints of bidirectional flows so that both directions have one key.
#[derive(Clone, Debug)]
pub struct KeyMaker {
    definition: FlowDefinition,
    vlan: bool,
    compact_mask: u128,
    digest: KeyedHash,
}

/// A key in the form that tables compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKey {
    /// The whole key.
    Compact(u128),
    /// A digest of the whole key.
    Wide(u128),
}

impl KeyMaker {
    /// Creates a maker of keys by `definition`; `vlan`: VLAN tags are part of the key. `seed` must be
    /// secret: it keeps outsiders from choosing keys whose digests collide.
    ///
    /// For [`FlowDefinition::Rss`], the keys are 5-tuples, to be hashed in software for packets
    /// without a device hash.
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

    /// Returns the part that handles compact 5-tuples.
    #[inline]
    #[must_use]
    pub fn compact(&self) -> CompactKeyMaker {
        CompactKeyMaker {
            mask: self.compact_mask,
            both_directions: self.definition == FlowDefinition::Bidirectional,
        }
    }

    /// Returns the table key of a compact 5-tuple, and the packet's direction in the flow.
    #[inline]
    #[must_use]
    pub fn from_compact(&self, five_tuple: u128) -> (u128, u8) {
        self.compact().make(five_tuple)
    }

    /// Returns the table key of any 5-tuple, and the packet's direction in the flow.
    ///
    /// If the table key is a digest, `key` becomes the flow's whole key: ignored fields cleared,
    /// endpoints in order.
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

    /// Does the same for a key that does not fit 16 bytes, or fits only without its ignored VLAN tags.
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
                // As for compact keys, any total order works.
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
        let digest = self.digest.digest(&key_to_words(key)) | FlowKey::WIDE_MARK;
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
    /// Returns the table key of a compact 5-tuple, and the packet's direction in the flow.
    #[inline]
    #[must_use]
    pub fn make(self, five_tuple: u128) -> (u128, u8) {
        let key = five_tuple & self.mask;
        if self.both_directions {
            FlowKey::compact_in_order(key)
        } else {
            (key, 0)
        }
    }

    /// Returns the mask of the fields that are part of the key.
    #[must_use]
    pub const fn mask(self) -> u128 {
        self.mask
    }

    /// Returns whether both directions of a conversation are one flow.
    #[must_use]
    pub const fn both_directions(self) -> bool {
        self.both_directions
    }
}

/// Packs a flow key into three words: the form in which tables store and digest wide keys.
#[must_use]
pub(crate) fn key_to_words(key: &FlowKey) -> [u128; 3] {
    let ports = u128::from(key.source_port) | u128::from(key.destination_port) << 16;
    let vlan = u128::from(key.vlan[0]) << 32 | u128::from(key.vlan[1]) << 48;
    let kind = u128::from(key.protocol) << 64 | u128::from(key.version) << 72;
    [
        u128::from_le_bytes(key.source),
        u128::from_le_bytes(key.destination),
        ports | vlan | kind,
    ]
}

/// Unpacks the words of [`key_to_words`].
#[must_use]
pub(crate) fn key_from_words(words: &[u128; 3]) -> FlowKey {
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

    /// The flow's whole key, and the direction of `key` in the flow.
    fn key_and_direction(maker: &KeyMaker, mut key: FlowKey) -> (FlowKey, u8) {
        match maker.from_key(&mut key) {
            (TableKey::Compact(key), direction) => (FlowKey::from_compact(key), direction),
            (TableKey::Wide(_), direction) => (key, direction),
        }
    }

    #[test]
    fn packets_have_details_if_enabled() {
        let mut batch = Batch::default();
        batch.push(1, Packet::default());
        assert_eq!(batch.details(), []);
        batch.clear();
        batch.enable_details();
        for sequence in 1..=2 {
            let slot = batch.next_slot();
            *slot.details.unwrap() = PacketInfo {
                sequence,
                ..PacketInfo::default()
            };
            batch.commit(1);
        }
        let other = std::mem::take(&mut batch);
        assert_eq!(batch.append(&other, &[1]), 1);
        let sequences = |batch: &Batch| {
            let details = batch.details().iter();
            details.map(|info| info.sequence).collect::<Vec<_>>()
        };
        assert_eq!(
            (sequences(&other), sequences(&batch)),
            (vec![1, 2], vec![2])
        );
        batch.clear();
        batch.push(1, Packet::default());
        assert!(batch.next_slot().details.is_none());
        assert_eq!(batch.details(), []);
    }

    #[test]
    fn appends_packets_up_to_the_room_with_their_wide_keys() {
        let wide = |number: u8| FlowKey {
            version: 6,
            source: [number; 16],
            ..FlowKey::default()
        };
        let mut other = Batch::default();
        for number in 0..=255u8 {
            let packet = Packet {
                number: u64::from(number),
                ..Packet::default()
            };
            match number % 3 {
                0 => other.push_wide(u128::from(number), &wide(number), packet),
                _ => other.push(u128::from(number), packet),
            }
        }
        let mut batch = Batch::default();
        batch.push_wide(7, &wide(200), Packet::default());
        let indices: Vec<u8> = (0..=255).rev().collect();
        assert_eq!(batch.append(&other, &indices), BURST - 1);
        assert_eq!(batch.append(&other, &indices), 0);
        assert_eq!(batch.flow_key(0), wide(200));
        for at in 1..BURST {
            let number = 256 - at;
            assert_eq!(batch.keys()[at], number as u128);
            assert_eq!(batch.packets()[at].number, number as u64);
            if number % 3 == 0 {
                assert_eq!(batch.flow_key(at), wide(number as u8));
            }
        }
    }

    #[test]
    fn unused_slots_leave_no_gaps() {
        for unused in 0..1u64 << 8 {
            let mut slots: Vec<u64> = (0..9).collect();
            let used: Vec<u64> = (0..8).filter(|at| unused >> at & 1 == 0).collect();
            let left = close_gaps(&mut slots, 8, unused);
            assert_eq!((&slots[..left], slots[8]), (&used[..], 8));
        }
    }

    proptest! {
        #[test]
        fn both_directions_of_a_bidirectional_flow_have_one_key(key in keys()) {
            let maker = KeyMaker::new(FlowDefinition::Bidirectional, true, 1);
            let [table_key, reverse_table_key] = [key, key.reversed()].map(|mut key| maker.from_key(&mut key).0);
            prop_assert_eq!(table_key, reverse_table_key);
            let (forward_key, forward_direction) = key_and_direction(&maker, key);
            let (reverse_key, reverse_direction) = key_and_direction(&maker, key.reversed());
            prop_assert_eq!(forward_key, reverse_key);
            prop_assert_eq!(if forward_direction == 1 { forward_key.reversed() } else { forward_key }, key);
            prop_assert!(forward_direction != reverse_direction || key == key.reversed());
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
                prop_assert_eq!(key_and_direction(&maker, key), (expected, 0));
            }
        }

        #[test]
        fn words_unpack_to_the_same_key(key in keys()) {
            prop_assert_eq!(key_from_words(&key_to_words(&key)), key);
        }
    }
}
