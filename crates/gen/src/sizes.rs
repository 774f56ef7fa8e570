//! Frame sizes: one, a list with weights, or IMIX.

use crate::error::GeneratorError;
use std::fmt;
use std::str::FromStr;

/// The frame check sequence, which the device adds: a size of 64 is a frame of 60 bytes and 4 of it.
pub const FCS_BYTES: usize = 4;

/// What a frame takes on the wire besides itself and its check sequence: preamble, start of frame,
/// gap (IEEE 802.3: 7 + 1 + 12 bytes).
pub const WIRE_OVERHEAD: usize = 20;

/// The least size of an Ethernet frame, check sequence included.
pub const SIZE_MIN: usize = 64;

/// The largest size that is made: jumbo frames, and what fits a virtual cable.
pub const SIZE_MAX: usize = 16_384;

/// Frame sizes with the frame check sequence, each with its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameSizes {
    list: Vec<(usize, f64)>,
}

impl FrameSizes {
    /// All frames of one size.
    ///
    /// # Errors
    /// Below 64 or above 16384.
    pub fn fixed(size: usize) -> Result<Self, GeneratorError> {
        Self::list(vec![(size, 1.0)])
    }

    /// The least Ethernet frame: 64.
    #[must_use]
    pub fn min_frame() -> Self {
        Self {
            list: vec![(SIZE_MIN, 1.0)],
        }
    }

    /// The simple IMIX: 7 of 64, 4 of 594, 1 of 1518 (RFC 6985 calls it `IMIX` of three sizes).
    #[must_use]
    pub fn imix() -> Self {
        Self::imix_from(SIZE_MIN)
    }

    /// The same where 64 has no room for the headers, as with IPv6: `least`, at most 594, in its place.
    #[must_use]
    pub fn imix_from(least: usize) -> Self {
        Self {
            list: vec![(least.clamp(SIZE_MIN, 594), 7.0), (594, 4.0), (1518, 1.0)],
        }
    }

    /// Sizes and weights; each frame draws its size.
    ///
    /// # Errors
    /// No sizes, one out of bounds, or a weight that is not above 0.
    pub fn list(list: Vec<(usize, f64)>) -> Result<Self, GeneratorError> {
        if list.is_empty() || list.len() > 1024 {
            return Err(GeneratorError::new("give from 1 to 1024 frame sizes"));
        }
        for &(size, weight) in &list {
            if !(SIZE_MIN..=SIZE_MAX).contains(&size) {
                return Err(GeneratorError::new(format!(
                    "frame size {size}: from {SIZE_MIN} to {SIZE_MAX}, the frame check sequence (4 bytes) included"
                )));
            }
            if !(weight.is_finite() && weight > 0.0) {
                return Err(GeneratorError::new(format!(
                    "the weight of frame size {size} must be a number above 0"
                )));
            }
        }
        Ok(Self { list })
    }

    /// Sizes with their weights.
    #[must_use]
    pub fn weighted(&self) -> &[(usize, f64)] {
        &self.list
    }

    /// The least size.
    #[must_use]
    pub fn min(&self) -> usize {
        self.list.iter().map(|&(size, _)| size).min().unwrap_or(0)
    }

    /// The mean size.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.list.iter().map(|(_, weight)| weight).sum();
        self.list
            .iter()
            .map(|&(size, weight)| size as f64 * weight / sum)
            .sum()
    }
}

impl FromStr for FrameSizes {
    type Err = GeneratorError;

    /// `64`, `imix`, `64,1518` or `64=7,594=4,1518=1`.
    fn from_str(text: &str) -> Result<Self, GeneratorError> {
        if text == "imix" {
            return Ok(Self::imix());
        }
        let wrong = || {
            GeneratorError::new(format!(
                "'{text}' is no frame size: write 64, imix, 64,1518 or 64=7,594=4,1518=1"
            ))
        };
        let list = text
            .split(',')
            .map(|part| {
                let (size, weight) = part.split_once('=').unwrap_or((part, "1"));
                Ok((
                    size.trim().parse().map_err(|_| wrong())?,
                    weight.trim().parse().map_err(|_| wrong())?,
                ))
            })
            .collect::<Result<_, _>>()?;
        Self::list(list)
    }
}

impl fmt::Display for FrameSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::imix() {
            return f.write_str("imix");
        }
        for (index, (size, weight)) in self.list.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{size}")?;
            if self.list.len() > 1 {
                write!(f, "={weight}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_said() {
        for text in ["64", "imix", "64=1,1518=1", "64=0.5,128=2.25"] {
            assert_eq!(text.parse::<FrameSizes>().unwrap().to_string(), text);
        }
        assert_eq!("64,1518".parse::<FrameSizes>().unwrap().mean(), 791.0);
        // (7 * 64 + 4 * 594 + 1518) / 12
        assert!((FrameSizes::imix().mean() - 361.833).abs() < 0.001);
        for wrong in ["", "63", "16385", "64=0", "64=x", "64=-1", "64=inf", "big"] {
            assert!(wrong.parse::<FrameSizes>().is_err(), "{wrong}");
        }
    }
}
