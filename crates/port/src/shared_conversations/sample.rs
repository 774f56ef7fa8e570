//! The sample of the conversations of all inputs.

use super::conversation::{Range, Sighting};
use std::collections::HashMap;
use std::path::PathBuf;

/// The most sightings in the sample: about three megabytes.
const SIGHTINGS_MAX: usize = 1 << 15;

/// A conversation is seen in two inputs at the same time if no more than this lies between, in
/// nanoseconds: an answer may take that long.
const APART_MAX_NS: i64 = 1_000_000_000;

/// Files that follow each other overlap a little where one ends and the next begins. Those recorded at
/// the same time overlap by at least this part of the shorter one.
const OVERLAP_PARTS: i64 = 10;

/// Sightings on links that are older than this are dropped, in nanoseconds.
const AGE_MAX_NS: i64 = 60_000_000_000;

/// Two inputs with packets of the same conversations at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedInputs {
    /// Names of the inputs.
    pub names: [String; 2],
    /// Whether each of them has one direction of the conversations that were compared.
    pub is_one_direction_each: bool,
}

/// An input, with the range of its packet times.
struct InputState {
    name: String,
    range: Option<Range>,
}

pub(super) struct Sample {
    live: bool,
    inputs: Vec<InputState>,
    /// Their numbers by name.
    numbers: HashMap<String, usize>,
    /// Where and when conversations were seen, by their hash.
    seen: HashMap<u64, Vec<(usize, Sighting)>>,
    sightings: usize,
    limit: u64,
    latest_ns: i64,
    found: Option<SharedInputs>,
    has_found: bool,
}

impl Sample {
    pub(super) fn new(live: bool) -> Self {
        Self {
            live,
            inputs: Vec::new(),
            numbers: HashMap::new(),
            seen: HashMap::new(),
            sightings: 0,
            limit: u64::MAX,
            latest_ns: i64::MIN,
            found: None,
            has_found: false,
        }
    }

    /// Conversations with a greater hash are not in the sample.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn has_found(&self) -> bool {
        self.has_found
    }

    pub(super) fn take_found(&mut self) -> Option<SharedInputs> {
        self.found.take()
    }

    /// Returns the number of the input with this name.
    pub(super) fn register(&mut self, name: &str) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.inputs.len();
        self.numbers.insert(name.to_owned(), number);
        self.inputs.push(InputState {
            name: name.to_owned(),
            range: None,
        });
        number
    }

    /// Registers files. One that has two names is one input.
    pub(super) fn register_files(&mut self, names: &[String]) {
        let mut paths: HashMap<PathBuf, usize> = HashMap::new();
        for name in names {
            let path = std::fs::canonicalize(name).unwrap_or_else(|_| name.into());
            match paths.get(&path) {
                Some(&number) => _ = self.numbers.insert(name.clone(), number),
                None => _ = paths.insert(path, self.register(name)),
            }
        }
    }

    /// Adds conversations of an input, seen within `range`.
    pub(super) fn add(
        &mut self,
        input: usize,
        range: &Range,
        sightings: impl Iterator<Item = (u64, Sighting)>,
    ) {
        if self.has_found {
            return;
        }
        self.inputs[input].range.get_or_insert(*range).extend(range);
        self.latest_ns = self.latest_ns.max(range.end_ns);
        for (hash, sighting) in sightings.filter(|(hash, _)| *hash <= self.limit) {
            let all = self.seen.entry(hash).or_default();
            match all.iter_mut().find(|(other, _)| *other == input) {
                Some((_, known)) => known.extend(&sighting),
                None => {
                    all.push((input, sighting));
                    self.sightings += 1;
                }
            }
            if self.live {
                let shared = others_at_the_same_time(all, input).next();
                if let Some((other, one_direction)) = shared {
                    self.find(input, other, one_direction);
                    return;
                }
            }
        }
        self.shrink();
    }

    /// Compares an input that has been read to its end with those before it.
    pub(super) fn end_input(&mut self, input: usize) {
        if self.has_found || self.live {
            return;
        }
        let Some(range) = self.inputs[input].range else {
            return;
        };
        // Of each other input, whether it has one direction and this one the other.
        let mut others: HashMap<usize, bool> = HashMap::new();
        for all in self.seen.values() {
            for (other, one_direction) in others_at_the_same_time(all, input) {
                *others.entry(other).or_insert(true) &= one_direction;
            }
        }
        let overlapping = others.into_iter().filter(|(other, _)| {
            let other = self.inputs[*other].range;
            other.is_some_and(|other| {
                let shorter_ns = range.length_ns().min(other.length_ns());
                range.common_ns(&other) >= shorter_ns / OVERLAP_PARTS
            })
        });
        if let Some((other, one_direction)) = overlapping.min() {
            self.find(input, other, one_direction);
        }
    }

    fn find(&mut self, input: usize, other: usize, is_one_direction_each: bool) {
        let name = |number: usize| self.inputs[number].name.clone();
        self.found = Some(SharedInputs {
            names: [name(other.min(input)), name(other.max(input))],
            is_one_direction_each,
        });
        self.has_found = true;
        self.seen = HashMap::new();
    }

    /// Keeps the sample within its bound.
    fn shrink(&mut self) {
        if self.sightings <= SIGHTINGS_MAX {
            return;
        }
        if self.live {
            let oldest_ns = self.latest_ns.saturating_sub(AGE_MAX_NS);
            self.retain(|_, sighting| sighting.range.end_ns >= oldest_ns);
            if self.sightings < SIGHTINGS_MAX / 4 {
                // Others have taken the place of old conversations: all inputs take more of them again.
                self.limit = self.limit.saturating_mul(2);
            }
        }
        while self.sightings > SIGHTINGS_MAX / 2 {
            self.limit /= 2;
            let limit = self.limit;
            self.retain(|hash, _| hash <= limit);
        }
    }

    fn retain(&mut self, is_kept: impl Fn(u64, &Sighting) -> bool) {
        self.seen.retain(|&hash, all| {
            all.retain(|(_, sighting)| is_kept(hash, sighting));
            !all.is_empty()
        });
        self.sightings = self.seen.values().map(Vec::len).sum();
    }
}

/// Returns the inputs that have a conversation at the same time as `input`, and whether each of the two
/// has one direction of it.
fn others_at_the_same_time(
    all: &[(usize, Sighting)],
    input: usize,
) -> impl Iterator<Item = (usize, bool)> {
    let own = all.iter().find(|(other, _)| *other == input);
    own.into_iter().flat_map(move |(_, own)| {
        all.iter()
            .filter(move |(other, sighting)| {
                *other != input && own.range.common_ns(&sighting.range) >= -APART_MAX_NS
            })
            .map(move |(other, sighting)| (*other, own.directions & sighting.directions == 0))
    })
}
