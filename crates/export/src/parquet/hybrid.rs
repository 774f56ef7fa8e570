//! The hybrid of runs and bits in which Parquet writes small numbers ("Run Length Encoding /
//! Bit-Packing Hybrid").

/// Numbers that are packed together.
pub(super) const GROUP: usize = 8;

/// Bytes of groups of one number alone from which on a run of it is shorter.
const ALIKE: usize = 4;

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
    // Groups from `waiting` on are not written yet.
    let (mut waiting, mut at) = (0, 0);
    while let Some(group) = groups.get(at) {
        let alike = alike(&groups[at..]);
        let ends = at + alike == groups.len();
        // The rest belongs to a run that it continues.
        let tail = if alike > 0 && ends && rest.iter().all(|it| *it == group[0]) {
            rest.len()
        } else {
            0
        };
        if alike * width as usize >= ALIKE || (alike > 0 && width == 0) {
            pack_groups(&groups[waiting..at], width, page);
            run(group[0], alike * GROUP + tail, width, page);
            at += alike;
            waiting = at;
            if tail > 0 {
                return;
            }
        } else {
            at += alike.max(1);
        }
    }
    pack_groups(&groups[waiting..], width, page);
    match rest {
        [] => {}
        [first, others @ ..] if others.iter().all(|it| it == first) => {
            run(*first, rest.len(), width, page);
        }
        _ => {
            // What stands behind the last number of the last group is read by nobody.
            let mut last = [0; GROUP];
            last[..rest.len()].copy_from_slice(rest);
            pack_groups(&[last], width, page);
        }
    }
}

/// How many groups are of one and the same number alone, from the first on.
#[inline(always)]
fn alike(groups: &[[u32; GROUP]]) -> usize {
    let Some(first) = groups.first() else {
        return 0;
    };
    let same = |group: &[u32; GROUP]| {
        let differs = group.iter().fold(0, |all, it| all | (it ^ first[0]));
        differs == 0
    };
    groups.iter().take_while(|group| same(group)).count()
}

/// A number that comes `count` times.
fn run(number: u32, count: usize, width: u32, page: &mut Vec<u8>) {
    run_header(count, page);
    let bytes = width.div_ceil(8) as usize;
    page.extend_from_slice(&number.to_le_bytes()[..bytes]);
}

/// Numbers in their bits, the first the lowest.
fn pack_groups(groups: &[[u32; GROUP]], width: u32, page: &mut Vec<u8>) {
    if groups.is_empty() {
        return;
    }
    groups_header(groups.len(), page);
    let begin = page.len();
    page.resize(begin + groups.len() * width as usize, 0);
    let room = &mut page[begin..];
    // The width is known where a group is packed: so its shifts are.
    macro_rules! by_width {
        ($($bits:literal)*) => {
            match width {
                $($bits => pack::<$bits>(groups, room),)*
                _ => debug_assert!(width == 0, "{width} bits"),
            }
        };
    }
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
}

/// Packs each group into as many bytes as a number has bits.
fn pack<const WIDTH: usize>(groups: &[[u32; GROUP]], room: &mut [u8]) {
    let (places, _) = room.as_chunks_mut::<WIDTH>();
    for (group, place) in groups.iter().zip(places) {
        let mut bits: u128 = 0;
        let (mut used, mut at) = (0, 0);
        for &number in group {
            bits |= u128::from(number) << used;
            used += WIDTH;
            if used >= 64 {
                place[at..at + 8].copy_from_slice(&(bits as u64).to_le_bytes());
                bits >>= 64;
                used -= 64;
                at += 8;
            }
        }
        let rest = WIDTH - at;
        place[at..].copy_from_slice(&(bits as u64).to_le_bytes()[..rest]);
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
