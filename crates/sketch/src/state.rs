//! The state of a sketch as it is stored at the end of each interval, read, and merged.
//!
//! All numbers are little-endian:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `flowsket` |
//! | 2 | version |
//! | 8 | length of everything up to and without the checksum |
//! | 58 | [`Geometry`]: kind, digest of the seed, dimensions |
//! | 1 | [`Unit`] |
//! | 1 | 1 if all packets of a key are in one part of a probe's traffic |
//! | 16 | start and end of the interval, in nanoseconds of packet time |
//! | 2 + n | length and text of the key's definition |
//! | 2 + 12 n | number of [sources](Source), and probe and part of each, in order |
//! | n | the [sketch](Sketch::write) |
//! | 4 | CRC32C of all that is before it |

use crate::bytes::Reader;
use crate::error::{MergeError, StateError};
use crate::geometry::{Geometry, Kind};
use crate::interface::{Overlap, Sketch};
use crate::seed::{Seed, SeedDigest};
use crate::updates::Updates;

const MAGIC: &[u8; 8] = b"flowsket";

/// The version of the format. It changes with the layout, with what a kind's dimensions mean, and with
/// any hash function.
pub const VERSION: u16 = 1;

/// Longest definition of a key, in bytes.
pub const KEY_MAX: usize = 256;

/// Most parts of traffic in a state.
pub const SOURCES_MAX: usize = 4096;

/// What the weights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Unit {
    /// Each packet weighs 1.
    Packets = 1,
    /// Each packet weighs its bytes.
    Bytes = 2,
    /// Each packet has a value, whose distribution is asked for.
    Values = 3,
}

impl Unit {
    const ALL: [Self; 3] = [Self::Packets, Self::Bytes, Self::Values];

    /// Returns the name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Bytes => "bytes",
            Self::Values => "values",
        }
    }
}

/// A part of the traffic that one sketch has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// The probe, by a number that no other probe has.
    pub probe: u64,
    /// The part of its traffic: a queue, or 0 if one sketch sees all.
    pub part: u32,
}

/// What a state is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateHead {
    /// The definition of the key, as on the command line (`5tuple`, `src/24`).
    pub key: String,
    /// What is counted.
    pub unit: Unit,
    /// Start of the interval, in nanoseconds of packet time.
    pub start_ns: u64,
    /// End of the interval.
    pub end_ns: u64,
    /// Whether all packets of a **key** are in one part of a probe's traffic. Queues of RSS do that for
    /// keys that contain the fields of the RSS hash, so for 5-tuples, but not for addresses or prefixes.
    pub keys_stay_in_part: bool,
    /// The traffic that the state contains, in order; at least one.
    pub sources: Vec<Source>,
}

/// The state of a sketch, with what it is about.
pub struct State {
    /// What it is about.
    pub head: StateHead,
    /// The sketch.
    pub sketch: AnySketch,
}

