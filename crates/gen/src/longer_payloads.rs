//! Pads the payloads of a recording, so that a capture with small packets can fill a link. TCP streams
//! stay consistent, and retransmissions remain retransmissions.
//!
//! Every payload grows by the same factor, up to the maximum frame length. The sequence space of each
//! direction is stretched accordingly, including acknowledgements and SACK blocks. The padding is
//! zeros after each payload: lengths in the application layer (of TLS records, for example) do not
//! grow. Windows do not change either.

use crate::checksum::{Sum, for_udp};
use crate::error::GeneratorError;
use crate::frame::{get_u16, put_u16};
use crate::recording::{RecordedPacket, Recording};
use crate::rewrite_addresses::{locate_addresses, network_offset};
use std::collections::{BTreeMap, HashMap};
use wire::{FlowKey, LinkType, ip_protocol};

/// Offsets of the parts of a TCP or UDP packet that was captured completely.
#[derive(Clone, Copy)]
struct TransportLayout {
    network: usize,
    transport: usize,
    payload: usize,
    /// The end of the payload; Ethernet padding may follow.
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
        let payload_min = transport + if tcp { 20 } else { 8 };
        (payload_min <= payload && payload <= end).then_some(Self {
            network,
            transport,
            payload,
            end,
            ipv6,
            tcp,
        })
    }
}

/// The sequence space of one direction, as pieces with different growth. A position is a 64-bit
/// sequence number without wrap-around.
#[derive(Default)]
struct StreamStretch {
    /// The first sequence number seen.
    base: Option<u32>,
    /// (length, new length) by start position. Pieces do not overlap.
    pieces: BTreeMap<u64, (u64, u64)>,
    /// (start, length, new length, growth of all earlier pieces), once all pieces are known.
    mapped_pieces: Vec<(u64, u64, u64, u64)>,
    /// The last position, to which the next sequence number is assumed to be close; 0 for none.
    last: u64,
}

/// The position of the first sequence number: large, so that earlier numbers are not negative.
const ORIGIN: u64 = 1 << 40;

impl StreamStretch {
    /// The position of a sequence number: of all candidates, the one nearest to the last position.
    fn position(&self, number: u32) -> u64 {
        let base = self.base.unwrap_or(number);
        let last = if self.last == 0 { ORIGIN } else { self.last };
        let last_number = base.wrapping_add((last.wrapping_sub(ORIGIN)) as u32);
        let offset = i64::from(number.wrapping_sub(last_number).cast_signed());
        last.saturating_add_signed(offset)
    }

    /// Adds a piece: `length` bytes from sequence number `number` grow to `new_length`. Bytes that are
    /// in an earlier piece keep its growth.
    fn add(&mut self, number: u32, length: u64, new_length: u64) {
        self.base.get_or_insert(number);
        let start = self.position(number);
        self.last = start + length;
        if length == 0 {
            return;
        }
        let (mut at, end) = (start, start + length);
        let scale = |part: u64| part * new_length / length;
        while at < end {
            let previous = self.pieces.range(..=at).next_back();
            if let Some((&piece, &(piece_length, _))) = previous
                && piece + piece_length > at
            {
                at = piece + piece_length;
                continue;
            }
            let next = self
                .pieces
                .range(at..)
                .next()
                .map_or(u64::MAX, |(&piece, _)| piece);
            let until = end.min(next);
            self.pieces
                .insert(at, (until - at, scale(until - start) - scale(at - start)));
            at = until;
        }
    }

    /// Prepares the mapping, after all pieces were added.
    fn finish(&mut self) {
        let mut growth = 0;
        for (&start, &(length, new_length)) in &self.pieces {
            self.mapped_pieces.push((start, length, new_length, growth));
            growth += new_length - length.min(new_length);
        }
        self.last = 0;
    }

    /// Maps a position to its position after stretching.
    fn mapped_position(&self, position: u64) -> u64 {
        let index = self
            .mapped_pieces
            .partition_point(|&(start, ..)| start <= position);
        let Some(&(start, length, new_length, growth)) = index
            .checked_sub(1)
            .and_then(|index| self.mapped_pieces.get(index))
        else {
            return position;
        };
        let within = position - start;
        if within >= length {
            return position + growth + (new_length - length);
        }
        start + growth + within * new_length / length
    }

