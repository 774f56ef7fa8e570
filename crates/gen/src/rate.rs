//! Rates in packets or bits per second, or as a percentage of the link speed.

use crate::error::GeneratorError;
use crate::sizes::{FCS_BYTES, WIRE_OVERHEAD};
use std::fmt;
use std::str::FromStr;

/// Rates are stored in millionths of a packet or bit per second.
const MICRO: u64 = 1_000_000;

/// The bits of a frame that a bit rate includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Preamble, frame, frame check sequence and interframe gap: 20 bytes more than the frame size.
    One,
    /// The frame and its frame check sequence: the frame size.
    Two,
}

impl Layer {
    /// Bytes that are included in addition to the frame without its frame check sequence.
    #[must_use]
    pub const fn overhead(self) -> usize {
        match self {
            Self::One => FCS_BYTES + WIRE_OVERHEAD,
            Self::Two => FCS_BYTES,
        }
    }
}

/// A rate, in millionths to represent decimal fractions exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Packets per second, times 10^6.
    Packets(u128),
    /// Bits per second at a layer, times 10^6.
    Bits(u128, Layer),
}

/// A rate as specified by a user: `14.88Mpps`, `10Gbps`, `10Gbps@2`, `50%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateSpec {
    /// An absolute rate.
    Rate(Rate),
    /// Percentage of the link speed at layer 1, times 10^6.
    Percent(u128),
}

impl RateSpec {
    /// Returns the absolute rate. `link_speed` is in bits per second, times 10^6.
    ///
    /// # Errors
    /// If this is a percentage and the link speed is unknown, or the result is zero or too large.
    pub fn resolve(self, link_speed: Option<u128>) -> Result<Rate, GeneratorError> {
        match (self, link_speed) {
            (Self::Rate(rate), _) => Ok(rate),
            (Self::Percent(percent), Some(link_speed)) => {
                let bits = link_speed
                    .checked_mul(percent)
                    .map(|product| product / (100 * u128::from(MICRO)));
                match bits {
                    Some(bits) if bits > 0 => Ok(Rate::Bits(bits, Layer::One)),
                    _ => Err(GeneratorError::new("invalid percentage of the link speed")),
                }
            }
            (Self::Percent(_), None) => Err(GeneratorError::new(
                "a rate in per cent requires the link speed: use --link-speed 10Gbps",
            )),
        }
    }
}

impl FromStr for RateSpec {
    type Err = GeneratorError;

    fn from_str(text: &str) -> Result<Self, GeneratorError> {
        let invalid = || {
            GeneratorError::new(format!(
                "invalid rate '{text}': use 14.88Mpps, 500Kpps, 10Gbps (layer 1), 10Gbps@2 (layer 2) or 50%"
            ))
        };
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(invalid)?;
        let (number, unit) = text.split_at(end);
        let number = parse_micro(number).ok_or_else(invalid)?;
        let unit = unit.trim();
        if unit == "%" {
            return Ok(Self::Percent(number));
        }
        let (unit, layer) = match unit.split_once('@') {
            None => (unit, None),
            Some((unit, "1")) => (unit, Some(Layer::One)),
            Some((unit, "2")) => (unit, Some(Layer::Two)),
            Some(_) => return Err(invalid()),
        };
        let (prefix, unit) = match unit.as_bytes().first() {
            Some(b'k' | b'K') => (1_000, &unit[1..]),
            Some(b'M') => (1_000_000, &unit[1..]),
            Some(b'G') => (1_000_000_000, &unit[1..]),
            Some(b'T') => (1_000_000_000_000, &unit[1..]),
            _ => (1, unit),
        };
        let number = number
            .checked_mul(prefix)
            .filter(|&number| number < 1 << 80)
            .ok_or_else(invalid)?;
        match (unit, layer) {
            ("pps", None) => Ok(Self::Rate(Rate::Packets(number))),
            ("bps" | "bit/s", layer) => {
                Ok(Self::Rate(Rate::Bits(number, layer.unwrap_or(Layer::One))))
            }
            _ => Err(invalid()),
        }
    }
}

