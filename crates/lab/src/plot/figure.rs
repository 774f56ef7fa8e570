//! What a plot shows, apart from how it is drawn: kept in result files, so that a report can be
//! drawn without measuring again.

use crate::statistics::{Interval, quantile_of_sorted};
use serde::{Deserialize, Deserializer, Serialize};

/// How an axis is divided.
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
    /// What stands on it, with its unit.
    pub label: String,
    /// How it is divided.
    pub scale: Scale,
    /// Names in the place of numbers 0, 1, 2…; empty for numbers.
    pub categories: Vec<String>,
    /// Least value; as the data want it where there is none.
    pub least: Option<f64>,
    /// Greatest value; as the data want it where there is none.
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

    /// The same from zero on.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.least = Some(0.0);
        self
    }

    /// The same between two values; NaN leaves one to the data.
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
    /// Points joined by a line.
    #[default]
    Line,
    /// Points alone.
    Points,
    /// Bars.
    Bars,
    /// A line without points: a density, a distribution function.
    Curve,
}

/// A point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Along.
    #[serde(deserialize_with = "number_or_nothing")]
    pub x: f64,
    /// Up.
    #[serde(deserialize_with = "number_or_nothing")]
    pub y: f64,
    /// Ends of its error bar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<(f64, f64)>,
    /// Whether it is an upper bound: nothing was seen, and this is what that shows. Drawn hollow.
    #[serde(default)]
    pub bound: bool,
}

/// JSON has no number for what is none.
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

    /// A ratio of `lost` to `offered`; where nothing was lost, the bound that this sets; of nothing
    /// offered, no point that is drawn.
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
    /// Its name in the legend.
    pub label: String,
    /// How it is drawn.
    pub kind: Kind,
    /// Its points.
    pub points: Vec<Point>,
}

/// Points that a distribution function is drawn with at most.
const STEPS: usize = 200;

impl Series {
    /// Points joined by a line.
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

    /// Of any kind.
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

    /// What remains above a value: the complement of the distribution function, for tails. Its last
    /// points are single values, so it needs a logarithmic axis.
    #[must_use]
    pub fn survival(label: &str, values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let mut points = Vec::new();
        let mut above = count;
        // Places closer and closer to the greatest value.
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
    /// What it stands for.
    pub label: String,
    /// Where it crosses the axis.
    pub at: f64,
    /// Whether it is upright, at a value of the horizontal axis.
    pub upright: bool,
}

/// A plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name in the name of its file.
    pub name: String,
    /// What it shows, in a sentence or two.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
    /// Lines across.
    pub references: Vec<Reference>,
}

impl Figure {
    /// A plot without anything in it.
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

    /// Adds a level line.
    #[must_use]
    pub fn level(mut self, label: &str, at: f64) -> Self {
        self.references.push(Reference {
            label: label.into(),
            at,
            upright: false,
        });
        self
    }

    /// Adds an upright line.
    #[must_use]
    pub fn upright(mut self, label: &str, at: f64) -> Self {
        self.references.push(Reference {
            label: label.into(),
            at,
            upright: true,
        });
        self
    }
}
