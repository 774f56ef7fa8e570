//! A list of analyses whose places are used again.

use super::Analysis;
use hw::prefetch;
use std::fmt;
use std::iter;
use std::ops::{Deref, DerefMut};

/// What was found of flows, one behind the other. An analysis is more than a kilobyte and holds memory
/// of its own, so the list is emptied by forgetting how many there are: what is next is written where
/// the last one of the place lies, whose texts are given back then, by the thread that takes memory for
/// those of the next.
#[derive(Default)]
pub struct Analyses {
    places: Vec<Analysis>,
    /// How many of the places are in the list.
    count: usize,
}

impl Analyses {
    /// An empty list that has so many places, whose memory is taken.
    #[must_use]
    pub fn populated(places: usize) -> Self {
        let mut list = Self::default();
        list.places.resize_with(places, Analysis::default);
        list
    }

    /// Empties the list.
    pub const fn clear(&mut self) {
        self.count = 0;
    }

    /// Appends one.
    pub fn push(&mut self, analysis: Analysis) {
        self.places.truncate(self.count);
        self.places.push(analysis);
        self.count += 1;
    }

    /// Appends one where the last one of the next place lies, by writing over it, or as it is `made`
    /// where none lies there. The place behind it is asked for.
    #[inline]
    pub fn next_place(
        &mut self,
        made: impl FnOnce() -> Analysis,
        write_over: impl FnOnce(&mut Analysis),
    ) -> &mut Analysis {
        let at = self.count;
        self.count += 1;
        match self.places.get_mut(at) {
            Some(place) => write_over(place),
            // An iterator writes to its place what `push` would put together before.
            None => self.places.extend(iter::once_with(made)),
        }
        let places = &mut self.places[..=at];
        prefetch::place_behind(places);
        &mut places[at]
    }

    /// Moves all of `other` behind those that are here.
    pub fn append(&mut self, other: &mut Self) {
        self.places.truncate(self.count);
        self.places.extend(other.places.drain(..other.count));
        self.count = self.places.len();
        other.count = 0;
    }

    /// Takes the memory of so many places, so that none is moved while they are filled.
    pub fn reserve_places(&mut self, places: usize) {
        self.places
            .reserve_exact(places.saturating_sub(self.places.len()));
    }

    /// How many there may be before they are moved.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.places.capacity()
    }
}

impl Deref for Analyses {
    type Target = [Analysis];

    fn deref(&self) -> &[Analysis] {
        &self.places[..self.count]
    }
}

impl DerefMut for Analyses {
    fn deref_mut(&mut self) -> &mut [Analysis] {
        &mut self.places[..self.count]
    }
}

impl From<Vec<Analysis>> for Analyses {
    fn from(places: Vec<Analysis>) -> Self {
        let count = places.len();
        Self { places, count }
    }
}

impl Clone for Analyses {
    fn clone(&self) -> Self {
        self.to_vec().into()
    }
}

impl fmt::Debug for Analyses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for &'a Analyses {
    type Item = &'a Analysis;
    type IntoIter = std::slice::Iter<'a, Analysis>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Analyses {
    type Item = &'a mut Analysis;
    type IntoIter = std::slice::IterMut<'a, Analysis>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(flow_id: u64) -> Analysis {
        Analysis {
            flow_id,
            ..Analysis::default()
        }
    }

    fn numbers(list: &Analyses) -> Vec<u64> {
        list.iter().map(|it| it.flow_id).collect()
    }

    #[test]
    fn places_are_used_again_and_what_lies_there_is_not_in_the_list() {
        let mut list = Analyses::populated(2);
        assert!(list.is_empty() && list.capacity() >= 2);
        list.push(numbered(1));
        list.push(numbered(2));
        list.push(numbered(3));
        assert_eq!(numbers(&list), [1, 2, 3]);
        list.clear();
        assert!(list.is_empty() && list.clone().is_empty() && list.capacity() >= 3);
        assert_eq!(format!("{list:?}"), "[]");
        list.next_place(|| numbered(0), |place| place.flow_id += 6);
        assert_eq!(numbers(&list), [7]);
        let mut empty = Analyses::default();
        empty.next_place(|| numbered(5), |_| panic!("nothing lies there"));
        assert_eq!(numbers(&empty), [5]);
        let mut other = Analyses::from(vec![numbered(8)]);
        other.append(&mut list);
        assert_eq!((numbers(&other), list.len()), (vec![8, 7], 0));
        list.push(numbered(9));
        assert_eq!(numbers(&list), [9]);
        assert!((&mut list).into_iter().all(|it| it.flow_id == 9));
    }
}
