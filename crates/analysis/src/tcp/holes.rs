//! Holes in the sequence numbers: bytes below the highest one that were not seen.

use super::sent::after;

/// Number of holes kept per side.
pub(super) const HOLES: usize = 3;

/// Holes in the order of their sequence numbers: first byte, and byte after the last one. Unused entries
/// are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Holes([[u32; 2]; HOLES]);

/// Returns the part of a hole that is between `from` and `to`.
fn overlap(&[first, last]: &[u32; 2], from: u32, to: u32) -> Option<[u32; 2]> {
    if first == last || !after(to, first) || !after(last, from) {
        return None;
    }
    let start = if after(from, first) { from } else { first };
    let end = if after(last, to) { to } else { last };
    Some([start, end])
}

impl Holes {
    #[inline]
    fn is_hole(hole: &[u32; 2]) -> bool {
        hole[0] != hole[1]
    }

    fn iter(&self) -> impl Iterator<Item = &[u32; 2]> {
        self.0.iter().filter(|hole| Self::is_hole(hole))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Adds a hole. If there is no room, gives up and returns the one with the lowest sequence numbers.
    pub(super) fn insert(&mut self, from: u32, to: u32) -> Option<[u32; 2]> {
        if let Some(free) = self.0.iter().position(|hole| !Self::is_hole(hole)) {
            self.0[free] = [from, to];
            self.sort();
            return None;
        }
        let given_up = if after(self.0[0][0], from) {
            [from, to]
        } else {
            std::mem::replace(&mut self.0[0], [from, to])
        };
        self.sort();
        Some(given_up)
    }

    /// Sorts the holes by sequence number, unused entries last.
    fn sort(&mut self) {
        let base = self
            .iter()
            .map(|hole| hole[0])
            .reduce(|least, from| if after(least, from) { from } else { least });
        let base = base.unwrap_or(0);
        self.0
            .sort_by_key(|hole| (!Self::is_hole(hole), hole[0].wrapping_sub(base)));
    }

    /// Removes the bytes from `from` to `to`. Returns how many of them were in a hole, and the part of a
    /// hole that had to be given up, if any.
    pub(super) fn fill(&mut self, from: u32, to: u32) -> (u32, Option<[u32; 2]>) {
        let mut filled = 0;
        let mut remainder = None;
        for hole in &mut self.0 {
            let [first, last] = *hole;
            let Some([start, end]) = overlap(hole, from, to) else {
                continue;
            };
            filled += end.wrapping_sub(start);
            match (start == first, end == last) {
                (true, _) => hole[0] = end,
                (false, true) => hole[1] = start,
                (false, false) => {
                    hole[1] = start;
                    remainder = Some([end, last]);
                }
            }
        }
        self.sort();
        let given_up = remainder.and_then(|[from, to]| self.insert(from, to));
        (filled, given_up)
    }

    /// Returns whether there is a hole of exactly these bytes.
    pub(super) fn contains(&self, from: u32, to: u32) -> bool {
        self.iter().any(|hole| *hole == [from, to])
    }

    /// Returns whether there is a hole up to `to`.
    pub(super) fn ends_at(&self, to: u32) -> bool {
        self.iter().any(|hole| hole[1] == to)
    }

    /// Removes the bytes below `acknowledged`.
    pub(super) fn remove_below(&mut self, acknowledged: u32) {
        for [from, to] in &mut self.0 {
            if after(acknowledged, *from) {
                *from = if after(*to, acknowledged) {
                    acknowledged
                } else {
                    *to
                };
            }
        }
        self.sort();
    }

    /// Returns the number of bytes in holes below `acknowledged`.
    pub(super) fn bytes_below(&self, acknowledged: u32) -> u64 {
        let part = |&[from, to]: &[u32; 2]| {
            if after(to, acknowledged) {
                acknowledged
                    .wrapping_sub(from)
                    .cast_signed()
                    .max(0)
                    .cast_unsigned()
            } else {
                to.wrapping_sub(from)
            }
        };
        self.iter().map(|hole| u64::from(part(hole))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Compares with a set of bytes, until a hole is given up.
        #[test]
        fn equals_a_set_of_bytes(base: u32, steps in prop::collection::vec((any::<bool>(), 0u32..120, 1u32..30), 1..20)) {
            let mut holes = Holes::default();
            let mut missing = BTreeSet::new();
            let mut highest = 0u32;
            for (add, at, length) in steps {
                if add {
                    let from = highest + at % 40;
                    let given_up = holes.insert(base.wrapping_add(from), base.wrapping_add(from + length));
                    if given_up.is_some() { break; }
                    missing.extend(from..from + length);
                    highest = from + length + 1;
                } else {
                    let (filled, given_up) = holes.fill(base.wrapping_add(at), base.wrapping_add(at + length));
                    let before = missing.len();
                    missing.retain(|&byte| !(at..at + length).contains(&byte));
                    prop_assert_eq!(filled as usize, before - missing.len());
                    if given_up.is_some() { break; }
                }
                let middle = highest / 2;
                prop_assert_eq!(
                    holes.bytes_below(base.wrapping_add(middle)),
                    missing.iter().filter(|&&byte| byte < middle).count() as u64
                );
                prop_assert_eq!(holes.is_empty(), missing.is_empty());
                let mut later = holes;
                later.remove_below(base.wrapping_add(middle));
                prop_assert_eq!(later.bytes_below(base.wrapping_add(middle)), 0);
                prop_assert_eq!(
                    later.bytes_below(base.wrapping_add(highest)),
                    missing.iter().filter(|&&byte| byte >= middle).count() as u64
                );
            }
        }
    }
}
