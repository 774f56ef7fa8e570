//! Longer payloads for the packets of a recording, so that real flows fill a link as other traffic
//! would: each TCP stream stays a stream, each retransmission one.
//!
//! Every payload grows by one factor, up to the longest frame; the sequence space of each direction is
//! stretched with it, and acknowledgements and selective acknowledgements follow. What a stream says
//! of its own lengths (records of TLS, say) does not grow: zeroes stand behind each payload. Windows
//! stay as they were.

use crate::checksum::{Sum, for_udp};
use crate::error::GeneratorError;
use crate::frame::{get_u16, put_u16};
use crate::recording::{RecordedPacket, Recording};
use crate::rewrite_addresses::{locate_addresses, network_offset};
use std::collections::{BTreeMap, HashMap};
use wire::{FlowKey, LinkType, ip_protocol};

/// Where the parts of a whole TCP or UDP packet in IP stand.
#[derive(Clone, Copy)]
struct TransportLayout {
    network: usize,
    transport: usize,
    payload: usize,
    /// Behind the payload: what follows is padding.
    end: usize,
    ipv6: bool,
    tcp: bool,
}

impl TransportLayout {
    fn of(link: LinkType, frame: &[u8]) -> Option<Self> {
        let network = network_offset(link, frame)?;
        let header = frame.get(network..)?;
        let ipv6 = header.first()? >> 4 == 6;
        let (length, protocol, total) = if ipv6 {
            let fixed = header.get(..40)?;
            (40, fixed[6], 40 + usize::from(get_u16(fixed, 4)))
        } else {
            let fixed = header.get(..20)?;
            if get_u16(fixed, 6) & 0x3fff != 0 {
                return None;
            }
            let length = usize::from(fixed[0] & 0xf) * 4;
            (length, fixed[9], usize::from(get_u16(fixed, 2)))
        };
        let (transport, end) = (network + length, network + total);
        if end > frame.len() {
            return None;
        }
        let tcp = protocol == ip_protocol::TCP;
        let payload = match protocol {
            ip_protocol::TCP => transport + usize::from(frame.get(transport + 12)? >> 4) * 4,
            ip_protocol::UDP => transport + 8,
            _ => return None,
        };
        let least = transport + if tcp { 20 } else { 8 };
        (least <= payload && payload <= end).then_some(Self {
            network,
            transport,
            payload,
            end,
            ipv6,
            tcp,
        })
    }
}

/// The bytes of one direction, as pieces that grow each by its own factor: where a piece begins, how
/// long it is, and how long it becomes. Positions count from [`MIDDLE`] on, so that none is negative.
#[derive(Default)]
struct StreamStretch {
    /// The first sequence number seen.
    base: Option<u32>,
    /// By beginning: (length, length after). Pieces do not overlap.
    pieces: BTreeMap<u64, (u64, u64)>,
    /// By the end of a piece: how much the bytes before it grew by, once all pieces are known.
    grown: Vec<(u64, u64, u64, u64)>,
    last: u64,
}

/// The position of the first sequence number.
const MIDDLE: u64 = 1 << 40;

impl StreamStretch {
    /// The position of a sequence number: the one nearest to the last.
    fn position(&self, number: u32) -> u64 {
        let base = self.base.unwrap_or(number);
        let last = if self.last == 0 { MIDDLE } else { self.last };
        let last_number = base.wrapping_add((last.wrapping_sub(MIDDLE)) as u32);
        let offset = i64::from(number.wrapping_sub(last_number).cast_signed());
        last.saturating_add_signed(offset)
    }

    /// Bytes from `number` on become so many; those that a piece has already stay as they are.
    fn add(&mut self, number: u32, length: u64, after: u64) {
        self.base.get_or_insert(number);
        let start = self.position(number);
        self.last = start + length;
        if length == 0 {
            return;
        }
        let (mut at, end) = (start, start + length);
        let factor = |part: u64| part * after / length;
        while at < end {
            let before = self.pieces.range(..=at).next_back();
            if let Some((&from, &(had, _))) = before
                && from + had > at
            {
                at = from + had;
                continue;
            }
            let next = self
                .pieces
                .range(at..)
                .next()
                .map_or(u64::MAX, |(&from, _)| from);
            let until = end.min(next);
            self.pieces
                .insert(at, (until - at, factor(until - start) - factor(at - start)));
            at = until;
        }
    }

    /// All pieces are known.
    fn close(&mut self) {
        let mut grown = 0;
        for (&from, &(length, after)) in &self.pieces {
            self.grown.push((from, length, after, grown));
            grown += after - length.min(after);
        }
        self.last = 0;
    }

    /// Where a position comes to stand.
    fn mapped_position(&self, position: u64) -> u64 {
        let index = self.grown.partition_point(|&(from, ..)| from <= position);
        let Some(&(from, length, after, grown)) =
            index.checked_sub(1).and_then(|index| self.grown.get(index))
        else {
            return position;
        };
        let within = position - from;
        if within >= length {
            return position + grown + (after - length);
        }
        from + grown + within * after / length
    }

