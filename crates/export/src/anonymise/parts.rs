//! Addresses that are a part of a text, which may be no legal name: lists of hosts, names with
//! blanks or brackets around them, addresses within a label.

use super::Anonymiser;
use super::host::ipv4;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Range;

/// Numbers of an IPv4 address.
const OCTETS: usize = 4;

/// The most colons of an IPv6 address.
const COLONS_MAX: usize = 8;

impl Anonymiser {
    /// Replaces each part of a text that reads as four decimal numbers with dots between them, or as
    /// an IPv6 address, up to what cannot belong to one. Of more than four numbers the last ones are
    /// an address, as labels are. `None` where there is nothing to replace.
    pub(super) fn parts(&mut self, text: &str) -> Option<String> {
        let plain = Plain::decoded(text);
        let within = |anonymiser: &mut Self, rest: &str| match rest.contains(ESCAPES) {
            // What begins as an escape may be none.
            true => anonymiser.replaced(rest, &Plain::as_it_is(rest), |_, _| None),
            false => None,
        };
        self.replaced(text, &plain, within)
    }

    /// Replaces the addresses of `plain`, which `text` spells, and what `within` finds between them.
    fn replaced(
        &mut self,
        text: &str,
        plain: &Plain,
        within: impl Fn(&mut Self, &str) -> Option<String>,
    ) -> Option<String> {
        let mut ours = String::with_capacity(text.len());
        let mut any = false;
        let mut done = 0;
        for part in plain.addresses() {
            let place = plain.places[part.place.start]..plain.places[part.place.end];
            let rest = &text[done..place.start];
            ours.push_str(within(self, rest).as_deref().unwrap_or(rest));
            // Dots that are escaped stay so: they separate no labels.
            let mut dots = plain.dots(part.place.clone(), text);
            for character in self.part(&part).to_string().chars() {
                match character {
                    '.' => ours.push_str(dots.next().unwrap_or(".")),
                    _ => ours.push(character),
                }
            }
            any = true;
            done = place.end;
        }
        let rest = &text[done..];
        let replaced = within(self, rest);
        any |= replaced.is_some();
        ours.push_str(replaced.as_deref().unwrap_or(rest));
        any.then_some(ours)
    }

    /// What stands for an address. Of a truncated one in a name, nothing tells which end comes first.
    fn part(&mut self, part: &Part) -> IpAddr {
        let ours = self.address(part.address);
        match ours {
            IpAddr::V4(address) if part.is_in_name && self.order_counts() => {
                let reversed = self.ipv4(u32::from(address).swap_bytes());
                Ipv4Addr::from(reversed.swap_bytes()).into()
            }
            _ => ours,
        }
    }
}

/// Words of a text: what stands between characters that neither hosts have, nor what stands with
/// them (ports, brackets, zones, ranges of reverse names).
pub(super) fn words(text: &str) -> Vec<Range<usize>> {
    let plain = Plain::new(text, unescaped);
    let separates = |byte: &u8| !byte.is_ascii_alphanumeric() && !b"+.:-_%[]/\x7f".contains(byte);
    let mut words = Vec::new();
    let mut begin = 0;
    for word in plain.text.as_bytes().split(separates) {
        let end = begin + word.len();
        if !word.is_empty() {
            words.push(plain.places[begin]..plain.places[end]);
        }
        begin = end + 1;
    }
    words
}

/// What begins an escape.
const ESCAPES: [char; 2] = ['\\', '%'];

/// A text with its escapes undone, and where each of its characters stands.
#[derive(Debug)]
struct Plain {
    /// ASCII; what is none stands as DEL.
    text: String,
    /// Where each character begins, and where the last one ends.
    places: Vec<usize>,
}

/// An address in a text.
#[derive(Clone, Debug)]
struct Part {
    place: Range<usize>,
    address: IpAddr,
    /// Whether a name goes on with it.
    is_in_name: bool,
}

impl Plain {
    fn decoded(text: &str) -> Self {
        Self::new(text, |rest| {
            percent_decoded(rest).or_else(|| unescaped(rest))
        })
    }

    fn as_it_is(text: &str) -> Self {
        Self::new(text, |_| None)
    }

    fn new(text: &str, decoded: impl Fn(&str) -> Option<(u8, usize)>) -> Self {
        let mut plain = Self {
            text: String::with_capacity(text.len()),
            places: Vec::with_capacity(text.len() + 1),
        };
        let mut place = 0;
        while let Some(first) = text[place..].chars().next() {
            let (byte, length) = decoded(&text[place..])
                .unwrap_or((u8::try_from(first).unwrap_or(u8::MAX), first.len_utf8()));
            let character = char::from(byte);
            plain
                .text
                .push(if byte.is_ascii() { character } else { '\x7f' });
            plain.places.push(place);
            place += length;
        }
        plain.places.push(place);
        plain
    }

    /// The dots of an address, as `text` spells them.
    fn dots<'a>(&self, place: Range<usize>, text: &'a str) -> impl Iterator<Item = &'a str> {
        place
            .filter(|&at| self.text.as_bytes()[at] == b'.')
            .map(|at| &text[self.places[at]..self.places[at + 1]])
    }

    fn addresses(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut at = 0;
        while at < self.text.len() {
            match self.ipv6_at(at).or_else(|| self.ipv4_at(at)) {
                Some(part) => {
                    at = part.place.end;
                    parts.push(part);
                }
                None => at += 1,
            }
        }
        parts
    }

    fn part(&self, place: Range<usize>, address: IpAddr) -> Part {
        let goes_on = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let (before, behind) = (&self.text[..place.start], &self.text[place.end..]);
        let before = before.strip_suffix('.').unwrap_or(before).bytes().last();
        let behind = behind.strip_prefix('.').unwrap_or(behind).bytes().next();
        Part {
            place,
            address,
            is_in_name: before.is_some_and(goes_on) || behind.is_some_and(goes_on),
        }
    }

    /// The IPv4 address that begins here, if as many numbers follow as whole addresses have.
    fn ipv4_at(&self, begin: usize) -> Option<Part> {
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
        Some(self.part(begin..end, address.into()))
    }

    /// The longest IPv6 address that begins here. Colons alone are none.
    fn ipv6_at(&self, begin: usize) -> Option<Part> {
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
            Some(self.part(begin..end, address.into()))
        })
    }
}

/// The byte that an escape of URIs (RFC 3986 section 2.1) at the beginning of a text stands for, and
/// the escape's length.
fn percent_decoded(text: &str) -> Option<(u8, usize)> {
    let digits = text.strip_prefix('%')?.get(..2)?;
    let is_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let byte = u8::from_str_radix(digits, 16).ok();
    byte.filter(|_| is_hexadecimal).map(|byte| (byte, 3))
}

/// The same of an escape of names (RFC 4343 section 2.1, RFC 4514 section 2.4).
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
