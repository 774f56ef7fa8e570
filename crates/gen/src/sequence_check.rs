//! Detects loss, duplicates and reordering from sequence numbers.

/// The number of sequence numbers below the highest that are remembered: 2^20, in 128 KiB.
const WINDOW: u64 = 1 << 20;

const WORDS: usize = (WINDOW / 64) as usize;

/// Detects loss, duplicates and reordering of sequence numbers that were sent as 0, 1, 2, …
///
/// A number below the highest received one is reordered (RFC 4737, section 3.4); the reorder distance
/// is the difference. Counts are exact for numbers within [`SequenceCheck::WINDOW`] of the highest.
/// Older numbers may be duplicates or reordered and are counted as stale.
#[derive(Clone)]
pub struct SequenceCheck {
    /// A bit per number within the window.
    seen: Box<[u64; WORDS]>,
    /// The highest number plus one; 0 before the first.
    next: u64,
    /// The number of packets sent, if known: larger numbers are foreign.
    expected: Option<u64>,
    counts: SequenceCounts,
}

/// Counters of a [`SequenceCheck`]. `received = distinct + duplicates + stale + foreign`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceCounts {
    /// Numbers received.
    pub received: u64,
    /// Distinct numbers.
    pub distinct: u64,
    /// Numbers received before.
    pub duplicates: u64,
    /// Numbers received for the first time, but after a higher one.
    pub reordered: u64,
    /// The maximum reorder distance.
    pub reorder_distance_max: u64,
    /// Numbers below the window, which may be duplicates or reordered.
    pub stale: u64,
    /// Numbers that were never sent.
    pub foreign: u64,
    /// Numbers not received: of all that were sent if this is known, otherwise below the highest.
    /// Up to `stale` of them may have been received as stale numbers.
    pub lost: u64,
}

impl SequenceCheck {
    /// The maximum reorder distance that is recognised.
    pub const WINDOW: u64 = WINDOW;

    /// Creates a check. `expected` is the number of packets sent, if known.
    #[must_use]
    pub fn new(expected: Option<u64>) -> Self {
        Self {
            seen: Box::new([0; WORDS]),
            next: 0,
            expected,
            counts: SequenceCounts::default(),
        }
    }

    /// Records a received number.
    #[inline]
    pub fn record(&mut self, number: u64) {
        self.counts.received += 1;
        if number == u64::MAX || self.expected.is_some_and(|expected| number >= expected) {
            self.counts.foreign += 1;
            return;
        }
        if number >= self.next {
            self.advance(number);
            self.counts.distinct += 1;
            return;
        }
        let distance = self.next - 1 - number;
        if distance >= WINDOW {
            self.counts.stale += 1;
        } else if self.mark_seen(number) {
            self.counts.duplicates += 1;
        } else {
            self.counts.distinct += 1;
            self.counts.reordered += 1;
            self.counts.reorder_distance_max = self.counts.reorder_distance_max.max(distance);
        }
    }

    /// Moves the window so that `number` is the highest.
    fn advance(&mut self, number: u64) {
        if number - self.next >= WINDOW {
            self.seen.fill(0);
        } else {
            for skipped in self.next..number {
                self.seen[word(skipped)] &= !bit(skipped);
            }
        }
        self.seen[word(number)] |= bit(number);
        self.next = number + 1;
    }

    /// Marks `number` as seen. Returns whether it was seen before.
    fn mark_seen(&mut self, number: u64) -> bool {
        let word = &mut self.seen[word(number)];
        let was_seen = *word & bit(number) != 0;
        *word |= bit(number);
        was_seen
    }

    /// Whether all expected numbers were received.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        Some(self.counts.distinct) == self.expected
    }

    /// Returns the counters.
    #[must_use]
    pub fn counts(&self) -> SequenceCounts {
        SequenceCounts {
            lost: self.expected.unwrap_or(self.next) - self.counts.distinct,
            ..self.counts
        }
    }
}

fn word(number: u64) -> usize {
    ((number % WINDOW) / 64) as usize
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn check(numbers: &[u64], expected: Option<u64>) -> SequenceCounts {
        let mut check = SequenceCheck::new(expected);
        for &number in numbers {
            check.record(number);
        }
        check.counts()
    }

    #[test]
    fn counts_each_kind_of_fault() {
        let counts = check(&[0, 1, 3, 2, 5, 5, 9, 7], Some(11));
        assert_eq!(
            counts,
            SequenceCounts {
                received: 8,
                distinct: 7,
                duplicates: 1,
                reordered: 2,
                reorder_distance_max: 2,
                stale: 0,
                foreign: 0,
                lost: 4,
            }
        );
        assert_eq!(check(&[], Some(5)).lost, 5);
        assert_eq!(check(&[], None).lost, 0);
        assert_eq!(check(&[3], None).lost, 3);
        assert_eq!(check(&[0, 7, u64::MAX], Some(5)).foreign, 2);
    }

    #[test]
    fn numbers_below_the_window_are_stale() {
        let counts = check(&[0, WINDOW + 5, 4, 5, 6], None);
        assert_eq!((counts.stale, counts.reordered), (2, 1));
        assert_eq!(counts.lost, WINDOW + 6 - 3);
        // A jump by more than the window clears it.
        let counts = check(&[7, 7 + 3 * WINDOW, 7 + 2 * WINDOW + 1], None);
        assert_eq!((counts.duplicates, counts.reordered), (0, 1));
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(numbers in proptest::collection::vec(0u64..500, 0..800)) {
            let counts = check(&numbers, None);
            let set: HashSet<&u64> = numbers.iter().collect();
            let expected = numbers.iter().max().map_or(0, |highest| highest + 1);
            prop_assert_eq!(counts.received, numbers.len() as u64);
            prop_assert_eq!(counts.distinct, set.len() as u64);
            prop_assert_eq!(counts.duplicates, numbers.len() as u64 - set.len() as u64);
            prop_assert_eq!(counts.lost, expected - set.len() as u64);
            let (mut seen, mut highest, mut reordered) = (HashSet::new(), 0, 0);
            for &number in &numbers {
                if seen.insert(number) && number < highest {
                    reordered += 1;
                }
                highest = highest.max(number);
            }
            prop_assert_eq!(counts.reordered, reordered);
        }
    }
}