    /// The sequence number that takes the place of one, near the last that was asked for.
    fn mapped_sequence(&mut self, number: u32) -> u32 {
        let Some(base) = self.base else {
            return number;
        };
        let position = self.position(number);
        self.last = position;
        let mapped = self.mapped_position(position);
        base.wrapping_add(mapped.wrapping_sub(MIDDLE) as u32)
    }

    /// How many bytes those from `number` on become.
    fn mapped_length(&mut self, number: u32, length: u64) -> u64 {
        if self.base.is_none() {
            return length;
        }
        let position = self.position(number);
        self.mapped_position(position + length) - self.mapped_position(position)
    }
}

impl Recording {
    /// The same packets with longer payloads, so that a packet has `mean` bytes on average; none
    /// becomes longer than `longest`.
    ///
    /// # Errors
    /// When the mean is below what it is, or cannot be reached.
    pub fn with_longer_payloads(&self, mean: f64, longest: usize) -> Result<Self, GeneratorError> {
        let places: Vec<Option<TransportLayout>> = self
            .packets
            .iter()
            .map(|packet| TransportLayout::of(self.link(), self.bytes_of(packet)))
            .collect();
        let factor = self.factor(&places, mean, longest)?;
        let mut streams: HashMap<FlowKey, StreamStretch> = HashMap::new();
        for (packet, place) in self.packets.iter().zip(&places) {
            let Some(place) = place.filter(|place| place.tcp) else {
                continue;
            };
            let frame = self.bytes_of(packet);
            let Some(key) = self.keys.get(packet.flow as usize) else {
                continue;
            };
            let length = (place.end - place.payload) as u64;
            let after = padded_length(place, factor, longest) as u64;
            let number = first_payload_sequence(frame, &place);
            streams.entry(*key).or_default().add(number, length, after);
        }
        streams.values_mut().for_each(StreamStretch::close);
        let mut lengthened = Self {
            bytes: Vec::with_capacity((mean * self.packets.len() as f64) as usize),
            packets: Vec::with_capacity(self.packets.len()),
            ..self.clone_without_packets()
        };
        for (packet, place) in self.packets.iter().zip(&places) {
            let frame = self.bytes_of(packet);
            let start = lengthened.bytes.len();
            let key = self.keys.get(packet.flow as usize);
            match (place, key) {
                (Some(place), Some(key)) => {
                    let frame = rewrite(frame, place, key, &mut streams, factor, longest);
                    lengthened.bytes.extend_from_slice(&frame);
                }
                _ => lengthened.bytes.extend_from_slice(frame),
            }
            let written = &lengthened.bytes[start..];
            lengthened.packets.push(RecordedPacket {
                start,
                length: written.len() as u32,
                address_rewrite: locate_addresses(self.link(), written),
                ..*packet
            });
        }
        Ok(lengthened)
    }