    /// Maps a sequence number, which is assumed to be close to the one of the last call.
    fn mapped_sequence(&mut self, number: u32) -> u32 {
        let Some(base) = self.base else {
            return number;
        };
        let position = self.position(number);
        self.last = position;
        let mapped = self.mapped_position(position);
        base.wrapping_add(mapped.wrapping_sub(ORIGIN) as u32)
    }

    /// Returns the new length of `length` bytes from sequence number `number`.
    fn mapped_length(&mut self, number: u32, length: u64) -> u64 {
        if self.base.is_none() {
            return length;
        }
        let position = self.position(number);
        self.mapped_position(position + length) - self.mapped_position(position)
    }
}

impl Recording {
    /// Returns the same packets with padded payloads, so that frames have `mean` bytes on average. No
    /// frame grows beyond `max_length` bytes.
    ///
    /// # Errors
    /// If `mean` is below the current mean, or not possible with this `max_length`.
    pub fn with_longer_payloads(
        &self,
        mean: f64,
        max_length: usize,
    ) -> Result<Self, GeneratorError> {
        let layouts: Vec<Option<TransportLayout>> = self
            .packets
            .iter()
            .map(|packet| TransportLayout::of(self.link(), self.bytes_of(packet)))
            .collect();
        let factor = self.growth_factor(&layouts, mean, max_length)?;
        let mut streams: HashMap<FlowKey, StreamStretch> = HashMap::new();
        for (packet, layout) in self.packets.iter().zip(&layouts) {
            let Some(layout) = layout.filter(|layout| layout.tcp) else {
                continue;
            };
            let frame = self.bytes_of(packet);
            let Some(key) = self.keys.get(packet.flow as usize) else {
                continue;
            };
            let length = (layout.end - layout.payload) as u64;
            let new_length = padded_length(layout, factor, max_length) as u64;
            let number = first_payload_sequence(frame, &layout);
            streams
                .entry(*key)
                .or_default()
                .add(number, length, new_length);
        }
        streams.values_mut().for_each(StreamStretch::finish);
        let mut padded = Self {
            bytes: Vec::with_capacity((mean * self.packets.len() as f64) as usize),
            packets: Vec::with_capacity(self.packets.len()),
            ..self.clone_without_packets()
        };
        for (packet, layout) in self.packets.iter().zip(&layouts) {
            let frame = self.bytes_of(packet);
            let start = padded.bytes.len();
            let key = self.keys.get(packet.flow as usize);
            match (layout, key) {
                (Some(layout), Some(key)) => {
                    let frame = rewrite(frame, layout, key, &mut streams, factor, max_length);
                    padded.bytes.extend_from_slice(&frame);
                }
                _ => padded.bytes.extend_from_slice(frame),
            }
            let written = &padded.bytes[start..];
            padded.packets.push(RecordedPacket {
                start,
                length: written.len() as u32,
                address_rewrite: locate_addresses(self.link(), written),
                ..*packet
            });
        }
        Ok(padded)
    }

