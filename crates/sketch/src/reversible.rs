//! A reversible sketch: Count-Min whose columns are made of hashes of the key's bytes, so that heavy keys
//! can be computed from heavy counters (Schweller, Li, Chen and others: "Reversible sketches: enabling
//! monitoring and analysis over high-speed data streams"), with a set of values per byte beside each
//! counter as by Wu, Li, Ran and Luo (docs/papers.md).
//!
//! The key is mangled first, by a bijection, since addresses are alike in their upper bytes. Recovery takes
//! the counters at or above a threshold and extends keys byte by byte; a value stays if every row has a
//! heavy counter with this value in its set. It finds all heavy keys, and some that are none: those get the
//! smallest of their counters as estimate, as any key. When the sets are full it finds nearly everything and
//! takes exponential time, so it is refused.

use crate::bytes::Reader;
use crate::counter::{Counter, Counters, Width};
use crate::error::{MergeError, SizeError, StateError};
use crate::geometry::{Geometry, Kind};
use crate::interface::{ErrorBound, Estimate, HeavyHitter, Overlap, Sketch, sort_heavy_hitters};
use crate::mangling::Mangling;
use crate::seed::{Seed, SeedDigest};
use crate::updates::{Updates, Weights};
use hw::memory::HugeSlice;
use hw::random::Random;
use thiserror::Error;

/// The most rows.
pub const MOST_ROWS: usize = 8;

/// The most bytes of a key.
pub const MOST_BYTES: usize = 16;

/// The most bits of a column number. With more, no memory holds the sets of a 5-tuple.
pub const MOST_BITS: usize = 26;

/// The share of set bits above which recovery is refused.
pub const MOST_FILL: f64 = 0.2;

/// The most heavy counters of a row that recovery works with.
const MOST_HEAVY: usize = 4096;

/// The most words of masks that recovery combines: some tenths of a second.
const MOST_WORK: usize = 1 << 26;

/// Separates the random numbers of this sketch from those of other purposes.
const TABLES: u64 = u64::from_le_bytes(*b"reverse\0");

/// Why the heavy keys cannot be computed.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
pub enum Unrecoverable {
    /// The sets are too full.
    #[error(
        "the sets of the reversible sketch are {:.0} % full; above {:.0} % keys cannot be recovered: \
         give it more memory, or use a heavy-hitter table", fill * 100.0, MOST_FILL * 100.0
    )]
    Full {
        /// The share of set bits.
        fill: f64,
    },
    /// Too many counters are at or above the threshold.
    #[error(
        "{0} counters of a row reach the threshold; recovery works with {MOST_HEAVY}: raise it"
    )]
    ManyHeavy(usize),
    /// The search was given up.
    #[error("the search for keys was given up at its limit: raise the threshold")]
    Work,
}

/// The dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReversibleOptions {
    /// Number of rows, up to [`MOST_ROWS`].
    pub rows: usize,
    /// Bytes of a key, the lowest of its number: 4 for an IPv4 address, 13 for a 5-tuple.
    pub key_bytes: usize,
    /// Bits of a column number, from one per byte of the key to [`MOST_BITS`].
    pub column_bits: usize,
    /// The width of the counters.
    pub width: Width,
}

impl ReversibleOptions {
    /// Returns the dimensions for keys of `key_bytes` with the most columns that fit in `bytes`.
    ///
    /// # Errors
    /// Fails if even the smallest does not fit.
    pub fn with_memory(
        rows: usize,
        key_bytes: usize,
        width: Width,
        bytes: usize,
    ) -> Result<Self, SizeError> {
        let options = |column_bits| Self {
            rows,
            key_bytes,
            column_bits,
            width,
        };
        options(key_bytes).check()?;
        let most = MOST_BITS.min(8 * key_bytes);
        let fitting = (key_bytes..=most)
            .rev()
            .find(|&bits| options(bits).memory() <= bytes);
        fitting.map(options).ok_or(SizeError::TooSmall {
            given: bytes as u64,
            needed: options(key_bytes).memory() as u64,
        })
    }

