//! Frame sizes: a fixed size, a weighted list, or IMIX.

use crate::error::GeneratorError;
use std::fmt;
use std::str::FromStr;

/// Bytes of the frame check sequence, which the device appends: a frame of size 64 has 60 bytes in
/// memory.
pub const FCS_BYTES: usize = 4;

/// Bytes on the wire in addition to the frame and its check sequence: preamble, start-of-frame
/// delimiter and interframe gap (IEEE 802.3: 7 + 1 + 12 bytes).
pub const WIRE_OVERHEAD: usize = 20;

/// The minimum size of an Ethernet frame, including the frame check sequence.
pub const SIZE_MIN: usize = 64;

/// The maximum frame size: enough for jumbo frames and virtual links.
pub const SIZE_MAX: usize = 16_384;

/// Frame sizes in bytes, including the frame check sequence, with weights.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameSizes {
    list: Vec<(usize, f64)>,
}

impl FrameSizes {
    /// A single size.
    ///
    /// # Errors
    /// If the size is not from 64 to 16384.
    pub fn fixed(size: usize) -> Result<Self, GeneratorError> {
        Self::list(vec![(size, 1.0)])
    }

    /// The minimum Ethernet frame size: 64.
    #[must_use]
    pub fn min_frame() -> Self {
        Self {
            list: vec![(SIZE_MIN, 1.0)],
        }
    }

    /// The simple IMIX: 7 frames of 64 bytes, 4 of 594 and 1 of 1518 (see RFC 6985).
    #[must_use]
    pub fn imix() -> Self {
        Self::imix_from(SIZE_MIN)
    }

    /// [`FrameSizes::imix`] with `min`, at most 594, instead of 64: with IPv6, the headers can need more
    /// than 64 bytes.
    #[must_use]
    pub fn imix_from(min: usize) -> Self {
        Self {
            list: vec![(min.clamp(SIZE_MIN, 594), 7.0), (594, 4.0), (1518, 1.0)],
        }
    }

    /// Sizes and their weights. Each frame has a random size.
    ///
    /// # Errors
    /// If there are no sizes or more than 1024, a size is out of range, or a weight is not positive.
    pub fn list(list: Vec<(usize, f64)>) -> Result<Self, GeneratorError> {
        if list.is_empty() || list.len() > 1024 {
            return Err(GeneratorError::new(
                "the number of frame sizes must be from 1 to 1024",
            ));
        }
        for &(size, weight) in &list {
            if !(SIZE_MIN..=SIZE_MAX).contains(&size) {
                return Err(GeneratorError::new(format!(
                    "invalid frame size {size}: use {SIZE_MIN} to {SIZE_MAX} bytes, including the FCS (4 bytes)"
                )));
            }
            if !(weight.is_finite() && weight > 0.0) {
                return Err(GeneratorError::new(format!(
                    "the weight of frame size {size} must be a positive number"
                )));
            }
        }
        Ok(Self { list })
    }

    /// The sizes and their weights.
    #[must_use]
    pub fn weighted(&self) -> &[(usize, f64)] {
        &self.list
    }

    /// The minimum size.
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

    /// Parses `64`, `imix`, `64,1518` or `64=7,594=4,1518=1`.
    fn from_str(text: &str) -> Result<Self, GeneratorError> {
        if text == "imix" {
            return Ok(Self::imix());
        }
        let invalid = || {
            GeneratorError::new(format!(
                "invalid frame size '{text}': use 64, imix, 64,1518 or 64=7,594=4,1518=1"
            ))
        };
        let list = text
            .split(',')
            .map(|part| {
                let (size, weight) = part.split_once('=').unwrap_or((part, "1"));
                Ok((
                    size.trim().parse().map_err(|_| invalid())?,
                    weight.trim().parse().map_err(|_| invalid())?,
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
    fn parses_and_prints_sizes() {
        for text in ["64", "imix", "64=1,1518=1", "64=0.5,128=2.25"] {
            assert_eq!(text.parse::<FrameSizes>().unwrap().to_string(), text);
        }
        assert_eq!("64,1518".parse::<FrameSizes>().unwrap().mean(), 791.0);
        // (7 * 64 + 4 * 594 + 1518) / 12
        assert!((FrameSizes::imix().mean() - 361.833).abs() < 0.001);
        for invalid in ["", "63", "16385", "64=0", "64=x", "64=-1", "64=inf", "big"] {
            assert!(invalid.parse::<FrameSizes>().is_err(), "{invalid}");
        }
    }
}
