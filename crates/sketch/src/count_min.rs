//! Count-Min: rows of counters, of which each key adds to one a row; the smallest is its estimate
//! (Cormode, Muthukrishnan: "An improved data stream summary: the count-min sketch and its
//! applications").
//!
//! It holds no keys. Which are heavy comes from a list of [`Candidates`], or is the single running heavy
//! hitter of Wu, Li, Ran and Luo (docs/papers.md).

use crate::bytes::Reader;
use crate::candidates::{self, Candidates};
use crate::counter::{Counter, Counters, Width};
use crate::error::{MergeError, SizeError, StateError};
use crate::geometry::{Geometry, Kind};
use crate::interface::{
    ErrorBound, Estimate, FrequencySketch, HeavyHitter, Overlap, Sketch, sort_heavy_hitters,
};
use crate::seed::{Seed, SeedDigest};
use crate::updates::{HashedKey, Updates, Weights};
use hw::prefetch;
use hw::random::mix;

/// The most rows.
pub const MOST_ROWS: usize = 8;

/// The most columns of a row.
pub const MOST_COLUMNS: usize = 1 << 31;

/// Counters are prefetched in sketches larger than this.
const PREFETCH_ABOVE: usize = 8 << 20;

/// How many packets are prefetched before the first of them is counted.
const AHEAD: usize = 64;

/// What a key is multiplied by in each row: odd numbers without structure.
const ROW_FACTORS: [u64; MOST_ROWS] = {
    let mut factors = [0; MOST_ROWS];
    let mut row = 0;
    while row < MOST_ROWS {
        factors[row] = mix(row as u64 + 1) | 1;
        row += 1;
    }
    factors
};

/// Returns the column of a hash in a row. All rows come from one hash by multiplication, whose upper bits
/// depend on all bits of the hash. Rows from a linear function, as CRC or Toeplitz with other initial
/// values, would be one row: keys that collide in one would collide in all.
#[inline]
fn column_of(hash: u64, row: usize, columns: usize) -> usize {
    let spread = hash.wrapping_mul(ROW_FACTORS[row]) >> 32;
    ((spread * columns as u64) >> 32) as usize
}

/// What a packet adds to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// To its counter in each row.
    #[default]
    Plain,
    /// To those that are smaller than the new estimate, which they become (conservative update).
    Conservative,
}

/// The dimensions and options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountMinOptions {
    /// Number of rows, up to [`MOST_ROWS`].
    pub rows: usize,
    /// Number of columns, up to [`MOST_COLUMNS`].
    pub columns: usize,
    /// The width of the counters.
    pub width: Width,
    /// What a packet adds to.
    pub rule: Rule,
    /// How many candidates are kept, up to [`candidates::MOST`]; 0 for none.
    pub candidates: usize,
    /// Whether the running heavy hitter is kept.
    pub running: bool,
}

impl CountMinOptions {
    /// Returns plain rows of 32-bit counters without candidates.
    #[must_use]
    pub const fn new(rows: usize, columns: usize) -> Self {
        Self {
            rows,
            columns,
            width: Width::Narrow,
            rule: Rule::Plain,
            candidates: 0,
            running: false,
        }
    }

    /// Returns these options with as many columns as fit in `bytes` beside the candidates.
    ///
    /// # Errors
    /// Fails if not even one column fits.
    pub fn with_memory(self, bytes: usize) -> Result<Self, SizeError> {
        let listed = self.candidate_bytes();
        let column = self.rows * self.width.bytes();
        let columns = bytes.saturating_sub(listed) / column.max(1);
        if columns == 0 {
            return Err(SizeError::TooSmall {
                given: bytes as u64,
                needed: (listed + column) as u64,
            });
        }
        let columns = columns.min(MOST_COLUMNS);
        Ok(Self { columns, ..self })
    }

    /// Returns these options with the smallest dimensions for which an estimate exceeds the truth by at
    /// most `error` of the total, with a probability of at least `confidence`.
    ///
    /// # Errors
    /// Fails if one of them is out of range.
    pub fn with_error(self, error: f64, confidence: f64) -> Result<Self, SizeError> {
        let range = |what, least, most, given| {
            let inside = (least..=most).contains(&given);
            inside.then_some(()).ok_or(SizeError::Range {
                what,
                least,
                most,
                given,
            })
        };
        let columns = std::f64::consts::E / error;
        range(
            "the error",
            std::f64::consts::E / MOST_COLUMNS as f64,
            1.0,
            error,
        )?;
        let rows = (-(1.0 - confidence).ln()).ceil().max(1.0);
        range(
            "the confidence",
            0.0,
            1.0 - (-(MOST_ROWS as f64)).exp(),
            confidence,
        )?;
        Ok(Self {
            rows: rows as usize,
            columns: columns.ceil() as usize,
            ..self
        })
    }

