//! Images of Apache DataSketches, for what others have counted or are to merge: those of other programs
//! are read, answered and merged with their like, and those of our sketches that have a counterpart are
//! written.
//!
//! Images of Count-Min are refused: they do not say whether their counters are doubles (C++, Python)
//! or integers, and their rows are hashed differently in each language. Tuples have summaries that
//! only their application knows.

use crate::distinct::{DistinctEstimate, HyperLogLog};
use crate::error::{MergeError, StateError};
use crate::heavy_hitters::{HeavyHitters, Policy};
use crate::interface::{Estimate, FrequencySketch, Overlap, Sketch};
use crate::quantiles::Quantiles;
use datasketches::common::{NumStdDev, SearchCriteria};
use datasketches::cpc::{CpcSketch, CpcUnion};
use datasketches::frequencies::{ErrorType, FrequentItemsSketch};
use datasketches::kll::{KllFloat, KllSketch};
use datasketches::req::{ReqFloat, ReqSketch};
use datasketches::tdigest::TDigestMut;
use datasketches::theta::{CompactThetaSketch, ThetaUnionBuilder};
use thiserror::Error;

/// A sketch of DataSketches.
pub enum Image {
    /// Distinct count by HyperLogLog.
    Hll(HyperLogLog),
    /// Distinct count by compressed probabilistic counting.
    Cpc(Box<CpcSketch>),
    /// Distinct count by a sample of hashes.
    Theta(CompactThetaSketch),
    /// Frequent texts.
    FrequentItems(FrequentItemsSketch<String>),
    /// Quantiles of single-precision values, by rank.
    Kll(KllSketch<KllFloat<f32>>),
    /// Quantiles of single-precision values, by relative rank.
    Req(ReqSketch<ReqFloat<f32>>),
    /// Quantiles of double-precision values, most exact at both ends.
    TDigest(TDigestMut),
}

/// Why bytes are not an image that can be used.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ImageError {
    /// A family that is not supported.
    #[error("images of DataSketches' family {0} are not supported")]
    Family(u8),
    /// An image of Count-Min.
    #[error(
        "an image of Count-Min does not say what its counters and hashes are: only the program that \
         wrote it can read it"
    )]
    CountMin,
    /// A size that would need more memory than the image justifies.
    #[error("the image claims a size of 2^{0}")]
    Size(u8),
    /// A weight that no traffic has.
    #[error("the image claims a weight of {0}")]
    Weight(u64),
    /// An HLL image that is none.
    #[error(transparent)]
    Hll(#[from] StateError),
    /// The reason by DataSketches.
    #[error("no DataSketches image: {0}")]
    Damaged(String),
}

/// Largest binary logarithm of the size of a CPC sketch: 2 MB.
const LG_CPC_MAX: u8 = 21;

mod family {
    //! Numbers of families, in the third byte of an image.
    pub(super) const THETA: u8 = 3;
    pub(super) const HLL: u8 = 7;
    pub(super) const FREQUENCY: u8 = 10;
    pub(super) const KLL: u8 = 15;
    pub(super) const CPC: u8 = 16;
    pub(super) const REQ: u8 = 17;
    pub(super) const COUNT_MIN: u8 = 18;
    pub(super) const TDIGEST: u8 = 20;
}

impl Image {
    /// Reads an image. The bytes may be anything; memory is only reserved for what they contain.
    ///
    /// # Errors
    /// Fails if the bytes are no image, or if its family is not supported.
    pub fn read(bytes: &[u8]) -> Result<Self, ImageError> {
        let &[_, _, number, lg_size, lg_map, ..] = bytes else {
            return Err(ImageError::Damaged("it is shorter than any head".into()));
        };
        let damaged = |error: datasketches::error::Error| ImageError::Damaged(error.to_string());
        match number {
            family::HLL => Ok(Self::Hll(HyperLogLog::from_image(bytes)?)),
            family::CPC if lg_size > LG_CPC_MAX => Err(ImageError::Size(lg_size)),
            family::CPC => {
                let sketch = CpcSketch::deserialize(bytes).map_err(damaged)?;
                Ok(Self::Cpc(Box::new(sketch)))
            }
            family::THETA => {
                let sketch = CompactThetaSketch::deserialize(bytes);
                sketch.map(Self::Theta).map_err(damaged)
            }
            // The reader reserves the map that the head names. A real one has an item of at least 12
            // bytes in an eighth of its slots, or is small.
            family::FREQUENCY if lg_map > 30 || 1 << lg_map > 1024.max(bytes.len()) => {
                Err(ImageError::Size(lg_map))
            }
            family::FREQUENCY => {
                let sketch = FrequentItemsSketch::deserialize(bytes).map_err(damaged)?;
                check_weight(sketch.total_weight())?;
                check_weight(sketch.maximum_error())?;
                Ok(Self::FrequentItems(sketch))
            }
            family::KLL => KllSketch::deserialize(bytes)
                .map(Self::Kll)
                .map_err(damaged),
            family::REQ => ReqSketch::deserialize(bytes)
                .map(Self::Req)
                .map_err(damaged),
            family::TDIGEST => {
                let digest = TDigestMut::deserialize(bytes).map_err(damaged)?;
                check_weight(digest.total_weight())?;
                Ok(Self::TDigest(digest))
            }
            family::COUNT_MIN => Err(ImageError::CountMin),
            _ => Err(ImageError::Family(number)),
        }
    }

