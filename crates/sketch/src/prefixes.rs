//! Which prefixes are heavy: a table of keys for each prefix length, and of these the prefixes that are
//! heavy beyond the heavy ones they contain (hierarchical heavy hitters: Cormode, Korn, Muthukrishnan
//! and Srivastava, 2003; one length drawn a packet: Ben Basat et al., "Constant time updates in
//! hierarchical heavy hitters", 2017).

use crate::bytes::Reader;
use crate::error::{MergeError, SizeError, StateError};
use crate::geometry::{Geometry, Kind};
use crate::interface::{ErrorBound, Estimate, FrequencySketch, HeavyHitter, Overlap, Sketch};
use crate::normal::standard_deviations;
use crate::seed::Seed;
use crate::updates::{Updates, Weights};
use hw::hash::KeyedHash;
use hw::random::Random;
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;

/// Returns the key of an address: the 128 bits of IPv6. IPv4 addresses are mapped to `::ffff:0:0/96`.
#[must_use]
pub fn address_key(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4, with prefixes of 1 to 32 bits.
    V4,
    /// IPv6, with prefixes of 1 to 128 bits.
    V6,
}

impl Family {
    const fn of(key: u128) -> Self {
        if key >> 32 == 0xffff {
            Self::V4
        } else {
            Self::V6
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// Returns the mask of the key that a prefix of `length` bits keeps. `length` is from 1 to
    /// [`bits`](Self::bits).
    const fn mask(self, length: u8) -> u128 {
        u128::MAX << (self.bits() - length)
    }
}

/// Which tables a packet updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levels {
    /// Those of all prefix lengths.
    All,
    /// That of one length, drawn at random, for all: faster, with the error of a sample.
    Drawn,
}

/// A heavy prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeavyPrefix {
    /// Its family.
    pub family: Family,
    /// Its length in bits.
    pub length: u8,
    /// Its first address, as [`address_key`] gives it.
    pub address: u128,
    /// Its weight.
    pub estimate: Estimate,
    /// Its estimated weight without that of the heavy prefixes that it contains.
    pub own: u64,
}

#[derive(Clone, Debug)]
struct Level<T> {
    family: Family,
    length: u8,
    table: T,
}

#[derive(Clone, Debug)]
struct Drawn {
    count: usize,
    prefixes: [u128; CHUNK],
    weights: [u32; CHUNK],
}

impl Drawn {
    const EMPTY: Self = Self {
        count: 0,
        prefixes: [0; CHUNK],
        weights: [0; CHUNK],
    };
}

/// The prefix tables. The keys of an [update](Sketch::update) are addresses ([`address_key`]); their
/// hashes are not used. `T` is the table of a prefix length, which must count weights.
#[derive(Clone, Debug)]
pub struct Prefixes<T> {
    /// IPv4 before IPv6, the longest prefixes of a family first.
    levels: Vec<Level<T>>,
    choice: Levels,
    /// Absent in a state that was read without its seed, which takes no updates.
    hash: Option<KeyedHash>,
    random: Random,
    /// For each level, the packets of a chunk that were drawn for it, and their weights.
    drawn: Vec<Drawn>,
    total: u64,
    /// The weight of packets of a family that has no level.
    uncovered: u64,
    largest_weight: u32,
}

/// Separates the random numbers of the drawn levels from those of other purposes.
const DRAWN: u64 = u64::from_le_bytes(*b"prefixes");

/// Packets that are masked, hashed and counted together.
const CHUNK: usize = 256;

impl<T: FrequencySketch> Prefixes<T> {
    /// Creates a table, by `create`, for each of the prefix lengths `v4` and `v6`. All tables must be
    /// of one geometry, and of `seed`. Either list may be empty.
    ///
    /// # Errors
    /// Fails if a length is outside its range or occurs twice, if there is none, or if a table cannot
    /// be created.
    pub fn new(
        v4: &[u8],
        v6: &[u8],
        choice: Levels,
        seed: Seed,
        mut create: impl FnMut() -> Result<T, SizeError>,
    ) -> Result<Self, SizeError> {
        let of = |family: Family, lengths: &[u8]| -> Vec<_> {
            let mut lengths = lengths.to_vec();
            lengths.sort_unstable_by_key(|length| core::cmp::Reverse(*length));
            lengths.into_iter().map(|length| (family, length)).collect()
        };
        let lengths = [of(Family::V4, v4), of(Family::V6, v6)].concat();
        let range = |what, given: f64, least, most| SizeError::Range {
            what,
            least,
            most,
            given,
        };
        if lengths.is_empty() {
            return Err(range("the number of prefix lengths", 0.0, 1.0, 160.0));
        }
        if let Some(twice) = lengths.windows(2).find(|pair| pair[0] == pair[1]) {
            let what = "the number of tables of a prefix length";
            return Err(range(what, twice.len() as f64, 1.0, 1.0));
        }
        let mut levels = Vec::new();
        for (family, length) in lengths {
            if !(1..=family.bits()).contains(&length) {
                let most = f64::from(family.bits());
                return Err(range("a prefix length", length.into(), 1.0, most));
            }
            levels.push(Level {
                family,
                length,
                table: create()?,
            });
        }
        let drawn = match choice {
            Levels::All => Vec::new(),
            Levels::Drawn => vec![Drawn::EMPTY; levels.len()],
        };
        Ok(Self {
            levels,
            choice,
            hash: Some(seed.hash()),
            random: seed.random(DRAWN),
            drawn,
            total: 0,
            uncovered: 0,
            largest_weight: 0,
        })
    }

