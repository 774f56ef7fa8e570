//! Hosts that are addresses, however they are spelled, and where a request's target or a
//! certificate's name has one.

use super::parts::words;
use super::{Anonymiser, each_part};
use core::net::{Ipv4Addr, Ipv6Addr};
use std::borrow::Cow;

impl Anonymiser {
    /// Replaces what a name tells of an address: a name that is one in any spelling, with a port
    /// behind it and with something in front of an `@`, a name whose labels hold one, and whatever
    /// part of any other text reads as one. `None` where there is nothing to replace.
    pub fn name(&mut self, name: &str) -> Option<String> {
        // Names of hosts have neither, most of them.
        if !name
            .bytes()
            .any(|byte| byte.is_ascii_digit() || byte == b':')
        {
            return None;
        }
        each_part(name, |it| it == '@', |part| self.hosts(part))
    }

    /// Replaces all that a text tells of addresses which is to be a host: what stands before or behind
    /// it too, since no host has a path. `None` where there is nothing to replace.
    pub(super) fn only_host(&mut self, text: &str) -> Option<String> {
        let slash = text.find('/').unwrap_or(text.len());
        if reverse_name_end(text, slash) == Some(text.len()) {
            return self.name(text);
        }
        let mut is_first = true;
        each_part(
            text,
            |it| "/?#".contains(it),
            |part| {
                // A number behind a slash is a number.
                let may_be = std::mem::take(&mut is_first) || part.contains(['.', ':']);
                may_be.then(|| self.name(part))?
            },
        )
    }

    /// Replaces the host in the target of a request: that of the absolute form and of the authority
    /// form (RFC 9112 sections 3.2.2 and 3.2.3). A path has none. In a text that is no more than a
    /// host, a slash may be part of a reverse name (RFC 2317). `None` where there is nothing to
    /// replace.
    pub fn target(&mut self, target: &str) -> Option<String> {
        let (before, rest) = target.split_at(authority_at(target));
        let end = rest.find(BEHIND_AUTHORITY).unwrap_or(rest.len());
        let reverse = match before {
            "" => reverse_name_end(rest, end),
            _ => None,
        };
        let (authority, behind) = rest.split_at(reverse.unwrap_or(end));
        let ours = [self.parts(before), self.name(authority)];
        let [scheme, host] = &ours;
        let replaced = scheme.is_some() || host.is_some();
        replaced.then(|| {
            let scheme = scheme.as_deref().unwrap_or(before);
            [scheme, host.as_deref().unwrap_or(authority), behind].concat()
        })
    }

    /// Replaces the common names of a distinguished name (RFC 4514) that are addresses: devices
    /// certify themselves by their own. A plain number is none here. `None` where there is nothing
    /// to replace.
    pub(super) fn distinguished_name(&mut self, names: &str) -> Option<String> {
        let mut is_escaped = false;
        let separates = |character| {
            let separates = !is_escaped && ",+".contains(character);
            is_escaped = character == '\\' && !is_escaped;
            separates
        };
        each_part(names, separates, |attribute| {
            let (kind, value) = attribute.split_once('=')?;
            let may_be = kind.eq_ignore_ascii_case("cn") && value.contains(['.', ':']);
            let ours = may_be.then(|| self.name(value))??;
            Some(format!("{kind}={ours}"))
        })
    }

    /// Replaces an address of a list, the last of which a limit may have cut.
    pub(super) fn listed(&mut self, address: &str) -> Option<String> {
        let begun = ipv6_begun(address).filter(|_| ipv6(address).is_none());
        match begun {
            Some(begun) => Some(Ipv6Addr::from(self.ipv6(begun)).to_string()),
            None => self.name(address),
        }
    }

