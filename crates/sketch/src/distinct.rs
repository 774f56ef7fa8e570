//! The number of different keys: HyperLogLog (Flajolet, Fusy, Gandouet and Meunier, 2007), with the
//! registers, the image and the estimator of Apache DataSketches' HLL_8.

use crate::bytes::Reader;
use crate::error::{MergeError, SizeError, StateError};
use crate::geometry::{Geometry, Kind};
use crate::interface::{ErrorBound, Overlap, Sketch};
use crate::murmur;
use crate::normal::standard_deviations;
use crate::seed::{Seed, SeedDigest};
use crate::updates::Updates;
use datasketches::common::NumStdDev;
use datasketches::hll::HllSketch;

/// How keys become registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistinctHash {
    /// By the hash of the batch, which costs nothing more. Only states of the same seed can be united.
    Keyed,
    /// By MurmurHash3 with DataSketches' seed over the last bytes of the key in network order (an IPv4
    /// address has 4), as DataSketches hashes a byte string: any DataSketches can unite it with its
    /// own. Without a secret seed an attacker can choose keys that raise the estimate.
    Murmur {
        /// Number of bytes, at most 16.
        key_bytes: u8,
    },
}

/// The number of different keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistinctEstimate {
    /// The estimate.
    pub value: f64,
    /// The number is not smaller, with a confidence of 97.7 %.
    pub low: f64,
    /// The number is not larger, with a confidence of 97.7 %.
    pub high: f64,
}

/// A HyperLogLog with a byte a register. It is always dense: unlike DataSketches it has no list of the
/// first keys, because a branch on a mode costs each packet more than the few kilobytes are worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperLogLog {
    lg_registers: u8,
    hash: DistinctHash,
    seed: SeedDigest,
    total: u64,
    registers: Box<[u8]>,
}

/// The digest that states hashed by murmur have in place of the seed's: all probes agree.
const MURMUR_DIGEST: SeedDigest = SeedDigest(murmur::DATASKETCHES_SEED);

/// The standard error is this over the root of the number of registers: the root of 3 ln 2 - 1.
const STANDARD_ERROR: f64 = 1.038_96;

/// Registers of DataSketches have 6 bits.
const REGISTER_MAX: u8 = 63;

mod image {
    //! The fields of a DataSketches HLL image, as its documentation of the preamble defines them.
    pub(super) const LIST_INTS: u8 = 2;
    pub(super) const SET_INTS: u8 = 3;
    pub(super) const DENSE_INTS: u8 = 10;
    pub(super) const SERIAL_VERSION: u8 = 1;
    pub(super) const FAMILY: u8 = 7;
    pub(super) const COMPACT: u8 = 8;
    pub(super) const OUT_OF_ORDER: u8 = 16;
    pub(super) const MODE_LIST: u8 = 0;
    pub(super) const MODE_SET: u8 = 1;
    pub(super) const MODE_DENSE: u8 = 2;
    pub(super) const TYPE_HLL_4: u8 = 0;
    pub(super) const TYPE_HLL_6: u8 = 1;
    pub(super) const TYPE_HLL_8: u8 = 2;
    /// Bytes before the registers.
    pub(super) const DENSE_HEAD: usize = 40;
    /// A coupon is a register's value above this many bits of its number.
    pub(super) const COUPON_BITS: u32 = 26;
}

impl HyperLogLog {
    /// Smallest and largest binary logarithm of the number of registers, as DataSketches has them.
    pub const LG_REGISTERS: core::ops::RangeInclusive<u8> = 4..=21;

    /// Creates a sketch with 2^`lg_registers` registers of a byte. Its standard error is 1.04 over the
    /// root of their number: 0.8 % for 2^14.
    ///
    /// # Errors
    /// Fails if a number is outside its range.
    pub fn new(lg_registers: u8, hash: DistinctHash, seed: Seed) -> Result<Self, SizeError> {
        let digest = match hash {
            DistinctHash::Keyed => seed.digest(),
            DistinctHash::Murmur { key_bytes } => {
                if key_bytes > 16 {
                    return Err(range("the bytes of a key", 0.0, 16.0, key_bytes.into()));
                }
                MURMUR_DIGEST
            }
        };
        Self::with_digest(lg_registers, hash, digest)
    }