    /// Returns the weight of packets whose family has no prefix length.
    #[must_use]
    pub const fn uncovered(&self) -> u64 {
        self.uncovered
    }

    /// Returns the prefixes of one length that weigh at least `threshold`, heaviest first; `None` if
    /// there is no table of this length.
    #[must_use]
    pub fn of_length(
        &self,
        family: Family,
        length: u8,
        threshold: u64,
    ) -> Option<Vec<HeavyHitter>> {
        let level = self
            .levels
            .iter()
            .find(|level| (level.family, level.length) == (family, length))?;
        Some(self.hitters(level, threshold))
    }

    /// Returns the prefixes that weigh at least `threshold` beyond the heavy prefixes that they
    /// contain: IPv4 first, the longest prefixes of a family first.
    #[must_use]
    pub fn heavy_prefixes(&self, threshold: u64) -> Vec<HeavyPrefix> {
        let mut found: Vec<HeavyPrefix> = Vec::new();
        for family in [Family::V4, Family::V6] {
            // Heavy prefixes that no other one in this list contains, with their weights.
            let mut outermost: Vec<(u128, u64)> = Vec::new();
            for level in self.levels.iter().filter(|level| level.family == family) {
                let mask = family.mask(level.length);
                let mut contained: HashMap<u128, u64> = HashMap::new();
                for (address, weight) in &outermost {
                    let sum = contained.entry(address & mask).or_default();
                    *sum = sum.saturating_add(*weight);
                }
                let mut covering = HashMap::new();
                for hitter in self.hitters(level, threshold.max(1)) {
                    let inside = contained.get(&hitter.key).copied().unwrap_or(0);
                    let own = hitter.estimate.value.saturating_sub(inside);
                    if own >= threshold.max(1) {
                        covering.insert(hitter.key, hitter.estimate.value);
                        found.push(HeavyPrefix {
                            family,
                            length: level.length,
                            address: hitter.key,
                            estimate: hitter.estimate,
                            own,
                        });
                    }
                }
                outermost.retain(|(address, _)| !covering.contains_key(&(address & mask)));
                outermost.extend(covering);
            }
        }
        found
    }

    fn hitters(&self, level: &Level<T>, threshold: u64) -> Vec<HeavyHitter> {
        // A table of a drawn level has counted a part of the packets.
        let scale = match self.choice {
            Levels::All => 1,
            Levels::Drawn => self.levels_of(level.family) as u64,
        };
        let mut hitters = level.table.heavy_hitters(threshold.div_ceil(scale));
        for hitter in &mut hitters {
            let scaled = |weight: u64| weight.saturating_mul(scale);
            let (low, high) = (scaled(hitter.estimate.low), scaled(hitter.estimate.high));
            hitter.estimate = Estimate {
                value: scaled(hitter.estimate.value),
                low: low.saturating_sub(self.deviation(level.family, low, 5.0)),
                high: high.saturating_add(self.deviation(level.family, high, 5.0)),
            };
        }
        hitters
    }

    fn levels_of(&self, family: Family) -> usize {
        let of_family = self.levels.iter().filter(|level| level.family == family);
        of_family.count()
    }

    /// Returns `times` standard deviations of a weight that was sampled by drawing one of the levels:
    /// at most the root of (levels - 1) x largest weight x weight.
    fn deviation(&self, family: Family, weight: u64, times: f64) -> u64 {
        let others = match self.choice {
            Levels::All => 0,
            Levels::Drawn => self.levels_of(family).saturating_sub(1),
        };
        let variance = others as f64 * f64::from(self.largest_weight) * weight as f64;
        (times * variance.sqrt()).ceil() as u64
    }

