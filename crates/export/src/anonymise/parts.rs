//! Addresses embedded in text that may not be a valid name: lists of hosts, names with spaces or
//! brackets around them, addresses within a label.

use super::Anonymiser;
use super::host_address::ipv4;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Range;

/// Octets of an IPv4 address.
const OCTETS: usize = 4;

/// Maximum number of colons in an IPv6 address.
const COLONS_MAX: usize = 8;

impl Anonymiser {
    /// Anonymises each part of a text that reads as four dotted decimal numbers or as an IPv6
    /// address, delimited by characters that cannot belong to one. Of more than four numbers the
    /// last four are the address, as in labels. Returns `None` if nothing changed.
    pub(super) fn replace_embedded(&mut self, text: &str) -> Option<String> {
        let decoded = DecodedText::decoded(text);
        let within = |anonymiser: &mut Self, rest: &str| match rest.contains(ESCAPES) {
            // What looks like an escape may be literal text.
            true => anonymiser.replace_found(rest, &DecodedText::verbatim(rest), |_, _| None),
            false => None,
        };
        self.replace_found(text, &decoded, within)
    }

    /// Anonymises the addresses found in `decoded`, the decoded form of `text`, and applies `within`
    /// to the text between them.
    fn replace_found(
        &mut self,
        text: &str,
        decoded: &DecodedText,
        within: impl Fn(&mut Self, &str) -> Option<String>,
    ) -> Option<String> {
        let mut replacement = String::with_capacity(text.len());
        let mut changed = false;
        let mut copied = 0;
        for part in decoded.addresses() {
            let range = decoded.offsets[part.range.start]..decoded.offsets[part.range.end];
            let rest = &text[copied..range.start];
            replacement.push_str(within(self, rest).as_deref().unwrap_or(rest));
            // An escaped dot stays escaped: it does not separate labels.
            let mut dots = decoded.dots(part.range.clone(), text);
            for character in self.replacement(&part).to_string().chars() {
                match character {
                    '.' => replacement.push_str(dots.next().unwrap_or(".")),
                    _ => replacement.push(character),
                }
            }
            changed = true;
            copied = range.end;
        }
        let rest = &text[copied..];
        let replaced = within(self, rest);
        changed |= replaced.is_some();
        replacement.push_str(replaced.as_deref().unwrap_or(rest));
        changed.then_some(replacement)
    }

    /// Anonymises an address. If truncated and part of a name, it is truncated from both ends: the
    /// order of the octets is unknown.
    fn replacement(&mut self, part: &FoundAddress) -> IpAddr {
        let replacement = self.address(part.address);
        match replacement {
            IpAddr::V4(address) if part.is_in_name && self.truncates() => {
                let reversed = self.ipv4(u32::from(address).swap_bytes());
                Ipv4Addr::from(reversed.swap_bytes()).into()
            }
            _ => replacement,
        }
    }
}

/// Returns the words of a text, separated by characters that occur neither in hosts nor next to
/// them (in ports, brackets, zones, ranges of reverse names).
pub(super) fn words(text: &str) -> Vec<Range<usize>> {
    let decoded = DecodedText::new(text, unescaped);
    let separates = |byte: &u8| !byte.is_ascii_alphanumeric() && !b"+.:-_%[]/\x7f".contains(byte);
    let mut words = Vec::new();
    let mut begin = 0;
    for word in decoded.text.as_bytes().split(separates) {
        let end = begin + word.len();
        if !word.is_empty() {
            words.push(decoded.offsets[begin]..decoded.offsets[end]);
        }
        begin = end + 1;
    }
    words
}

/// Characters that start an escape.
const ESCAPES: [char; 2] = ['\\', '%'];

/// A text with its escapes decoded, and the offset of each character in the original.
#[derive(Debug)]
struct DecodedText {
    /// ASCII; other characters are represented by DEL.
    text: String,
    /// Byte offset of each character in the original, and the end of the last one.
    offsets: Vec<usize>,
}

/// An address found in a text.
#[derive(Clone, Debug)]
struct FoundAddress {
    range: Range<usize>,
    address: IpAddr,
    /// Whether the address is part of a longer name.
    is_in_name: bool,
}

impl DecodedText {
    fn decoded(text: &str) -> Self {
        Self::new(text, |rest| {
            percent_decoded(rest).or_else(|| unescaped(rest))
        })
    }

    fn verbatim(text: &str) -> Self {
        Self::new(text, |_| None)
    }