    fn check(&self) -> Result<(), SizeError> {
        let most_bits = MOST_BITS.min(self.key_bytes.saturating_mul(8));
        let numbers = [
            ("the number of rows", 1, MOST_ROWS, self.rows),
            ("the number of key bytes", 1, MOST_BYTES, self.key_bytes),
            (
                "the number of column bits",
                self.key_bytes,
                most_bits,
                self.column_bits,
            ),
        ];
        for (what, least, most, given) in numbers {
            if !(least..=most).contains(&given) {
                return Err(SizeError::Range {
                    what,
                    least: least as f64,
                    most: most as f64,
                    given: given as f64,
                });
            }
        }
        Ok(())
    }

    /// Returns the bits to which byte `byte` is hashed.
    const fn bits_of(&self, byte: usize) -> usize {
        let (each, rest) = (
            self.column_bits / self.key_bytes,
            self.column_bits % self.key_bytes,
        );
        each + (byte < rest) as usize
    }

    /// Returns the words of the sets beside a counter: for each byte of the key a bit for each of its
    /// values that hash to this column.
    fn set_words(&self) -> usize {
        let bits: usize = (0..self.key_bytes)
            .map(|byte| 256 >> self.bits_of(byte))
            .sum();
        bits.div_ceil(64)
    }

    const fn counters(&self) -> usize {
        self.rows << self.column_bits
    }

    /// Returns the bytes of counters and sets.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.counters() * (self.width.bytes() + self.set_words() * 8)
    }
}

/// Where a byte of the key stands in the column number and in the sets.
#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    bits: usize,
    /// Its first bit in the column number.
    column_shift: usize,
    /// Its first bit in the sets.
    set_offset: usize,
}

impl Chunk {
    /// Splits a permuted value into its part of the column and its bit in the set.
    #[inline]
    const fn split(self, permuted: u8) -> (usize, usize) {
        let permuted = permuted as usize;
        (permuted & ((1 << self.bits) - 1), permuted >> self.bits)
    }

    const fn column_part(self, column: usize) -> usize {
        column >> self.column_shift & ((1 << self.bits) - 1)
    }
}

/// The sketch.
pub struct Reversible {
    options: ReversibleOptions,
    counters: Counters,
    sets: HugeSlice<u64>,
    chunks: [Chunk; MOST_BYTES],
    /// A permutation of byte values per row and byte, whose lower bits are the hash.
    permutations: Vec<[[u8; 256]; MOST_BYTES]>,
    mangling: Mangling,
    seed: SeedDigest,
    total: u64,
    unkeyed: u64,
}

impl Reversible {
    /// Creates an empty sketch.
    ///
    /// # Errors
    /// Fails if a dimension is out of range, or if the memory cannot be reserved.
    pub fn new(options: ReversibleOptions, seed: Seed) -> Result<Self, SizeError> {
        options.check()?;
        let counters = Counters::new(options.counters(), options.width)?;
        let words = options.counters() * options.set_words();
        let failed = |_| SizeError::Memory(8 * words as u64);
        let sets = HugeSlice::try_zeroed(words).map_err(failed)?;
        sets.populate();
        let mut random = seed.random(TABLES);
        let mut chunks = [Chunk::default(); MOST_BYTES];
        let (mut column_shift, mut set_offset) = (0, 0);
        for (byte, chunk) in chunks.iter_mut().enumerate().take(options.key_bytes) {
            let bits = options.bits_of(byte);
            *chunk = Chunk {
                bits,
                column_shift,
                set_offset,
            };
            column_shift += bits;
            set_offset += 256 >> bits;
        }
        let permutations = (0..options.rows)
            .map(|_| [(); MOST_BYTES].map(|()| permutation(&mut random)))
            .collect();
        Ok(Self {
            options,
            counters,
            sets,
            chunks,
            permutations,
            mangling: Mangling::new(options.key_bytes, &mut random),
            seed: seed.digest(),
            total: 0,
            unkeyed: 0,
        })
    }

    /// Returns the dimensions.
    #[must_use]
    pub const fn options(&self) -> &ReversibleOptions {
        &self.options
    }

    /// Returns the weight of keys that have more bytes than this sketch takes. It is in the total, and in
    /// no counter.
    #[must_use]
    pub const fn unkeyed(&self) -> u64 {
        self.unkeyed
    }