    fn candidate_bytes(&self) -> usize {
        if self.candidates == 0 {
            return 0;
        }
        Candidates::bytes(self.candidates)
    }

    fn check(&self) -> Result<(), SizeError> {
        let numbers = [
            ("the number of rows", 1, MOST_ROWS, self.rows),
            ("the number of columns", 1, MOST_COLUMNS, self.columns),
            (
                "the number of candidates",
                0,
                candidates::MOST,
                self.candidates,
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
}

/// The sketch.
pub struct CountMin {
    cells: Counters,
    options: CountMinOptions,
    candidates: Option<Candidates>,
    running: Option<(HashedKey, u64)>,
    seed: SeedDigest,
    total: u64,
}

impl CountMin {
    /// Creates an empty sketch.
    ///
    /// # Errors
    /// Fails if a dimension is out of range, or if the memory cannot be reserved.
    pub fn new(options: CountMinOptions, seed: Seed) -> Result<Self, SizeError> {
        Self::with_digest(options, seed.digest())
    }

    fn with_digest(options: CountMinOptions, seed: SeedDigest) -> Result<Self, SizeError> {
        options.check()?;
        let cells = Counters::new(options.rows * options.columns, options.width)?;
        Ok(Self::with_cells(options, seed, cells))
    }

    fn with_cells(options: CountMinOptions, seed: SeedDigest, cells: Counters) -> Self {
        let listed = options.candidates > 0;
        Self {
            cells,
            options,
            candidates: listed.then(|| Candidates::new(options.candidates)),
            running: None,
            seed,
            total: 0,
        }
    }

    /// Returns the dimensions and options.
    #[must_use]
    pub const fn options(&self) -> &CountMinOptions {
        &self.options
    }

    /// Returns the candidates, if they are kept.
    #[must_use]
    pub const fn candidates(&self) -> Option<&Candidates> {
        self.candidates.as_ref()
    }

    /// Returns the key that had the largest estimate at its last packet, and that estimate. It is not a
    /// list: nothing is known about the second.
    #[must_use]
    pub const fn running(&self) -> Option<(HashedKey, u64)> {
        self.running
    }

    /// Returns the smallest counter of a hash.
    #[must_use]
    pub fn smallest(&self, hash: u64) -> u64 {
        smallest(&self.cells, &self.options, hash)
    }
}

fn smallest(cells: &Counters, options: &CountMinOptions, hash: u64) -> u64 {
    let columns = options.columns;
    let indices = (0..options.rows).map(|row| row * columns + column_of(hash, row, columns));
    indices.map(|index| cells.get(index)).min().unwrap_or(0)
}

/// Counts a batch, with the number of rows known to the compiler. `offer` receives each key with its
/// estimate before and after.
fn count<C: Counter>(
    cells: &mut [C],
    options: &CountMinOptions,
    updates: Updates<'_>,
    offer: impl FnMut(HashedKey, u64, u64),
) {
    match (options.rows, options.rule) {
        (1, Rule::Plain) => count_rows::<C, 1, false>(cells, updates, offer),
        (2, Rule::Plain) => count_rows::<C, 2, false>(cells, updates, offer),
        (3, Rule::Plain) => count_rows::<C, 3, false>(cells, updates, offer),
        (4, Rule::Plain) => count_rows::<C, 4, false>(cells, updates, offer),
        (5, Rule::Plain) => count_rows::<C, 5, false>(cells, updates, offer),
        (6, Rule::Plain) => count_rows::<C, 6, false>(cells, updates, offer),
        (7, Rule::Plain) => count_rows::<C, 7, false>(cells, updates, offer),
        (_, Rule::Plain) => count_rows::<C, 8, false>(cells, updates, offer),
        (1, _) => count_rows::<C, 1, true>(cells, updates, offer),
        (2, _) => count_rows::<C, 2, true>(cells, updates, offer),
        (3, _) => count_rows::<C, 3, true>(cells, updates, offer),
        (4, _) => count_rows::<C, 4, true>(cells, updates, offer),
        (5, _) => count_rows::<C, 5, true>(cells, updates, offer),
        (6, _) => count_rows::<C, 6, true>(cells, updates, offer),
        (7, _) => count_rows::<C, 7, true>(cells, updates, offer),
        (_, _) => count_rows::<C, 8, true>(cells, updates, offer),
    }
}

fn count_rows<C: Counter, const ROWS: usize, const CONSERVATIVE: bool>(
    cells: &mut [C],
    updates: Updates<'_>,
    mut offer: impl FnMut(HashedKey, u64, u64),
) {
    let columns = cells.len() / ROWS;
    let prefetched = size_of_val(cells) > PREFETCH_ABOVE;
    let mut rest = cells;
    let mut rows: [&mut [C]; ROWS] = [(); ROWS].map(|()| {
        let (row, others) = std::mem::take(&mut rest).split_at_mut(columns);
        rest = others;
        row
    });
    for part in updates.chunks(AHEAD) {
        if prefetched {
            for &hash in part.hashes() {
                for (row, cells) in rows.iter().enumerate() {
                    prefetch::read(cells, column_of(hash, row, columns));
                }
            }
        }
        for (index, (&key, &hash)) in part.keys().iter().zip(part.hashes()).enumerate() {
            let weight = match part.weights() {
                Weights::Ones => 1,
                Weights::Each(weights) => weights[index],
            };
            let mut row = 0;
            let mut cells = rows.each_mut().map(|cells| {
                let cell = &mut cells[column_of(hash, row, columns)];
                row += 1;
                cell
            });
            let before = cells
                .iter()
                .skip(1)
                .fold(*cells[0], |least, cell| least.min(**cell));
            let after = before.plus(weight);
            for cell in &mut cells {
                **cell = if CONSERVATIVE {
                    (**cell).max(after)
                } else {
                    cell.plus(weight)
                };
            }
            offer(HashedKey { key, hash }, before.into(), after.into());
        }
    }
}

impl Sketch for CountMin {
    fn update(&mut self, updates: Updates<'_>) {
        self.total = self.total.saturating_add(updates.total());
        let (options, candidates) = (&self.options, &mut self.candidates);
        if candidates.is_none() && !options.running {
            match &mut self.cells {
                Counters::Narrow(cells) => count(cells, options, updates, |_, _, _| ()),
                Counters::Wide(cells) => count(cells, options, updates, |_, _, _| ()),
            }
            return;
        }
        let running = &mut self.running;
        let keeps_running = options.running;
        let offer = |key, before, after| {
            if let Some(list) = candidates
                && list.is_due(before, after)
            {
                list.offer(key, after);
            }
            if keeps_running && running.is_none_or(|(_, largest)| after > largest) {
                *running = Some((key, after));
            }
        };
        match &mut self.cells {
            Counters::Narrow(cells) => count(cells, options, updates, offer),
            Counters::Wide(cells) => count(cells, options, updates, offer),
        }
    }

    /// Brings the candidates' estimates up to date.
    fn flush(&mut self) {
        if let Some(list) = &mut self.candidates {
            list.refresh(|key| smallest(&self.cells, &self.options, key.hash));
        }
    }

    fn clear(&mut self) {
        self.cells.clear();
        if let Some(list) = &mut self.candidates {
            list.clear();
        }
        self.running = None;
        self.total = 0;
    }

    fn total(&self) -> u64 {
        self.total
    }

    /// Dimensions: rows, columns, bits of a counter, rule (0 plain, 1 conservative), candidates, whether
    /// the running heavy hitter is kept.
    fn geometry(&self) -> Geometry {
        let options = &self.options;
        Geometry {
            kind: Kind::CountMin,
            dimensions: [
                options.rows as u64,
                options.columns as u64,
                options.width.bits(),
                u64::from(options.rule == Rule::Conservative),
                options.candidates as u64,
                u64::from(options.running),
            ],
            seed: self.seed,
        }
    }

    /// Plain counters are added: the result is exactly that of one sketch that saw all. Conservative ones
    /// depend on the order of packets. Their sum is an upper bound; if no key was seen by both sides, so
    /// is the larger of each pair, which is closer.
    fn merge(&mut self, other: &Self, overlap: Overlap) -> Result<(), MergeError> {
        self.geometry().check_equal(&other.geometry())?;
        let larger = self.options.rule == Rule::Conservative && overlap == Overlap::Disjoint;
        if larger {
            self.cells.merge(&other.cells, u64::max);
        } else {
            self.cells.merge(&other.cells, u64::saturating_add);
        }
        self.total = self.total.saturating_add(other.total);
        let (cells, options) = (&self.cells, &self.options);
        if let (Some(list), Some(others)) = (&mut self.candidates, &other.candidates) {
            let shared = overlap == Overlap::Shared;
            list.merge(others, shared, |key| smallest(cells, options, key.hash));
        }
        let both = [self.running, other.running].into_iter().flatten();
        let current = both.map(|(key, _)| (key, smallest(cells, options, key.hash)));
        self.running = current.max_by_key(|(key, estimate)| (*estimate, *key));
        Ok(())
    }

    fn memory(&self) -> usize {
        let options = &self.options;
        options.rows * options.columns * options.width.bytes() + options.candidate_bytes()
    }

    /// An estimate is never too low. By Markov's inequality a counter exceeds the truth by more than k N /
    /// columns with a probability of at most 1 / k, and all rows do with that to the power of the rows:
    /// e N / columns at 1 - e^-rows.
    fn error_bound(&self, confidence: f64) -> ErrorBound {
        let options = &self.options;
        let mean = self.total as f64 / options.columns as f64;
        let factor = (1.0 - confidence.clamp(0.0, 1.0)).powf(-1.0 / options.rows as f64);
        ErrorBound {
            over: (mean * factor).min(self.total as f64),
            under: 0.0,
            relative: false,
            confidence,
        }
    }

    /// Total, running heavy hitter (its estimate is 0 if there is none), counters by row; limits of the
    /// list and candidates.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.total.to_le_bytes());
        let none = (HashedKey { key: 0, hash: 0 }, 0);
        write_key(out, self.running.unwrap_or(none));
        self.cells.write(out);
        if let Some(list) = &self.candidates {
            out.extend(list.limits().into_iter().flat_map(u64::to_le_bytes));
            out.extend((list.entries().len() as u32).to_le_bytes());
            for entry in list.entries() {
                write_key(out, (entry.key(), entry.estimate()));
            }
        }
    }

    fn read(
        geometry: &Geometry,
        _: Option<Seed>,
        reader: &mut Reader<'_>,
    ) -> Result<Self, StateError> {
        let [rows, columns, bits, rule, candidates, running] = geometry.dimensions;
        let size = |number| usize::try_from(number).unwrap_or(usize::MAX);
        let options = CountMinOptions {
            rows: size(rows),
            columns: size(columns),
            width: Width::from_bits(bits).ok_or(StateError::Damaged("the width of counters"))?,
            rule: match rule {
                0 => Rule::Plain,
                1 => Rule::Conservative,
                _ => return Err(StateError::Damaged("the rule of updates")),
            },
            candidates: size(candidates),
            running: running != 0,
        };
        options.check()?;
        let total = reader.u64()?;
        let running = read_key(reader)?;
        let cells = Counters::read(options.rows * options.columns, options.width, reader)?;
        let mut sketch = Self::with_cells(options, geometry.seed, cells);
        sketch.total = total;
        sketch.running = (options.running && running.1 > 0).then_some(running);
        if let Some(list) = &mut sketch.candidates {
            let limits = [reader.u64()?, reader.u64()?];
            for _ in 0..reader.u32()? {
                let (key, estimate) = read_key(reader)?;
                list.offer(key, estimate);
            }
            list.restore_limits(limits);
        }
        Ok(sketch)
    }
}

fn write_key(out: &mut Vec<u8>, (key, estimate): (HashedKey, u64)) {
    out.extend(key.key.to_le_bytes());
    out.extend(key.hash.to_le_bytes());
    out.extend(estimate.to_le_bytes());
}

fn read_key(reader: &mut Reader<'_>) -> Result<(HashedKey, u64), StateError> {
    let (key, hash) = (reader.u128()?, reader.u64()?);
    Ok((HashedKey { key, hash }, reader.u64()?))
}

impl FrequencySketch for CountMin {
    fn query(&self, key: HashedKey) -> Estimate {
        let value = self.smallest(key.hash);
        let stopped = value == self.options.width.largest();
        Estimate {
            value,
            low: 0,
            high: if stopped { self.total } else { value },
        }
    }

    /// Returns candidates, and the running heavy hitter.
    fn heavy_hitters(&self, threshold: u64) -> Vec<HeavyHitter> {
        let listed = self.candidates.iter().flat_map(|list| list.entries());
        let listed = listed.map(|entry| entry.key()).collect::<Vec<_>>();
        let running = self.running.map(|(key, _)| key);
        let running = running.filter(|key| !listed.contains(key));
        let mut found: Vec<HeavyHitter> = (listed.iter().chain(&running))
            .map(|&key| HeavyHitter {
                key: key.key,
                estimate: self.query(key),
            })
            .filter(|found| found.estimate.value >= threshold)
            .collect();
        sort_heavy_hitters(&mut found);
        found
    }
}

#[cfg(test)]
mod tests;
