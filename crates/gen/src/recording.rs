//! A capture in memory, prepared for replay.

use crate::error::GeneratorError;
use crate::rewrite_addresses::{AddressRewrite, locate_addresses};
use crate::source::NO_FLOW;
use port::{Port, PortError, Received};
use std::collections::HashMap;
use wire::{Decapsulate, FlowKey, LinkType, dissect};

/// A packet of a recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedPacket {
    pub(crate) start: usize,
    pub(crate) length: u32,
    pub(crate) flow: u32,
    /// Time after the first packet; not below that of the previous packet.
    pub(crate) time_ns: u64,
    pub(crate) address_rewrite: AddressRewrite,
}

/// Captured packets of one link type, in the order of the capture.
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
    /// If the port fails, contains no packets or packets of several link types, or memory runs out.
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
                Some(error) => error.clone(),
                None => format!("{name}: contains no packets to replay"),
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
                "the packets have different link types; replay the captures separately",
            ));
        }
        let no_memory = |_| GeneratorError::new("the captures are larger than memory");
        self.bytes
            .try_reserve(frame.bytes.len())
            .map_err(no_memory)?;
        self.packets.try_reserve(1).map_err(no_memory)?;
        let previous = self.packets.last().map_or(0, |packet| packet.time_ns);
        let since_first = frame.time_ns.saturating_sub(self.first_ns).max(0);
        let headers = dissect(link, frame.bytes, frame.wire_length, Decapsulate::No);
        let flow = match headers.no_flow {
            Some(_) => NO_FLOW,
            None => {
                // The key of flow records does not contain VLAN tags by default.
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
            time_ns: since_first.cast_unsigned().max(previous),
            address_rewrite: locate_addresses(link, frame.bytes),
        });
        self.bytes.extend_from_slice(frame.bytes);
        Ok(())
    }

    /// The number of packets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are no packets: never after [`Recording::load`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The link type of all packets.
    #[must_use]
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// The timestamp of the first packet, in nanoseconds since the Unix epoch.
    #[must_use]
    pub fn first_ns(&self) -> i64 {
        self.first_ns
    }

    /// The number of packets truncated by the snaplen: they are sent as captured.
    #[must_use]
    pub fn truncated(&self) -> u64 {
        self.truncated
    }

    /// The messages of read errors.
    #[must_use]
    pub fn read_errors(&self) -> &[String] {
        &self.read_errors
    }

    /// The mean captured length of a packet in bytes.
    #[must_use]
    pub fn mean_length(&self) -> f64 {
        self.bytes.len() as f64 / self.packets.len().max(1) as f64
    }

    /// A copy without packets and their bytes.
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

    /// Duration of one loop: from the first packet to the last, plus the mean time between two packets.
    pub(crate) fn loop_ns(&self) -> u64 {
        let last = self.packets.last().map_or(0, |packet| packet.time_ns);
        let intervals = (self.packets.len() as u64).saturating_sub(1).max(1);
        last + last / intervals
    }

    pub(crate) fn bytes_of(&self, packet: &RecordedPacket) -> &[u8] {
        &self.bytes[packet.start..packet.start + packet.length as usize]
    }
}