    /// Counts addresses of one family, at most [`CHUNK`].
    fn update_family(&mut self, family: Family, keys: &[u128], weights: Weights<'_>) {
        let count = self.levels_of(family);
        if count == 0 || keys.is_empty() {
            let hashes = &[0; CHUNK][..keys.len()];
            let lost = Updates::new(keys, hashes, weights).total();
            self.uncovered = self.uncovered.saturating_add(lost);
            return;
        }
        let first = self.levels.iter().position(|level| level.family == family);
        let first = first.unwrap_or(0);
        match self.choice {
            Levels::All => self.update_all(first..first + count, keys, weights),
            Levels::Drawn => self.update_drawn(first..first + count, keys, weights),
        }
    }

    fn update_mixed(&mut self, keys: &[u128], weights: Weights<'_>) {
        for family in [Family::V4, Family::V6] {
            let (mut own, mut own_weights, mut count) = ([0; CHUNK], [0; CHUNK], 0);
            for (index, &key) in keys.iter().enumerate() {
                if Family::of(key) == family {
                    own[count] = key;
                    if let Weights::Each(weights) = weights {
                        own_weights[count] = weights[index];
                    }
                    count += 1;
                }
            }
            let weights = match weights {
                Weights::Ones => Weights::Ones,
                Weights::Each(_) => Weights::Each(&own_weights[..count]),
            };
            self.update_family(family, &own[..count], weights);
        }
    }

    fn update_all(&mut self, levels: Range<usize>, keys: &[u128], weights: Weights<'_>) {
        let hash = self.hash.as_ref().expect(NO_SEED);
        let (mut prefixes, mut hashes) = ([0; CHUNK], [0; CHUNK]);
        let (prefixes, hashes) = (&mut prefixes[..keys.len()], &mut hashes[..keys.len()]);
        for level in &mut self.levels[levels] {
            let mask = level.family.mask(level.length);
            for (prefix, key) in prefixes.iter_mut().zip(keys) {
                *prefix = key & mask;
            }
            hash.hash(prefixes, hashes);
            level.table.update(Updates::new(prefixes, hashes, weights));
        }
    }

    /// Counts each packet in one level. The weights are not scaled here, but in the answers.
    fn update_drawn(&mut self, levels: Range<usize>, keys: &[u128], weights: Weights<'_>) {
        let hash = self.hash.as_ref().expect(NO_SEED);
        let drawn = &mut self.drawn[levels.clone()];
        let levels = &mut self.levels[levels];
        let bound = drawn.len() as u64;
        for (index, &key) in keys.iter().enumerate() {
            let drawn = &mut drawn[self.random.below(bound) as usize];
            drawn.prefixes[drawn.count] = key;
            if let Weights::Each(weights) = weights {
                drawn.weights[drawn.count] = weights[index];
            }
            drawn.count += 1;
        }
        let mut hashes = [0; CHUNK];
        for (level, drawn) in levels.iter_mut().zip(drawn) {
            let count = core::mem::take(&mut drawn.count);
            let mask = level.family.mask(level.length);
            let prefixes = &mut drawn.prefixes[..count];
            prefixes.iter_mut().for_each(|prefix| *prefix &= mask);
            let hashes = &mut hashes[..count];
            hash.hash(prefixes, hashes);
            let weights = match weights {
                Weights::Ones => Weights::Ones,
                Weights::Each(_) => Weights::Each(&drawn.weights[..count]),
            };
            level.table.update(Updates::new(prefixes, hashes, weights));
        }
    }
}

/// The message of a broken invariant.
const NO_SEED: &str = "a state that was read without its seed takes no updates";

impl<T: FrequencySketch> Sketch for Prefixes<T> {
    fn update(&mut self, updates: Updates<'_>) {
        self.total = self.total.saturating_add(updates.total());
        for chunk in updates.chunks(CHUNK) {
            let (keys, weights) = (chunk.keys(), chunk.weights());
            let largest = match weights {
                Weights::Ones => 1,
                Weights::Each(weights) => weights.iter().copied().max().unwrap_or(0),
            };
            self.largest_weight = self.largest_weight.max(largest);
            // Most batches are of one family.
            let first = keys.first().map_or(Family::V4, |&key| Family::of(key));
            if keys.iter().all(|&key| Family::of(key) == first) {
                self.update_family(first, keys, weights);
            } else {
                self.update_mixed(keys, weights);
            }
        }
    }

    fn flush(&mut self) {
        self.levels.iter_mut().for_each(|level| level.table.flush());
    }

