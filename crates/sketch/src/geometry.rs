//! What two states must have in common to be merged.

use crate::bytes::Reader;
use crate::error::{MergeError, StateError};
use crate::seed::SeedDigest;

/// The kinds of sketches. The numbers are part of the stored format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Kind {
    /// A Count-Min sketch.
    CountMin = 1,
    /// A reversible sketch.
    Reversible = 2,
    /// The simple hash table.
    SimpleTable = 3,
    /// The heavy-hitter table.
    HeavyHitters = 4,
    /// A HyperLogLog.
    Distinct = 5,
    /// Pairs seen, in front of a heavy-hitter table.
    FanOut = 6,
    /// A log-linear histogram.
    Quantiles = 7,
    /// Hierarchical heavy hitters.
    Prefixes = 8,
    /// The entropy of a distribution.
    Entropy = 9,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::CountMin,
        Self::Reversible,
        Self::SimpleTable,
        Self::HeavyHitters,
        Self::Distinct,
        Self::FanOut,
        Self::Quantiles,
        Self::Prefixes,
        Self::Entropy,
    ];

    /// Returns the name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CountMin => "count-min",
            Self::Reversible => "reversible",
            Self::SimpleTable => "simple table",
            Self::HeavyHitters => "heavy hitters",
            Self::Distinct => "distinct",
            Self::FanOut => "fan-out",
            Self::Quantiles => "quantiles",
            Self::Prefixes => "prefixes",
            Self::Entropy => "entropy",
        }
    }

    /// Returns the number in the stored format.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Returns the kind with a number, or `None` if there is none.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// Number of [`Geometry::dimensions`].
pub const DIMENSIONS: usize = 6;

/// What a sketch is made of. Sketches with equal geometries put equal keys in equal cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// The kind of sketch, which defines the dimensions.
    pub kind: Kind,
    /// Rows, columns, widths, policies, each as the kind defines them; 0 where it has fewer.
    pub dimensions: [u64; DIMENSIONS],
    /// The digest of the seed of the hashes.
    pub seed: SeedDigest,
}

impl Geometry {
    /// Appends kind, seed digest and dimensions.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.kind.number().to_le_bytes());
        out.extend(self.seed.0.to_le_bytes());
        for dimension in self.dimensions {
            out.extend(dimension.to_le_bytes());
        }
    }

    /// Reads what [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// Fails at the end of the bytes, or if there is no such kind.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, StateError> {
        let kind =
            Kind::from_number(reader.u16()?).ok_or(StateError::Damaged("its kind is unknown"))?;
        let seed = SeedDigest(reader.u64()?);
        let mut dimensions = [0; DIMENSIONS];
        for dimension in &mut dimensions {
            *dimension = reader.u64()?;
        }
        Ok(Self {
            kind,
            dimensions,
            seed,
        })
    }

    /// Checks that states with this and with the other geometry may be merged.
    ///
    /// # Errors
    /// Returns what differs.
    pub fn check_equal(&self, other: &Self) -> Result<(), MergeError> {
        if self.kind != other.kind {
            return Err(MergeError::Kind(self.kind.name(), other.kind.name()));
        }
        if self.dimensions != other.dimensions {
            return Err(MergeError::Dimensions(self.dimensions, other.dimensions));
        }
        if self.seed != other.seed {
            return Err(MergeError::Seed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_kinds() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_number(kind.number()), Some(kind));
        }
        assert_eq!(Kind::from_number(0), None);
    }

    /// Trap "seeds": a merge refuses on any difference.
    #[test]
    fn any_difference_is_refused() {
        let geometry = Geometry {
            kind: Kind::CountMin,
            dimensions: [4, 1024, 0, 0, 0, 0],
            seed: SeedDigest(1),
        };
        assert!(geometry.check_equal(&geometry).is_ok());
        let seed = SeedDigest(2);
        assert!(matches!(
            geometry.check_equal(&Geometry { seed, ..geometry }),
            Err(MergeError::Seed)
        ));
        for index in 0..DIMENSIONS {
            let mut other = geometry;
            other.dimensions[index] += 1;
            assert!(matches!(
                geometry.check_equal(&other),
                Err(MergeError::Dimensions(..))
            ));
        }
        let kind = Kind::Distinct;
        assert!(matches!(
            geometry.check_equal(&Geometry { kind, ..geometry }),
            Err(MergeError::Kind(..))
        ));
    }
}
