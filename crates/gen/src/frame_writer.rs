//! Writes frames: copies the template of the flow, then sets the fields that differ between packets.

use crate::alias::AliasTable;
use crate::checksum::Sum;
use crate::error::GeneratorError;
use crate::fields::FlowFields;
use crate::frame::{self, Layout};
use crate::population::{HASH_BYTES, Population, hash_of};
use crate::probe::Probe;
use crate::random_fields::{self, RandomFields};
use crate::sizes::FCS_BYTES;
use crate::traffic_options::TrafficOptions;
use hw::random::Random;
use port::Slot;
use wire::Toeplitz;
use wire::toeplitz::Input;

/// Streams of random numbers.
const FIELD_STREAM: u64 = 0x6669_656c;
const SIZE_STREAM: u64 = 0x7369_7a65;

/// Writes frames into slots.
pub(crate) struct FrameWriter {
    /// Frame lengths without the frame check sequence. Templates are for the first length.
    pub(crate) lengths: Vec<u16>,
    pub(crate) mean_length: f64,
    pub(crate) slot_bytes: usize,
    pub(crate) random_fields: RandomFields,
    randomizes_headers: bool,
    /// Selects one of the lengths, if there are several.
    length_table: Option<AliasTable>,
    random: Random,
    size_random: Random,
    sequence: bool,
    timestamps: bool,
    next_sequence: u64,
    fields: [Option<FlowFields>; 4],
    layout: Option<Layout>,
    /// Computes the RSS hash of packets with random addresses or ports.
    rss: Option<Toeplitz>,
}

impl FrameWriter {
    pub(crate) fn new(
        options: &TrafficOptions,
        population: &Population,
        lengths: Vec<u16>,
    ) -> Result<Self, GeneratorError> {
        let weights: Vec<f64> = options
            .sizes
            .weighted()
            .iter()
            .map(|&(_, weight)| weight)
            .collect();
        let rss = if options.random.changes_flow_key() {
            let rss = Toeplitz::new(&options.rss_key)
                .map_err(|error| GeneratorError::new(error.to_string()))?;
            Some(rss)
        } else {
            None
        };
        let longest = lengths.iter().copied().max().unwrap_or(0);
        Ok(Self {
            length_table: (lengths.len() > 1).then(|| AliasTable::new(&weights)),
            mean_length: options.sizes.mean() - FCS_BYTES as f64,
            lengths,
            slot_bytes: usize::from(longest).max(population.templates.template_bytes()),
            random_fields: options.random,
            randomizes_headers: options.random.changes_headers(),
            random: Random::new(options.seed, FIELD_STREAM),
            size_random: Random::new(options.seed, SIZE_STREAM),
            sequence: options.sequence || options.timestamps,
            timestamps: options.timestamps,
            next_sequence: 0,
            fields: population.fields,
            layout: population.layout,
            rss,
        })
    }

    /// Writes one frame of each of the flows. Returns their total length in bytes.
    pub(crate) fn write_all<const N: usize>(
        &mut self,
        templates: &[[u8; N]],
        slots: &mut [Slot<'_>],
        flows: &[u32],
    ) -> u64 {
        let only_copies = self.length_table.is_none()
            && !self.sequence
            && self.random_fields == RandomFields::default();
        if only_copies {
            let length = usize::from(self.lengths[0]);
            for (slot, &flow) in slots.iter_mut().zip(flows) {
                copy(&templates[flow as usize], slot, length);
            }
            return slots.len() as u64 * length as u64;
        }
        let mut bytes = 0;
        for (slot, &flow) in slots.iter_mut().zip(flows) {
            bytes += self.write(&templates[flow as usize], slot) as u64;
        }
        bytes
    }

    /// Writes one frame. Returns its length in bytes.
    #[inline]
    fn write<const N: usize>(&mut self, template: &[u8; N], slot: &mut Slot<'_>) -> usize {
        let base = usize::from(self.lengths[0]);
        let length = match &self.length_table {
            None => base,
            Some(table) => usize::from(self.lengths[table.pick(self.size_random.bits()) as usize]),
        };
        copy(template, slot, length);
        let layout = self.layout.unwrap_or_else(|| Layout::of_frame(template));
        let frame = &mut *slot.bytes;
        let mut change = Sum::default();
        if length != base {
            change = frame::resize(frame, layout, base, length);
        }
        if self.randomizes_headers
            && let Some(fields) = &self.fields[layout.index()]
        {
            change = change.add_sum(self.random_fields.randomize(
                frame,
                layout,
                fields,
                &mut self.random,
            ));
        }
        let mut payload = layout.payload();
        if self.sequence {
            let probe = Probe {
                sequence: self.next_sequence,
                time_ns: slot.time_ns,
            };
            self.next_sequence += 1;
            change = change.add_sum(probe.write(&mut frame[payload..], self.timestamps));
            payload += Probe::size(self.timestamps);
        }
        if self.random_fields.payload {
            let payload = &mut frame[payload..length];
            change = change.add_sum(random_fields::fill_payload(payload, &mut self.random));
        }
        frame::update_transport_checksum(frame, layout, change);
        if let Some(rss) = &self.rss {
            slot.rss_hash = rss.hash_key(&frame::key_of(frame), Input::AddressesAndPorts);
        }
        length
    }
}

/// Copies a template and appends zeros up to `length`.
#[inline]
fn copy<const N: usize>(template: &[u8; N], slot: &mut Slot<'_>, length: usize) {
    let frame_bytes = N - HASH_BYTES;
    slot.bytes[..frame_bytes].copy_from_slice(&template[..frame_bytes]);
    if length > frame_bytes {
        slot.bytes[frame_bytes..length].fill(0);
    }
    slot.length = length;
    slot.rss_hash = hash_of(template);
}
