//! Addresses in the labels of names: those under which DNS looks addresses up, and whole addresses
//! label by label in other names, as lists of blocked hosts have them.

use super::{Anonymiser, How};
use std::borrow::Cow;

/// Labels of a whole IPv4 address.
const OCTETS: usize = 4;
/// Labels of a whole IPv6 address.
const NIBBLES: usize = 32;

type Label<'a> = Cow<'a, str>;

impl Anonymiser {
    /// Replaces the addresses in a name's labels: in reverse names (RFC 1035 section 3.5, RFC 3596
    /// section 2.5), of networks too and with labels in front or between, and four octets or 32
    /// nibbles one behind the other in any other name. `None` where there is nothing to replace.
    pub(super) fn labels(&mut self, name: &str) -> Option<String> {
        let mut labels = split(name);
        let end = match labels.last() {
            Some(last) if last.is_empty() => labels.len() - 1,
            _ => labels.len(),
        };
        let (front, zone) = labels.get_mut(..end)?.split_at_mut(end.saturating_sub(2));
        let is_zone = |first: &str| match &*zone {
            [zone, top] => zone.eq_ignore_ascii_case(first) && top.eq_ignore_ascii_case("arpa"),
            _ => false,
        };
        let in_zone = if is_zone("in-addr") {
            self.octets_of_zone(front)
        } else if is_zone("ip6") {
            self.nibbles_of_zone(front)
        } else {
            None
        };
        let rest = match in_zone {
            Some(begin) => front.get_mut(..begin)?,
            None => labels.get_mut(..end)?,
        };
        let replaced = self.whole_addresses(rest);
        (replaced || in_zone.is_some()).then(|| self.joined(&labels))
    }

