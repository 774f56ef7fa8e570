//! The selection of statistics, parsed from a list on the command line.

use super::{LogLinear, Moments, PSquare, Statistic, Value, moments};
use crate::record::Column;
use crate::table::Outputs;
use analysis::Level;
use hw::lines::Rows;
use std::fmt;
use std::str::FromStr;

/// The method by which percentiles are estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Estimator {
    /// A histogram of one cache line per flow, for all percentiles of a value.
    #[default]
    LogLinear,
    /// The five markers of Jain and Chlamtac, in one cache line per flow and percentile.
    PSquare,
}

impl Estimator {
    /// All estimators, the default first.
    pub const ALL: [Self; 2] = [Self::LogLinear, Self::PSquare];

    /// Returns the name on the command line.
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

/// An invalid list of statistics.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// An unknown statistic.
    #[error(
        "unknown statistic `{0}`: expected count, moments, size, iat, gap, gap-mean, \
         size-percentile=P/P…, iat-percentile=P/P…, gap-percentile=P/P…, tcp, app or full"
    )]
    Statistic(String),
    /// A percentile that is missing or not a number from 0 to 100.
    #[error(
        "invalid percentile `{0}`: expected numbers from 0 to 100, as in `gap-percentile=50/99/99.9`"
    )]
    Percentile(String),
    /// An unknown estimator.
    #[error("unknown estimator `{0}`: expected log-linear or psquare")]
    Estimator(String),
}

/// The selected statistics. Packets and bytes are always counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Values whose minimum, mean, standard deviation and maximum are computed.
    pub moments: Vec<Value>,
    /// Whether the mean of the gap is computed without the other moments. It follows from the numbers
    /// of the first and the last packet and the packet count, so it costs nothing per packet.
    pub gap_mean: bool,
    /// Percentiles (0 to 100) to estimate.
    pub percentiles: Vec<(Value, f64)>,
    /// The estimator of percentiles.
    pub estimator: Estimator,
    /// The analysis of each flow, if any.
    pub analysis: Option<Level>,
}

impl Selection {
    /// Parses a list such as `count,moments,gap-percentile=50/99/99.9`.
    ///
    /// Duplicates are dropped. Columns have the order of the list, except that `gap-mean` and then
    /// moments come first, and the percentiles of a value are together.
    ///
    /// # Errors
    /// If the list contains an unknown statistic or an invalid percentile.
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
                    selection.analysis = Some(Level::union(selection.analysis, level));
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
        // The moments of the gap include its mean, in a column of the same name.
        selection.gap_mean &= !selection.moments.contains(&Value::Gap);
        Ok(selection)
    }

    /// Returns the columns that follow each flow's counts, in order.
    #[must_use]
    pub fn columns(&self) -> Vec<Column> {
        let mean = self.gap_mean.then(|| moments::mean_column(Value::Gap));
        let statistics = self.build(&mut Rows::default());
        let columns = statistics
            .iter()
            .flat_map(|(_, statistic)| statistic.columns());
        mean.into_iter().chain(columns).collect()
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

    /// Returns whether any statistic uses gaps. Gaps depend on the order in which packets are
    /// processed, and on the thread that numbers them.
    #[must_use]
    pub fn needs_gaps(&self) -> bool {
        self.gap_mean || self.table_outputs().gaps
    }

    /// Returns what the table must compute for each packet.
    #[must_use]
    pub fn table_outputs(&self) -> Outputs {
        let percentiles = self.percentiles.iter().map(|(value, _)| value);
        let values = self.moments.iter().chain(percentiles);
        let uses = |used| values.clone().any(|value| *value == used);
        Outputs {
            numbers: self.gap_mean,
            gaps: uses(Value::Gap),
            inter_arrival: uses(Value::InterArrivalTime),
        }
    }

    /// Creates the statistics, each with its input value. Each takes a column of `rows` for its states.
    #[must_use]
    pub fn build(&self, rows: &mut Rows) -> Vec<(Value, Box<dyn Statistic>)> {
        let mut statistics: Vec<(Value, Box<dyn Statistic>)> = Vec::new();
        for &value in &self.moments {
            statistics.push((value, Box::new(Moments::new(value, rows.take_column()))));
        }
        for (at, &(value, _)) in self.percentiles.iter().enumerate() {
            if self.percentiles[..at]
                .iter()
                .any(|(other, _)| *other == value)
            {
                continue;
            }
            let of_value = self.percentiles.iter().filter(|(other, _)| *other == value);
            let percentiles: Vec<f64> = of_value.map(|(_, percentile)| *percentile).collect();
            match self.estimator {
                Estimator::LogLinear => {
                    let histogram = LogLinear::new(value, &percentiles, rows.take_column());
                    statistics.push((value, Box::new(histogram)));
                }
                Estimator::PSquare => {
                    for percentile in percentiles {
                        let markers = PSquare::new(value, percentile, rows.take_column());
                        statistics.push((value, Box::new(markers)));
                    }
                }
            }
        }
        statistics
    }
}

fn percentile(number: &str) -> Result<f64, SelectionError> {
    let error = || SelectionError::Percentile(number.to_owned());
    // Only digits and a point: Rust also parses `inf`, `1e1` and signs, which do not fit a column name.
    if !number
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return Err(error());
    }
    let percentile: f64 = number.parse().map_err(|_| error())?;
    if percentile <= 100.0 {
        Ok(percentile)
    } else {
        Err(error())
    }
}
