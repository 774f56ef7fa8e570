//! A capture in memory, with what replaying it needs to know of each packet.

use crate::error::GeneratorError;
use crate::rewrite_addresses::{AddressRewrite, locate_addresses};
use crate::source::NO_FLOW;
use port::{Port, PortError, Received};
use std::collections::HashMap;
use wire::{Decapsulate, FlowKey, LinkType, dissect};

/// One packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedPacket {
    pub(crate) start: usize,
    pub(crate) length: u32,
    pub(crate) flow: u32,
    /// After the first packet; never less than that of the packet before.
    pub(crate) time_ns: u64,
    pub(crate) address_rewrite: AddressRewrite,
}

/// Packets of one link type, in the order in which they were captured.
#[derive(Clone, Debug)]
pub struct Recording {
    pub(crate) link: LinkType,
    pub(crate) bytes: Vec<u8>,
    pub(crate) packets: Vec<RecordedPacket>,
    pub(crate) keys: Vec<FlowKey>,
    pub(crate) first_ns: i64,
    pub(crate) truncated: u64,
    pub(crate) read_errors: Vec<String>,
}

impl Recording {
    /// Reads `port` to its end.
    ///
    /// # Errors
    /// When the port cannot go on, has packets of two link types, none at all, or more than memory
    /// holds.
    pub fn load(port: &mut dyn Port) -> Result<Self, PortError> {
        let mut recording = Self {
            link: LinkType::Ethernet,
            bytes: Vec::new(),
            packets: Vec::new(),
            keys: Vec::new(),
            first_ns: 0,
            truncated: 0,
            read_errors: Vec::new(),
        };
        let mut flows = HashMap::new();
        loop {
            let message = match port.receive()? {
                Received::Burst(burst) => {
                    let mut result = Ok(());
                    for frame in burst.frames {
                        result = recording.add(burst.link, frame, &mut flows);
                        if result.is_err() {
                            break;
                        }
                    }
                    result.err()
                }
                Received::Idle => None,
                Received::Fault(message) => {
                    recording.read_errors.push(message);
                    None
                }
                Received::End => break,
            };
            if let Some(message) = message {
                return Err(PortError::Failed(format!("{}: {message}", port.name())));
            }
        }
        if recording.packets.is_empty() {
            let name = port.name();
            return Err(PortError::Failed(match recording.read_errors.first() {
                Some(fault) => fault.clone(),
                None => format!("{name}: there are no packets in it to replay"),
            }));
        }
        Ok(recording)
    }

    fn add(
        &mut self,
        link: LinkType,
        frame: &port::Frame<'_>,
        flows: &mut HashMap<FlowKey, u32>,
    ) -> Result<(), GeneratorError> {
        if self.packets.is_empty() {
            self.link = link;
            self.first_ns = frame.time_ns;
        } else if self.link != link {
            return Err(GeneratorError::new(
                "packets of two link types; replay the captures one by one",
            ));
        }
        let no_memory = |_| GeneratorError::new("the captures are larger than memory");
        self.bytes
            .try_reserve(frame.bytes.len())
            .map_err(no_memory)?;
        self.packets.try_reserve(1).map_err(no_memory)?;
        let before = self.packets.last().map_or(0, |packet| packet.time_ns);
        let since_first = frame.time_ns.saturating_sub(self.first_ns).max(0);
        let headers = dissect(link, frame.bytes, frame.wire_length, Decapsulate::No);
        let flow = match headers.no_flow {
            Some(_) => NO_FLOW,
            None => {
                // As flow records have it where nobody asks for VLAN tags.
                let key = FlowKey {
                    vlan: [0; 2],
                    ..headers.key
                };
                let next = self.keys.len() as u32;
                let flow = *flows.entry(key).or_insert(next);
                if flow == next {
                    self.keys.push(key);
                }
                flow
            }
        };
        self.truncated += u64::from(frame.bytes.len() < frame.wire_length as usize);
        self.packets.push(RecordedPacket {
            start: self.bytes.len(),
            length: frame.bytes.len() as u32,
            flow,
            time_ns: since_first.cast_unsigned().max(before),
            address_rewrite: locate_addresses(link, frame.bytes),
        });
        self.bytes.extend_from_slice(frame.bytes);
        Ok(())
    }

    /// Packets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are none: never, once loaded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Link type of all packets.
    #[must_use]
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// The time of the first packet, nanoseconds since the Unix epoch.
    #[must_use]
    pub fn first_ns(&self) -> i64 {
        self.first_ns
    }

    /// Packets of which a snap length has cut the end: they are sent as they were captured.
    #[must_use]
    pub fn truncated(&self) -> u64 {
        self.truncated
    }

    /// What could not be read of the captures, in words.
    #[must_use]
    pub fn read_errors(&self) -> &[String] {
        &self.read_errors
    }

    /// Mean length of a packet.
    #[must_use]
    pub fn mean_length(&self) -> f64 {
        self.bytes.len() as f64 / self.packets.len().max(1) as f64
    }

    /// All but packets and their bytes.
    pub(crate) fn clone_without_packets(&self) -> Self {
        Self {
            link: self.link,
            bytes: Vec::new(),
            packets: Vec::new(),
            keys: self.keys.clone(),
            first_ns: self.first_ns,
            truncated: self.truncated,
            read_errors: self.read_errors.clone(),
        }
    }

    /// Time of one pass: from the first packet to the last, and as much as lies between two packets
    /// on average.
    pub(crate) fn loop_ns(&self) -> u64 {
        let last = self.packets.last().map_or(0, |packet| packet.time_ns);
        let gaps = (self.packets.len() as u64).saturating_sub(1).max(1);
        last + last / gaps
    }

    pub(crate) fn bytes_of(&self, packet: &RecordedPacket) -> &[u8] {
        &self.bytes[packet.start..packet.start + packet.length as usize]
    }
}