    /// Finds the factor of payload growth that gives the requested mean, by bisection.
    fn growth_factor(
        &self,
        layouts: &[Option<TransportLayout>],
        mean: f64,
        max_length: usize,
    ) -> Result<f64, GeneratorError> {
        let mean_with = |factor: f64| {
            let sum: usize = self
                .packets
                .iter()
                .zip(layouts)
                .map(|(packet, layout)| {
                    let length = packet.length as usize;
                    layout.map_or(length, |layout| {
                        let payload = layout.end - layout.payload;
                        let grown = padded_length(layout, factor, max_length);
                        (layout.payload + grown).max(if grown == payload { length } else { 0 })
                    })
                })
                .sum();
            sum as f64 / self.packets.len().max(1) as f64
        };
        if mean < mean_with(1.0) {
            return Err(GeneratorError::new(format!(
                "the mean frame length is already {:.0} bytes and cannot be reduced",
                mean_with(1.0)
            )));
        }
        let (mut low, mut high) = (1.0, 100_000.0);
        if mean_with(high) < mean {
            return Err(GeneratorError::new(format!(
                "a mean frame length of {mean:.0} bytes is not possible with frames of at most {max_length} bytes"
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

/// Returns the length of a payload after padding: limited by `max_length`, but never reduced.
fn padded_length(layout: TransportLayout, factor: f64, max_length: usize) -> usize {
    let payload = layout.end - layout.payload;
    let payload_max = max_length.saturating_sub(layout.payload);
    ((payload as f64 * factor) as usize)
        .min(payload_max)
        .max(payload)
}

fn get_u32(frame: &[u8], at: usize) -> u32 {
    u32::from(get_u16(frame, at)) << 16 | u32::from(get_u16(frame, at + 2))
}

/// The sequence number of the first payload byte. A SYN consumes the number before it.
fn first_payload_sequence(frame: &[u8], layout: &TransportLayout) -> u32 {
    let syn = frame[layout.transport + 13] & wire::tcp::flag::SYN;
    get_u32(frame, layout.transport + 4).wrapping_add(u32::from(syn != 0))
}

fn put_u32(frame: &mut [u8], at: usize, value: u32) {
    frame[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// Returns a packet with a padded payload and the matching sequence numbers.
fn rewrite(
    frame: &[u8],
    layout: &TransportLayout,
    key: &FlowKey,
    streams: &mut HashMap<FlowKey, StreamStretch>,
    factor: f64,
    max_length: usize,
) -> Vec<u8> {
    let payload = layout.end - layout.payload;
    let mut new_length = padded_length(*layout, factor, max_length);
    let transport = layout.transport;
    let mut written = frame[..layout.end].to_vec();
    if layout.tcp {
        if let Some(stream) = streams.get_mut(key) {
            let number = first_payload_sequence(frame, layout);
            // A retransmission with other boundaries gets the length of the original bytes.
            new_length = stream.mapped_length(number, payload as u64) as usize;
            new_length = new_length.min(max_length.max(layout.end) - layout.payload);
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
            rewrite_sack_blocks(&mut written[transport + 20..layout.payload], other);
        }
    }
    written.resize(layout.payload + new_length, 0);
    let total = written.len() - layout.network;
    if layout.ipv6 {
        put_u16(&mut written, layout.network + 4, (total - 40) as u16);
    } else {
        let old = get_u16(&written, layout.network + 2);
        put_u16(&mut written, layout.network + 2, total as u16);
        let checksum = get_u16(&written, layout.network + 10);
        let checksum = Sum::default()
            .replace_u16(old, total as u16)
            .update(checksum);
        put_u16(&mut written, layout.network + 10, checksum);
    }
    if !layout.tcp {
        put_u16(
            &mut written,
            transport + 4,
            (total - (transport - layout.network)) as u16,
        );
    }
    let at = transport + if layout.tcp { 16 } else { 6 };
    let old = get_u16(frame, at);
    if layout.tcp || old != 0 {
        // Includes the length, which is in the pseudo header.
        let sum = |segment: &[u8]| {
            Sum::default()
                .add_bytes(segment)
                .add_u32(segment.len() as u32)
                .fold()
        };
        let change = Sum::default()
            .add_u16(!sum(&frame[transport..layout.end]))
            .add_u16(sum(&written[transport..]));
        let checksum = change.update(old);
        put_u16(
            &mut written,
            at,
            if layout.tcp {
                checksum
            } else {
                for_udp(checksum)
            },
        );
    }
    // Keep the Ethernet padding if the payload did not grow.
    if new_length == payload {
        written.extend_from_slice(&frame[layout.end..]);
    }
    written
}

/// Maps the blocks of the SACK option (RFC 2018, section 3).
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
    fn maps_sequence_numbers_and_keeps_the_growth_of_earlier_pieces() {
        let mut stretch = StreamStretch::default();
        stretch.add(u32::MAX - 9, 100, 300);
        // Sequence numbers wrap; retransmissions have other boundaries; some bytes are never seen.
        stretch.add(90, 10, 20);
        stretch.add(u32::MAX - 9, 50, 60);
        stretch.add(80, 20, 200);
        stretch.add(150, 10, 10);
        stretch.finish();
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