impl State {
    /// Returns the bytes to be stored.
    ///
    /// # Panics
    /// Panics if the definition of the key is longer than [`KEY_MAX`], or if the number of sources is 0
    /// or above [`SOURCES_MAX`].
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let head = &self.head;
        assert!(head.key.len() <= KEY_MAX);
        assert!((1..=SOURCES_MAX).contains(&head.sources.len()));
        let mut out = MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        out.extend([0; size_of::<u64>()]);
        self.sketch.geometry().write(&mut out);
        out.push(head.unit as u8);
        out.push(head.keys_stay_in_part.into());
        out.extend(head.start_ns.to_le_bytes());
        out.extend(head.end_ns.to_le_bytes());
        out.extend((head.key.len() as u16).to_le_bytes());
        out.extend(head.key.as_bytes());
        out.extend((head.sources.len() as u16).to_le_bytes());
        for source in &head.sources {
            out.extend(source.probe.to_le_bytes());
            out.extend(source.part.to_le_bytes());
        }
        self.sketch.write(&mut out);
        out.extend([0; CHECKSUM_BYTES]);
        seal(&mut out);
        out
    }

    /// Reads a state. The bytes may be anything: they are checked before memory is reserved, and no more
    /// is reserved than a small multiple of their length.
    ///
    /// `seed` is needed by the kinds that hash again when they answer, and if the sketch is to be
    /// updated further.
    ///
    /// # Errors
    /// Fails if they are not a state, truncated, damaged, of another version, or of another seed.
    pub fn read(bytes: &[u8], seed: Option<Seed>) -> Result<Self, StateError> {
        let mut reader = Reader::new(checked_content(bytes)?);
        reader.take(CONTENT_AT)?;
        let geometry = Geometry::read(&mut reader)?;
        if let Some(seed) = seed
            && has_seed(&geometry)
            && seed.digest() != geometry.seed
        {
            return Err(StateError::OtherSeed);
        }
        let head = StateHead::read(&mut reader)?;
        let sketch = AnySketch::read(&geometry, seed, &mut reader)?;
        reader.end()?;
        if sketch.geometry() != geometry {
            return Err(StateError::Damaged("its head is not that of its sketch"));
        }
        Ok(Self { head, sketch })
    }

    /// Adds the state of other traffic in the same interval. The result is what one probe that saw all
    /// would have: exactly for Count-Min, distinct counts, quantiles and samples, and within the sum of
    /// the bounds otherwise.
    ///
    /// # Errors
    /// Fails if anything differs that must be equal, or if traffic is in both. Nothing has changed then.
    pub fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        let (ours, theirs) = (&self.head, &other.head);
        self.sketch
            .geometry()
            .check_equal(&other.sketch.geometry())?;
        if ours.key != theirs.key {
            return Err(MergeError::Key(ours.key.clone(), theirs.key.clone()));
        }
        if ours.unit != theirs.unit {
            return Err(MergeError::Unit(ours.unit.name(), theirs.unit.name()));
        }
        let (one, two) = (
            (ours.start_ns, ours.end_ns),
            (theirs.start_ns, theirs.end_ns),
        );
        if one != two {
            return Err(MergeError::Interval(one.0, one.1, two.0, two.1));
        }
        let twice = ours
            .sources
            .iter()
            .find(|source| theirs.sources.binary_search(source).is_ok());
        if let Some(&Source { probe, part }) = twice {
            return Err(MergeError::Twice { probe, part });
        }
        let mut sources = [&*ours.sources, &*theirs.sources].concat();
        if sources.len() > SOURCES_MAX {
            return Err(MergeError::NotMergeable(
                "the states have more than 4096 sources",
            ));
        }
        sources.sort_unstable();
        let stay = ours.keys_stay_in_part && theirs.keys_stay_in_part;
        let one_probe = sources
            .iter()
            .all(|source| source.probe == sources[0].probe);
        let overlap = if stay && one_probe {
            Overlap::Disjoint
        } else {
            Overlap::Shared
        };
        self.sketch.merge(&other.sketch, overlap)?;
        self.head.sources = sources;
        self.head.keys_stay_in_part = stay;
        Ok(())
    }
}

impl StateHead {
    fn read(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        let unit = reader.u8()?;
        let unit = Unit::ALL.into_iter().find(|known| *known as u8 == unit);
        let unit = unit.ok_or(StateError::Damaged("its unit is unknown"))?;
        let keys_stay_in_part = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(StateError::Damaged("a flag is neither 0 nor 1")),
        };
        let (start_ns, end_ns) = (reader.u64()?, reader.u64()?);
        if start_ns > end_ns {
            return Err(StateError::Damaged("its interval ends before it starts"));
        }
        let length = usize::from(reader.u16()?);
        if length > KEY_MAX {
            return Err(StateError::Damaged("its definition of the key is too long"));
        }
        let key = core::str::from_utf8(reader.take(length)?)
            .map_err(|_| StateError::Damaged("its definition of the key is no text"))?;
        let count = usize::from(reader.u16()?);
        if !(1..=SOURCES_MAX).contains(&count) {
            return Err(StateError::Damaged("it has no sources, or too many"));
        }
        let mut sources: Vec<Source> = Vec::with_capacity(count);
        for _ in 0..count {
            let (probe, part) = (reader.u64()?, reader.u32()?);
            let source = Source { probe, part };
            if sources.last().is_some_and(|last| *last >= source) {
                return Err(StateError::Damaged("its sources are not in order"));
            }
            sources.push(source);
        }
        Ok(Self {
            key: key.to_owned(),
            unit,
            start_ns,
            end_ns,
            keys_stay_in_part,
            sources,
        })
    }
}

/// Sets the length and the checksum of a state whose other bytes were changed. Bytes that are too short
/// to have them stay as they are.
pub fn seal(state: &mut [u8]) {
    let Some(length) = state.len().checked_sub(CHECKSUM_BYTES) else {
        return;
    };
    let (content, checksum) = state.split_at_mut(length);
    if let Some(field) = content.get_mut(LENGTH_AT..CONTENT_AT) {
        field.copy_from_slice(&(length as u64).to_le_bytes());
        checksum.copy_from_slice(&hw::crc32c::bytes(content).to_le_bytes());
    }
}

const CHECKSUM_BYTES: usize = size_of::<u32>();

/// Where the length is.
const LENGTH_AT: usize = MAGIC.len() + size_of::<u16>();

/// Where the content starts, after what all versions have in common.
const CONTENT_AT: usize = LENGTH_AT + size_of::<u64>();

