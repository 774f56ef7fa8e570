//! Packet accounting, called the books: what happened to every packet. The books balance if
//! `received = processed + dropped` (summed over all reasons) and
//! `processed = in flows + in no flow + unattributed + counted only`.

use port::{Counters, SnaplenErrors};
use std::ops::AddAssign;
use std::time::Duration;
use wire::{Malformed, NoFlow};

/// A number of packets and their bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

impl Count {
    /// Adds one packet of `bytes` bytes.
    #[inline]
    pub fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// The reason why a received packet was not processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Loss {
    /// The kernel's receive ring was full. The kernel counts packets only, so their bytes are 0.
    Kernel,
    /// The buffer between acquisition and processing was full.
    Buffer,
    /// The ring between a receiver and its monitor was full.
    Ring,
    /// The device's receive queue was full. Devices count packets only, here and below.
    Missed,
    /// The device had no buffer for the packet.
    NoBuffer,
    /// The device received a damaged packet.
    Error,
}

impl Loss {
    /// All reasons.
    pub const ALL: [Self; 6] = [
        Self::Kernel,
        Self::Buffer,
        Self::Ring,
        Self::Missed,
        Self::NoBuffer,
        Self::Error,
    ];

    /// Returns a description for text output.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Kernel => "kernel ring",
            Self::Buffer => "acquisition buffer",
            Self::Ring => "ring to a monitor",
            Self::Missed => "receive queue of the device",
            Self::NoBuffer => "no receive buffer",
            Self::Error => "receive errors",
        }
    }

    /// Returns the name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Buffer => "buffer",
            Self::Ring => "ring",
            Self::Missed => "missed",
            Self::NoBuffer => "no-buffer",
            Self::Error => "error",
        }
    }
}

/// The packet accounting of one queue, or the sum over several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Books {
    /// Packets that arrived and passed the filter, whether processed or lost.
    pub received: Count,
    /// Packets that were counted, in a flow or not.
    pub processed: Count,
    /// Packets lost, by [`Loss`].
    pub dropped: [Count; Loss::ALL.len()],
    /// Packets that the filter rejected; `received` does not include them.
    pub filtered: Count,
    /// Packets counted in a flow.
    pub in_flows: Count,
    /// Packets that were only counted: packet level reads no headers.
    pub counted_only: Count,
    /// Processed packets that belong to no flow, by [`NoFlow`].
    pub no_flow: [Count; NoFlow::ALL.len()],
    /// Packets of flows for which the table had no free slot.
    pub unattributed: Count,
    /// Malformed packets, by [`Malformed`]. A malformed packet may still belong to a flow.
    pub malformed: [u64; Malformed::ALL.len()],
    /// Times of the earliest and the latest processed packet, in nanoseconds since the epoch. `None` if
    /// there was none, or if no frame was read.
    pub times: Option<(i64, i64)>,
    /// Packets that the snaplen truncated.
    pub truncated: u64,
    /// Fragments of IP packets.
    pub fragments: u64,
    /// Unreadable records of capture files.
    pub faults: u64,
    /// Invalid or exceeded snaplens in capture files.
    pub snaplens: SnaplenErrors,
    /// Backward steps of the packet clock by more than a second.
    pub clock_steps_back: u64,
    /// Forward steps of the packet clock by more than 2 h 15 min: too long for an idle link.
    pub clock_steps_forward: u64,
    /// Packets whose flow key is the device's hash. Their headers were not read, so malformed, truncated
    /// and fragmented packets among them are not counted as such.
    pub hashed_by_device: u64,
    /// Packets whose flow key is a hash computed in software, since the device gave none.
    pub hashed_in_software: u64,
    /// Packets for which the device's hash was used as the hash of the flow table.
    pub hashes_reused: u64,
    /// Device hashes that did not match the computed hash. After the first one, no more were used.
    pub hashes_mismatched: u64,
}