    /// Returns the image.
    #[must_use]
    pub fn write(&mut self) -> Vec<u8> {
        match self {
            Self::Hll(sketch) => sketch.image(),
            Self::Cpc(sketch) => sketch.serialize(),
            Self::Theta(sketch) => sketch.serialize(),
            Self::FrequentItems(sketch) => sketch.serialize(),
            Self::Kll(sketch) => sketch.serialize(),
            Self::Req(sketch) => sketch.serialize(),
            Self::TDigest(sketch) => sketch.serialize(),
        }
    }

    /// Returns the name of the family.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Hll(_) => "HLL",
            Self::Cpc(_) => "CPC",
            Self::Theta(_) => "Theta",
            Self::FrequentItems(_) => "FrequentItems",
            Self::Kll(_) => "KLL",
            Self::Req(_) => "REQ",
            Self::TDigest(_) => "t-digest",
        }
    }

    /// Adds an image of the same family, as DataSketches unites them.
    ///
    /// # Errors
    /// Fails if families, seeds or sizes differ.
    pub fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        const REFUSED: MergeError =
            MergeError::NotMergeable("the DataSketches images differ in seed, accuracy or size");
        const TOO_HEAVY: MergeError =
            MergeError::NotMergeable("the DataSketches images exceed a total of 2^62");
        match (self, other) {
            (Self::Hll(one), Self::Hll(two)) => one.merge(two, Overlap::Shared),
            (Self::Cpc(one), Self::Cpc(two)) => {
                let mut union = CpcUnion::new(one.lg_k().min(two.lg_k())).map_err(|_| REFUSED)?;
                union.update(one).map_err(|_| REFUSED)?;
                union.update(two).map_err(|_| REFUSED)?;
                **one = union.to_sketch();
                Ok(())
            }
            (Self::Theta(one), Self::Theta(two)) => {
                // A union of the default size would drop hashes of larger sketches.
                let retained = one.num_retained().max(two.num_retained()).max(4096);
                let lg_size = retained.next_power_of_two().trailing_zeros() as u8;
                let union = ThetaUnionBuilder::default().lg_k(lg_size).build();
                let mut union = union.map_err(|_| REFUSED)?;
                union.update(&*one).map_err(|_| REFUSED)?;
                union.update(two).map_err(|_| REFUSED)?;
                *one = union.to_sketch(true);
                Ok(())
            }
            (Self::FrequentItems(one), Self::FrequentItems(two)) => {
                let weight = one.total_weight().saturating_add(two.total_weight());
                let error = one.maximum_error().saturating_add(two.maximum_error());
                check_weight(weight.max(error)).map_err(|_| TOO_HEAVY)?;
                one.merge(two);
                Ok(())
            }
            (Self::Kll(one), Self::Kll(two)) => one.merge(two).map_err(|_| REFUSED),
            (Self::Req(one), Self::Req(two)) => one.merge(two).map_err(|_| REFUSED),
            (Self::TDigest(one), Self::TDigest(two)) => {
                let weight = one.total_weight().saturating_add(two.total_weight());
                check_weight(weight).map_err(|_| TOO_HEAVY)?;
                one.merge(two);
                Ok(())
            }
            (one, two) => Err(MergeError::Kind(one.name(), two.name())),
        }
    }

    /// Returns the number of different items, or `None` if the family does not count them.
    #[must_use]
    pub fn distinct(&self) -> Option<DistinctEstimate> {
        const AT: NumStdDev = NumStdDev::Two;
        let (value, low, high) = match self {
            Self::Hll(sketch) => return Some(sketch.estimate()),
            Self::Cpc(s) => (s.estimate(), s.lower_bound(AT), s.upper_bound(AT)),
            Self::Theta(s) => (s.estimate(), s.lower_bound(AT), s.upper_bound(AT)),
            _ => return None,
        };
        Some(DistinctEstimate { value, low, high })
    }

    /// Returns the value below which a `share` (0 to 1) of all values lies, or `None` if the family has
    /// no quantiles or the sketch no values.
    #[must_use]
    pub fn quantile(&mut self, share: f64) -> Option<f64> {
        let share = share.clamp(0.0, 1.0);
        let inclusive = SearchCriteria::Inclusive;
        match self {
            Self::Kll(sketch) => {
                let value = sketch.quantile(share, inclusive).ok()??;
                Some(value.into_inner().into())
            }
            Self::Req(sketch) => {
                let value = sketch.quantile(share, inclusive).ok()??;
                Some(value.into_inner().into())
            }
            Self::TDigest(sketch) => sketch.quantile(share).ok()?,
            _ => None,
        }
    }

    /// Returns all texts that may be more frequent than those that are not listed, most frequent first;
    /// nothing if the family has no items.
    #[must_use]
    pub fn items(&self) -> Vec<(String, Estimate)> {
        let Self::FrequentItems(sketch) = self else {
            return Vec::new();
        };
        let rows = sketch.frequent_items(ErrorType::NoFalseNegatives);
        let mut items: Vec<_> = rows
            .iter()
            .map(|row| {
                let estimate = Estimate {
                    value: row.estimate(),
                    low: row.lower_bound(),
                    high: row.upper_bound(),
                };
                (row.item().clone(), estimate)
            })
            .collect();
        items.sort_unstable_by(|a, b| b.1.value.cmp(&a.1.value).then_with(|| a.0.cmp(&b.0)));
        items
    }
}