    /// Replaces a host, or each of several hosts and whatever stands between them.
    fn hosts(&mut self, text: &str) -> Option<String> {
        let words = words(text);
        let is_address =
            |word: &str| ipv6(word).is_some() || ipv4(&percent_decoded(word)).is_some();
        // A number among words is a number.
        let alone = words.len() == 1 || words.iter().all(|word| is_address(&text[word.clone()]));
        let mut ours = String::new();
        let mut any = false;
        let mut done = 0;
        for word in words {
            let replaced = self.host_and_port(&text[word.clone()], alone);
            any |= replaced.is_some();
            ours.push_str(&text[done..word.start]);
            ours.push_str(replaced.as_deref().unwrap_or(&text[word.clone()]));
            done = word.end;
        }
        ours.push_str(&text[done..]);
        any.then_some(ours)
    }

    fn host_and_port(&mut self, text: &str, alone: bool) -> Option<String> {
        let whole = self.whole_host_and_port(text, alone);
        whole.or_else(|| self.parts(text))
    }

    fn whole_host_and_port(&mut self, text: &str, alone: bool) -> Option<String> {
        if let Some(inner) = text.strip_prefix('[') {
            let end = inner.find(']').unwrap_or(inner.len());
            let (host, behind) = inner.split_at(end);
            let is_cut = behind.is_empty();
            let begun = || ipv6_begun(host).filter(|_| is_cut);
            let (address, zone) = ipv6(host).or_else(|| Some((begun()?, "")))?;
            let ours = Ipv6Addr::from(self.ipv6(address));
            let (zone, behind) = (self.or_parts(None, zone), self.or_parts(None, behind));
            return Some(format!("[{ours}{zone}{behind}"));
        }
        if ipv6(text).is_none()
            && let Some((host, port)) = text.rsplit_once(':')
        {
            let ours = self.host(host, alone);
            // No port has a dot: what is no host and port may be something and a host.
            let behind = self.host(port, alone).filter(|_| port.contains('.'));
            return (ours.is_some() || behind.is_some()).then(|| {
                let (ours, behind) = (self.or_parts(ours, host), self.or_parts(behind, port));
                format!("{ours}:{behind}")
            });
        }
        self.host(text, alone)
    }

    /// What stands for a part of a text: where it is no host, what stands for the parts of it.
    fn or_parts<'a>(&mut self, ours: Option<String>, theirs: &'a str) -> Cow<'a, str> {
        let ours = ours.or_else(|| self.parts(theirs));
        ours.map_or(Cow::Borrowed(theirs), Cow::Owned)
    }

    /// Replaces a host that is an address or has one in its labels; where it is not `alone`, one with
    /// four numbers.
    fn host(&mut self, host: &str, alone: bool) -> Option<String> {
        if let Some((address, zone)) = ipv6(host) {
            let zone = self.or_parts(None, zone);
            return Some(format!("{}{zone}", Ipv6Addr::from(self.ipv6(address))));
        }
        let host = percent_decoded(host);
        let is_short = || host.trim_end_matches('.').matches('.').count() < 3;
        match ipv4(&host).filter(|_| alone || !is_short()) {
            Some(address) => Some(self.address(address.into()).to_string()),
            // No label has a colon.
            None if host.contains(':') => None,
            None => self.labels(&host),
        }
    }
}

/// What ends an authority (RFC 3986 section 3.2), and what browsers take for a slash.
const BEHIND_AUTHORITY: [char; 4] = ['/', '?', '#', '\\'];

/// Where a reverse name ends that has a slash at `slash`, as ranges have (RFC 2317). What stands
/// before the slash is no whole address.
fn reverse_name_end(text: &str, slash: usize) -> Option<usize> {
    let (front, rest) = text.split_at(slash);
    if front.is_empty() || !rest.starts_with('/') {
        return None;
    }
    let is_octets = front.split('.').all(|label| label.parse::<u8>().is_ok());
    let is_address = ipv4(front).is_some() && (!is_octets || front.parse::<Ipv4Addr>().is_ok());
    if is_address {
        return None;
    }
    let behind = rest.match_indices(BEHIND_AUTHORITY).skip(1);
    let ends = behind.map(|(at, _)| slash + at).chain([text.len()]);
    ends.into_iter().find(|&end| {
        let host = text.get(..end).unwrap_or_default();
        let (host, _port) = host.rsplit_once(':').unwrap_or((host, ""));
        let host = percent_decoded(host).to_ascii_lowercase();
        let name = host.strip_suffix('.').unwrap_or(&host);
        name.ends_with(".in-addr.arpa") || name.ends_with(".ip6.arpa")
    })
}

