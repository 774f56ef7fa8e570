//! Addresses in DNS labels: reverse names, and whole addresses label by label in other names (as in
//! DNS blocklists).

use super::{Anonymiser, Method};
use std::borrow::Cow;

/// Labels of a whole IPv4 address.
const OCTETS: usize = 4;
/// Labels of a whole IPv6 address.
const NIBBLES: usize = 32;

type Label<'a> = Cow<'a, str>;

impl Anonymiser {
    /// Anonymises addresses in a name's labels: reverse names (RFC 1035 section 3.5, RFC 3596
    /// section 2.5) of hosts and networks, with extra labels before or between; in other names,
    /// four consecutive octets or 32 consecutive nibbles. Returns `None` if nothing changed.
    pub(super) fn replace_labels(&mut self, name: &str) -> Option<String> {
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
            self.replace_in_addr(front)
        } else if is_zone("ip6") {
            self.replace_ip6(front)
        } else {
            None
        };
        let rest = match in_zone {
            Some(begin) => front.get_mut(..begin)?,
            None => labels.get_mut(..end)?,
        };
        let replaced = self.replace_whole_addresses(rest);
        (replaced || in_zone.is_some()).then(|| self.join_labels(&labels))
    }

    /// Joins labels into a name. Labels that were not replaced may still contain addresses within
    /// them; these are replaced too.
    fn join_labels(&mut self, labels: &[Label<'_>]) -> String {
        let is_theirs = |label: &Label<'_>| matches!(label, Cow::Borrowed(_));
        let runs = labels.chunk_by(|one, other| is_theirs(one) == is_theirs(other));
        let texts = runs.map(|run| {
            let text = run.join(".");
            let replacement = run
                .first()
                .is_some_and(is_theirs)
                .then(|| self.replace_embedded(&text));
            replacement.flatten().unwrap_or(text)
        });
        texts.collect::<Vec<_>>().join(".")
    }

    /// Anonymises the octets before `in-addr.arpa`, which are in reverse order. Octets of a network
    /// are replaced by the anonymised prefix, which depends on them alone. Other labels are kept,
    /// except ranges (RFC 2317). Returns the number of labels before the octets.
    fn replace_in_addr(&mut self, labels: &mut [Label<'_>]) -> Option<usize> {
        let mut octets = [0; OCTETS];
        let mut positions = Vec::with_capacity(OCTETS);
        let mut range = None;
        for (position, label) in labels.iter().enumerate().rev() {
            let known = positions.len();
            if let Some(octet) = octet(label) {
                *octets.get_mut(known)? = octet;
                positions.push(position);
                if positions.len() == OCTETS {
                    break;
                }
            } else if known > 0 && range.is_none() {
                range = OctetRange::parse(label).map(|range| (range, position, known));
            }
        }
        if let Some((range, position, known)) = range {
            let mut first = octets;
            first.get_mut(known..)?.fill(0);
            *first.get_mut(known)? = range.first;
            let replacement = *self.anonymise_octets(first).get(known)?;
            *labels.get_mut(position)? = range.replace(replacement, 8 * known as u8).into();
        }
        let replacement = self.anonymise_octets(octets);
        for (&position, octet) in positions.iter().zip(replacement) {
            *labels.get_mut(position)? = octet.to_string().into();
        }
        positions.last().copied()
    }

    fn anonymise_octets(&mut self, octets: [u8; OCTETS]) -> [u8; OCTETS] {
        self.ipv4(u32::from_be_bytes(octets)).to_be_bytes()
    }

    /// Anonymises the nibbles before `ip6.arpa`, as [`Self::replace_in_addr`] does octets. Only
    /// consecutive labels next to the suffix count: DNS-SD service names may also be `b`.
    fn replace_ip6(&mut self, labels: &mut [Label<'_>]) -> Option<usize> {
        let digits = || (0..NIBBLES).map(|position| 124 - 4 * position);
        let mut address = 0;
        let mut count = 0;
        for (label, shift) in labels.iter().rev().zip(digits()) {
            let Some(nibble) = nibble(label) else { break };
            address |= u128::from(nibble) << shift;
            count += 1;
        }
        let replacement = self.ipv6(address);
        for (label, shift) in labels.iter_mut().rev().zip(digits()).take(count) {
            *label = digit(replacement >> shift);
        }
        (count > 0).then(|| labels.len() - count)
    }

    /// Anonymises whole addresses in reverse order, anywhere in the labels. Returns whether there
    /// was one.
    fn replace_whole_addresses(&mut self, mut labels: &mut [Label<'_>]) -> bool {
        let mut any = false;
        while !labels.is_empty() {
            let last = labels.last_chunk_mut();
            let nibbles = last.is_some_and(|last| self.replace_nibbles(last));
            let last = labels.last_chunk_mut().filter(|_| !nibbles);
            let octets = last.is_some_and(|last| self.replace_octets(last));
            let consumed = match (nibbles, octets) {
                (true, _) => NIBBLES,
                (_, true) => OCTETS,
                _ => 1,
            };
            any |= nibbles || octets;
            let rest = labels.len() - consumed;
            labels = &mut labels[..rest];
        }
        any
    }

    fn replace_octets(&mut self, labels: &mut [Label<'_>; OCTETS]) -> bool {
        let mut octets = [0; OCTETS];
        for (value, label) in octets.iter_mut().rev().zip(labels.iter()) {
            let Some(octet) = octet(label) else {
                return false;
            };
            *value = octet;
        }
        let mut replacement = self.anonymise_octets(octets);
        if self.truncates() {
            replacement.reverse();
            replacement = self.anonymise_octets(replacement);
            replacement.reverse();
        }
        for (label, octet) in labels.iter_mut().zip(replacement.into_iter().rev()) {
            *label = octet.to_string().into();
        }
        true
    }

    fn replace_nibbles(&mut self, labels: &mut [Label<'_>; NIBBLES]) -> bool {
        let mut address = 0;
        for (position, label) in labels.iter().enumerate() {
            let Some(nibble) = nibble(label) else {
                return false;
            };
            address |= u128::from(nibble) << (4 * position);
        }
        let mut replacement = self.ipv6(address);
        if self.truncates() {
            replacement = nibbles_reversed(self.ipv6(nibbles_reversed(replacement)));
        }
        for (position, label) in labels.iter_mut().enumerate() {
            *label = digit(replacement >> (4 * position));
        }
        true
    }

    /// Outside of reverse zones the order of the octets is unknown, and a truncation could keep the
    /// wrong end: such addresses are truncated from both ends.
    pub(super) const fn truncates(&self) -> bool {
        matches!(self.method, Method::Truncate { .. })
    }
}

/// Splits a name into labels; escapes (RFC 4343 section 2.1) are kept.
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

/// Returns the last nibble as a label.
fn digit(number: u128) -> Label<'static> {
    format!("{:x}", number & 15).into()
}

fn nibbles_reversed(number: u128) -> u128 {
    let (low, high) = (u128::MAX / 255 * 15, u128::MAX / 255 * 240);
    let bytes = number.swap_bytes();
    (bytes & low) << 4 | (bytes & high) >> 4
}

/// A label for a range of octet values (RFC 2317 section 4): `64/27` and `64-27` give the prefix
/// length, `64-95` the first and last value.
#[derive(Clone, Copy, Debug)]
struct OctetRange {
    first: u8,
    separator: char,
    second: u8,
}

impl OctetRange {
    fn parse(label: &str) -> Option<Self> {
        let sign = label.chars().find(|sign| "-/".contains(*sign))?;
        let (first, second) = label.split_once(sign)?;
        Some(Self {
            first: octet(first)?,
            separator: sign,
            second: octet(second)?,
        })
    }

    /// Returns the label of the anonymised range. `replacement` is the anonymised first octet, and
    /// `before` is the number of address bits before it. A range of first and last value becomes
    /// the smallest prefix that contains both, since the bits after the prefix may be anything.
    fn replace(self, replacement: u8, before: u8) -> String {
        let Self {
            first,
            separator: sign,
            second,
        } = self;
        let mask = |length: u32| !u8::MAX.checked_shr(length).unwrap_or(0);
        let common = mask((first ^ second).leading_zeros());
        let are_ends = first & !common == 0 && second | common == u8::MAX;
        let length = second.checked_sub(before).filter(|&length| length <= 8);
        if let Some(kept) = length.map(|length| mask(length.into()))
            && (sign == '/' || second < first || (first & !kept == 0 && !are_ends))
        {
            return format!("{}{sign}{second}", replacement & kept);
        }
        let (low, high) = (replacement & common, replacement | !common);
        if first <= second {
            format!("{low}{sign}{high}")
        } else {
            format!("{high}{sign}{low}")
        }
    }
}

#[cfg(test)]
mod tests;
