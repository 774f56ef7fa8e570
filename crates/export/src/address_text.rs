//! IP addresses and single octets as text.

use crate::text::Cursor;

/// Every octet in decimal followed by a dot, and the length of that text.
static OCTETS: ([[u8; 4]; 256], [u8; 256]) = octets();

const fn octets() -> ([[u8; 4]; 256], [u8; 256]) {
    let mut texts = [[0; 4]; 256];
    let mut lengths = [0; 256];
    let mut octet = 0;
    while octet < 256 {
        let digits = [
            b'0' + (octet / 100) as u8,
            b'0' + (octet / 10 % 10) as u8,
            b'0' + (octet % 10) as u8,
        ];
        let (text, length) = match octet {
            0..10 => ([digits[2], b'.', 0, 0], 2),
            10..100 => ([digits[1], digits[2], b'.', 0], 3),
            _ => ([digits[0], digits[1], digits[2], b'.'], 4),
        };
        texts[octet] = text;
        lengths[octet] = length;
        octet += 1;
    }
    (texts, lengths)
}

/// Returns the text of an IPv4 address (first byte lowest, padded with zeroes) and its length.
#[inline]
pub(crate) fn ipv4_text(address: [u8; 4]) -> (u128, usize) {
    let (texts, lengths) = &OCTETS;
    let mut text = 0;
    let mut length = 0;
    for octet in address.map(usize::from) {
        text |= u128::from(u32::from_le_bytes(texts[octet])) << (8 * length);
        length += usize::from(lengths[octet]);
    }
    // Drop the last dot.
    length -= 1;
    (text & ((1 << (8 * length)) - 1), length)
}

impl Cursor<'_> {
    /// Writes an octet in decimal.
    #[inline]
    pub fn octet(&mut self, octet: u8) {
        let (texts, lengths) = &OCTETS;
        let octet = usize::from(octet);
        self.put(&texts[octet], usize::from(lengths[octet]) - 1);
    }

    /// Writes an IPv4 address in dotted decimal.
    #[inline]
    pub fn ipv4(&mut self, address: [u8; 4]) {
        let (texts, lengths) = &OCTETS;
        for (index, octet) in address.into_iter().enumerate() {
            let octet = usize::from(octet);
            let dot = usize::from(index == 3);
            self.put(&texts[octet], usize::from(lengths[octet]) - dot);
        }
    }

    /// Writes an IPv6 address in the canonical form of RFC 5952 section 4: lower case, no leading
    /// zeroes, the longest run of two or more zero groups (the first one on a tie) as `::`;
    /// IPv4-mapped addresses end in dotted decimal (section 5). Returns the new offset.
    #[inline(never)]
    pub(crate) fn ipv6_groups(mut self, address: &[u8; 16]) -> u32 {
        if let [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] = *address {
            self.put(b"::ffff:", 7);
            self.ipv4([a, b, c, d]);
            return self.offset();
        }
        let (pairs, _) = address.as_chunks::<2>();
        let (run_start, run_length) = longest_zero_run(pairs);
        let mut index = 0;
        // No colon follows the start of the address or `::`.
        let mut separated = true;
        while let Some(group) = pairs.get(index) {
            if index == run_start && run_length >= 2 {
                self.put(b"::", 2);
                separated = true;
                index += run_length;
                continue;
            }
            if !separated {
                self.byte(b':');
            }
            separated = false;
            self.group(u16::from_be_bytes(*group));
            index += 1;
        }
        self.offset()
    }

    /// Writes 16 bits in hexadecimal without leading zeroes.
    #[inline]
    fn group(&mut self, group: u16) {
        let digits = [group >> 12, group >> 8, group >> 4, group].map(|digit| {
            let digit = (digit & 15) as u8;
            digit + if digit < 10 { b'0' } else { b'a' - 10 }
        });
        // Zero still needs one digit.
        let skipped = (group | 1).leading_zeros() / 4;
        let text = u32::from_le_bytes(digits) >> (8 * skipped);
        self.put(&text.to_le_bytes(), 4 - skipped as usize);
    }
}

/// Returns the start and length of the longest run of zero groups (the first one on a tie).
fn longest_zero_run(groups: &[[u8; 2]]) -> (usize, usize) {
    let mut best = (0, 0);
    let mut length = 0;
    for (index, group) in groups.iter().enumerate() {
        length = if *group == [0, 0] { length + 1 } else { 0 };
        if length > best.1 {
            best = (index + 1 - length, length);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::TextBuffer;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    fn ipv4(address: [u8; 4]) -> String {
        let mut text = TextBuffer::default();
        text.append(Cursor::VALUE_BYTES_MAX, |cursor| cursor.ipv4(address));
        String::from_utf8(text.as_bytes().to_vec()).unwrap()
    }

    fn ipv6(address: Ipv6Addr) -> String {
        let mut text = TextBuffer::default();
        text.append(Cursor::VALUE_BYTES_MAX, |cursor| {
            cursor.ipv6(&address.octets());
        });
        String::from_utf8(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn octets_match_std() {
        for octet in 0..=u8::MAX {
            let mut text = TextBuffer::default();
            text.append(3, |cursor| cursor.octet(octet));
            assert_eq!(text.as_bytes(), octet.to_string().as_bytes());
        }
    }

    /// The examples in RFC 5952 sections 1, 4.1, 4.2.1 to 4.2.3, 4.3 and 5.
    #[test]
    fn matches_the_examples_of_rfc_5952() {
        for (read, written) in [
            ("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
            ("2001:0db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
            ("2001:DB8:0:0:1::1", "2001:db8::1:0:0:1"),
            ("2001:0db8::0001", "2001:db8::1"),
            ("2001:db8:0:0:0:0:2:1", "2001:db8::2:1"),
            ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
            ("2001:0:0:1:0:0:0:1", "2001:0:0:1::1"),
            ("2001:db8::AAAA", "2001:db8::aaaa"),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
            ("::", "::"),
            ("::1", "::1"),
            ("1::", "1::"),
            ("0:1:1:1:1:1:1:0", "0:1:1:1:1:1:1:0"),
        ] {
            assert_eq!(ipv6(read.parse().unwrap()), written, "{read}");
        }
    }

    proptest! {
        #[test]
        fn ipv4_matches_std(address: [u8; 4]) {
            let expected = Ipv4Addr::from(address).to_string();
            let (text, length) = ipv4_text(address);
            let text = text.to_le_bytes();
            let (kept, rest) = text.split_at(length);
            prop_assert_eq!(kept, expected.as_bytes());
            prop_assert!(rest.iter().all(|&byte| byte == 0));
            prop_assert_eq!(ipv4(address), expected);
        }

        #[test]
        fn ipv6_matches_std(groups: [u16; 8], zeroes: u8, shift in 0_u32..16) {
            // Random groups have no zeroes: clear some, shorten others.
            let mut groups = groups;
            for (index, group) in groups.iter_mut().enumerate() {
                *group = if zeroes >> index & 1 == 1 { 0 } else { *group >> shift };
            }
            let address = Ipv6Addr::from(groups);
            prop_assert_eq!(ipv6(address), address.to_string());
        }
    }
}