    /// Creates a sketch whose standard error is at most `error` (a fraction).
    ///
    /// # Errors
    /// Fails if no size has such an error.
    pub fn for_error(error: f64, hash: DistinctHash, seed: Seed) -> Result<Self, SizeError> {
        let (least, most) = (Self::LG_REGISTERS.start(), Self::LG_REGISTERS.end());
        let fits = |lg: &u8| standard_error(*lg) <= error;
        let Some(lg) = Self::LG_REGISTERS.into_iter().find(fits) else {
            let (least, most) = (standard_error(*most), standard_error(*least));
            return Err(range("the standard error", least, most, error));
        };
        Self::new(lg, hash, seed)
    }

    fn with_digest(lg: u8, hash: DistinctHash, seed: SeedDigest) -> Result<Self, SizeError> {
        if !Self::LG_REGISTERS.contains(&lg) {
            let (least, most) = (Self::LG_REGISTERS.start(), Self::LG_REGISTERS.end());
            let what = "the binary logarithm of the number of registers";
            return Err(range(what, f64::from(*least), f64::from(*most), lg.into()));
        }
        Ok(Self {
            lg_registers: lg,
            hash,
            seed,
            total: 0,
            registers: vec![0; 1 << lg].into_boxed_slice(),
        })
    }

    /// Counts a key of which only the bytes are known, by murmur.
    pub fn insert_bytes(&mut self, bytes: &[u8]) {
        let hash = murmur::hash128(bytes, murmur::DATASKETCHES_SEED);
        raise_by_murmur(&mut self.registers, hash);
    }

    /// Estimates the number of keys by DataSketches' composite estimator, so that it is what Python,
    /// Java and C++ read from the [image](Self::image).
    ///
    /// The estimator of the first paper, with linear counting up to 2.5 keys a register, is 2 to 3 %
    /// off where it changes from one to the other; this one is within a tenth of a standard error.
    #[must_use]
    pub fn estimate(&self) -> DistinctEstimate {
        // The image is our own. If the crate ever refused it, an infinite upper bound would show that
        // nothing is known.
        let Ok(sketch) = HllSketch::deserialize(&self.image()) else {
            return DistinctEstimate {
                value: 0.0,
                low: 0.0,
                high: f64::INFINITY,
            };
        };
        DistinctEstimate {
            value: sketch.estimate(),
            low: sketch.lower_bound(NumStdDev::Two),
            high: sketch.upper_bound(NumStdDev::Two),
        }
    }

    /// Returns the image of an HLL_8 sketch, which DataSketches in any language reads. It is marked as
    /// out of order: readers must not use the historic estimator, whose sum we do not keep, because it
    /// does not survive a union.
    #[must_use]
    pub fn image(&self) -> Vec<u8> {
        let zeros = self.registers.iter().filter(|&&value| value == 0).count();
        let inverse = |low: bool| -> f64 {
            let part = self.registers.iter().filter(|&&value| (value < 32) == low);
            part.map(|&value| 2f64.powi(-i32::from(value))).sum()
        };
        let mut bytes = Vec::with_capacity(image::DENSE_HEAD + self.registers.len());
        bytes.extend([
            image::DENSE_INTS,
            image::SERIAL_VERSION,
            image::FAMILY,
            self.lg_registers,
            0,
            image::OUT_OF_ORDER,
            0,
            image::MODE_DENSE | image::TYPE_HLL_8 << 2,
        ]);
        bytes.extend(0f64.to_le_bytes());
        bytes.extend(inverse(true).to_le_bytes());
        bytes.extend(inverse(false).to_le_bytes());
        bytes.extend((zeros as u32).to_le_bytes());
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(&self.registers);
        bytes
    }