    /// The name of labels, of which parts of those that were not replaced may still be addresses.
    fn joined(&mut self, labels: &[Label<'_>]) -> String {
        let is_theirs = |label: &Label<'_>| matches!(label, Cow::Borrowed(_));
        let runs = labels.chunk_by(|one, other| is_theirs(one) == is_theirs(other));
        let texts = runs.map(|run| {
            let text = run.join(".");
            let ours = run
                .first()
                .is_some_and(is_theirs)
                .then(|| self.parts(&text));
            ours.flatten().unwrap_or(text)
        });
        texts.collect::<Vec<_>>().join(".")
    }

    /// Replaces the octets in front of `in-addr.arpa`, the last of which is the address's first.
    /// Those of a network stand for its prefix, which depends on them alone. Other labels stay where
    /// they are, but for ranges (RFC 2317). Tells how many labels stand before the octets.
    fn octets_of_zone(&mut self, labels: &mut [Label<'_>]) -> Option<usize> {
        let mut octets = [0; OCTETS];
        let mut places = Vec::with_capacity(OCTETS);
        let mut range = None;
        for (place, label) in labels.iter().enumerate().rev() {
            let known = places.len();
            if let Some(octet) = octet(label) {
                *octets.get_mut(known)? = octet;
                places.push(place);
                if places.len() == OCTETS {
                    break;
                }
            } else if known > 0 && range.is_none() {
                range = Range::parse(label).map(|range| (range, place, known));
            }
        }
        if let Some((range, place, known)) = range {
            let mut first = octets;
            first.get_mut(known..)?.fill(0);
            *first.get_mut(known)? = range.first;
            let ours = *self.octets(first).get(known)?;
            *labels.get_mut(place)? = range.replaced(ours, 8 * known as u8).into();
        }
        let ours = self.octets(octets);
        for (&place, octet) in places.iter().zip(ours) {
            *labels.get_mut(place)? = octet.to_string().into();
        }
        places.last().copied()
    }

    fn octets(&mut self, octets: [u8; OCTETS]) -> [u8; OCTETS] {
        self.ipv4(u32::from_be_bytes(octets)).to_be_bytes()
    }

    /// Replaces the nibbles in front of `ip6.arpa`, as [`Self::octets_of_zone`] does octets. Labels
    /// in front of others are none of them: services of DNS-SD are called `b` too.
    fn nibbles_of_zone(&mut self, labels: &mut [Label<'_>]) -> Option<usize> {
        let digits = || (0..NIBBLES).map(|place| 124 - 4 * place);
        let mut address = 0;
        let mut count = 0;
        for (label, shift) in labels.iter().rev().zip(digits()) {
            let Some(nibble) = nibble(label) else { break };
            address |= u128::from(nibble) << shift;
            count += 1;
        }
        let ours = self.ipv6(address);
        for (label, shift) in labels.iter_mut().rev().zip(digits()).take(count) {
            *label = digit(ours >> shift);
        }
        (count > 0).then(|| labels.len() - count)
    }

    /// Replaces whole addresses, last label first as in reverse names, wherever they stand. Whether
    /// there was one.
    fn whole_addresses(&mut self, mut labels: &mut [Label<'_>]) -> bool {
        let mut any = false;
        while !labels.is_empty() {
            let last = labels.last_chunk_mut();
            let nibbles = last.is_some_and(|last| self.nibbles_replaced(last));
            let last = labels.last_chunk_mut().filter(|_| !nibbles);
            let octets = last.is_some_and(|last| self.octets_replaced(last));
            let taken = match (nibbles, octets) {
                (true, _) => NIBBLES,
                (_, true) => OCTETS,
                _ => 1,
            };
            any |= nibbles || octets;
            let rest = labels.len() - taken;
            labels = &mut labels[..rest];
        }
        any
    }

    fn octets_replaced(&mut self, labels: &mut [Label<'_>; OCTETS]) -> bool {
        let mut octets = [0; OCTETS];
        for (value, label) in octets.iter_mut().rev().zip(labels.iter()) {
            let Some(octet) = octet(label) else {
                return false;
            };
            *value = octet;
        }
        let mut ours = self.octets(octets);
        if self.order_counts() {
            ours.reverse();
            ours = self.octets(ours);
            ours.reverse();
        }
        for (label, octet) in labels.iter_mut().zip(ours.into_iter().rev()) {
            *label = octet.to_string().into();
        }
        true
    }

    fn nibbles_replaced(&mut self, labels: &mut [Label<'_>; NIBBLES]) -> bool {
        let mut address = 0;
        for (place, label) in labels.iter().enumerate() {
            let Some(nibble) = nibble(label) else {
                return false;
            };
            address |= u128::from(nibble) << (4 * place);
        }
        let mut ours = self.ipv6(address);
        if self.order_counts() {
            ours = nibbles_reversed(self.ipv6(nibbles_reversed(ours)));
        }
        for (place, label) in labels.iter_mut().enumerate() {
            *label = digit(ours >> (4 * place));
        }
        true
    }

    /// Outside of reverse zones nothing tells which end of an address comes first. What a
    /// truncation keeps of it may be the wrong end: both are cut.
    pub(super) const fn order_counts(&self) -> bool {
        matches!(self.how, How::Truncate { .. })
    }
}

/// The labels of a name, escapes (RFC 4343 section 2.1) as they are.
fn split(name: &str) -> Vec<Label<'_>> {
    let mut is_escaped = false;
    let separates = |character| {
        let separates = character == '.' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        separates
    };
    name.split(separates).map(Cow::Borrowed).collect()
}

fn octet(label: &str) -> Option<u8> {
    let is_number = label.len() <= 3 && label.bytes().all(|byte| byte.is_ascii_digit());
    label.parse().ok().filter(|_| is_number)
}

fn nibble(label: &str) -> Option<u8> {
    match label.as_bytes() {
        [digit] => char::from(*digit).to_digit(16).map(|digit| digit as u8),
        _ => None,
    }
}

/// The last nibble of a number.
fn digit(number: u128) -> Label<'static> {
    format!("{:x}", number & 15).into()
}

fn nibbles_reversed(number: u128) -> u128 {
    let (low, high) = (u128::MAX / 255 * 15, u128::MAX / 255 * 240);
    let bytes = number.swap_bytes();
    (bytes & low) << 4 | (bytes & high) >> 4
}

/// A label for a part of what an octet may be (RFC 2317 section 4): `64/27` and `64-27` by the length
/// of the prefix, `64-95` by its ends.
#[derive(Clone, Copy, Debug)]
struct Range {
    first: u8,
    sign: char,
    second: u8,
}

impl Range {
    fn parse(label: &str) -> Option<Self> {
        let sign = label.chars().find(|sign| "-/".contains(*sign))?;
        let (first, second) = label.split_once(sign)?;
        Some(Self {
            first: octet(first)?,
            sign,
            second: octet(second)?,
        })
    }

    /// The label of the range that stands for this one: `ours` stands for its first octet, which has
    /// `before` bits of the address before it. By its ends it is the smallest prefix that holds
    /// both, the bits behind being anybody's.
    fn replaced(self, ours: u8, before: u8) -> String {
        let Self {
            first,
            sign,
            second,
        } = self;
        let mask = |length: u32| !u8::MAX.checked_shr(length).unwrap_or(0);
        let common = mask((first ^ second).leading_zeros());
        let are_ends = first & !common == 0 && second | common == u8::MAX;
        let length = second.checked_sub(before).filter(|&length| length <= 8);
        if let Some(kept) = length.map(|length| mask(length.into()))
            && (sign == '/' || second < first || (first & !kept == 0 && !are_ends))
        {
            return format!("{}{sign}{second}", ours & kept);
        }
        let (low, high) = (ours & common, ours | !common);
        if first <= second {
            format!("{low}{sign}{high}")
        } else {
            format!("{high}{sign}{low}")
        }
    }
}

#[cfg(test)]
mod tests;
