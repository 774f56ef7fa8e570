//! Counters of 32 or 64 bits, which stop at their largest value: a counter that wraps around would
//! report a heavy key as a light one.

use crate::bytes::Reader;
use crate::error::{SizeError, StateError};
use hw::memory::{HugeSlice, Zeroed};

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
}

impl Counter for u32 {
    #[inline]
    fn plus(self, weight: u32) -> Self {
        self.saturating_add(weight)
    }
}

impl Counter for u64 {
    #[inline]
    fn plus(self, weight: u32) -> Self {
        self.saturating_add(Self::from(weight))
    }
}

/// An array of counters.
pub enum Counters {
    /// Of 32 bits.
    Narrow(HugeSlice<u32>),
    /// Of 64 bits.
    Wide(HugeSlice<u64>),
}

impl Counters {
    /// Creates counters of 0, whose memory is committed.
    ///
    /// # Errors
    /// Fails if the memory cannot be reserved.
    pub fn new(count: usize, width: Width) -> Result<Self, SizeError> {
        let failed = |_| SizeError::Memory((count as u64).saturating_mul(width.bytes() as u64));
        Ok(match width {
            Width::Narrow => {
                let counters = HugeSlice::try_zeroed(count).map_err(failed)?;
                // So that no packet waits for a page fault.
                counters.populate();
                Self::Narrow(counters)
            }
            Width::Wide => {
                let counters = HugeSlice::try_zeroed(count).map_err(failed)?;
                counters.populate();
                Self::Wide(counters)
            }
        })
    }

    /// Returns the width.
    #[must_use]
    pub const fn width(&self) -> Width {
        match self {
            Self::Narrow(_) => Width::Narrow,
            Self::Wide(_) => Width::Wide,
        }
    }

    /// Returns a counter.
    #[must_use]
    pub fn get(&self, index: usize) -> u64 {
        match self {
            Self::Narrow(counters) => counters[index].into(),
            Self::Wide(counters) => counters[index],
        }
    }

    /// Sets a counter, to the largest value if the number is larger.
    pub fn set(&mut self, index: usize, number: u64) {
        match self {
            Self::Narrow(counters) => counters[index] = u32::try_from(number).unwrap_or(u32::MAX),
            Self::Wide(counters) => counters[index] = number,
        }
    }

    /// Sets all counters to 0.
    pub fn clear(&mut self) {
        match self {
            Self::Narrow(counters) => counters.fill(0),
            Self::Wide(counters) => counters.fill(0),
        }
    }

    /// Replaces each counter by `merge` of itself and its counterpart in `others`, which must have the
    /// same length.
    pub fn merge(&mut self, others: &Self, merge: impl Fn(u64, u64) -> u64) {
        match self {
            Self::Narrow(counters) => {
                for (index, counter) in counters.iter_mut().enumerate() {
                    let merged = merge((*counter).into(), others.get(index));
                    *counter = u32::try_from(merged).unwrap_or(u32::MAX);
                }
            }
            Self::Wide(counters) => {
                for (index, counter) in counters.iter_mut().enumerate() {
                    *counter = merge(*counter, others.get(index));
                }
            }
        }
    }

    /// Appends the counters to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Narrow(counters) => {
                out.extend(counters.iter().flat_map(|counter| counter.to_le_bytes()));
            }
            Self::Wide(counters) => {
                out.extend(counters.iter().flat_map(|counter| counter.to_le_bytes()));
            }
        }
    }

    /// Reads `count` counters. Memory is reserved only if there are enough bytes.
    ///
    /// # Errors
    /// Fails if there are fewer bytes, or if the memory cannot be reserved.
    pub fn read(count: usize, width: Width, reader: &mut Reader<'_>) -> Result<Self, StateError> {
        reader.check_left(count, width.bytes())?;
        let mut counters = Self::new(count, width)?;
        for index in 0..count {
            let number = match width {
                Width::Narrow => reader.u32()?.into(),
                Width::Wide => reader.u64()?,
            };
            counters.set(index, number);
        }
        Ok(counters)
    }
}
