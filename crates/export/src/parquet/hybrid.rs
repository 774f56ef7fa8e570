//! The hybrid of runs and bits in which Parquet writes small numbers ("Run Length Encoding /
//! Bit-Packing Hybrid").

/// A number, and how often it comes in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) number: u32,
    pub(super) count: u32,
}

/// Numbers that are packed together.
const GROUP: usize = 8;

/// Groups whose number fits a byte with the bit that says that they are groups.
const GROUPS: usize = 63;

/// Bits that the numbers below `count` take.
pub(super) const fn width(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

/// What stands before a number that comes `count` times.
pub(super) fn run_header(count: usize, page: &mut Vec<u8>) {
    varint((count as u64) << 1, page);
}

/// What stands before so many groups of eight numbers.
pub(super) fn groups_header(groups: usize, page: &mut Vec<u8>) {
    varint((groups as u64) << 1 | 1, page);
}

/// A number in groups of seven bits, the lowest first (ULEB128).
fn varint(mut value: u64, page: &mut Vec<u8>) {
    while value >= 0x80 {
        page.push(value as u8 | 0x80);
        value >>= 7;
    }
    page.push(value as u8);
}

/// Appends numbers of `width` bits, at most 32.
pub(super) fn write(runs: &[Run], width: u32, page: &mut Vec<u8>) {
    let mut packer = Packer {
        page,
        width,
        header_at: 0,
        bits: 0,
        used: 0,
        count: 0,
    };
    for run in runs {
        let count = run.count as usize;
        if count < GROUP && width > 0 {
            packer.pack(run.number, count);
            continue;
        }
        // A run begins where a group ends.
        let missing = packer.count.wrapping_neg() % GROUP;
        if count >= missing + GROUP || width == 0 {
            let missing = missing.min(count);
            packer.pack(run.number, missing);
            packer.end_groups();
            run_header(count - missing, packer.page);
            let bytes = width.div_ceil(8) as usize;
            packer
                .page
                .extend_from_slice(&run.number.to_le_bytes()[..bytes]);
        } else {
            packer.pack(run.number, count);
        }
    }
    // What stands behind the last number of the last group is read by nobody.
    packer.pack(0, packer.count.wrapping_neg() % GROUP);
    packer.end_groups();
}

/// Packs numbers, in groups behind a header that is known when they end.
struct Packer<'a> {
    page: &'a mut Vec<u8>,
    width: u32,
    /// Where the header of the groups at hand is.
    header_at: usize,
    /// Bits that are no four bytes yet, and how many.
    bits: u64,
    used: u32,
    /// Numbers behind the header; none without one.
    count: usize,
}

impl Packer<'_> {
    #[inline(always)]
    fn pack(&mut self, number: u32, times: usize) {
        for _ in 0..times {
            if self.count == 0 {
                self.header_at = self.page.len();
                self.page.push(0);
            }
            self.bits |= u64::from(number) << self.used;
            self.used += self.width;
            if self.used >= u32::BITS {
                self.page
                    .extend_from_slice(&(self.bits as u32).to_le_bytes());
                self.bits >>= u32::BITS;
                self.used -= u32::BITS;
            }
            self.count += 1;
            if self.count == GROUPS * GROUP {
                self.end_groups();
            }
        }
    }

    /// Ends the groups, which are whole.
    fn end_groups(&mut self) {
        if self.count == 0 {
            return;
        }
        let bytes = self.used.div_ceil(8) as usize;
        self.page
            .extend_from_slice(&self.bits.to_le_bytes()[..bytes]);
        (self.bits, self.used) = (0, 0);
        if let Some(header) = self.page.get_mut(self.header_at) {
            *header = (self.count / GROUP) as u8 * 2 + 1;
        }
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A plain reading of the format.
    fn read(mut page: &[u8], width: u32, count: usize) -> Vec<u32> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            let mut header = 0u64;
            for shift in (0..).step_by(7) {
                let byte = page[0];
                page = &page[1..];
                header |= u64::from(byte & 0x7f) << shift;
                if byte < 0x80 {
                    break;
                }
            }
            let times = (header >> 1) as usize;
            if header & 1 == 0 {
                let (value, rest) = page.split_at(width.div_ceil(8) as usize);
                let mut bytes = [0; 4];
                bytes[..value.len()].copy_from_slice(value);
                numbers.resize(numbers.len() + times, u32::from_le_bytes(bytes));
                page = rest;
            } else {
                let (bits, rest) = page.split_at(times * width as usize);
                let bit = |at: usize| u32::from(bits[at / 8] >> (at % 8) & 1);
                numbers.extend((0..times * GROUP).map(|number| {
                    let first = number * width as usize;
                    (0..width as usize).fold(0, |value, at| value | bit(first + at) << at)
                }));
                page = rest;
            }
        }
        assert!(page.is_empty());
        numbers.truncate(count);
        numbers
    }

    proptest! {
        #[test]
        fn runs_read_back(
            width in 0u32..20, runs in prop::collection::vec((any::<u32>(), prop_oneof![1u32..4, 1u32..40]), 1..600)
        ) {
            let runs: Vec<Run> = runs
                .iter()
                .map(|&(number, count)| Run { number: number & ((1 << width) - 1), count })
                .collect();
            let expected: Vec<u32> = runs
                .iter()
                .flat_map(|run| std::iter::repeat_n(run.number, run.count as usize))
                .collect();
            let mut page = Vec::new();
            write(&runs, width, &mut page);
            prop_assert_eq!(read(&page, width, expected.len()), expected);
        }
    }

    #[test]
    fn widths_hold_all_numbers() {
        for (count, bits) in [
            (0, 0),
            (1, 0),
            (2, 1),
            (3, 2),
            (4, 2),
            (5, 3),
            (256, 8),
            (257, 9),
        ] {
            assert_eq!(width(count), bits, "{count}");
        }
    }
}
