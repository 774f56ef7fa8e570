//! Round trips from the probe to one host and back.

use super::span::Nanoseconds;

/// Samples of a round trip.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct RoundTrips {
    /// Their sum in nanoseconds.
    sum_ns: u64,
    /// The sum of their squares, less what rounding takes: squares of less than 95 ms are exact.
    squares: f64,
    /// How many.
    count: u32,
    /// The least, subtracted from the greatest span there is.
    min: Nanoseconds,
    /// The greatest.
    max: Nanoseconds,
}

impl RoundTrips {
    #[inline]
    pub(super) fn add(&mut self, sample_ns: u64) {
        self.sum_ns += sample_ns;
        let complement_ns = Nanoseconds::of(sample_ns).complement();
        self.min = Nanoseconds::of(self.min.span_ns().max(complement_ns));
        self.max = Nanoseconds::of(self.max.span_ns().max(sample_ns));
        self.squares += sample_ns as f64 * sample_ns as f64;
        if let Some(more) = self.count.checked_add(1) {
            self.count = more;
        }
    }

    /// How many.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The shortest, if there is one.
    #[must_use]
    pub fn min_ns(&self) -> Option<u64> {
        (self.count > 0).then(|| self.min.complement())
    }

    /// The longest, if there is one.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        (self.count > 0).then(|| self.max.span_ns())
    }

    /// Their sum.
    #[must_use]
    pub const fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Their mean, NaN without any.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / f64::from(self.count)
    }

    /// Their standard deviation (of the population), NaN without any.
    #[must_use]
    pub fn deviation_ns(&self) -> f64 {
        let count = f64::from(self.count);
        let mean = self.mean_ns();
        (self.squares / count - mean * mean).max(0.0).sqrt()
            + if self.count == 0 { f64::NAN } else { 0.0 }
    }
}

/// The longest sample whose microseconds are told; a longer one is taken for it.
const LONGEST_NS: u64 = u32::MAX as u64 * 1000;

/// A sender's view of the path, as RFC 6298 smooths it: microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Smoothed {
    mean_us: u32,
    variation_us: u32,
}

impl Smoothed {
    #[inline]
    pub(super) fn add(&mut self, sample_ns: u64) {
        let sample_us = (sample_ns.min(LONGEST_NS) / 1000).max(1) as u32;
        if self.mean_us == 0 {
            self.mean_us = sample_us;
            self.variation_us = sample_us / 2;
        } else {
            let away = self.mean_us.abs_diff(sample_us);
            self.variation_us = self.variation_us - self.variation_us / 4 + away / 4;
            self.mean_us = self.mean_us - self.mean_us / 8 + sample_us / 8;
        }
    }

    /// Round trip of both halves of the path together, nanoseconds; 0 if none was measured.
    pub(super) fn together_ns(&self, other: &Self) -> u64 {
        1000 * (u64::from(self.mean_us) + u64::from(other.mean_us))
    }

    /// The retransmission time-out of a sender over both halves: at least what systems use as the
    /// least, and what they use before the first measurement.
    pub(super) fn timeout_ns(&self, other: &Self) -> u64 {
        let variation_us = u64::from(self.variation_us) + u64::from(other.variation_us);
        match self.together_ns(other) {
            0 => FIRST_TIMEOUT_NS,
            rtt_ns => (rtt_ns + 4 * 1000 * variation_us).max(LEAST_TIMEOUT_NS),
        }
    }
}

/// Retransmission time-out before a round trip is known (RFC 6298 section 2.1).
const FIRST_TIMEOUT_NS: u64 = 1_000_000_000;
/// The least that systems use, below the second of RFC 6298 section 2.4.
const LEAST_TIMEOUT_NS: u64 = 200_000_000;