impl Default for Books {
    fn default() -> Self {
        Self {
            received: Count::default(),
            processed: Count::default(),
            dropped: [Count::default(); Loss::ALL.len()],
            filtered: Count::default(),
            in_flows: Count::default(),
            no_flow: [Count::default(); NoFlow::ALL.len()],
            unattributed: Count::default(),
            malformed: [0; Malformed::ALL.len()],
            times: None,
            truncated: 0,
            fragments: 0,
            faults: 0,
            snaplens: SnaplenErrors::default(),
            clock_steps_back: 0,
            clock_steps_forward: 0,
            counted_only: Count::default(),
            hashed_by_device: 0,
            hashed_in_software: 0,
            hashes_reused: 0,
            hashes_mismatched: 0,
        }
    }
}

impl Books {
    /// Adds the counters of a port.
    pub(crate) fn add_port_counters(&mut self, counters: &Counters) {
        for (reason, packets) in [
            (Loss::Kernel, counters.dropped),
            (Loss::Missed, counters.missed),
            (Loss::NoBuffer, counters.no_buffer),
            (Loss::Error, counters.errors),
        ] {
            let lost = Count { packets, bytes: 0 };
            self.received += lost;
            self.dropped[reason as usize] += lost;
        }
        let overflow = Count {
            packets: counters.overflow,
            bytes: counters.overflow_bytes,
        };
        self.received += overflow;
        self.dropped[Loss::Buffer as usize] += overflow;
        self.filtered += Count {
            packets: counters.filtered,
            bytes: counters.filtered_bytes,
        };
        self.faults += counters.faults;
        self.snaplens += counters.snaplen_errors;
    }

    /// Extends the times of packets.
    pub(crate) fn add_times(&mut self, first_ns: i64, last_ns: i64) {
        let (first, last) = self.times.unwrap_or((first_ns, last_ns));
        self.times = Some((first.min(first_ns), last.max(last_ns)));
    }

    /// Returns the time from the earliest to the latest processed packet, if any was read.
    #[must_use]
    pub fn traffic_time(&self) -> Option<Duration> {
        let (first_ns, last_ns) = self.times?;
        Some(Duration::from_nanos(last_ns.abs_diff(first_ns)))
    }

    /// Returns the number of lost packets, over all reasons.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.dropped.iter().map(|count| count.packets).sum()
    }

    /// Returns the packets that belong to no flow, over all reasons.
    #[must_use]
    pub fn without_flow(&self) -> Count {
        let mut sum = Count::default();
        for count in self.no_flow {
            sum += count;
        }
        sum
    }

    /// Returns whether every packet is accounted for.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        let mut accounted = self.processed;
        for count in self.dropped {
            accounted += count;
        }
        let mut counted = self.in_flows;
        counted += self.without_flow();
        counted += self.unattributed;
        counted += self.counted_only;
        accounted == self.received && counted == self.processed
    }
}

impl AddAssign<&Self> for Books {
    fn add_assign(&mut self, other: &Self) {
        self.received += other.received;
        self.processed += other.processed;
        self.filtered += other.filtered;
        self.in_flows += other.in_flows;
        self.unattributed += other.unattributed;
        if let Some((first_ns, last_ns)) = other.times {
            self.add_times(first_ns, last_ns);
        }
        self.truncated += other.truncated;
        self.fragments += other.fragments;
        self.faults += other.faults;
        self.snaplens += other.snaplens;
        self.clock_steps_back += other.clock_steps_back;
        self.clock_steps_forward += other.clock_steps_forward;
        self.counted_only += other.counted_only;
        self.hashed_by_device += other.hashed_by_device;
        self.hashed_in_software += other.hashed_in_software;
        self.hashes_reused += other.hashes_reused;
        self.hashes_mismatched += other.hashes_mismatched;
        for (sum, count) in self.dropped.iter_mut().zip(&other.dropped) {
            *sum += *count;
        }
        for (sum, count) in self.no_flow.iter_mut().zip(&other.no_flow) {
            *sum += *count;
        }
        for (sum, count) in self.malformed.iter_mut().zip(&other.malformed) {
            *sum += count;
        }
    }
}
