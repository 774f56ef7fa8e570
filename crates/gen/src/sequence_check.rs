//! Sequence numbers at the receiver: what was lost, came twice, or came late.

/// Numbers that are remembered behind the highest: 2^20, in 128 KiB.
const WINDOW: u64 = 1 << 20;

const WORDS: usize = (WINDOW / 64) as usize;

/// Tells loss, duplication and reordering of numbers that were sent as 0, 1, 2, …
///
/// A number below one that has come already is reordered (RFC 4737, section 3.4), by as much as lies
/// between them. Exact for numbers within [`SequenceCheck::WINDOW`] of the highest; what comes later
/// than that may be a duplicate or reordered, and is counted apart.
#[derive(Clone)]
pub struct SequenceCheck {
    seen: Box<[u64; WORDS]>,
    /// One more than the highest number, 0 before the first.
    next: u64,
    /// Numbers that were sent: those above are not of this stream.
    expected: Option<u64>,
    counts: SequenceCounts,
}

/// What a [`SequenceCheck`] has counted. `received = distinct + duplicates + stale + foreign`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceCounts {
    /// Numbers that came.
    pub received: u64,
    /// Different ones.
    pub distinct: u64,
    /// Numbers that had come before.
    pub duplicates: u64,
    /// Numbers that came after a higher one, for the first time.
    pub reordered: u64,
    /// The furthest that one of these was behind.
    pub reorder_distance_max: u64,
    /// Numbers too far behind to tell whether they had come before.
    pub stale: u64,
    /// Numbers that were never sent.
    pub foreign: u64,
    /// Numbers that did not come: of all that were sent where that is known, else below the highest.
    /// Up to `stale` too many where some are stale.
    pub lost: u64,
}

impl SequenceCheck {
    /// How far behind the highest a number may come.
    pub const WINDOW: u64 = WINDOW;

    /// Before the first number. `expected`: how many were sent, where that is known.
    #[must_use]
    pub fn new(expected: Option<u64>) -> Self {
        Self {
            seen: Box::new([0; WORDS]),
            next: 0,
            expected,
            counts: SequenceCounts::default(),
        }
    }

    /// A number came.
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
        let behind = self.next - 1 - number;
        if behind >= WINDOW {
            self.counts.stale += 1;
        } else if self.mark_seen(number) {
            self.counts.duplicates += 1;
        } else {
            self.counts.distinct += 1;
            self.counts.reordered += 1;
            self.counts.reorder_distance_max = self.counts.reorder_distance_max.max(behind);
        }
    }

    /// Makes `number` the highest.
    fn advance(&mut self, number: u64) {
        if number - self.next >= WINDOW {
            self.seen.fill(0);
        } else {
            for between in self.next..number {
                self.seen[word(between)] &= !bit(between);
            }
        }
        self.seen[word(number)] |= bit(number);
        self.next = number + 1;
    }

    /// Remembers `number`; whether it was remembered before.
    fn mark_seen(&mut self, number: u64) -> bool {
        let word = &mut self.seen[word(number)];
        let was = *word & bit(number) != 0;
        *word |= bit(number);
        was
    }

    /// Whether all that were sent have come.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        Some(self.counts.distinct) == self.expected
    }

    /// What was counted so far.
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
    fn each_fault_is_told_from_the_others() {
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
    fn what_is_older_than_the_window_is_counted_apart() {
        let counts = check(&[0, WINDOW + 5, 4, 5, 6], None);
        assert_eq!((counts.stale, counts.reordered), (2, 1));
        assert_eq!(counts.lost, WINDOW + 6 - 3);
        // A jump over the whole window leaves nothing of what stood there.
        let counts = check(&[7, 7 + 3 * WINDOW, 7 + 2 * WINDOW + 1], None);
        assert_eq!((counts.duplicates, counts.reordered), (0, 1));
    }

    proptest! {
        #[test]
        fn as_a_set_would_tell(numbers in proptest::collection::vec(0u64..500, 0..800)) {
            let counts = check(&numbers, None);
            let set: HashSet<&u64> = numbers.iter().collect();
            let highest = numbers.iter().max().map_or(0, |highest| highest + 1);
            prop_assert_eq!(counts.received, numbers.len() as u64);
            prop_assert_eq!(counts.distinct, set.len() as u64);
            prop_assert_eq!(counts.duplicates, numbers.len() as u64 - set.len() as u64);
            prop_assert_eq!(counts.lost, highest - set.len() as u64);
            let (mut seen, mut most, mut reordered) = (HashSet::new(), 0, 0);
            for &number in &numbers {
                if seen.insert(number) && number < most {
                    reordered += 1;
                }
                most = most.max(number);
            }
            prop_assert_eq!(counts.reordered, reordered);
        }
    }
}
