//! Sketches: answers about traffic in a fixed memory, each with a stated error.
//!
//! A sketch takes [`Updates`], which are batches of keys, their hashes under a [`Seed`], and weights.
//! [`Sketch`] is what all of them can do, [`FrequencySketch`] what those can that estimate the weight
//! of a key. docs/sketches.md says what each answers, its bound and its source.
//!
//! No file here does I/O or reads a clock: the caller ends an interval and stores the state.

pub mod bytes;
pub mod candidates;
pub mod changes;
pub mod count_min;
pub mod counter;
pub mod distinct;
pub mod entropy;
pub mod error;
pub mod fan_out;
pub mod flow_sample;
pub mod geometry;
pub mod heavy_hitters;
pub mod images;
pub mod mangling;
pub mod murmur;
pub mod prefixes;
pub mod quantiles;
pub mod reversible;
pub mod seed;
pub mod simple_table;
pub mod state;
pub mod updates;

mod interface;
mod normal;
mod pair_bitmap;

#[cfg(test)]
mod test_support;

pub use changes::Change;
pub use count_min::CountMin;
pub use counter::Width;
pub use distinct::{DistinctEstimate, DistinctHash, HyperLogLog};
pub use entropy::{Entropy, EntropyEstimate, EntropyMethod};
pub use error::{MergeError, SizeError, StateError};
pub use fan_out::{FanOut, Overloaded};
pub use flow_sample::{FlowSample, SampledKey};
pub use geometry::{Geometry, Kind};
pub use heavy_hitters::{HeavyHitters, Policy};
pub use images::{Image, ImageError};
pub use interface::{
    ErrorBound, Estimate, FrequencySketch, HeavyHitter, Overlap, Sketch, sort_heavy_hitters,
};
pub use prefixes::{HeavyPrefix, Prefixes};
pub use quantiles::{QuantileEstimate, Quantiles};
pub use reversible::{Reversible, ReversibleOptions};
pub use seed::{Seed, SeedDigest};
pub use simple_table::SimpleTable;
pub use state::{AnySketch, Source, State, StateHead, Unit};
pub use updates::{HashedKey, Updates, Weights};
