//! A coordinate for linear, logarithmic and named axes.

use super::figure::{Axis, Scale};
use crate::outcome::number_text;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// The first digits of readable steps between two labels.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];

/// An axis with its ends.
#[derive(Clone, Debug)]
pub(super) struct Coordinate {
    scale: Scale,
    low: f64,
    high: f64,
    categories: Vec<String>,
}

impl Coordinate {
    /// A coordinate for the values on `axis`.
    pub(super) fn new(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        if !axis.categories.is_empty() {
            return Self {
                scale: Scale::Linear,
                low: -0.5,
                high: axis.categories.len() as f64 - 0.5,
                categories: axis.categories.clone(),
            };
        }
        let logarithmic = axis.scale != Scale::Linear;
        let usable = |value: &f64| value.is_finite() && (!logarithmic || *value > 0.0);
        let (mut low, mut high) = values
            .filter(usable)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        (low, high) = match axis.scale {
            Scale::Linear => {
                let room = if high > low {
                    (high - low) * 0.06
                } else {
                    low.abs().max(1.0) * 0.1
                };
                (low - room, high + room)
            }
            Scale::Log10 => (low / 1.6, high * 1.6),
            Scale::Log2 => (low / 1.3, high * 1.3),
        };
        low = axis.least.filter(usable).unwrap_or(low);
        high = axis.most.filter(usable).unwrap_or(high);
        if high <= low {
            high = low + low.abs().max(1.0);
        }
        // A range below a decade would have fewer than two labels.
        if axis.scale == Scale::Log10 && high / low < 10.0 {
            let decade = 10f64.powf(low.log10().floor());
            low = low.min(decade * 0.95);
            high = high.max(decade * 10.5);
        }
        Self {
            scale: axis.scale,
            low,
            high,
            categories: Vec::new(),
        }
    }

    /// The least value.
    pub(super) fn low(&self) -> f64 {
        self.low
    }

    /// The position of a value from 0 to 1; values off the axis are at its ends.
    pub(super) fn share(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log10 | Scale::Log2 => {
                (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
            }
        };
        if share.is_nan() {
            0.0
        } else {
            share.clamp(0.0, 1.0)
        }
    }

    /// The values `base^k × m` on the axis.
    fn powers(&self, base: f64, multiples: &[f64]) -> Vec<f64> {
        let first = self.low.log(base).floor() as i32;
        let last = self.high.log(base).ceil() as i32;
        (first..=last)
            .flat_map(|power| multiples.iter().map(move |times| times * base.powi(power)))
            .filter(|value| (self.low..=self.high).contains(value))
            .collect()
    }

    fn linear(&self, most: usize) -> Vec<f64> {
        let wanted = (self.high - self.low) / most.max(1) as f64;
        let decade = 10f64.powf(wanted.log10().floor());
        let step = STEPS
            .iter()
            .map(|step| step * decade)
            .find(|step| *step >= wanted)
            .unwrap_or(10.0 * decade);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|count| count as f64 * step).collect()
    }
}

impl Ranged for Coordinate {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + ((f64::from(to) - f64::from(from)) * self.share(*value)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let most = hint.max_num_points().min(9);
        if !self.categories.is_empty() {
            return (0..self.categories.len())
                .map(|index| index as f64)
                .collect();
        }
        match self.scale {
            Scale::Linear => self.linear(most),
            Scale::Log2 => {
                let all = self.powers(2.0, &[1.0]);
                let every = all.len().div_ceil(13).max(1);
                all.into_iter().step_by(every).collect()
            }
            Scale::Log10 => {
                let decades = self.powers(10.0, &[1.0]);
                if decades.len() < 3 {
                    return self.powers(10.0, &[1.0, 2.0, 5.0]);
                }
                let every = decades.len().div_ceil(10).max(1);
                decades.into_iter().step_by(every).collect()
            }
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Coordinate {
    fn format_ext(&self, value: &f64) -> String {
        if !self.categories.is_empty() {
            let index = value.round() as usize;
            return self.categories.get(index).cloned().unwrap_or_default();
        }
        match self.scale {
            Scale::Linear => linear_text(*value, self.high - self.low),
            // One notation per axis: powers if its end is high.
            Scale::Log2 if self.high >= 4096.0 => format!("2{}", superscript(value.log2().round())),
            Scale::Log2 => number_text(*value).trim_end_matches(".0").to_owned(),
            Scale::Log10 => {
                let power = value.log10();
                if (power - power.round()).abs() < 1e-9 && !(-2.5..=3.5).contains(&power) {
                    format!("10{}", superscript(power.round()))
                } else {
                    plain(*value)
                }
            }
        }
    }
}

/// Formats a label of a linear axis with the decimals that its steps need.
fn linear_text(value: f64, span: f64) -> String {
    let decimals = (2.0 - span.log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        let short = text.trim_end_matches('0').trim_end_matches('.');
        return if short == "-0" {
            "0".into()
        } else {
            short.into()
        };
    }
    text
}

fn plain(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// Formats a whole number in superscript digits.
fn superscript(number: f64) -> String {
    format!("{number:.0}")
        .chars()
        .map(|digit| match digit {
            '-' => '⁻',
            '0' => '⁰',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            '4' => '⁴',
            '5' => '⁵',
            '6' => '⁶',
            '7' => '⁷',
            '8' => '⁸',
            _ => '⁹',
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::coord::ranged1d::BoldPoints;

    #[test]
    fn decades_have_powers_as_labels_and_equal_distances() {
        let axis = Axis::log10("").within(1e-8, 1.0);
        let coordinate = Coordinate::new(&axis, std::iter::empty());
        assert!((coordinate.share(1e-4) - 0.5).abs() < 1e-9);
        assert_eq!(coordinate.map(&1e-4, (0, 800)), 400);
        assert_eq!(coordinate.map(&0.0, (0, 800)), 0);
        assert_eq!(coordinate.format_ext(&1e-6), "10⁻⁶");
        assert_eq!(coordinate.format_ext(&0.01), "0.01");
        assert_eq!(coordinate.key_points(BoldPoints(10)).len(), 9);
    }

    #[test]
    fn powers_of_two_and_names() {
        let axis = Axis::log2("");
        let coordinate = Coordinate::new(&axis, [256.0, 1_048_576.0].into_iter());
        assert_eq!(coordinate.format_ext(&65_536.0), "2¹⁶");
        assert_eq!(coordinate.format_ext(&256.0), "2⁸");
        let few = Coordinate::new(&axis, [1.0, 256.0].into_iter());
        assert_eq!(few.format_ext(&256.0), "256");
        let names = Coordinate::new(&Axis::names("", ["a", "b"]), std::iter::empty());
        assert_eq!(names.format_ext(&1.0), "b");
        assert_eq!(names.key_points(BoldPoints(10)), [0.0, 1.0]);
    }

    #[test]
    fn linear_labels_are_few_round_numbers() {
        let coordinate = Coordinate::new(&Axis::linear("").from_zero(), [0.0, 61.3].into_iter());
        let points = coordinate.key_points(BoldPoints(9));
        assert_eq!(points, [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(coordinate.format_ext(&10.0), "10");
        assert_eq!(linear_text(0.25, 1.0), "0.25");
        assert_eq!(linear_text(-0.0, 1.0), "0");
    }
}