/// Parses a positive decimal number with at most six decimal places, and multiplies it by 10^6.
fn parse_micro(text: &str) -> Option<u128> {
    let (integer, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 6 || (integer.is_empty() && fraction.is_empty()) {
        return None;
    }
    let digits = format!("{integer}{fraction:0<6}");
    digits
        .parse::<u64>()
        .ok()
        .map(u128::from)
        .filter(|&number| number > 0)
}

impl Rate {
    /// The rate in packets per second. `mean_length` is the mean frame length in bytes without the frame
    /// check sequence.
    #[must_use]
    pub fn packets_per_second(self, mean_length: f64) -> f64 {
        match self {
            Self::Packets(packets) => packets as f64 / MICRO as f64,
            Self::Bits(bits, layer) => {
                bits as f64 / MICRO as f64 / 8.0 / (mean_length + layer.overhead() as f64)
            }
        }
    }

    /// Returns the time per packet and per byte of a frame without its frame check sequence, in units of
    /// 2^-64 ticks.
    pub(crate) fn intervals(self, ticks_per_second: u64) -> (u128, u128) {
        // No overflow: below 2^34 ticks per second (16 GHz), the product is below 2^118.
        let second = (u128::from(ticks_per_second) << 64).saturating_mul(u128::from(MICRO));
        match self {
            Self::Packets(packets) => (second / packets, 0),
            Self::Bits(bits, layer) => {
                let byte = (second / bits).saturating_mul(8);
                (byte.saturating_mul(layer.overhead() as u128), byte)
            }
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (micro, unit) = match self {
            Self::Packets(packets) => (packets, "pps"),
            Self::Bits(bits, Layer::One) => (bits, "bit/s (layer 1)"),
            Self::Bits(bits, Layer::Two) => (bits, "bit/s (layer 2)"),
        };
        let number = *micro as f64 / MICRO as f64;
        let (number, prefix) = match number {
            number if number >= 1e9 => (number / 1e9, "G"),
            number if number >= 1e6 => (number / 1e6, "M"),
            number if number >= 1e3 => (number / 1e3, "k"),
            number => (number, ""),
        };
        write!(f, "{number} {prefix}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_rates_exactly() {
        let parse = |text: &str| text.parse::<RateSpec>();
        let rate = |text: &str| parse(text).unwrap().resolve(None).unwrap();
        assert_eq!(rate("14.88Mpps"), Rate::Packets(14_880_000_000_000));
        assert_eq!(rate("500Kpps"), rate("500kpps"));
        assert_eq!(rate("0.5pps"), Rate::Packets(500_000));
        assert_eq!(
            rate("10Gbps"),
            Rate::Bits(10_000_000_000_000_000, Layer::One)
        );
        assert_eq!(
            rate("10Gbit/s@2"),
            Rate::Bits(10_000_000_000_000_000, Layer::Two)
        );
        assert_eq!(
            parse("50%").unwrap().resolve(Some(2_000_000)).unwrap(),
            Rate::Bits(1_000_000, Layer::One)
        );
        assert!(parse("50%").unwrap().resolve(None).is_err());
        for invalid in [
            "",
            "Mpps",
            "14",
            "0Mpps",
            "-1pps",
            "1.2.3pps",
            "10Gbps@3",
            "5pps@2",
            "1e6pps",
            ".pps",
            "99999999999999999999pps",
            "9999999999999Tbps",
            "5 furlongs",
        ] {
            assert!(parse(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn packets_per_second_of_minimum_frames_at_10_gbit() {
        // 10^10 / (84 * 8).
        let rate = Rate::Bits(10_000_000_000 * 1_000_000, Layer::One);
        assert!((rate.packets_per_second(60.0) - 14_880_952.38).abs() < 0.01);
        let rate = Rate::Bits(10_000_000_000 * 1_000_000, Layer::Two);
        assert!((rate.packets_per_second(60.0) - 19_531_250.0).abs() < 0.01);
    }
}