/// Checks what all versions have in common, and returns the bytes before the checksum.
fn checked_content(bytes: &[u8]) -> Result<&[u8], StateError> {
    let mut reader = Reader::new(bytes);
    let magic = reader.take(MAGIC.len().min(bytes.len()))?;
    if !MAGIC.starts_with(magic) {
        return Err(StateError::NotAState);
    }
    reader.check_left(CONTENT_AT - magic.len(), 1)?;
    let found = reader.u16()?;
    if found != VERSION {
        let known = VERSION;
        return Err(StateError::Version { found, known });
    }
    let length = usize::try_from(reader.u64()?).unwrap_or(usize::MAX);
    if length < CONTENT_AT {
        return Err(StateError::Damaged("its length is too small"));
    }
    reader.check_left((length - CONTENT_AT).saturating_add(CHECKSUM_BYTES), 1)?;
    let (content, rest) = bytes.split_at(length);
    let mut reader = Reader::new(rest);
    let found = reader.u32()?;
    reader.end()?;
    let computed = hw::crc32c::bytes(content);
    if found != computed {
        return Err(StateError::Checksum { found, computed });
    }
    Ok(content)
}

/// Returns whether the sketch depends on a secret seed.
fn has_seed(geometry: &Geometry) -> bool {
    let murmur = SeedDigest(crate::murmur::DATASKETCHES_SEED);
    geometry.kind != Kind::Quantiles && geometry.seed != murmur
}

macro_rules! any_sketch {
    ($($variant:ident($sketch:ty), $meaning:literal;)+) => {
        /// A sketch of any kind that can be stored.
        #[expect(
            clippy::large_enum_variant,
            reason = "a program has few of them, and their counters are elsewhere"
        )]
        pub enum AnySketch {
            $(#[doc = $meaning] $variant($sketch),)+
        }

        impl AnySketch {
            /// Returns the geometry.
            #[must_use]
            pub fn geometry(&self) -> Geometry {
                match self {
                    $(Self::$variant(sketch) => sketch.geometry(),)+
                }
            }

            /// Returns the sum of all weights.
            #[must_use]
            pub fn total(&self) -> u64 {
                match self {
                    $(Self::$variant(sketch) => sketch.total(),)+
                }
            }

            /// Counts a batch.
            pub fn update(&mut self, updates: Updates<'_>) {
                match self {
                    $(Self::$variant(sketch) => sketch.update(updates),)+
                }
            }

            /// Ends an interval, as [`Sketch::flush`].
            pub fn flush(&mut self) {
                match self {
                    $(Self::$variant(sketch) => sketch.flush(),)+
                }
            }

            /// Returns the bytes that the sketch occupies.
            #[must_use]
            pub fn memory(&self) -> usize {
                match self {
                    $(Self::$variant(sketch) => sketch.memory(),)+
                }
            }

            fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant(sketch) => sketch.write(out),)+
                }
            }

            fn read(
                geometry: &Geometry,
                seed: Option<Seed>,
                reader: &mut Reader<'_>,
            ) -> Result<Self, StateError> {
                match geometry.kind {
                    $(Kind::$variant => Sketch::read(geometry, seed, reader).map(Self::$variant),)+
                }
            }

            /// Adds another sketch, as [`Sketch::merge`].
            ///
            /// # Errors
            /// Fails if kinds, geometries or seeds differ, or if the kind has no such merge.
            pub fn merge(&mut self, other: &Self, overlap: Overlap) -> Result<(), MergeError> {
                match (self, other) {
                    $((Self::$variant(one), Self::$variant(two)) => one.merge(two, overlap),)+
                    (one, two) => {
                        let (one, two) = (one.geometry().kind, two.geometry().kind);
                        Err(MergeError::Kind(one.name(), two.name()))
                    }
                }
            }
        }

        $(impl From<$sketch> for AnySketch {
            fn from(sketch: $sketch) -> Self {
                Self::$variant(sketch)
            }
        })+
    };
}

any_sketch! {
    CountMin(crate::CountMin), "A Count-Min sketch.";
    Reversible(crate::Reversible), "A reversible sketch.";
    SimpleTable(crate::SimpleTable), "The simple hash table.";
    HeavyHitters(crate::HeavyHitters), "The heavy-hitter table.";
    Distinct(crate::HyperLogLog), "The number of different keys.";
    FanOut(crate::FanOut<crate::HeavyHitters>), "The number of partners of each key.";
    Quantiles(crate::Quantiles), "The distribution of values.";
    Prefixes(crate::Prefixes<crate::HeavyHitters>), "Heavy prefixes.";
    Entropy(crate::Entropy<crate::HeavyHitters>), "The entropy of the keys.";
}

#[cfg(test)]
mod tests;