    /// The factor that makes the mean what is wanted.
    fn factor(
        &self,
        places: &[Option<TransportLayout>],
        mean: f64,
        longest: usize,
    ) -> Result<f64, GeneratorError> {
        let mean_with = |factor: f64| {
            let sum: usize = self
                .packets
                .iter()
                .zip(places)
                .map(|(packet, place)| {
                    let length = packet.length as usize;
                    place.map_or(length, |place| {
                        let payload = place.end - place.payload;
                        let grown = padded_length(place, factor, longest);
                        (place.payload + grown).max(if grown == payload { length } else { 0 })
                    })
                })
                .sum();
            sum as f64 / self.packets.len().max(1) as f64
        };
        if mean < mean_with(1.0) {
            return Err(GeneratorError::new(format!(
                "packets have {:.0} bytes on average already: they can be lengthened only",
                mean_with(1.0)
            )));
        }
        let (mut low, mut high) = (1.0, 100_000.0);
        if mean_with(high) < mean {
            return Err(GeneratorError::new(format!(
                "a mean of {mean:.0} bytes cannot be reached with frames of at most {longest}"
            )));
        }
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if mean_with(middle) < mean {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(high)
    }
}

/// The payload of a packet after it has grown: not beyond `longest`, and never less than it is.
fn padded_length(place: TransportLayout, factor: f64, longest: usize) -> usize {
    let payload = place.end - place.payload;
    let room = longest.saturating_sub(place.payload);
    ((payload as f64 * factor) as usize).min(room).max(payload)
}

fn get_u32(frame: &[u8], at: usize) -> u32 {
    u32::from(get_u16(frame, at)) << 16 | u32::from(get_u16(frame, at + 2))
}

/// The number of the first byte of payload: a SYN takes one before it.
fn first_payload_sequence(frame: &[u8], place: &TransportLayout) -> u32 {
    let syn = frame[place.transport + 13] & wire::tcp::flag::SYN;
    get_u32(frame, place.transport + 4).wrapping_add(u32::from(syn != 0))
}

fn put_u32(frame: &mut [u8], at: usize, value: u32) {
    frame[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// A packet with a longer payload and the numbers that go with it.
fn rewrite(
    frame: &[u8],
    place: &TransportLayout,
    key: &FlowKey,
    streams: &mut HashMap<FlowKey, StreamStretch>,
    factor: f64,
    longest: usize,
) -> Vec<u8> {
    let payload = place.end - place.payload;
    let mut after = padded_length(*place, factor, longest);
    let transport = place.transport;
    let mut written = frame[..place.end].to_vec();
    if place.tcp {
        if let Some(stream) = streams.get_mut(key) {
            let number = first_payload_sequence(frame, place);
            // What was sent before in other pieces has the length that it got then.
            after = stream.mapped_length(number, payload as u64) as usize;
            after = after.min(longest.max(place.end) - place.payload);
            let first = stream.mapped_sequence(number);
            let syn = number.wrapping_sub(get_u32(frame, transport + 4));
            put_u32(&mut written, transport + 4, first.wrapping_sub(syn));
        }
        if let Some(other) = streams.get_mut(&key.reversed()) {
            if frame[transport + 13] & wire::tcp::flag::ACK != 0 {
                let acknowledged = get_u32(frame, transport + 8);
                put_u32(
                    &mut written,
                    transport + 8,
                    other.mapped_sequence(acknowledged),
                );
            }
            rewrite_sack_blocks(&mut written[transport + 20..place.payload], other);
        }
    }
    written.resize(place.payload + after, 0);
    let total = written.len() - place.network;
    if place.ipv6 {
        put_u16(&mut written, place.network + 4, (total - 40) as u16);
    } else {
        let old = get_u16(&written, place.network + 2);
        put_u16(&mut written, place.network + 2, total as u16);
        let checksum = get_u16(&written, place.network + 10);
        let checksum = Sum::default().replace_u16(old, total as u16).update(checksum);
        put_u16(&mut written, place.network + 10, checksum);
    }
    if !place.tcp {
        put_u16(
            &mut written,
            transport + 4,
            (total - (transport - place.network)) as u16,
        );
    }
    let at = transport + if place.tcp { 16 } else { 6 };
    let before = get_u16(frame, at);
    if place.tcp || before != 0 {
        let sum = |segment: &[u8]| {
            Sum::default()
                .add_bytes(segment)
                .add_u32(segment.len() as u32)
                .fold()
        };
        let change = Sum::default()
            .add_u16(!sum(&frame[transport..place.end]))
            .add_u16(sum(&written[transport..]));
        let checksum = change.update(before);
        put_u16(
            &mut written,
            at,
            if place.tcp { checksum } else { for_udp(checksum) },
        );
    }
    // Padding stays where nothing grew.
    if after == payload {
        written.extend_from_slice(&frame[place.end..]);
    }
    written
}

/// The blocks of a selective acknowledgement (RFC 2018, section 3).
fn rewrite_sack_blocks(options: &mut [u8], stream: &mut StreamStretch) {
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        let length = match kind {
            0 => return,
            1 => 1,
            _ => usize::from(options.get(at + 1).copied().unwrap_or(0)),
        };
        if length == 0 || (kind > 1 && length < 2) || at + length > options.len() {
            return;
        }
        if kind == 5 {
            let mut edge = at + 2;
            while edge + 4 <= at + length {
                let number = get_u32(options, edge);
                put_u32(options, edge, stream.mapped_sequence(number));
                edge += 4;
            }
        }
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_what_they_were_given_and_numbers_follow() {
        let mut stretch = StreamStretch::default();
        stretch.add(u32::MAX - 9, 100, 300);
        // Across the wrap; sent again in other pieces; and bytes that were never seen.
        stretch.add(90, 10, 20);
        stretch.add(u32::MAX - 9, 50, 60);
        stretch.add(80, 20, 200);
        stretch.add(150, 10, 10);
        stretch.close();
        let first = u32::MAX - 9;
        assert_eq!(stretch.mapped_sequence(first), first);
        assert_eq!(
            stretch.mapped_sequence(first.wrapping_add(50)),
            first.wrapping_add(150)
        );
        assert_eq!(stretch.mapped_sequence(90), first.wrapping_add(300));
        assert_eq!(stretch.mapped_sequence(100), first.wrapping_add(320));
        assert_eq!(stretch.mapped_sequence(150), first.wrapping_add(370));
        assert_eq!(stretch.mapped_length(first, 50), 150);
        assert_eq!(stretch.mapped_length(80, 20), 30 + 20);
        assert_eq!(stretch.mapped_sequence(160), first.wrapping_add(380));
    }
}
