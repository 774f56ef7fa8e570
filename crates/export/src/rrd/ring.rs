//! The sums of the latest intervals: as many as an archive has rows.

use super::measure::Sums;

/// Rows by interval, the oldest making room for the newest.
#[derive(Debug)]
pub(super) struct Ring {
    /// Intervals of the series that a row stands for.
    pub(super) steps: i64,
    rows: Vec<Option<(i64, Sums)>>,
    /// The newest interval, in rows.
    newest: Option<i64>,
    /// That of an earlier run, whose rows take room too.
    earlier: Option<i64>,
    /// The oldest one that was ever added to.
    oldest: Option<i64>,
}

impl Ring {
    pub(super) fn new(steps: i64, rows: usize) -> Self {
        Self {
            steps,
            rows: vec![None; rows],
            newest: None,
            earlier: None,
            oldest: None,
        }
    }

    /// Leaves room for the rows of an earlier run that came as far as to this interval of the series.
    pub(super) fn go_on_from(&mut self, slot: Option<i64>) {
        self.earlier = slot.map(|slot| slot.div_euclid(self.steps));
    }

    /// Rows that it has.
    pub(super) const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Forgets its own rows.
    pub(super) fn clear(&mut self) {
        self.rows.fill(None);
        self.newest = None;
        self.oldest = None;
    }

    /// The newest row's number.
    pub(super) const fn newest(&self) -> Option<i64> {
        self.newest
    }

    /// Whether a row lies between the first one and the last one that were ever added to.
    pub(super) fn covers(&self, number: i64) -> bool {
        self.oldest.is_some_and(|oldest| oldest <= number)
            && self.newest.is_some_and(|newest| number <= newest)
    }

    /// Whether an interval of the series is older than all rows.
    pub(super) fn is_too_old(&self, slot: i64) -> bool {
        self.newest.max(self.earlier).is_some_and(|newest| {
            slot.div_euclid(self.steps) <= newest.saturating_sub(self.rows.len() as i64)
        })
    }

    /// Adds to the row of an interval of the series; one that is older than all rows is let go.
    pub(super) fn add(&mut self, slot: i64, sums: &Sums) {
        if self.is_too_old(slot) {
            return;
        }
        let number = slot.div_euclid(self.steps);
        self.newest = Some(self.newest.map_or(number, |newest| newest.max(number)));
        self.oldest = Some(self.oldest.map_or(number, |oldest| oldest.min(number)));
        let place = number.rem_euclid(self.rows.len() as i64) as usize;
        match self.rows.get_mut(place) {
            Some(Some((found, row))) if *found == number => row.add_all(sums),
            Some(row) => *row = Some((number, *sums)),
            None => {}
        }
    }

    /// The sums of a row, if it has any.
    pub(super) fn row(&self, number: i64) -> Option<&Sums> {
        let place = number.rem_euclid(self.rows.len() as i64) as usize;
        match self.rows.get(place) {
            Some(Some((found, sums))) if *found == number => Some(sums),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::Measure;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Against a map of everything, of which the latest rows count.
        #[test]
        fn keeps_the_latest_rows(slots in proptest::collection::vec(-50_i64..200, 1..200), steps in 1_i64..5) {
            let mut ring = Ring::new(steps, 10);
            let mut all: BTreeMap<i64, f64> = BTreeMap::new();
            let mut newest = i64::MIN;
            for slot in slots {
                let number = slot.div_euclid(steps);
                let too_old = newest != i64::MIN && number <= newest - 10;
                prop_assert_eq!(ring.is_too_old(slot), too_old);
                let mut sums = Sums::default();
                sums.add(Measure::Packets, 1.0);
                ring.add(slot, &sums);
                if !too_old {
                    *all.entry(number).or_default() += 1.0;
                    newest = newest.max(number);
                }
            }
            prop_assert_eq!(ring.newest(), Some(newest));
            for number in newest - 9..=newest {
                let expected = all.get(&number).copied();
                prop_assert_eq!(ring.row(number).map(|sums| sums.get(Measure::Packets)), expected);
            }
        }
    }
}