    /// Returns the share of bits of the sets that are set.
    #[must_use]
    pub fn fill(&self) -> f64 {
        let bits = (0..self.options.key_bytes).map(|byte| 256 >> self.options.bits_of(byte));
        let bits = self.options.counters() * bits.sum::<usize>();
        let set: u64 = self
            .sets
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum();
        set as f64 / bits as f64
    }

    /// Returns the counter of a mangled key in a row.
    #[inline]
    fn counter_of(&self, row: usize, mangled: u128) -> usize {
        counter_of(&self.permutations[row], self.chunks(), mangled)
            + (row << self.options.column_bits)
    }

    fn chunks(&self) -> &[Chunk] {
        &self.chunks[..self.options.key_bytes]
    }

    fn estimate(&self, mangled: u128) -> Estimate {
        let counters = (0..self.options.rows).map(|row| self.counter_of(row, mangled));
        let value = counters
            .map(|counter| self.counters.get(counter))
            .min()
            .unwrap_or(0);
        let stopped = value == self.options.width.largest();
        Estimate {
            value,
            low: 0,
            high: if stopped { self.total } else { value },
        }
    }

    /// Returns the estimate for a key. A key with more bytes than this sketch takes may be any of the
    /// unkeyed.
    #[must_use]
    pub fn query(&self, key: u128) -> Estimate {
        if key > self.mangling.mask() {
            return Estimate {
                value: 0,
                low: 0,
                high: self.unkeyed,
            };
        }
        self.estimate(self.mangling.mangle(key))
    }

    /// Returns the keys whose estimate is at least `threshold`, largest first. Every key with that weight
    /// is among them, but some may weigh less.
    ///
    /// # Errors
    /// Fails if the sets are too full, if too many counters reach the threshold, or if the search takes
    /// too long.
    pub fn heavy_hitters(&self, threshold: u64) -> Result<Vec<HeavyHitter>, Unrecoverable> {
        let fill = self.fill();
        if fill > MOST_FILL {
            return Err(Unrecoverable::Full { fill });
        }
        let mut search = Search::new(self, threshold.max(1))?;
        let all = search
            .rows
            .iter()
            .map(|row| vec![u64::MAX; row.words])
            .collect();
        search.extend(self, 0, 0, all)?;
        let hitters = search.found.iter().map(|&mangled| HeavyHitter {
            key: self.mangling.unmangle(mangled),
            estimate: self.estimate(mangled),
        });
        let mut hitters: Vec<HeavyHitter> = hitters.collect();
        sort_heavy_hitters(&mut hitters);
        Ok(hitters)
    }
}

/// Returns a random permutation (Fisher and Yates).
fn permutation(random: &mut Random) -> [u8; 256] {
    let mut values = std::array::from_fn(|value| value as u8);
    for last in (1..256).rev() {
        values.swap(last, random.below(last as u64 + 1) as usize);
    }
    values
}

#[inline]
fn counter_of(permutations: &[[u8; 256]; MOST_BYTES], chunks: &[Chunk], mangled: u128) -> usize {
    let bytes = mangled.to_le_bytes();
    let parts = chunks.iter().zip(permutations).zip(bytes);
    parts.fold(0, |column, ((chunk, values), byte)| {
        column | chunk.split(values[usize::from(byte)]).0 << chunk.column_shift
    })
}

/// The heavy counters of a row.
struct HeavyRow {
    /// Words of a mask of heavy counters.
    words: usize,
    /// For each byte of the key and each of its values, the mask of heavy counters that have it.
    masks: Vec<u64>,
}

impl HeavyRow {
    fn mask(&self, byte: usize, value: usize) -> &[u64] {
        let start = (byte * 256 + value) * self.words;
        &self.masks[start..start + self.words]
    }
}

/// The search for keys: depth first by byte, with the heavy counters of each row that are still possible.
struct Search {
    rows: Vec<HeavyRow>,
    work: usize,
    found: Vec<u128>,
}

