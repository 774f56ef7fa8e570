//! Sketches: answers about traffic in a fixed memory, each with a stated error.
//!
//! A sketch takes [`Updates`], which are batches of keys, their hashes under a [`Seed`], and weights.
//! [`Sketch`] is what all of them can do, [`FrequencySketch`] what those can that estimate the weight
//! of a key. docs/sketches.md says what each answers, its bound and its source.
//!
//! No file here does I/O or reads a clock: the caller ends an interval and stores the state.

pub mod bytes;
pub mod candidates;
pub mod count_min;
pub mod counter;
pub mod error;
pub mod geometry;
pub mod heavy_hitters;
pub mod mangling;
pub mod reversible;
pub mod seed;
pub mod simple_table;
pub mod updates;

mod interface;

pub use count_min::CountMin;
pub use counter::Width;
pub use error::{MergeError, SizeError, StateError};
pub use geometry::{Geometry, Kind};
pub use heavy_hitters::{HeavyHitters, Policy};
pub use interface::{
    ErrorBound, Estimate, FrequencySketch, HeavyHitter, Overlap, Sketch, sort_heavy_hitters,
};
pub use reversible::{Reversible, ReversibleOptions};
pub use seed::{Seed, SeedDigest};
pub use simple_table::SimpleTable;
pub use updates::{HashedKey, Updates, Weights};
