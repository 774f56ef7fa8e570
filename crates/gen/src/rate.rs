//! How fast: packets or bits a second, or a part of a link.

use crate::error::GeneratorError;
use crate::sizes::{FCS_BYTES, WIRE_OVERHEAD};
use std::fmt;
use std::str::FromStr;

/// Parts of a unit that rates are kept in: a rate is exact to a millionth of a packet or bit a second.
const MICRO: u64 = 1_000_000;

/// Which bits of a frame a bit rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// All that a frame takes on the wire: preamble, frame, check sequence, gap (20 bytes more than
    /// the frame's size).
    One,
    /// The frame with its check sequence: its size.
    Two,
}

impl Layer {
    /// Bytes that count besides the frame without its check sequence.
    #[must_use]
    pub const fn overhead(self) -> usize {
        match self {
            Self::One => FCS_BYTES + WIRE_OVERHEAD,
            Self::Two => FCS_BYTES,
        }
    }
}

/// A rate, in millionths so that it is kept exactly as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Packets a second, times 10^6.
    Packets(u128),
    /// Bits a second, times 10^6, of a layer.
    Bits(u128, Layer),
}

/// A rate as it is written: `14.88Mpps`, `10Gbps`, `10Gbps@2`, `50%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateSpec {
    /// It says all.
    Rate(Rate),
    /// Millionths of a per cent of a link's speed, at layer 1.
    Percent(u128),
}

impl RateSpec {
    /// The rate, with per cent taken of a link of so many bits a second (times 10^6).
    ///
    /// # Errors
    /// Per cent of a link whose speed nobody said.
    pub fn resolve(self, speed: Option<u128>) -> Result<Rate, GeneratorError> {
        match (self, speed) {
            (Self::Rate(rate), _) => Ok(rate),
            (Self::Percent(percent), Some(speed)) => {
                let bits = speed
                    .checked_mul(percent)
                    .map(|product| product / (100 * u128::from(MICRO)));
                match bits {
                    Some(bits) if bits > 0 => Ok(Rate::Bits(bits, Layer::One)),
                    _ => Err(GeneratorError::new(
                        "this part of the link's speed is no rate",
                    )),
                }
            }
            (Self::Percent(_), None) => Err(GeneratorError::new(
                "a rate in per cent needs the link's speed: --link-speed 10Gbps",
            )),
        }
    }
}

impl FromStr for RateSpec {
    type Err = GeneratorError;

    fn from_str(text: &str) -> Result<Self, GeneratorError> {
        let wrong = || {
            GeneratorError::new(format!(
                "'{text}' is no rate: write 14.88Mpps, 500Kpps, 10Gbps (layer 1), 10Gbps@2 (layer 2) or 50%"
            ))
        };
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;
        let (number, unit) = text.split_at(end);
        let number = micro(number).ok_or_else(wrong)?;
        let unit = unit.trim();
        if unit == "%" {
            return Ok(Self::Percent(number));
        }
        let (unit, layer) = match unit.split_once('@') {
            None => (unit, None),
            Some((unit, "1")) => (unit, Some(Layer::One)),
            Some((unit, "2")) => (unit, Some(Layer::Two)),
            Some(_) => return Err(wrong()),
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
            .ok_or_else(wrong)?;
        match (unit, layer) {
            ("pps", None) => Ok(Self::Rate(Rate::Packets(number))),
            ("bps" | "bit/s", layer) => {
                Ok(Self::Rate(Rate::Bits(number, layer.unwrap_or(Layer::One))))
            }
            _ => Err(wrong()),
        }
    }
}

/// A decimal number above 0, times 10^6; more than six places are no rate that anybody means.
fn micro(text: &str) -> Option<u128> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 6 || (whole.is_empty() && part.is_empty()) {
        return None;
    }
    let digits = format!("{whole}{part:0<6}");
    digits
        .parse::<u64>()
        .ok()
        .map(u128::from)
        .filter(|&number| number > 0)
}

impl Rate {
    /// Packets a second, for frames of this mean length (without the check sequence).
    #[must_use]
    pub fn packets_per_second(self, mean_length: f64) -> f64 {
        match self {
            Self::Packets(packets) => packets as f64 / MICRO as f64,
            Self::Bits(bits, layer) => {
                bits as f64 / MICRO as f64 / 8.0 / (mean_length + layer.overhead() as f64)
            }
        }
    }

    /// Time a packet and time a byte of a frame without its check sequence, in units of 2^-64 ticks,
    /// for so many ticks a second.
    pub(crate) fn intervals(self, ticks_per_second: u64) -> (u128, u128) {
        // 2^64 ticks-per-second is below 2^98 for 16 GHz; 10^6 makes it 2^118.
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
    fn rates_are_read_exactly() {
        let read = |text: &str| text.parse::<RateSpec>();
        let rate = |text: &str| read(text).unwrap().resolve(None).unwrap();
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
            read("50%").unwrap().resolve(Some(2_000_000)).unwrap(),
            Rate::Bits(1_000_000, Layer::One)
        );
        assert!(read("50%").unwrap().resolve(None).is_err());
        for wrong in [
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
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ten_gigabits_of_the_smallest_frames() {
        // 10^10 / (84 * 8), as every paper of the field has it.
        let rate = Rate::Bits(10_000_000_000 * 1_000_000, Layer::One);
        assert!((rate.packets_per_second(60.0) - 14_880_952.38).abs() < 0.01);
        let rate = Rate::Bits(10_000_000_000 * 1_000_000, Layer::Two);
        assert!((rate.packets_per_second(60.0) - 19_531_250.0).abs() < 0.01);
    }
}