impl Search {
    fn new(sketch: &Reversible, threshold: u64) -> Result<Self, Unrecoverable> {
        let options = &sketch.options;
        let mut rows = Vec::with_capacity(options.rows);
        for row in 0..options.rows {
            let first = row << options.column_bits;
            let heavy: Vec<usize> = (0..1 << options.column_bits)
                .filter(|column| sketch.counters.get(first + column) >= threshold)
                .collect();
            if heavy.len() > MOST_HEAVY {
                return Err(Unrecoverable::ManyHeavy(heavy.len()));
            }
            let words = heavy.len().div_ceil(64);
            let mut masks = vec![0; options.key_bytes * 256 * words];
            for (number, &column) in heavy.iter().enumerate() {
                let sets = &sketch.sets[(first + column) * options.set_words()..];
                for (byte, chunk) in sketch.chunks().iter().enumerate() {
                    let part = chunk.column_part(column);
                    for value in 0..256 {
                        let permuted = sketch.permutations[row][byte][value];
                        let (own, rank) = chunk.split(permuted);
                        let bit = chunk.set_offset + rank;
                        if own == part && sets[bit / 64] >> (bit % 64) & 1 == 1 {
                            masks[(byte * 256 + value) * words + number / 64] |= 1 << (number % 64);
                        }
                    }
                }
            }
            rows.push(HeavyRow { words, masks });
        }
        Ok(Self {
            rows,
            work: 0,
            found: Vec::new(),
        })
    }

    /// Extends `key`, of which the lowest `byte` bytes are chosen, by all values of the next byte. The
    /// recursion is as deep as the key has bytes.
    fn extend(
        &mut self,
        sketch: &Reversible,
        key: u128,
        byte: usize,
        possible: Vec<Vec<u64>>,
    ) -> Result<(), Unrecoverable> {
        if byte == sketch.options.key_bytes {
            self.found.push(key);
            return Ok(());
        }
        self.work += 256 * self.rows.iter().map(|row| row.words).sum::<usize>();
        if self.work > MOST_WORK {
            return Err(Unrecoverable::Work);
        }
        for value in 0..256 {
            let mut next = Vec::with_capacity(possible.len());
            for (row, counters) in self.rows.iter().zip(&possible) {
                let masks = row.mask(byte, value).iter().zip(counters);
                let left: Vec<u64> = masks.map(|(mask, counters)| mask & counters).collect();
                if left.iter().all(|word| *word == 0) {
                    break;
                }
                next.push(left);
            }
            if next.len() == self.rows.len() {
                self.extend(sketch, key | (value as u128) << (8 * byte), byte + 1, next)?;
            }
        }
        Ok(())
    }
}

/// Counts a batch and returns the weight of keys that have too many bytes.
fn count<C: Counter>(sketch: Parts<'_>, counters: &mut [C], updates: Updates<'_>) -> u64 {
    let mut unkeyed = 0;
    let (chunks, words) = (
        &sketch.chunks[..sketch.options.key_bytes],
        sketch.options.set_words(),
    );
    for (index, &key) in updates.keys().iter().enumerate() {
        let weight = match updates.weights() {
            Weights::Ones => 1,
            Weights::Each(weights) => weights[index],
        };
        if key > sketch.mangling.mask() {
            unkeyed += u64::from(weight);
            continue;
        }
        let mangled = sketch.mangling.mangle(key);
        let bytes = mangled.to_le_bytes();
        for (row, permutations) in sketch.permutations.iter().enumerate() {
            let column = counter_of(permutations, chunks, mangled);
            let number = (row << sketch.options.column_bits) + column;
            counters[number] = counters[number].plus(weight);
            let sets = &mut sketch.sets[number * words..(number + 1) * words];
            for ((chunk, values), byte) in chunks.iter().zip(permutations).zip(bytes) {
                let bit = chunk.set_offset + chunk.split(values[usize::from(byte)]).1;
                sets[bit / 64] |= 1 << (bit % 64);
            }
        }
    }
    unkeyed
}

/// What an update uses beside the counters.
struct Parts<'s> {
    options: &'s ReversibleOptions,
    sets: &'s mut [u64],
    chunks: &'s [Chunk; MOST_BYTES],
    permutations: &'s [[[u8; 256]; MOST_BYTES]],
    mangling: &'s Mangling,
}

