//! The values of a column as the numbers of the distinct ones.

use super::column::Strings;
use super::dictionary::{Dictionary, Ends, hash_number};
use super::hybrid::GROUP;
use std::ops::Range;

/// Numbers the values of one column after the other.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    /// The number of each value so far.
    pub(super) numbers: Vec<u32>,
    pub(super) distinct: Distinct,
}

/// The distinct values.
#[derive(Debug)]
pub(super) struct Distinct {
    /// Of each number the place of the first value that has it.
    firsts: Vec<usize>,
    /// By a small value its number plus one, 0 where there is none: most are small, and need no hash
    /// then.
    small: Vec<u32>,
    /// Whether there is one.
    has_small: bool,
    dictionary: Dictionary,
    /// Of strings, by their numbers.
    ends: Vec<Ends>,
    /// Whether more hashes collided than values that nobody chose have.
    collided: bool,
}

/// Values below this are small.
const SMALL: usize = 512;

impl Default for Distinct {
    fn default() -> Self {
        Self {
            firsts: Vec::new(),
            small: vec![0; SMALL],
            has_small: false,
            dictionary: Dictionary::default(),
            ends: Vec::new(),
            collided: false,
        }
    }
}

impl Numbering {
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.distinct.clear();
    }

    /// Numbers the values at these places, which follow those before, where `number` is the same for
    /// no two of them; false where that is not worth it, since their hashes collide.
    #[inline(always)]
    pub(super) fn whole_numbers<T: Copy>(
        &mut self,
        values: &[T],
        range: Range<usize>,
        number: impl Fn(T) -> u64,
    ) -> bool {
        let mut at = range.start;
        let (groups, rest) = values.get(range).unwrap_or_default().as_chunks::<GROUP>();
        self.numbers.reserve(groups.len() * GROUP + rest.len());
        let mut find = |value: T, at| {
            let value = number(value);
            let is_it = |first: usize| values.get(first).is_some_and(|&it| number(it) == value);
            self.distinct.whole_number(value, at, is_it)
        };
        for group in groups {
            let first = number(group[0]);
            let differs = group.iter().fold(0, |all, &it| all | (number(it) ^ first));
            let numbers = if differs == 0 {
                [find(group[0], at); GROUP]
            } else {
                std::array::from_fn(|place| find(group[place], at + place))
            };
            self.numbers.extend_from_slice(&numbers);
            at += GROUP;
        }
        for (place, &value) in rest.iter().enumerate() {
            self.numbers.push(find(value, at + place));
        }
        !self.distinct.collided
    }

    /// As [`Numbering::whole_numbers`].
    pub(super) fn strings(&mut self, strings: &Strings, range: Range<usize>) -> bool {
        let mut last = (Ends::NONE, 0..0, None);
        let places = range.clone().zip(strings.places(range));
        self.numbers.extend(places.map(|(at, place)| {
            let ends = strings.ends(&place);
            let is_last = || strings.slice(&place) == strings.slice(&last.1);
            let number = match last.2 {
                Some(number) if ends == last.0 && ends.decide(is_last) => number,
                _ => self.distinct.string(strings, at, &place, ends),
            };
            last = (ends, place, Some(number));
            number
        }));
        !self.distinct.collided
    }
}

impl Distinct {
    fn clear(&mut self) {
        self.firsts.clear();
        self.ends.clear();
        self.dictionary.clear();
        self.collided = false;
        if self.has_small {
            self.small.fill(0);
            self.has_small = false;
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.firsts.len()
    }

    /// Of each the place of the first value that is it.
    pub(super) fn firsts(&self) -> &[usize] {
        &self.firsts
    }

    /// The number of a whole number at this place; `is_it` tells whether that at another is the same.
    #[inline(always)]
    fn whole_number(&mut self, value: u64, at: usize, is_it: impl Fn(usize) -> bool) -> u32 {
        let next = self.firsts.len() as u32;
        let small = usize::try_from(value).ok();
        if let Some(place) = small.and_then(|it| self.small.get_mut(it)) {
            if *place == 0 {
                *place = next + 1;
                self.has_small = true;
                self.firsts.push(at);
            }
            return *place - 1;
        }
        let firsts = &self.firsts;
        let is_it = |known: u32| {
            firsts
                .get(known as usize)
                .is_some_and(|&first| is_it(first))
        };
        let found = self.dictionary.number(hash_number(value), next, is_it);
        self.taken(found, next, at)
    }

    #[inline(always)]
    fn string(&mut self, strings: &Strings, at: usize, place: &Range<usize>, ends: Ends) -> u32 {
        let bytes = strings.slice(place);
        let next = self.firsts.len() as u32;
        let is_it = |known: u32| {
            let known = known as usize;
            let same = || {
                let first = self.firsts.get(known);
                first.is_some_and(|&first| strings.get(first) == bytes)
            };
            self.ends.get(known) == Some(&ends) && ends.decide(same)
        };
        let found = self.dictionary.number(ends.hash(bytes), next, is_it);
        if found == Some(next) {
            self.ends.push(ends);
        }
        self.taken(found, next, at)
    }

    /// The number that was found for the value at this place.
    #[inline(always)]
    fn taken(&mut self, found: Option<u32>, next: u32, at: usize) -> u32 {
        match found {
            Some(number) if number == next => self.firsts.push(at),
            Some(_) => {}
            None => self.collided = true,
        }
        found.unwrap_or_default()
    }
}
