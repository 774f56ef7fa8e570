//! Replaying captures: in the order and, if wished, at the times in which they were captured, looped,
//! and in copies with other addresses.

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
    /// How many times over.
    pub loops: u64,
    /// Copies of each packet, sent one after the other.
    pub copies: u32,
    /// By how much the addresses of a copy are higher than those of the one before; those of the first
    /// are as captured.
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

/// The most flows, copies counted.
const FLOWS_MAX: usize = u32::MAX as usize;

/// The most flows for which it is counted how many meet: a second's work.
const MEETING_MAX: usize = 20_000_000;

/// Packets of a recording as a source of frames.
pub struct Replay {
    recording: Recording,
    loops_left: u64,
    /// Packets of the loop at hand that have been sent in all copies.
    next: usize,
    /// Copies of the next packet that have been sent.
    copy: u32,
    copies: u32,
    shift: u64,
    loop_start_ns: u64,
    loop_ns: u64,
    slot_bytes: usize,
    /// Hashes of the flows of all copies.
    hashes: Vec<u32>,
}

impl Replay {
    /// Ready to send the first packet.
    ///
    /// # Errors
    /// Nothing to send, more flows than can be numbered, or too short a key.
    pub fn new(recording: Recording, options: &ReplayOptions) -> Result<Self, GeneratorError> {
        if options.copies == 0 || options.loops == 0 {
            return Err(GeneratorError::new("at least one copy and one loop"));
        }
        let flows = recording.keys.len().checked_mul(options.copies as usize);
        if flows.is_none_or(|flows| flows >= FLOWS_MAX) {
            return Err(GeneratorError::new(format!(
                "{} copies of {} flows are more than can be numbered",
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

    /// The recording.
    #[must_use]
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Flows, those of all copies.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.hashes.len()
    }

    /// The key of a flow.
    ///
    /// # Panics
    /// When there is no such flow.
    #[must_use]
    pub fn key(&self, flow: u32) -> FlowKey {
        let each = self.recording.keys.len();
        let copy = flow as usize / each;
        let key = &self.recording.keys[flow as usize % each];
        shift_key(key, shift_of(self.shift, copy as u32))
    }

    /// How many flows of the copies have the key of a flow that was captured: they become one with it.
    /// `None` where there are too many to look.
    #[must_use]
    pub fn colliding_flows(&self) -> Option<usize> {
        if self.flows() > MEETING_MAX {
            return None;
        }
        let keys: HashSet<&FlowKey> = self.recording.keys.iter().collect();
        let meeting = (self.recording.keys.len()..self.flows())
            .filter(|&flow| keys.contains(&self.key(flow as u32)));
        Some(meeting.count())
    }
}

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
