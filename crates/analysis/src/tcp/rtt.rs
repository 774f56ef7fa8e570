//! Round-trip times from the probe to one host and back.

use super::span::Nanos48;

/// Statistics of round-trip times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct RttStats {
    sum_ns: u64,
    /// Sum of squares, in square nanoseconds. Squares of samples up to 95 ms are exact, others rounded.
    squares: f64,
    count: u32,
    /// Complement of the minimum, so that zero means that there is none yet.
    min_complement: Nanos48,
    max: Nanos48,
}

impl RttStats {
    #[inline]
    pub(super) fn add(&mut self, sample_ns: u64) {
        self.sum_ns += sample_ns;
        let complement_ns = Nanos48::from_span(sample_ns).complement();
        self.min_complement = Nanos48::from_span(self.min_complement.span_ns().max(complement_ns));
        self.max = Nanos48::from_span(self.max.span_ns().max(sample_ns));
        self.squares += sample_ns as f64 * sample_ns as f64;
        if let Some(next) = self.count.checked_add(1) {
            self.count = next;
        }
    }

    /// Returns the number of samples.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the shortest round trip, if there is one.
    #[must_use]
    pub fn min_ns(&self) -> Option<u64> {
        (self.count > 0).then(|| self.min_complement.complement())
    }

    /// Returns the longest round trip, if there is one.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        (self.count > 0).then(|| self.max.span_ns())
    }

    /// Returns the sum of the round trips.
    #[must_use]
    pub const fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Returns the mean round trip, NaN if there is none.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / f64::from(self.count)
    }

    /// Returns the (population) standard deviation, NaN if there is no sample.
    #[must_use]
    pub fn standard_deviation_ns(&self) -> f64 {
        let count = f64::from(self.count);
        let mean = self.mean_ns();
        (self.squares / count - mean * mean).max(0.0).sqrt()
            + if self.count == 0 { f64::NAN } else { 0.0 }
    }
}

/// The longest sample of a [`SmoothedRtt`]; longer ones count as this.
const SAMPLE_MAX_NS: u64 = u32::MAX as u64 * 1000;

/// Smoothed round-trip time of half of the path, and its variation, in microseconds (RFC 6298).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct SmoothedRtt {
    srtt_us: u32,
    rttvar_us: u32,
}

impl SmoothedRtt {
    #[inline]
    pub(super) fn add(&mut self, sample_ns: u64) {
        let sample_us = (sample_ns.min(SAMPLE_MAX_NS) / 1000).max(1) as u32;
        if self.srtt_us == 0 {
            self.srtt_us = sample_us;
            self.rttvar_us = sample_us / 2;
        } else {
            let deviation = self.srtt_us.abs_diff(sample_us);
            self.rttvar_us = self.rttvar_us - self.rttvar_us / 4 + deviation / 4;
            self.srtt_us = self.srtt_us - self.srtt_us / 8 + sample_us / 8;
        }
    }

    /// Returns the round-trip time of the whole path, in nanoseconds: the sum of both halves, 0 if none
    /// was measured.
    pub(super) fn path_rtt_ns(&self, other: &Self) -> u64 {
        1000 * (u64::from(self.srtt_us) + u64::from(other.srtt_us))
    }

    /// Estimates a sender's retransmission timeout over the whole path, in nanoseconds.
    pub(super) fn rto_ns(&self, other: &Self) -> u64 {
        let rttvar_us = u64::from(self.rttvar_us) + u64::from(other.rttvar_us);
        match self.path_rtt_ns(other) {
            0 => INITIAL_RTO_NS,
            rtt_ns => (rtt_ns + 4 * 1000 * rttvar_us).max(MIN_RTO_NS),
        }
    }
}

/// The retransmission timeout before the first measurement (RFC 6298 section 2.1).
const INITIAL_RTO_NS: u64 = 1_000_000_000;
/// The minimum retransmission timeout that systems use. RFC 6298 section 2.4 says one second.
const MIN_RTO_NS: u64 = 200_000_000;