/// Where the authority of a request's target begins: behind the scheme and its slashes, if there
/// is one.
fn authority_at(target: &str) -> usize {
    let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let scheme = target
        .bytes()
        .take_while(|&byte| is_of_scheme(byte))
        .count();
    let (_, rest) = target.split_at(scheme);
    let behind = rest.trim_start_matches(':').trim_start_matches(['/', '\\']);
    let slashes = [":/", ":\\"];
    if scheme > 0 && slashes.iter().any(|begin| rest.starts_with(begin)) {
        target.len() - behind.len()
    } else {
        0
    }
}

/// The IPv6 address that a host is, and its zone with the sign in front (RFC 4007 section 11).
fn ipv6(host: &str) -> Option<(u128, &str)> {
    let (address, zone) = host.split_at(host.find('%').unwrap_or(host.len()));
    let address = address.strip_suffix('.').unwrap_or(address);
    let address: Ipv6Addr = address.parse().ok()?;
    Some((address.into(), zone))
}

/// The IPv6 address that a text begins, with zeroes for what is missing.
fn ipv6_begun(text: &str) -> Option<u128> {
    if text.is_empty() {
        return None;
    }
    let address = |rest| Some(ipv6(&format!("{text}{rest}"))?.0);
    ["::", ":", "0"].into_iter().find_map(address)
}

/// The IPv4 address that a host is to readers that take every spelling, as `inet_aton` and the host
/// parser of URLs (WHATWG) do: up to four numbers, decimal, octal behind `0` or hexadecimal behind
/// `0x`, of which the last fills all bytes that are left; a dot may end it.
pub(super) fn ipv4(host: &str) -> Option<Ipv4Addr> {
    let stem = host.strip_suffix('.').unwrap_or(host);
    let mut before: u32 = 0;
    // Bits that are left for the numbers to come.
    let mut bits = 32;
    let mut numbers = stem.split('.').peekable();
    while let Some(text) = numbers.next() {
        let number = number(text)?;
        if numbers.peek().is_none() {
            let fits = u64::from(number) < 1 << bits;
            return fits.then(|| (before | number).into());
        }
        bits -= 8;
        if number > 255 || bits == 0 {
            return None;
        }
        before |= number << bits;
    }
    None
}

/// A number of an IPv4 address. What begins as an octal one and is none is decimal to who reads it
/// at all.
fn number(text: &str) -> Option<u32> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let is_octal = || text.len() > 1 && text.starts_with('0') && !text.contains(['8', '9']);
    let (digits, radix) = match hexadecimal {
        Some("") => return Some(0),
        Some(digits) => (digits, 16),
        None if is_octal() => (text, 8),
        None => (text, 10),
    };
    if digits.starts_with('+') {
        return None;
    }
    u32::from_str_radix(digits, radix).ok()
}

/// A host with its escapes of printable ASCII (RFC 3986 section 2.1) undone.
fn percent_decoded(host: &str) -> Cow<'_, str> {
    let mut pieces = host.split('%');
    let mut decoded = String::from(pieces.next().unwrap_or_default());
    if decoded.len() == host.len() {
        return Cow::Borrowed(host);
    }
    for piece in pieces {
        let byte = piece
            .get(..2)
            .filter(|digits| !digits.starts_with('+'))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .filter(u8::is_ascii_graphic);
        if let Some(byte) = byte {
            decoded.push(byte.into());
            decoded.push_str(&piece[2..]);
        } else {
            decoded.push('%');
            decoded.push_str(piece);
        }
    }
    Cow::Owned(decoded)
}

#[cfg(test)]
mod tests;
