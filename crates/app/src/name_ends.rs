//! How the names of a table end, for most hosts to be told from all of them by a look at their last
//! bytes.

/// Last bytes of a name that are looked at: as many of these as it has. Hosts of other names seldom
/// end in the same eight.
const LENGTHS: [usize; 3] = [8, 5, 4];

/// Words of the map; a word has 64 bits.
const WORDS: usize = 64;

/// The bit by which letters of a host differ from those of a name in case alone.
const CASE: u64 = 0x2020_2020_2020_2020;

/// An odd number without a pattern (the golden ratio's fraction).
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bit for each end that a name has, and for others that share it.
#[derive(Clone, Debug)]
pub(super) struct NameEnds {
    bits: [u64; WORDS],
    /// Whether any host may be below a name: one is shorter than all of [`LENGTHS`].
    any: bool,
}

impl Default for NameEnds {
    fn default() -> Self {
        Self {
            bits: [0; WORDS],
            any: false,
        }
    }
}

impl NameEnds {
    /// Adds a name.
    pub(super) fn add(&mut self, name: &[u8]) {
        let Some(length) = LENGTHS.into_iter().find(|length| *length <= name.len()) else {
            self.any = true;
            return;
        };
        let mut last = [0; LENGTHS[0]];
        last[LENGTHS[0] - length..].copy_from_slice(&name[name.len() - length..]);
        let (word, bit) = place(last, length);
        self.bits[word] |= bit;
    }

    /// Whether a host, whatever the case of its letters, may be one of the names or below one.
    #[inline]
    pub(super) fn may_have(&self, host: &[u8]) -> bool {
        let Some(last) = host.last_chunk() else {
            return true;
        };
        let has_end = |any, length: &usize| {
            let (word, bit) = place(*last, *length);
            any | (self.bits[word] & bit != 0)
        };
        self.any | LENGTHS.iter().fold(false, has_end)
    }
}

/// The place of the last `length` of eight bytes: the word, and the bit in it.
#[inline(always)]
fn place(last: [u8; LENGTHS[0]], length: usize) -> (usize, u64) {
    let end = (u64::from_le_bytes(last) | CASE) >> (8 * (LENGTHS[0] - length));
    let hash = (end ^ length as u64).wrapping_mul(MIX) >> 52;
    ((hash >> 6) as usize, 1 << (hash & 63))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn most_hosts_of_other_names_are_told() {
        let mut ends = NameEnds::default();
        for number in 0..150 {
            ends.add(format!("name{number}.example").as_bytes());
        }
        ends.add(b"t.co");
        assert!(ends.may_have(b"WWW.NAME7.EXAMPLE") && ends.may_have(b"a.t.co"));
        let may = |number| ends.may_have(format!("www.other{number}.com").as_bytes());
        let told = (0..10_000).filter(|number| !may(*number)).count();
        assert!(told > 9_000, "{told}");
        ends.add(b"de");
        assert!(ends.may_have(b"www.other.com"));
    }

    proptest! {
        #[test]
        fn no_name_is_missed(name in "[a-z.é-]{1,20}", below in "[A-Za-z0-9.]{0,20}") {
            let mut ends = NameEnds::default();
            ends.add(name.as_bytes());
            let host = format!("{below}{}", name.to_ascii_uppercase());
            prop_assert!(ends.may_have(host.as_bytes()));
            prop_assert!(ends.may_have(name.as_bytes()));
        }
    }
}
