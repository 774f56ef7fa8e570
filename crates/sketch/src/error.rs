//! Why a sketch cannot be created, merged or read.

use thiserror::Error;

/// Why a sketch of this size cannot be created.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SizeError {
    /// Less memory than the smallest sketch of this kind needs.
    #[error("{given} bytes are too few: this sketch needs at least {needed}")]
    TooSmall {
        /// Bytes given.
        given: u64,
        /// Bytes that the smallest one takes.
        needed: u64,
    },
    /// A number is outside its range.
    #[error("{what} must be from {least} to {most}, not {given}")]
    Range {
        /// What the number means.
        what: &'static str,
        /// Smallest value.
        least: f64,
        /// Largest value.
        most: f64,
        /// The number.
        given: f64,
    },
    /// The memory cannot be reserved.
    #[error("cannot reserve {0} bytes of memory")]
    Memory(u64),
}

/// Why two states must not be merged.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum MergeError {
    /// They are of different kinds.
    #[error("the states are of different kinds ({0} and {1})")]
    Kind(&'static str, &'static str),
    /// They have other numbers of rows, columns or bits.
    #[error("the states have different geometries ({0:?} and {1:?})")]
    Dimensions([u64; 6], [u64; 6]),
    /// Their hashes have different seeds.
    #[error(
        "the states were made with different seeds: give all probes the same --sketch-seed file"
    )]
    Seed,
    /// Their keys are defined otherwise.
    #[error("the keys of the states differ ({0} and {1})")]
    Key(String, String),
    /// They count other things.
    #[error("the states count different units ({0} and {1})")]
    Unit(&'static str, &'static str),
    /// They are of other times.
    #[error(
        "the states are of different intervals ({0} to {1} ns and {2} to {3} ns of packet time)"
    )]
    Interval(u64, u64, u64, u64),
    /// A part of the traffic is in both.
    #[error("part {part} of probe {probe:016x} is in both states and would count twice")]
    Twice {
        /// The probe.
        probe: u64,
        /// The part of its traffic.
        part: u32,
    },
    /// The kind does not allow what was asked for.
    #[error("{0}")]
    NotMergeable(&'static str),
}

/// Why bytes are not a state.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum StateError {
    /// They end too early.
    #[error("the state is truncated: {needed} more bytes at offset {offset}")]
    Truncated {
        /// Where they end.
        offset: usize,
        /// How many are missing.
        needed: usize,
    },
    /// They do not start as a state does.
    #[error("this is no state of a sketch")]
    NotAState,
    /// They are of a version that this program does not know.
    #[error("the state has version {found}, this program reads version {known}")]
    Version {
        /// The version in the head.
        found: u16,
        /// The version that is known.
        known: u16,
    },
    /// The checksum differs.
    #[error("the state is damaged: its checksum is {found:08x} and should be {computed:08x}")]
    Checksum {
        /// The stored checksum.
        found: u32,
        /// That of the bytes.
        computed: u32,
    },
    /// They were made with another seed than the given one.
    #[error("the state was made with another seed than that of the given --sketch-seed file")]
    OtherSeed,
    /// They contain something that no sketch writes.
    #[error("the state is damaged: {0}")]
    Damaged(&'static str),
    /// The dimensions in the head are not those of a sketch.
    #[error("the state has an impossible size: {0}")]
    Size(#[from] SizeError),
    /// Only the owner of the seed can read it.
    #[error("the state can only be read with its --sketch-seed file")]
    SeedNeeded,
}