    /// Reads an HLL image of any DataSketches: HLL_4, HLL_6 or HLL_8, as list, set or registers. It can
    /// be merged with sketches of [`DistinctHash::Murmur`].
    ///
    /// # Errors
    /// Fails if the bytes are not such an image.
    pub fn from_image(bytes: &[u8]) -> Result<Self, StateError> {
        let mut reader = Reader::new(bytes);
        let [ints, version, family, lg, lg_list, flags, count, mode] = reader.array()?;
        if version != image::SERIAL_VERSION || family != image::FAMILY {
            return Err(StateError::Damaged("it is no HLL image of version 1"));
        }
        let hash = DistinctHash::Murmur { key_bytes: 0 };
        let mut sketch = Self::with_digest(lg, hash, MURMUR_DIGEST)?;
        match (mode & 3, mode >> 2, ints) {
            (image::MODE_LIST, _, image::LIST_INTS) => {
                sketch.read_coupons(&mut reader, count.into(), lg_list, flags)?;
            }
            (image::MODE_SET, _, image::SET_INTS) => {
                let count = reader.u32()? as usize;
                sketch.read_coupons(&mut reader, count, lg_list, flags)?;
            }
            (image::MODE_DENSE, image::TYPE_HLL_8, image::DENSE_INTS) => {
                reader.take(image::DENSE_HEAD - 8)?;
                sketch.read_registers(&mut reader)?;
            }
            (image::MODE_DENSE, image::TYPE_HLL_6, image::DENSE_INTS) => {
                reader.take(image::DENSE_HEAD - 8)?;
                sketch.read_six_bits(&mut reader)?;
            }
            (image::MODE_DENSE, image::TYPE_HLL_4, image::DENSE_INTS) => {
                reader.take(image::DENSE_HEAD - 12)?;
                let exceptions = reader.u32()? as usize;
                sketch.read_four_bits(&mut reader, count)?;
                sketch.read_coupons(&mut reader, exceptions, lg_list, flags)?;
            }
            _ => return Err(StateError::Damaged("its mode is none of HLL's")),
        }
        Ok(sketch)
    }

    fn read_registers(&mut self, reader: &mut Reader<'_>) -> Result<(), StateError> {
        let registers = reader.take(self.registers.len())?;
        if registers.iter().any(|&value| value > REGISTER_MAX) {
            return Err(StateError::Damaged("a register is above its largest value"));
        }
        self.registers.copy_from_slice(registers);
        Ok(())
    }

    /// Reads registers of six bits, lowest bits first.
    fn read_six_bits(&mut self, reader: &mut Reader<'_>) -> Result<(), StateError> {
        let packed = reader.take(self.registers.len() / 4 * 3)?;
        let (groups, _) = packed.as_chunks::<3>();
        let (quads, _) = self.registers.as_chunks_mut::<4>();
        for (quad, &[a, b, c]) in quads.iter_mut().zip(groups) {
            *quad = [a, a >> 6 | b << 2, b >> 4 | c << 4, c >> 2].map(|bits| bits & REGISTER_MAX);
        }
        // DataSketches writes one byte more than the registers need.
        reader.take(1).map(|_| ())
    }

    /// Reads registers of four bits above `least`. The largest of these values says that a coupon after
    /// them has the register.
    fn read_four_bits(&mut self, reader: &mut Reader<'_>, least: u8) -> Result<(), StateError> {
        const EXCEPTION: u8 = 15;
        if least > REGISTER_MAX - EXCEPTION {
            return Err(StateError::Damaged("a register is above its largest value"));
        }
        let packed = reader.take(self.registers.len() / 2)?;
        let (pairs, _) = self.registers.as_chunks_mut::<2>();
        for (pair, byte) in pairs.iter_mut().zip(packed) {
            *pair = [byte & 15, byte >> 4].map(|bits| match bits {
                EXCEPTION => 0,
                bits => least + bits,
            });
        }
        Ok(())
    }

    /// Reads the list or set of the first keys. An image that is not compact has empty slots as well.
    fn read_coupons(
        &mut self,
        reader: &mut Reader<'_>,
        count: usize,
        lg_list: u8,
        flags: u8,
    ) -> Result<(), StateError> {
        let slots = if flags & image::COMPACT != 0 || count == 0 {
            count
        } else {
            1usize.checked_shl(lg_list.into()).unwrap_or(usize::MAX)
        };
        reader.check_left(slots, size_of::<u32>())?;
        for _ in 0..slots {
            let coupon = reader.u32()?;
            let value = (coupon >> image::COUPON_BITS) as u8;
            raise(&mut self.registers, coupon.into(), value);
        }
        Ok(())
    }
}

fn range(what: &'static str, least: f64, most: f64, given: f64) -> SizeError {
    SizeError::Range {
        what,
        least,
        most,
        given,
    }
}

fn standard_error(lg_registers: u8) -> f64 {
    STANDARD_ERROR / f64::from(1u32 << lg_registers).sqrt()
}

