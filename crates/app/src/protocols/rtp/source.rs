//! One source of RTP: loss, order and jitter as RFC 3550 computes them.

use crate::message::rtp::{Rtp, clock_rate};
use crate::nanoseconds::Nanoseconds;

/// Number of consecutive packets of one source that identify RTP. RFC 3550 appendix A.1 requires two
/// for a known session; for an unknown flow that is too few.
pub(crate) const CONSECUTIVE_MIN: u8 = 5;

/// The largest jump of the sequence number, forward or backward. A packet beyond it does not belong
/// to the source, or the source restarts its sequence numbers (RFC 3550 appendix A.1).
const DROPOUT_MAX: u16 = 3000;

/// The largest difference of transit times that is used, nine years. It bounds the jitter, so that 16
/// times the jitter fits into 63 bits.
pub(crate) const DIFFERENCE_MAX_NS: i64 = 1 << 58;

/// One source in one direction.
#[derive(Debug, Default)]
pub(crate) struct RtpSource {
    pub(crate) ssrc: u32,
    pub(crate) packets: u32,
    /// Highest sequence number. The upper 16 bits count the wraparounds.
    highest_sequence: u32,
    timestamp: u32,
    /// Interarrival jitter in nanoseconds, times 16.
    jitter_16: Nanoseconds,
    pub(crate) arrival: Nanoseconds,
    /// Number of packets that were expected before the source restarted its sequence numbers, plus
    /// the packets that arrived after the first one although they were sent before it.
    expected_before: u32,
    /// The sequence number after one that was far off. If it arrives next, the source has restarted
    /// (RFC 3550 appendix A.1).
    resync_sequence: Option<u16>,
    /// First sequence number since the last restart.
    base_sequence: u16,
    pub(crate) out_of_order: u16,
    pub(crate) payload_type: u8,
    /// Number of consecutive packets so far, up to the number that identifies RTP. 0 if there is no
    /// source.
    consecutive: u8,
    /// Direction of its packets.
    pub(crate) direction: u8,
    /// Whether the next timestamp can be compared with that of the previous packet.
    has_timestamp: bool,
}

/// What a packet is to a source that is not identified yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continuation {
    /// The next packet.
    Next,
    /// A later one, an earlier one, or a duplicate.
    Near,
    /// None of the source.
    No,
}

impl RtpSource {
    pub(crate) const fn is_empty(&self) -> bool {
        self.consecutive == 0
    }

    /// Whether enough consecutive packets were seen.
    pub(crate) const fn is_confirmed(&self) -> bool {
        self.consecutive >= CONSECUTIVE_MIN
    }

    /// Whether packets of this direction and SSRC are its own.
    pub(crate) const fn is_of(&self, ssrc: u32, direction: u8) -> bool {
        self.ssrc == ssrc && self.direction == direction && !self.is_empty()
    }

    /// How a packet with its SSRC continues it. Losses before the source is identified count too.
    pub(crate) const fn continuation(&self, rtp: &Rtp) -> Continuation {
        let ahead = rtp.sequence.wrapping_sub(self.highest_sequence as u16);
        if ahead == 1 && self.payload_type == rtp.payload_type {
            Continuation::Next
        } else if is_late(ahead) || ahead <= DROPOUT_MAX {
            Continuation::Near
        } else {
            Continuation::No
        }
    }

    /// Counts a packet of a source that is not identified yet and that it continues.
    pub(crate) fn count_unconfirmed(&mut self, rtp: &Rtp, time_ns: i64) {
        let ahead = rtp.sequence.wrapping_sub(self.highest_sequence as u16);
        if self.continuation(rtp) == Continuation::Next {
            self.consecutive += 1;
        } else if !is_late(ahead) {
            self.consecutive = 1;
            if clock_rate(self.payload_type) != clock_rate(rtp.payload_type) {
                self.jitter_16 = Nanoseconds::default();
                self.has_timestamp = false;
            }
            self.payload_type = rtp.payload_type;
        }
        self.count(rtp, time_ns);
    }

    /// Number of lost packets.
    pub(crate) fn lost(&self) -> u32 {
        let lost = self.expected().saturating_sub(u64::from(self.packets));
        u32::try_from(lost).unwrap_or(u32::MAX)
    }

