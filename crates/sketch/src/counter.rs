//! Counters of 32 or 64 bits, which stop at their largest value: a counter that wraps around would
//! report a heavy key as a light one.

use hw::memory::Zeroed;

/// The width of counters. 32 bits of bytes are full after 0.34 s at 100 Gbit/s, of packets after 29 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// 32 bits.
    Narrow,
    /// 64 bits.
    Wide,
}

impl Width {
    /// Returns the number of bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        match self {
            Self::Narrow => 32,
            Self::Wide => 64,
        }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.bits() as usize / 8
    }

    /// Returns the width of a number of bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        match bits {
            32 => Some(Self::Narrow),
            64 => Some(Self::Wide),
            _ => None,
        }
    }

    /// Returns the largest count. A counter that shows it may have stopped there.
    #[must_use]
    pub const fn largest(self) -> u64 {
        match self {
            Self::Narrow => u32::MAX as u64,
            Self::Wide => u64::MAX,
        }
    }
}

/// A counter.
pub trait Counter: Zeroed + Copy + Ord + Into<u64> {
    /// Adds a weight, up to the largest value.
    #[must_use]
    fn plus(self, weight: u32) -> Self;

    /// Adds another counter, up to the largest value.
    #[must_use]
    fn sum(self, other: Self) -> Self;
}

impl Counter for u32 {
    #[inline]
    fn plus(self, weight: u32) -> Self {
        self.saturating_add(weight)
    }

    fn sum(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl Counter for u64 {
    #[inline]
    fn plus(self, weight: u32) -> Self {
        self.saturating_add(Self::from(weight))
    }

    fn sum(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}