    fn clear(&mut self) {
        self.levels.iter_mut().for_each(|level| level.table.clear());
        (self.total, self.uncovered, self.largest_weight) = (0, 0, 0);
    }

    fn total(&self) -> u64 {
        self.total
    }

    /// Dimensions: a bit for each prefix length of IPv4 (bit 63 says that levels are drawn), the same
    /// of IPv6 in two numbers, and the first three dimensions of the tables.
    fn geometry(&self) -> Geometry {
        let table = self.levels[0].table.geometry();
        let lengths = |family| {
            let of_family = self
                .levels
                .iter()
                .filter(move |level| level.family == family);
            of_family.fold(0u128, |bits, level| bits | 1 << (level.length - 1))
        };
        let drawn = u64::from(self.choice == Levels::Drawn) << 63;
        let v6 = lengths(Family::V6);
        let [a, b, c, ..] = table.dimensions;
        Geometry {
            kind: Kind::Prefixes,
            dimensions: [
                lengths(Family::V4) as u64 | drawn,
                v6 as u64,
                (v6 >> 64) as u64,
                a,
                b,
                c,
            ],
            seed: table.seed,
        }
    }

    /// A prefix may have been seen by both sides even if no flow was.
    fn merge(&mut self, other: &Self, _: Overlap) -> Result<(), MergeError> {
        self.geometry().check_equal(&other.geometry())?;
        for (level, more) in self.levels.iter_mut().zip(&other.levels) {
            level.table.merge(&more.table, Overlap::Shared)?;
        }
        self.total = self.total.saturating_add(other.total);
        self.uncovered = self.uncovered.saturating_add(other.uncovered);
        self.largest_weight = self.largest_weight.max(other.largest_weight);
        Ok(())
    }

    fn memory(&self) -> usize {
        self.levels.iter().map(|level| level.table.memory()).sum()
    }

    /// The largest bound of a table. With drawn levels, it includes the deviation of a prefix with all
    /// the weight, which is the largest that a prefix can have.
    fn error_bound(&self, confidence: f64) -> ErrorBound {
        let bounds = self.levels.iter().map(|level| {
            let times = standard_deviations(confidence);
            let drawn = self.deviation(level.family, self.total, times) as f64;
            let bound = level.table.error_bound(confidence);
            (bound.over + drawn, bound.under + drawn)
        });
        let (over, under) = bounds.fold((0.0, 0.0), |(a, b): (f64, f64), (over, under)| {
            (a.max(over), b.max(under))
        });
        ErrorBound {
            over,
            under,
            relative: false,
            confidence,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.total.to_le_bytes());
        out.extend(self.uncovered.to_le_bytes());
        out.extend(self.largest_weight.to_le_bytes());
        self.levels[0].table.geometry().write(out);
        for level in &self.levels {
            level.table.write(out);
        }
    }

    /// Without its `seed`, the state can be queried and merged, but not updated.
    fn read(
        geometry: &Geometry,
        seed: Option<Seed>,
        reader: &mut Reader<'_>,
    ) -> Result<Self, StateError> {
        let [v4, v6_low, v6_high, ..] = geometry.dimensions;
        let set = |bits: u128, most: u8| -> Vec<u8> {
            (1..=most)
                .filter(|length| bits >> (length - 1) & 1 == 1)
                .collect()
        };
        let v6 = u128::from(v6_high) << 64 | u128::from(v6_low);
        let choice = if v4 >> 63 == 1 {
            Levels::Drawn
        } else {
            Levels::All
        };
        let (total, uncovered) = (reader.u64()?, reader.u64()?);
        let largest_weight = reader.u32()?;
        let of_table = Geometry::read(reader)?;
        let mut error = None;
        let create = || {
            T::read(&of_table, seed, reader).map_err(|failed| {
                error = Some(failed);
                SizeError::Memory(0)
            })
        };
        // Without a seed nothing is drawn.
        let of_levels = seed.unwrap_or(Seed::new(0));
        let read = Self::new(
            &set(v4.into(), 32),
            &set(v6, 128),
            choice,
            of_levels,
            create,
        );
        let mut read = match (read, error) {
            (Ok(read), _) => read,
            (Err(_), Some(error)) => return Err(error),
            (Err(size), None) => return Err(size.into()),
        };
        read.hash = seed.map(Seed::hash);
        (read.total, read.uncovered) = (total, uncovered);
        read.largest_weight = largest_weight;
        if read.geometry() != *geometry {
            return Err(StateError::Damaged("its tables are not those of its head"));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