    /// The jitter, if the clock rate is known.
    pub(crate) fn jitter_ns(&self) -> Option<f64> {
        clock_rate(self.payload_type).map(|_| self.jitter_16.span() as f64 / 16.0)
    }

    /// Number of packets sent, by the sequence numbers.
    fn expected(&self) -> u64 {
        u64::from(self.expected_before) + u64::from(self.highest_sequence)
            - u64::from(self.base_sequence)
            + 1
    }

    /// Starts counting with a packet.
    pub(crate) fn start(&mut self, rtp: &Rtp, direction: u8, time_ns: i64) {
        *self = Self {
            direction,
            ssrc: rtp.ssrc,
            packets: 1,
            highest_sequence: u32::from(rtp.sequence),
            base_sequence: rtp.sequence,
            timestamp: rtp.timestamp,
            arrival: Nanoseconds::new(time_ns),
            payload_type: rtp.payload_type,
            has_timestamp: true,
            consecutive: 1,
            ..Self::default()
        };
    }

    /// Counts a packet of the source (RFC 3550 appendices A.1, A.3 and A.8).
    pub(crate) fn count(&mut self, rtp: &Rtp, time_ns: i64) {
        let ahead = rtp.sequence.wrapping_sub(self.highest_sequence as u16);
        if (1..=DROPOUT_MAX).contains(&ahead) {
            self.highest_sequence = self.highest_sequence.saturating_add(u32::from(ahead));
        } else if is_late(ahead) {
            self.out_of_order = self.out_of_order.saturating_add(u16::from(ahead != 0));
            let behind = u32::from(ahead.wrapping_neg());
            if behind > self.highest_sequence - u32::from(self.base_sequence) {
                // Sent before the first packet seen, which overtook it. Count it as expected, so that it
                // does not hide a lost packet.
                self.expected_before = self.expected_before.saturating_add(1);
            }
        } else if !self.try_restart(rtp.sequence) {
            return;
        }
        self.packets = self.packets.saturating_add(1);
        // Timestamps of different clocks cannot be compared.
        let rate = clock_rate(self.payload_type);
        let is_timed =
            rtp.payload_type == self.payload_type || clock_rate(rtp.payload_type) == rate;
        let was_timed = std::mem::replace(&mut self.has_timestamp, is_timed);
        if let Some(rate) = rate
            && is_timed
            && was_timed
        {
            // Difference of transit times, in nanoseconds.
            let arrived = time_ns.saturating_sub(self.arrival.get());
            let ticks = i64::from(rtp.timestamp.wrapping_sub(self.timestamp).cast_signed());
            let sent = ticks.saturating_mul(1_000_000_000) / i64::from(rate);
            let difference = arrived.saturating_sub(sent).saturating_abs();
            let difference = difference.min(DIFFERENCE_MAX_NS);
            // J += (|D| - J) / 16, with J kept times 16 as in RFC 3550 appendix A.8.
            let jitter = self.jitter_16.get();
            self.jitter_16 = Nanoseconds::new(jitter + difference - ((jitter + 8) >> 4));
        }
        self.timestamp = rtp.timestamp;
        self.arrival = Nanoseconds::new(time_ns);
    }

    /// Restarts the sequence numbers if this packet is the second of two consecutive ones far off the
    /// others. Returns whether it did. Packets expected and lost before the restart still count.
    fn try_restart(&mut self, sequence: u16) -> bool {
        if self.resync_sequence != Some(sequence) {
            self.resync_sequence = Some(sequence.wrapping_add(1));
            return false;
        }
        self.expected_before = u32::try_from(self.expected()).unwrap_or(u32::MAX);
        self.base_sequence = sequence.wrapping_sub(1);
        self.highest_sequence = u32::from(self.base_sequence) + 1;
        // Count the first of the two.
        self.packets = self.packets.saturating_add(1);
        self.resync_sequence = None;
        self.has_timestamp = false;
        true
    }
}

/// Whether a packet is a duplicate or out of order. `ahead` is its sequence number minus the highest
/// one.
pub(crate) const fn is_late(ahead: u16) -> bool {
    ahead == 0 || ahead > u16::MAX - DROPOUT_MAX
}