/// DataSketches adds weights and error bounds, and panics if a sum exceeds 64 bits.
fn check_weight(weight: u64) -> Result<(), ImageError> {
    if weight > 1 << 62 {
        return Err(ImageError::Weight(weight));
    }
    Ok(())
}

/// Returns a table as an image of frequent texts, which `name` makes of keys. Texts of different keys
/// must differ.
///
/// The image has one bound for all items, the largest smallest count of a bucket, so that bounds of
/// DataSketches hold for our counts, also after it has merged them.
///
/// # Errors
/// Fails unless the table guarantees its bounds ([`Policy::SpaceSaving`]): DataSketches would state
/// bounds that do not hold.
pub fn frequent_items(
    table: &HeavyHitters,
    name: impl Fn(u128) -> String,
) -> Result<Vec<u8>, MergeError> {
    if table.policy() != Policy::SpaceSaving {
        return Err(MergeError::NotMergeable(
            "only tables with a guaranteed bound become images of DataSketches",
        ));
    }
    let total = table.total();
    let offset = table.largest_minimum();
    let found = table.heavy_hitters(offset.saturating_add(1));
    // A map may be filled to three quarters.
    let slots = (found.len() * 4).div_ceil(3).max(8).next_power_of_two();
    let lg_slots = slots.trailing_zeros() as u8;
    let head =
        |longs: u8, flags: u8| [longs, 1, family::FREQUENCY, lg_slots, lg_slots, flags, 0, 0];
    if total == 0 {
        return Ok(head(1, 5).to_vec());
    }
    let mut image = head(4, 0).to_vec();
    image.extend((found.len() as u32).to_le_bytes());
    image.extend([0; 4]);
    image.extend(total.to_le_bytes());
    image.extend(offset.to_le_bytes());
    for found in &found {
        image.extend((found.estimate.value - offset).to_le_bytes());
    }
    for found in &found {
        let name = name(found.key);
        image.extend((name.len() as u32).to_le_bytes());
        image.extend(name.as_bytes());
    }
    Ok(image)
}

/// Returns a histogram as an image of a t-digest, with a centroid for each bucket that has values.
/// Weights, ends and number are exact; quantiles are interpolated as DataSketches does.
#[must_use]
pub fn t_digest(histogram: &Quantiles) -> Vec<u8> {
    const EMPTY: u8 = 1;
    const DEFAULT_SIZE: usize = 200;
    let buckets: Vec<_> = histogram.buckets().collect();
    // A t-digest of size k keeps up to about 2 k centroids.
    let size = buckets.len().div_ceil(2).max(DEFAULT_SIZE);
    let [low, high] = u16::try_from(size).unwrap_or(u16::MAX).to_le_bytes();
    let head = |longs: u8, flags: u8| [longs, 1, family::TDIGEST, low, high, flags, 0, 0];
    let Some((least, most)) = histogram.range() else {
        return head(1, EMPTY).to_vec();
    };
    let mut image = head(2, 0).to_vec();
    image.extend((buckets.len() as u32).to_le_bytes());
    image.extend([0; 4]);
    image.extend((least as f64).to_le_bytes());
    image.extend((most as f64).to_le_bytes());
    for (first, last, count) in buckets {
        let (first, last) = (first.max(least), last.min(most));
        let middle = first + (last - first) / 2;
        image.extend((middle as f64).to_le_bytes());
        image.extend(count.to_le_bytes());
    }
    image
}

#[cfg(test)]
mod tests;
