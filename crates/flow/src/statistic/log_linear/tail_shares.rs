//! How many observations may be lumped at the ends of a histogram.

/// The fractions of all observations that may be lumped into the first and the last bin, because no
/// requested percentile is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TailShares {
    /// The maximum fraction in the first bin when the window is fitted.
    pub(super) low: f64,
    /// The fraction in the first bin at which the window moves down. It is larger than `low`, so that
    /// chance alone does not move the window.
    low_max: f64,
    /// The maximum fraction in the last bin.
    pub(super) high: f64,
}

impl TailShares {
    /// Returns the fractions for quantiles from `lowest` to `highest`.
    ///
    /// The first bin may have half of the observations below the lowest quantile, or all except five
    /// times those above it: if nine of ten values of a flow are zero, its 99th percentile has all bins
    /// for the others. The last bin may have half of the observations above the highest quantile.
    pub(super) fn for_quantiles(lowest: f64, highest: f64) -> Self {
        let low = (1.0 - 5.0 * (1.0 - lowest)).max(lowest / 2.0);
        Self {
            low,
            low_max: f64::midpoint(low, lowest),
            high: (1.0 - highest) / 2.0,
        }
    }

    /// Returns whether the first bin would have too many observations to count one more below the
    /// window.
    pub(super) fn low_is_heavy(&self, first: u32, total: u32) -> bool {
        f64::from(first) + 1.0 > self.low_max * (f64::from(total) + 1.0)
    }
}
