//! Replays captures in their order and, optionally, with their timing, in loops and in copies with
//! different addresses.

use crate::error::GeneratorError;
use crate::recording::Recording;
use crate::rewrite_addresses::shift_key;
use crate::source::{Filled, NO_FLOW, Source};
use port::{PortError, Slot};
use std::collections::HashSet;
use wire::toeplitz::Input;
use wire::{FlowKey, Toeplitz};

/// How a recording is replayed.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// How often the recording is sent.
    pub loops: u64,
    /// Copies of each packet, sent directly after each other.
    pub copies: u32,
    /// The number added to the addresses of each copy, compared with the previous copy. The first copy
    /// has the captured addresses.
    pub shift: u64,
    /// Key of the Toeplitz hash in [`Slot::rss_hash`].
    pub rss_key: Vec<u8>,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            loops: 1,
            copies: 1,
            shift: 1,
            rss_key: wire::toeplitz::MICROSOFT_KEY.to_vec(),
        }
    }
}

/// The maximum number of flows in all copies.
const FLOWS_MAX: usize = u32::MAX as usize;

/// The maximum number of flows for which collisions are counted, which takes about a second.
const COLLISION_CHECK_MAX: usize = 20_000_000;

/// Packets of a recording as a source of frames.
pub struct Replay {
    recording: Recording,
    loops_left: u64,
    /// The next packet of the current loop.
    next: usize,
    /// The next copy of this packet.
    copy: u32,
    copies: u32,
    shift: u64,
    /// When the current loop started, in nanoseconds after the first packet.
    loop_start_ns: u64,
    /// Duration of a loop.
    loop_ns: u64,
    slot_bytes: usize,
    /// RSS hashes of the flows of all copies.
    hashes: Vec<u32>,
}

impl Replay {
    /// Creates a replay.
    ///
    /// # Errors
    /// If there are no copies, no loops or too many flows, or the RSS key is too short.
    pub fn new(recording: Recording, options: &ReplayOptions) -> Result<Self, GeneratorError> {
        if options.copies == 0 || options.loops == 0 {
            return Err(GeneratorError::new(
                "at least one copy and one loop are required",
            ));
        }
        let flows = recording.keys.len().checked_mul(options.copies as usize);
        if flows.is_none_or(|flows| flows >= FLOWS_MAX) {
            return Err(GeneratorError::new(format!(
                "{} copies of {} flows are too many flows",
                options.copies,
                recording.keys.len()
            )));
        }
        let rss = Toeplitz::new(&options.rss_key)
            .map_err(|error| GeneratorError::new(error.to_string()))?;
        let hashes = (0..options.copies)
            .flat_map(|copy| recording.keys.iter().map(move |key| (copy, key)))
            .map(|(copy, key)| {
                let key = shift_key(key, shift_of(options.shift, copy));
                let has_ports = matches!(key.protocol, 6 | 17);
                let input = if has_ports {
                    Input::AddressesAndPorts
                } else {
                    Input::Addresses
                };
                rss.hash_key(&key, input)
            })
            .collect();
        let longest = recording.packets.iter().map(|packet| packet.length).max();
        Ok(Self {
            loops_left: options.loops,
            next: 0,
            copy: 0,
            copies: options.copies,
            shift: options.shift,
            loop_start_ns: 0,
            loop_ns: recording.loop_ns(),
            slot_bytes: longest.unwrap_or(0) as usize,
            hashes,
            recording,
        })
    }

    /// Returns the recording.
    #[must_use]
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The number of flows in all copies.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.hashes.len()
    }

    /// The key of a flow.
    ///
    /// # Panics
    /// If there is no such flow.
    #[must_use]
    pub fn key(&self, flow: u32) -> FlowKey {
        let flows_per_copy = self.recording.keys.len();
        let copy = flow as usize / flows_per_copy;
        let key = &self.recording.keys[flow as usize % flows_per_copy];
        shift_key(key, shift_of(self.shift, copy as u32))
    }

    /// The number of flows in copies that have the key of a captured flow and are therefore merged with
    /// it. `None` if there are too many flows to check.
    #[must_use]
    pub fn colliding_flows(&self) -> Option<usize> {
        if self.flows() > COLLISION_CHECK_MAX {
            return None;
        }
        let keys: HashSet<&FlowKey> = self.recording.keys.iter().collect();
        let colliding = (self.recording.keys.len()..self.flows())
            .filter(|&flow| keys.contains(&self.key(flow as u32)));
        Some(colliding.count())
    }
}

/// The number added to the addresses of a copy.
fn shift_of(shift: u64, copy: u32) -> u128 {
    u128::from(shift) * u128::from(copy)
}

impl Source for Replay {
    fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    fn fill(&mut self, slots: &mut [Slot<'_>], flows: &mut [u32]) -> Result<Filled, PortError> {
        let mut filled = Filled::default();
        for (slot, flow) in slots.iter_mut().zip(flows) {
            if self.loops_left == 0 {
                break;
            }
            let packet = self.recording.packets[self.next];
            let bytes = self.recording.bytes_of(&packet);
            let frame = &mut slot.bytes[..bytes.len()];
            frame.copy_from_slice(bytes);
            packet
                .address_rewrite
                .shift(frame, shift_of(self.shift, self.copy));
            slot.length = bytes.len();
            (*flow, slot.rss_hash) = if packet.flow == NO_FLOW {
                (NO_FLOW, 0)
            } else {
                let number = self.copy as usize * self.recording.keys.len() + packet.flow as usize;
                (number as u32, self.hashes[number])
            };
            filled.frames += 1;
            filled.bytes += bytes.len() as u64;
            self.copy += 1;
            if self.copy == self.copies {
                self.copy = 0;
                self.next += 1;
            }
            if self.next == self.recording.packets.len() {
                self.next = 0;
                self.loops_left -= 1;
                self.loop_start_ns = self.loop_start_ns.saturating_add(self.loop_ns);
            }
        }
        Ok(filled)
    }

    fn mean_length(&self) -> f64 {
        self.recording.mean_length()
    }

    fn next_due_ns(&self) -> Option<u64> {
        (self.loops_left > 0).then(|| {
            self.loop_start_ns
                .saturating_add(self.recording.packets[self.next].time_ns)
        })
    }
}