impl Sketch for Reversible {
    fn update(&mut self, updates: Updates<'_>) {
        let parts = Parts {
            options: &self.options,
            sets: &mut self.sets,
            chunks: &self.chunks,
            permutations: &self.permutations,
            mangling: &self.mangling,
        };
        let unkeyed = match &mut self.counters {
            Counters::Narrow(counters) => count(parts, counters, updates),
            Counters::Wide(counters) => count(parts, counters, updates),
        };
        self.unkeyed = self.unkeyed.saturating_add(unkeyed);
        self.total = self.total.saturating_add(updates.total());
    }

    fn clear(&mut self) {
        self.counters.clear();
        self.sets.fill(0);
        self.total = 0;
        self.unkeyed = 0;
    }

    fn total(&self) -> u64 {
        self.total
    }

    /// Dimensions: rows, bits of a column number, bytes of a key, bits of a counter.
    fn geometry(&self) -> Geometry {
        let options = &self.options;
        Geometry {
            kind: Kind::Reversible,
            dimensions: [
                options.rows as u64,
                options.column_bits as u64,
                options.key_bytes as u64,
                options.width.bits(),
                0,
                0,
            ],
            seed: self.seed,
        }
    }

    /// Counters are added and sets united: the result is exactly that of one sketch that saw all.
    fn merge(&mut self, other: &Self, _: Overlap) -> Result<(), MergeError> {
        self.geometry().check_equal(&other.geometry())?;
        self.counters.merge(&other.counters, u64::saturating_add);
        for (word, others) in self.sets.iter_mut().zip(other.sets.iter()) {
            *word |= others;
        }
        self.total = self.total.saturating_add(other.total);
        self.unkeyed = self.unkeyed.saturating_add(other.unkeyed);
        Ok(())
    }

    fn memory(&self) -> usize {
        self.options.memory() + self.options.rows * size_of::<[[u8; 256]; MOST_BYTES]>()
    }

    /// As for Count-Min: an estimate is never too low, and all rows exceed the truth by more than k N /
    /// columns with a probability of at most k^-rows, if keys collide as by chance. Keys that differ in
    /// few bytes after mangling collide more often, which the mangling makes rare.
    fn error_bound(&self, confidence: f64) -> ErrorBound {
        let mean = self.total as f64 / (1u64 << self.options.column_bits) as f64;
        let factor = (1.0 - confidence.clamp(0.0, 1.0)).powf(-1.0 / self.options.rows as f64);
        ErrorBound {
            over: (mean * factor).min(self.total as f64),
            under: 0.0,
            relative: false,
            confidence,
        }
    }

    /// Total, unkeyed, counters, sets.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.total.to_le_bytes());
        out.extend(self.unkeyed.to_le_bytes());
        self.counters.write(out);
        out.extend(self.sets.iter().flat_map(|word| word.to_le_bytes()));
    }

    fn read(
        geometry: &Geometry,
        seed: Option<Seed>,
        reader: &mut Reader<'_>,
    ) -> Result<Self, StateError> {
        let seed = seed.filter(|seed| seed.digest() == geometry.seed);
        let seed = seed.ok_or(StateError::SeedNeeded)?;
        let size = |number| usize::try_from(number).unwrap_or(usize::MAX);
        let [rows, column_bits, key_bytes, bits, ..] = geometry.dimensions;
        let options = ReversibleOptions {
            rows: size(rows),
            column_bits: size(column_bits),
            key_bytes: size(key_bytes),
            width: Width::from_bits(bits).ok_or(StateError::Damaged("the width of counters"))?,
        };
        options.check()?;
        let (total, unkeyed) = (reader.u64()?, reader.u64()?);
        reader.check_left(options.memory(), 1)?;
        let mut sketch = Self::new(options, seed)?;
        (sketch.total, sketch.unkeyed) = (total, unkeyed);
        sketch.counters = Counters::read(options.counters(), options.width, reader)?;
        for word in sketch.sets.iter_mut() {
            *word = reader.u64()?;
        }
        Ok(sketch)
    }
}
