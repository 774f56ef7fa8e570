//! Which statistics: the list of the command line.

use super::{LogLinear, Moments, PSquare, Statistic, Value, moments};
use crate::record::Column;
use crate::table::Wanted;
use analysis::Level;
use hw::lines::Rows;
use std::fmt;
use std::str::FromStr;

/// How percentiles are estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Estimator {
    /// A histogram of one cache line a flow, for all percentiles of a value together.
    #[default]
    LogLinear,
    /// The five markers of Jain and Chlamtac, a cache line a flow and percentile.
    PSquare,
}

impl Estimator {
    /// All of them, the default first.
    pub const ALL: [Self; 2] = [Self::LogLinear, Self::PSquare];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LogLinear => "log-linear",
            Self::PSquare => "psquare",
        }
    }
}

impl fmt::Display for Estimator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Estimator {
    type Err = SelectionError;

    fn from_str(name: &str) -> Result<Self, SelectionError> {
        Self::ALL
            .into_iter()
            .find(|estimator| estimator.name() == name)
            .ok_or_else(|| SelectionError::Estimator(name.to_owned()))
    }
}

/// A list of statistics that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// A word that is no statistic.
    #[error(
        "no statistic is called `{0}`: there are count, moments, size, iat, gap, gap-mean, \
         size-percentile=P/P…, iat-percentile=P/P…, gap-percentile=P/P…, and tcp, app, full"
    )]
    Statistic(String),
    /// A percentile without its number, or with what is none.
    #[error(
        "`{0}` is no percentile: give numbers from 0 to 100, as in `gap-percentile=50/99/99.9`"
    )]
    Percentile(String),
    /// No such estimator.
    #[error("no estimator is called `{0}`: there are log-linear and psquare")]
    Estimator(String),
}

/// The chosen statistics; packets and bytes are always counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Values whose minimum, mean, standard deviation and maximum are kept.
    pub moments: Vec<Value>,
    /// Whether the mean of the gap is told though its moments are not kept: the first and the last
    /// packet's numbers and the count of packets give it, for nothing a packet.
    pub gap_mean: bool,
    /// Percentiles, 0 to 100, that are estimated.
    pub percentiles: Vec<(Value, f64)>,
    /// How.
    pub estimator: Estimator,
    /// The analysis of each flow, if any.
    pub analysis: Option<Level>,
}

impl Selection {
    /// Reads a list such as `count,moments,gap-percentile=50/99/99.9`. What is named twice is kept
    /// once; the order of columns is that of the list, `gap-mean` and then moments first, and the
    /// percentiles of a value together.
    ///
    /// # Errors
    /// [`SelectionError`] says which word is wrong and what there is.
    pub fn parse(list: &str, estimator: Estimator) -> Result<Self, SelectionError> {
        let mut selection = Self {
            estimator,
            ..Self::default()
        };
        for word in list.split(',').map(str::trim) {
            match word.split_once('=') {
                Some((name, numbers)) => {
                    let value = name
                        .strip_suffix("-percentile")
                        .and_then(|name| name.parse().ok());
                    let value = value.ok_or_else(|| SelectionError::Statistic(word.to_owned()))?;
                    for number in numbers.split('/') {
                        selection.add_percentile(value, percentile(number)?);
                    }
                }
                None if word == "count" => {}
                None if word == "gap-mean" => selection.gap_mean = true,
                None if let Some(level) = Level::by_name(word) => {
                    selection.analysis = Some(Level::both(selection.analysis, level));
                }
                None if word == "moments" => {
                    Value::ALL
                        .into_iter()
                        .for_each(|value| selection.add_moments(value));
                }
                None if word.ends_with("-percentile") => {
                    return Err(SelectionError::Percentile(word.to_owned()));
                }
                None => {
                    let value = word.parse();
                    selection.add_moments(
                        value.map_err(|_| SelectionError::Statistic(word.to_owned()))?,
                    );
                }
            }
        }
        // They have it, by the same name.
        selection.gap_mean &= !selection.moments.contains(&Value::Gap);
        Ok(selection)
    }

    /// What is told of each flow behind its counts, in this order.
    #[must_use]
    pub fn columns(&self) -> Vec<Column> {
        let mean = self.gap_mean.then(|| moments::mean_column(Value::Gap));
        let kept = self.build(&mut Rows::default());
        let kept = kept.iter().flat_map(|(_, statistic)| statistic.columns());
        mean.into_iter().chain(kept).collect()
    }

    fn add_moments(&mut self, value: Value) {
        if !self.moments.contains(&value) {
            self.moments.push(value);
        }
    }

    fn add_percentile(&mut self, value: Value, percentile: f64) {
        if !self.percentiles.contains(&(value, percentile)) {
            self.percentiles.push((value, percentile));
        }
    }

    /// Whether anything told of a flow counts the packets between its own: it depends on the order in
    /// which packets are processed, and on who numbers them.
    #[must_use]
    pub fn tells_gaps(&self) -> bool {
        self.gap_mean || self.wanted().gaps
    }

    /// What the table has to tell of each packet.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        let percentiles = self.percentiles.iter().map(|(value, _)| value);
        let values = self.moments.iter().chain(percentiles);
        let wants = |wanted| values.clone().any(|value| *value == wanted);
        Wanted {
            numbers: self.gap_mean,
            gaps: wants(Value::Gap),
            inter_arrival: wants(Value::InterArrivalTime),
        }
    }

    /// The statistics, each with the value that it is fed and a column of `rows` for its flows.
    #[must_use]
    pub fn build(&self, rows: &mut Rows) -> Vec<(Value, Box<dyn Statistic>)> {
        let mut statistics: Vec<(Value, Box<dyn Statistic>)> = Vec::new();
        for &value in &self.moments {
            statistics.push((value, Box::new(Moments::new(value, rows.take()))));
        }
        for (at, &(value, _)) in self.percentiles.iter().enumerate() {
            if self.percentiles[..at].iter().any(|(of, _)| *of == value) {
                continue;
            }
            let of_value = self.percentiles.iter().filter(|(of, _)| *of == value);
            let percentiles: Vec<f64> = of_value.map(|(_, percentile)| *percentile).collect();
            match self.estimator {
                Estimator::LogLinear => {
                    let histogram = LogLinear::new(value, &percentiles, rows.take());
                    statistics.push((value, Box::new(histogram)));
                }
                Estimator::PSquare => {
                    for percentile in percentiles {
                        let markers = PSquare::new(value, percentile, rows.take());
                        statistics.push((value, Box::new(markers)));
                    }
                }
            }
        }
        statistics
    }
}

fn percentile(number: &str) -> Result<f64, SelectionError> {
    let refuse = || SelectionError::Percentile(number.to_owned());
    // Digits and a point only: `inf`, `1e1` and a sign are numbers to Rust, not to a column's name.
    if !number
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return Err(refuse());
    }
    let percentile: f64 = number.parse().map_err(|_| refuse())?;
    if percentile <= 100.0 {
        Ok(percentile)
    } else {
        Err(refuse())
    }
}
