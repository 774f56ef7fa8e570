//! The sums of the latest intervals, one for each row of an archive.

use super::series::Sums;

/// Intervals per row and number of rows of each archive. With intervals of a minute: a day, a week
/// in rows of a quarter of an hour, and a year in rows of four hours.
pub(super) const ARCHIVES: [(u32, usize); 3] = [(1, 1440), (15, 672), (240, 2190)];

/// A ring of rows; new rows replace the oldest.
#[derive(Debug)]
pub(super) struct Ring {
    /// Intervals of the series per row.
    pub(super) steps: i64,
    rows: Vec<Option<(i64, Sums)>>,
    /// Number of the newest row.
    newest: Option<i64>,
    /// Number of the newest row of an earlier run, whose rows take room too.
    earlier_newest: Option<i64>,
    /// Number of the oldest row that ever got data.
    oldest: Option<i64>,
}

impl Ring {
    pub(super) fn new(steps: i64, rows: usize) -> Self {
        Self {
            steps,
            rows: vec![None; rows],
            newest: None,
            earlier_newest: None,
            oldest: None,
        }
    }

    /// Reserves room for the rows of an earlier run that ended with this interval of the series.
    pub(super) fn continue_from(&mut self, interval: Option<i64>) {
        self.earlier_newest = interval.map(|interval| interval.div_euclid(self.steps));
    }

    /// Number of rows.
    pub(super) const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Clears the rows of this run.
    pub(super) fn clear(&mut self) {
        self.rows.fill(None);
        self.newest = None;
        self.oldest = None;
    }

    /// Number of the newest row.
    pub(super) const fn newest(&self) -> Option<i64> {
        self.newest
    }

    /// Whether a row is between the oldest and the newest one that got data.
    pub(super) fn covers(&self, number: i64) -> bool {
        self.oldest.is_some_and(|oldest| oldest <= number)
            && self.newest.is_some_and(|newest| number <= newest)
    }

    /// Whether an interval of the series is older than all rows.
    pub(super) fn is_too_old(&self, interval: i64) -> bool {
        self.newest.max(self.earlier_newest).is_some_and(|newest| {
            interval.div_euclid(self.steps) <= newest.saturating_sub(self.rows.len() as i64)
        })
    }

    /// Adds to the row of an interval of the series. Ignores intervals older than all rows.
    pub(super) fn add(&mut self, interval: i64, sums: &Sums) {
        if self.is_too_old(interval) {
            return;
        }
        let number = interval.div_euclid(self.steps);
        self.newest = Some(self.newest.map_or(number, |newest| newest.max(number)));
        self.oldest = Some(self.oldest.map_or(number, |oldest| oldest.min(number)));
        let index = number.rem_euclid(self.rows.len() as i64) as usize;
        match self.rows.get_mut(index) {
            Some(Some((found, row))) if *found == number => row.add_all(sums),
            Some(row) => *row = Some((number, *sums)),
            None => {}
        }
    }

    /// Returns the sums of a row, if it has data.
    pub(super) fn row(&self, number: i64) -> Option<&Sums> {
        let index = number.rem_euclid(self.rows.len() as i64) as usize;
        match self.rows.get(index) {
            Some(Some((found, sums))) if *found == number => Some(sums),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::series::Counter;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Compared with a map of all rows.
        #[test]
        fn keeps_the_latest_rows(intervals in proptest::collection::vec(-50_i64..200, 1..200), steps in 1_i64..5) {
            let mut ring = Ring::new(steps, 10);
            let mut all: BTreeMap<i64, f64> = BTreeMap::new();
            let mut newest = i64::MIN;
            for interval in intervals {
                let number = interval.div_euclid(steps);
                let too_old = newest != i64::MIN && number <= newest - 10;
                prop_assert_eq!(ring.is_too_old(interval), too_old);
                let mut sums = Sums::default();
                sums.add(Counter::Packets, 1.0);
                ring.add(interval, &sums);
                if !too_old {
                    *all.entry(number).or_default() += 1.0;
                    newest = newest.max(number);
                }
            }
            prop_assert_eq!(ring.newest(), Some(newest));
            for number in newest - 9..=newest {
                let expected = all.get(&number).copied();
                prop_assert_eq!(ring.row(number).map(|sums| sums.get(Counter::Packets)), expected);
            }
        }
    }
}