    fn new(text: &str, decode: impl Fn(&str) -> Option<(u8, usize)>) -> Self {
        let mut decoded = Self {
            text: String::with_capacity(text.len()),
            offsets: Vec::with_capacity(text.len() + 1),
        };
        let mut offset = 0;
        while let Some(first) = text[offset..].chars().next() {
            let (byte, length) = decode(&text[offset..])
                .unwrap_or((u8::try_from(first).unwrap_or(u8::MAX), first.len_utf8()));
            let character = char::from(byte);
            decoded
                .text
                .push(if byte.is_ascii() { character } else { '\x7f' });
            decoded.offsets.push(offset);
            offset += length;
        }
        decoded.offsets.push(offset);
        decoded
    }

    /// Returns the dots of an address as spelled in `text`.
    fn dots<'a>(&self, range: Range<usize>, text: &'a str) -> impl Iterator<Item = &'a str> {
        range
            .filter(|&at| self.text.as_bytes()[at] == b'.')
            .map(|at| &text[self.offsets[at]..self.offsets[at + 1]])
    }

    fn addresses(&self) -> Vec<FoundAddress> {
        let mut parts = Vec::new();
        let mut at = 0;
        while at < self.text.len() {
            match self.ipv6_at(at).or_else(|| self.ipv4_at(at)) {
                Some(part) => {
                    at = part.range.end;
                    parts.push(part);
                }
                None => at += 1,
            }
        }
        parts
    }

    fn found(&self, range: Range<usize>, address: IpAddr) -> FoundAddress {
        let goes_on = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let (before, after) = (&self.text[..range.start], &self.text[range.end..]);
        let before = before.strip_suffix('.').unwrap_or(before).bytes().last();
        let after = after.strip_prefix('.').unwrap_or(after).bytes().next();
        FoundAddress {
            range,
            address,
            is_in_name: before.is_some_and(goes_on) || after.is_some_and(goes_on),
        }
    }

    /// Returns the IPv4 address that starts here, if it is followed by complete groups of four
    /// numbers only.
    fn ipv4_at(&self, begin: usize) -> Option<FoundAddress> {
        let (before, rest) = self.text.split_at(begin);
        if before.ends_with(|last: char| last.is_ascii_digit()) {
            return None;
        }
        let is_of_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let run = rest.bytes().take_while(is_of_number).count();
        let numbers = rest[..run]
            .split('.')
            .take_while(|number| ipv4(number).is_some_and(|it| u32::from(it) < 256));
        let lengths: Vec<usize> = numbers.map(str::len).collect();
        if lengths.is_empty() || !lengths.len().is_multiple_of(OCTETS) {
            return None;
        }
        let end = begin + lengths[..OCTETS].iter().sum::<usize>() + OCTETS - 1;
        let address = ipv4(&self.text[begin..end])?;
        Some(self.found(begin..end, address.into()))
    }

    /// Returns the longest IPv6 address that starts here. It needs at least one digit.
    fn ipv6_at(&self, begin: usize) -> Option<FoundAddress> {
        let is_digit = |byte: &u8| byte.is_ascii_hexdigit();
        let bytes = self.text.as_bytes();
        let first = &bytes[begin];
        if !(is_digit(first) || *first == b':') || bytes[..begin].last().is_some_and(is_digit) {
            return None;
        }
        let mut colons = 0;
        let run = bytes[begin..].iter().take_while(|byte| {
            colons += usize::from(**byte == b':');
            colons <= COLONS_MAX && (is_digit(byte) || b":.".contains(byte))
        });
        let longest = begin + run.count();
        if colons < 2 {
            return None;
        }
        (begin + 2..=longest).rev().find_map(|end| {
            let text = &self.text[begin..end];
            let is_whole = !bytes.get(end).is_some_and(is_digit);
            let may_be = is_whole && text.bytes().any(|byte| is_digit(&byte));
            let address: Ipv6Addr = text.parse().ok().filter(|_| may_be)?;
            Some(self.found(begin..end, address.into()))
        })
    }
}

/// Decodes the URI escape (RFC 3986 section 2.1) at the start of a text. Returns the byte and the
/// length of the escape.
fn percent_decoded(text: &str) -> Option<(u8, usize)> {
    let digits = text.strip_prefix('%')?.get(..2)?;
    let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let byte = u8::from_str_radix(digits, 16).ok();
    byte.filter(|_| is_hexadecimal).map(|byte| (byte, 3))
}

/// Decodes the name escape (RFC 4343 section 2.1, RFC 4514 section 2.4) at the start of a text.
/// Returns the byte and the length of the escape.
fn unescaped(text: &str) -> Option<(u8, usize)> {
    let rest = text.strip_prefix('\\')?;
    let digits = rest.get(..3).unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some((digits.parse().ok()?, 4));
    }
    let next = rest.bytes().next()?;
    (next.is_ascii_punctuation() || next == b' ').then_some((next, 2))
}

#[cfg(test)]
mod tests;
