//! The hybrid encoding for small integers ("Run Length Encoding / Bit-Packing Hybrid").

/// Numbers per bit-packed group.
pub(super) const GROUP: usize = 8;

/// Minimum packed size, in bytes, from which on a run is shorter than groups of the same number.
const RUN_BYTES_MIN: usize = 4;

/// Returns the bit width of the numbers below `count`.
pub(super) const fn bit_width(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

/// Appends the header of a run of `count` equal numbers.
pub(super) fn run_header(count: usize, page: &mut Vec<u8>) {
    varint((count as u64) << 1, page);
}

/// Appends the header of a sequence of bit-packed groups.
pub(super) fn groups_header(groups: usize, page: &mut Vec<u8>) {
    varint((groups as u64) << 1 | 1, page);
}

/// Appends an unsigned LEB128 number.
pub(super) fn varint(mut value: u64, page: &mut Vec<u8>) {
    while value >= 0x80 {
        page.push(value as u8 | 0x80);
        value >>= 7;
    }
    page.push(value as u8);
}

/// Appends numbers of `width` bits, at most 32.
pub(super) fn write(numbers: &[u32], width: u32, page: &mut Vec<u8>) {
    let (groups, rest) = numbers.as_chunks();
    // Groups from `pending` on are not written yet.
    let (mut pending, mut at) = (0, 0);
    while let Some(group) = groups.get(at) {
        let repeated = repeated_groups(&groups[at..]);
        let ends = at + repeated == groups.len();
        // The remainder may continue the last run.
        let tail = if repeated > 0 && ends && rest.iter().all(|it| *it == group[0]) {
            rest.len()
        } else {
            0
        };
        if repeated * width as usize >= RUN_BYTES_MIN || (repeated > 0 && width == 0) {
            pack_groups(&groups[pending..at], width, page);
            write_run(group[0], repeated * GROUP + tail, width, page);
            at += repeated;
            pending = at;
            if tail > 0 {
                return;
            }
        } else {
            at += repeated.max(1);
        }
    }
    pack_groups(&groups[pending..], width, page);
    match rest {
        [] => {}
        [first, others @ ..] if others.iter().all(|it| it == first) => {
            write_run(*first, rest.len(), width, page);
        }
        _ => {
            // Readers ignore the padding of the last group.
            let mut last = [0; GROUP];
            last[..rest.len()].copy_from_slice(rest);
            pack_groups(&[last], width, page);
        }
    }
}

/// Returns how many groups from the start contain only the same number.
#[inline]
fn repeated_groups(groups: &[[u32; GROUP]]) -> usize {
    let Some(first) = groups.first() else {
        return 0;
    };
    let same = |group: &[u32; GROUP]| {
        let differs = group.iter().fold(0, |all, it| all | (it ^ first[0]));
        differs == 0
    };
    groups.iter().take_while(|group| same(group)).count()
}

/// Appends a run of `count` equal numbers.
fn write_run(number: u32, count: usize, width: u32, page: &mut Vec<u8>) {
    run_header(count, page);
    let bytes = width.div_ceil(8) as usize;
    page.extend_from_slice(&number.to_le_bytes()[..bytes]);
}

/// Appends bit-packed groups, lowest bits first.
fn pack_groups(groups: &[[u32; GROUP]], width: u32, page: &mut Vec<u8>) {
    if groups.is_empty() {
        return;
    }
    groups_header(groups.len(), page);
    let begin = page.len();
    page.resize(begin + groups.len() * width as usize, 0);
    let buffer = &mut page[begin..];
    // Specialises the code for each width, so that shifts are constant.
    macro_rules! by_width {
        ($($bits:literal)*) => {
            match width {
                $($bits => pack::<$bits>(groups, buffer),)*
                _ => debug_assert!(width == 0, "{width} bits"),
            }
        };
    }
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
}

/// Packs each group into `WIDTH` bytes.
fn pack<const WIDTH: usize>(groups: &[[u32; GROUP]], buffer: &mut [u8]) {
    let (chunks, _) = buffer.as_chunks_mut::<WIDTH>();
    for (group, chunk) in groups.iter().zip(chunks) {
        let mut bits: u128 = 0;
        let (mut used, mut at) = (0, 0);
        for &number in group {
            bits |= u128::from(number) << used;
            used += WIDTH;
            if used >= 64 {
                chunk[at..at + 8].copy_from_slice(&(bits as u64).to_le_bytes());
                bits >>= 64;
                used -= 64;
                at += 8;
            }
        }
        let rest = WIDTH - at;
        chunk[at..].copy_from_slice(&(bits as u64).to_le_bytes()[..rest]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A straightforward decoder.
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
        fn numbers_read_back(
            width in 0u32..=32, runs in prop::collection::vec((any::<u32>(), prop_oneof![1usize..4, 1usize..40]), 0..600)
        ) {
            let mask = 1u32.checked_shl(width).map_or(u32::MAX, |it| it - 1);
            let numbers: Vec<u32> = runs
                .iter()
                .flat_map(|&(number, count)| std::iter::repeat_n(number & mask, count))
                .collect();
            let mut page = Vec::new();
            write(&numbers, width, &mut page);
            prop_assert_eq!(read(&page, width, numbers.len()), numbers);
        }
    }

    #[test]
    fn bit_widths_fit_all_numbers() {
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
            assert_eq!(bit_width(count), bits, "{count}");
        }
    }
}
