//! The content of a plot. Result files store it, so that a report can be drawn without a new
//! measurement.

use crate::statistics::{Interval, quantile_of_sorted};
use serde::{Deserialize, Deserializer, Serialize};

/// The scale of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Equal steps.
    #[default]
    Linear,
    /// Decades.
    Log10,
    /// Powers of two.
    Log2,
}

/// An axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The quantity and its unit.
    pub label: String,
    /// The scale.
    pub scale: Scale,
    /// Names instead of the numbers 0, 1, 2…; empty for a numeric axis.
    pub categories: Vec<String>,
    /// The least value; from the data if `None`.
    pub least: Option<f64>,
    /// The greatest value; from the data if `None`.
    pub most: Option<f64>,
}

impl Axis {
    /// A linear axis.
    #[must_use]
    pub fn linear(label: &str) -> Self {
        Self {
            label: label.into(),
            ..Self::default()
        }
    }

    /// An axis of decades.
    #[must_use]
    pub fn log10(label: &str) -> Self {
        Self {
            scale: Scale::Log10,
            ..Self::linear(label)
        }
    }

    /// An axis of powers of two.
    #[must_use]
    pub fn log2(label: &str) -> Self {
        Self {
            scale: Scale::Log2,
            ..Self::linear(label)
        }
    }

    /// An axis of names.
    #[must_use]
    pub fn names<S: AsRef<str>>(label: &str, names: impl IntoIterator<Item = S>) -> Self {
        Self {
            categories: names
                .into_iter()
                .map(|name| name.as_ref().to_owned())
                .collect(),
            ..Self::linear(label)
        }
    }

    /// The same starting at zero.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.least = Some(0.0);
        self
    }

    /// The same between two values; NaN: from the data.
    #[must_use]
    pub fn within(mut self, low: f64, high: f64) -> Self {
        self.least = low.is_finite().then_some(low);
        self.most = high.is_finite().then_some(high);
        self
    }
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Points connected by a line.
    #[default]
    Line,
    /// Points only.
    Points,
    /// Bars.
    Bars,
    /// A line without points: a density, a distribution function.
    Curve,
}

/// A point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Horizontal.
    #[serde(deserialize_with = "number_or_nothing")]
    pub x: f64,
    /// Vertical.
    #[serde(deserialize_with = "number_or_nothing")]
    pub y: f64,
    /// The ends of the error bar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<(f64, f64)>,
    /// Whether it is an upper bound, because nothing was observed. Drawn hollow.
    #[serde(default)]
    pub bound: bool,
}

/// JSON has no NaN: it is written as null.
fn number_or_nothing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

impl Point {
    /// A point without an error bar.
    #[must_use]
    pub const fn new(x: f64, y: f64) -> Self {
        Self {
            x,
            y,
            error: None,
            bound: false,
        }
    }

    /// A mean with its interval.
    #[must_use]
    pub fn of(x: f64, interval: Interval) -> Self {
        let error = (interval.low.is_finite() && interval.high.is_finite())
            .then_some((interval.low, interval.high));
        Self {
            error,
            ..Self::new(x, interval.value)
        }
    }

    /// The ratio of `lost` to `offered`; the upper bound if nothing was lost; NaN, which is not drawn, if
    /// nothing was offered.
    #[must_use]
    pub fn ratio(x: f64, lost: u64, offered: u64) -> Self {
        if lost == 0 && offered > 0 {
            Self {
                bound: true,
                ..Self::new(x, crate::statistics::loss_at_most(0, offered))
            }
        } else {
            Self::new(x, lost as f64 / offered as f64)
        }
    }
}

/// A series of points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The name in the legend.
    pub label: String,
    /// How the series is drawn.
    pub kind: Kind,
    /// The points.
    pub points: Vec<Point>,
}

/// The most points of a distribution function.
const STEPS: usize = 200;

impl Series {
    /// Points connected by a line.
    #[must_use]
    pub fn line(label: &str, points: Vec<Point>) -> Self {
        Self::of(label, Kind::Line, points)
    }

    /// Bars.
    #[must_use]
    pub fn bars(label: &str, points: Vec<Point>) -> Self {
        Self::of(label, Kind::Bars, points)
    }

    /// A curve.
    #[must_use]
    pub fn curve(label: &str, points: Vec<Point>) -> Self {
        Self::of(label, Kind::Curve, points)
    }

    /// A series of any kind.
    #[must_use]
    pub fn of(label: &str, kind: Kind, points: Vec<Point>) -> Self {
        Self {
            label: label.into(),
            kind,
            points,
        }
    }

    /// The empirical distribution function of `values`.
    #[must_use]
    pub fn distribution(label: &str, values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let steps = STEPS.min(sorted.len().max(2));
        let points = (0..steps)
            .map(|step| {
                let share = step as f64 / (steps - 1) as f64;
                Point::new(quantile_of_sorted(&sorted, share), share)
            })
            .collect();
        Self::curve(label, points)
    }

    /// The share of values above a value: the complement of the distribution function, for tails. The
    /// last points are single values, so it needs a logarithmic axis.
    #[must_use]
    pub fn survival(label: &str, values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let mut points = Vec::new();
        let mut above = count;
        // Steps that get smaller towards the greatest value.
        while above >= 1 {
            let value = sorted[count - above];
            points.push(Point::new(value, above as f64 / count as f64));
            let next = (above as f64 * 0.93) as usize;
            above = next.min(above - 1);
        }
        Self::curve(label, points)
    }
}

/// A line across the plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// Its meaning.
    pub label: String,
    /// The value at which it crosses the axis.
    pub at: f64,
    /// Whether the line is vertical, at a value of the horizontal axis.
    pub vertical: bool,
}

/// A plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The name, part of the file name.
    pub name: String,
    /// What the plot shows, in a sentence or two.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series.
    pub series: Vec<Series>,
    /// Lines across the plot.
    pub references: Vec<Reference>,
}

impl Figure {
    /// An empty plot.
    #[must_use]
    pub fn new(name: &str, caption: &str, x: Axis, y: Axis) -> Self {
        Self {
            name: name.into(),
            caption: caption.into(),
            x,
            y,
            ..Self::default()
        }
    }

    /// Adds a series.
    #[must_use]
    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds a horizontal line.
    #[must_use]
    pub fn horizontal(mut self, label: &str, at: f64) -> Self {
        self.references.push(Reference {
            label: label.into(),
            at,
            vertical: false,
        });
        self
    }

    /// Adds a vertical line.
    #[must_use]
    pub fn vertical(mut self, label: &str, at: f64) -> Self {
        self.references.push(Reference {
            label: label.into(),
            at,
            vertical: true,
        });
        self
    }
}