/// Raises the register that the lowest bits of `index` name.
#[inline]
fn raise(registers: &mut [u8], index: u64, value: u8) {
    let index = index as usize & (registers.len() - 1);
    registers[index] = registers[index].max(value);
}

/// DataSketches takes the register from one half of the hash and the value from the other.
#[inline]
fn raise_by_murmur(registers: &mut [u8], [index, rank]: [u64; 2]) {
    let value = rank.leading_zeros().min(u32::from(REGISTER_MAX) - 1) as u8 + 1;
    raise(registers, index, value);
}

impl Sketch for HyperLogLog {
    fn update(&mut self, updates: Updates<'_>) {
        self.total = self.total.saturating_add(updates.total());
        match self.hash {
            DistinctHash::Keyed => {
                // The register is named by the lowest bits, the value by the highest. With the lowest
                // set, the leading zeros end before them.
                let registers = &mut *self.registers;
                let low_bits = registers.len() as u64 - 1;
                for &hash in updates.hashes() {
                    let value = (hash | low_bits).leading_zeros() as u8 + 1;
                    raise(registers, hash, value);
                }
            }
            DistinctHash::Murmur { key_bytes } => {
                let seed = murmur::DATASKETCHES_SEED;
                for &key in updates.keys() {
                    let hash = murmur::hash128_of_key(key, key_bytes, seed);
                    raise_by_murmur(&mut self.registers, hash);
                }
            }
        }
    }

    fn clear(&mut self) {
        self.total = 0;
        self.registers.fill(0);
    }

    fn total(&self) -> u64 {
        self.total
    }

    fn geometry(&self) -> Geometry {
        let by_murmur = match self.hash {
            DistinctHash::Keyed => 0,
            DistinctHash::Murmur { .. } => 1,
        };
        Geometry {
            kind: Kind::Distinct,
            dimensions: [self.lg_registers.into(), by_murmur, 0, 0, 0, 0],
            seed: self.seed,
        }
    }

    /// The result is the state of one sketch that saw all keys, exactly.
    fn merge(&mut self, other: &Self, _: Overlap) -> Result<(), MergeError> {
        self.geometry().check_equal(&other.geometry())?;
        self.total = self.total.saturating_add(other.total);
        for (register, &value) in self.registers.iter_mut().zip(&other.registers) {
            *register = (*register).max(value);
        }
        Ok(())
    }

    fn memory(&self) -> usize {
        self.registers.len()
    }

    fn error_bound(&self, confidence: f64) -> ErrorBound {
        let error = standard_deviations(confidence) * standard_error(self.lg_registers);
        ErrorBound {
            over: error,
            under: error,
            relative: true,
            confidence,
        }
    }

    /// The state is a number of key bytes, the total, and the [image](HyperLogLog::image).
    fn write(&self, out: &mut Vec<u8>) {
        let key_bytes = match self.hash {
            DistinctHash::Keyed => 0,
            DistinctHash::Murmur { key_bytes } => key_bytes,
        };
        out.push(key_bytes);
        out.extend(self.total.to_le_bytes());
        out.extend(self.image());
    }

    fn read(
        geometry: &Geometry,
        _: Option<Seed>,
        reader: &mut Reader<'_>,
    ) -> Result<Self, StateError> {
        let [lg, by_murmur, rest @ ..] = geometry.dimensions;
        let key_bytes = reader.u8()?;
        let hash = match by_murmur {
            0 => DistinctHash::Keyed,
            1 if key_bytes <= 16 => DistinctHash::Murmur { key_bytes },
            _ => return Err(StateError::Damaged("it has no known hash function")),
        };
        if rest != [0; 4] {
            return Err(StateError::Damaged(
                "it has dimensions that the kind has not",
            ));
        }
        let total = reader.u64()?;
        let lg = u8::try_from(lg).unwrap_or(u8::MAX);
        // Before memory is reserved for the registers.
        let registers = 1usize.checked_shl(lg.into()).unwrap_or(usize::MAX);
        reader.check_left(registers, 1)?;
        let mut sketch = Self::with_digest(lg, hash, geometry.seed)?;
        let head = reader.take(image::DENSE_HEAD)?;
        sketch.read_registers(reader)?;
        sketch.total = total;
        if sketch.image()[..image::DENSE_HEAD] != *head {
            return Err(StateError::Damaged("its registers contradict their head"));
        }
        Ok(sketch)
    }
}

#[cfg(test)]
mod tests;
