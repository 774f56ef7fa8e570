//! Times and durations in the states of flows.

/// A time or a duration in nanoseconds. It has no alignment, so that states need no padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nanoseconds([u8; 8]);

impl Nanoseconds {
    /// Stands for an unknown time. No packet has this time.
    pub(crate) const UNKNOWN: i64 = i64::MIN;

    pub(crate) const fn new(nanoseconds: i64) -> Self {
        Self(nanoseconds.to_ne_bytes())
    }

    pub(crate) const fn get(self) -> i64 {
        i64::from_ne_bytes(self.0)
    }

    /// The duration from this time to `later`: 0 if the clock went back, unknown if this time is
    /// unknown.
    pub(crate) fn until(self, later: i64) -> Self {
        match self.get() {
            Self::UNKNOWN => self,
            time => Self::new(later.saturating_sub(time).max(0)),
        }
    }

    /// The duration, if it is known.
    pub(crate) fn known_span(self) -> Option<u64> {
        (self.get() != Self::UNKNOWN).then(|| self.span())
    }

    /// The duration, which must be known.
    pub(crate) const fn span(self) -> u64 {
        self.get().cast_unsigned()
    }
}
