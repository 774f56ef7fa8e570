//! The books: what became of every packet. They balance when
//! `received = processed + dropped`, over each reason, and
//! `processed = in flows + in no flow + miscounted + counted only`.

use port::{Counters, SnapLengths};
use std::ops::AddAssign;
use wire::{Malformed, NoFlow};

/// Packets, and their bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

impl Count {
    /// Counts one packet.
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

/// Why a packet that arrived was not processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Loss {
    /// The kernel's receive ring was full. The kernel counts packets only: their bytes are 0.
    Kernel,
    /// The buffer between acquisition and processing was full.
    Buffer,
    /// The ring between a receiver and its monitor was full.
    Ring,
    /// The device's receive queue was full. Devices count packets only, here and below.
    Missed,
    /// The device had no buffer to put the packet in.
    NoBuffer,
    /// The device received the packet damaged.
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

    /// What happened, for a person.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Kernel => "kernel ring",
            Self::Buffer => "acquisition buffer",
            Self::Ring => "ring before a monitor",
            Self::Missed => "device's receive queue",
            Self::NoBuffer => "no buffer for the device",
            Self::Error => "damaged, by the device",
        }
    }

    /// The name in reports.
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

/// What became of the packets of one queue, or of several together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Books {
    /// Packets that arrived and passed the filter, processed or not.
    pub received: Count,
    /// Packets whose headers were read and that were counted in a flow, or in no flow.
    pub processed: Count,
    /// Packets lost, by [`Loss`].
    pub dropped: [Count; Loss::ALL.len()],
    /// Packets that the filter left out; they are not among the received.
    pub filtered: Count,
    /// Packets counted in a flow.
    pub in_flows: Count,
    /// Packets counted and no more: at packet level no header is read.
    pub counted_only: Count,
    /// Packets processed that belong to no flow, by [`NoFlow`].
    pub no_flow: [Count; NoFlow::ALL.len()],
    /// Packets that the table had no place for.
    pub miscounted: Count,
    /// Malformed packets, by kind; a malformed packet may still be in a flow.
    pub malformed: [u64; Malformed::ALL.len()],
    /// Packets of which the snap length cut off bytes.
    pub truncated: u64,
    /// Fragments of IP packets.
    pub fragments: u64,
    /// Records of the input that could not be read.
    pub faults: u64,
    /// Where files contradict the snap lengths in their headers, or these what is possible.
    pub snap_lengths: SnapLengths,
    /// Steps of the clock back by more than a second.
    pub clock_steps_back: u64,
    /// Steps of the clock forward by more than two hours and a quarter, which no link is silent for.
    pub clock_steps_forward: u64,
    /// Packets whose flow is the device's hash: their headers were not read, so nothing is known of
    /// what is malformed, truncated or a fragment among them.
    pub hashed_by_device: u64,
    /// Packets whose flow is a hash made in software, the device having given none.
    pub hashed_in_software: u64,
    /// Packets for which the device's hash served as the table's.
    pub hashes_reused: u64,
    /// Hashes of the device that were not what it is said to make: none was used from then on.
    pub hashes_refuted: u64,
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
            miscounted: Count::default(),
            malformed: [0; Malformed::ALL.len()],
            truncated: 0,
            fragments: 0,
            faults: 0,
            snap_lengths: SnapLengths::default(),
            clock_steps_back: 0,
            clock_steps_forward: 0,
            counted_only: Count::default(),
            hashed_by_device: 0,
            hashed_in_software: 0,
            hashes_reused: 0,
            hashes_refuted: 0,
        }
    }
}

impl Books {
    /// Enters what a port counted itself.
    pub(crate) fn enter(&mut self, counters: &Counters) {
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
        self.snap_lengths += counters.snap_lengths;
    }

    /// Packets lost, over all reasons.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.dropped.iter().map(|count| count.packets).sum()
    }

    /// Packets in no flow, over all reasons.
    #[must_use]
    pub fn without_flow(&self) -> Count {
        let mut sum = Count::default();
        for count in self.no_flow {
            sum += count;
        }
        sum
    }

    /// Whether every packet is accounted for.
    #[must_use]
    pub fn balance(&self) -> bool {
        let mut handled = self.processed;
        for count in self.dropped {
            handled += count;
        }
        let mut counted = self.in_flows;
        counted += self.without_flow();
        counted += self.miscounted;
        counted += self.counted_only;
        handled == self.received && counted == self.processed
    }
}

impl AddAssign<&Self> for Books {
    fn add_assign(&mut self, other: &Self) {
        self.received += other.received;
        self.processed += other.processed;
        self.filtered += other.filtered;
        self.in_flows += other.in_flows;
        self.miscounted += other.miscounted;
        self.truncated += other.truncated;
        self.fragments += other.fragments;
        self.faults += other.faults;
        self.snap_lengths += other.snap_lengths;
        self.clock_steps_back += other.clock_steps_back;
        self.clock_steps_forward += other.clock_steps_forward;
        self.counted_only += other.counted_only;
        self.hashed_by_device += other.hashed_by_device;
        self.hashed_in_software += other.hashed_in_software;
        self.hashes_reused += other.hashes_reused;
        self.hashes_refuted += other.hashes_refuted;
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
