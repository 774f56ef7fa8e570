//! Finds hosts that are addresses, in any spelling, in request targets and certificate names.

use super::host_address::{ipv4, ipv6, truncated_ipv6};
use super::parts::words;
use super::{Anonymiser, replace_parts};
use core::net::{Ipv4Addr, Ipv6Addr};
use std::borrow::Cow;

impl Anonymiser {
    /// Anonymises a name: an address in any spelling, optionally with a port or text before an `@`;
    /// addresses in its labels; and any other part of the text that reads as an address. Returns
    /// `None` if nothing changed.
    pub fn name(&mut self, name: &str) -> Option<String> {
        // Most host names contain neither.
        if !name
            .bytes()
            .any(|byte| byte.is_ascii_digit() || byte == b':')
        {
            return None;
        }
        replace_parts(name, |it| it == '@', |part| self.hosts(part))
    }

    /// Anonymises a field that should contain a host only, including text before and after it: a
    /// host has no path. Returns `None` if nothing changed.
    pub(super) fn host_field(&mut self, text: &str) -> Option<String> {
        let slash = text.find('/').unwrap_or(text.len());
        if reverse_name_end(text, slash) == Some(text.len()) {
            return self.name(text);
        }
        let mut is_first = true;
        replace_parts(
            text,
            |it| "/?#".contains(it),
            |part| {
                // After a slash, a plain number is just a number.
                let may_be = std::mem::take(&mut is_first) || part.contains(['.', ':']);
                may_be.then(|| self.name(part))?
            },
        )
    }

    /// Anonymises the host in a request target of absolute form or authority form (RFC 9112
    /// sections 3.2.2 and 3.2.3). A path contains no host. If the text is only a host, a slash may
    /// belong to a reverse name (RFC 2317). Returns `None` if nothing changed.
    pub fn target(&mut self, target: &str) -> Option<String> {
        let (before, rest) = target.split_at(authority_start(target));
        let end = rest.find(AUTHORITY_TERMINATORS).unwrap_or(rest.len());
        let reverse = match before {
            "" => reverse_name_end(rest, end),
            _ => None,
        };
        let (authority, after) = rest.split_at(reverse.unwrap_or(end));
        let replacement = [self.replace_embedded(before), self.name(authority)];
        let [scheme, host] = &replacement;
        let replaced = scheme.is_some() || host.is_some();
        replaced.then(|| {
            let scheme = scheme.as_deref().unwrap_or(before);
            [scheme, host.as_deref().unwrap_or(authority), after].concat()
        })
    }

    /// Anonymises common names of a distinguished name (RFC 4514) that are addresses: devices issue
    /// certificates for their own. A plain number is not an address here. Returns `None` if nothing
    /// changed.
    pub(super) fn distinguished_name(&mut self, names: &str) -> Option<String> {
        let mut is_escaped = false;
        let separates = |character| {
            let separates = !is_escaped && ",+".contains(character);
            is_escaped = character == '\\' && !is_escaped;
            separates
        };
        replace_parts(names, separates, |attribute| {
            let (kind, value) = attribute.split_once('=')?;
            let may_be = kind.eq_ignore_ascii_case("cn") && value.contains(['.', ':']);
            let replacement = may_be.then(|| self.name(value))??;
            Some(format!("{kind}={replacement}"))
        })
    }

    /// Anonymises an address in a list. The last one may have been cut by a length limit.
    pub(super) fn list_item(&mut self, address: &str) -> Option<String> {
        let truncated = truncated_ipv6(address).filter(|_| ipv6(address).is_none());
        match truncated {
            Some(truncated) => Some(Ipv6Addr::from(self.ipv6(truncated)).to_string()),
            None => self.name(address),
        }
    }

    /// Anonymises one host, or several hosts with any text between them.
    fn hosts(&mut self, text: &str) -> Option<String> {
        let words = words(text);
        let is_address =
            |word: &str| ipv6(word).is_some() || ipv4(&percent_decoded(word)).is_some();
        // Among words, a plain number is just a number.
        let alone = words.len() == 1 || words.iter().all(|word| is_address(&text[word.clone()]));
        let mut replacement = String::new();
        let mut changed = false;
        let mut copied = 0;
        for word in words {
            let replaced = self.host_and_port(&text[word.clone()], alone);
            changed |= replaced.is_some();
            replacement.push_str(&text[copied..word.start]);
            replacement.push_str(replaced.as_deref().unwrap_or(&text[word.clone()]));
            copied = word.end;
        }
        replacement.push_str(&text[copied..]);
        changed.then_some(replacement)
    }

    fn host_and_port(&mut self, text: &str, alone: bool) -> Option<String> {
        let whole = self.whole_host_and_port(text, alone);
        whole.or_else(|| self.replace_embedded(text))
    }

    fn whole_host_and_port(&mut self, text: &str, alone: bool) -> Option<String> {
        if let Some(inner) = text.strip_prefix('[') {
            let end = inner.find(']').unwrap_or(inner.len());
            let (host, after) = inner.split_at(end);
            let is_cut = after.is_empty();
            let truncated = || truncated_ipv6(host).filter(|_| is_cut);
            let (address, zone) = ipv6(host).or_else(|| Some((truncated()?, "")))?;
            let replacement = Ipv6Addr::from(self.ipv6(address));
            let (zone, after) = (
                self.or_replace_embedded(None, zone),
                self.or_replace_embedded(None, after),
            );
            return Some(format!("[{replacement}{zone}{after}"));
        }
        if ipv6(text).is_none()
            && let Some((host, port)) = text.rsplit_once(':')
        {
            let replacement = self.host(host, alone);
            // A port has no dot: if the text is not host and port, it may be something else
            // followed by a host.
            let after = self.host(port, alone).filter(|_| port.contains('.'));
            return (replacement.is_some() || after.is_some()).then(|| {
                let (replacement, after) = (
                    self.or_replace_embedded(replacement, host),
                    self.or_replace_embedded(after, port),
                );
                format!("{replacement}:{after}")
            });
        }
        self.host(text, alone)
    }

    /// Returns the replacement of a part of a text; if the part is not a host, replaces the
    /// addresses within it.
    fn or_replace_embedded<'a>(
        &mut self,
        replacement: Option<String>,
        original: &'a str,
    ) -> Cow<'a, str> {
        let replacement = replacement.or_else(|| self.replace_embedded(original));
        replacement.map_or(Cow::Borrowed(original), Cow::Owned)
    }

    /// Anonymises a host that is an address or has one in its labels. Unless it is `alone` in the
    /// text, only an address of four numbers counts.
    fn host(&mut self, host: &str, alone: bool) -> Option<String> {
        if let Some((address, zone)) = ipv6(host) {
            let zone = self.or_replace_embedded(None, zone);
            return Some(format!("{}{zone}", Ipv6Addr::from(self.ipv6(address))));
        }
        let host = percent_decoded(host);
        let is_short = || host.trim_end_matches('.').matches('.').count() < 3;
        match ipv4(&host).filter(|_| alone || !is_short()) {
            Some(address) => Some(self.address(address.into()).to_string()),
            // Labels contain no colon.
            None if host.contains(':') => None,
            None => self.replace_labels(&host),
        }
    }
}

/// Characters that end an authority (RFC 3986 section 3.2), and the backslash, which browsers treat
/// as a slash.
const AUTHORITY_TERMINATORS: [char; 4] = ['/', '?', '#', '\\'];

/// Returns the end of a reverse name that contains the slash at `slash`, as delegated ranges do
/// (RFC 2317). The text before the slash must not be a whole address.
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
    let after = rest.match_indices(AUTHORITY_TERMINATORS).skip(1);
    let ends = after.map(|(at, _)| slash + at).chain([text.len()]);
    ends.into_iter().find(|&end| {
        let host = text.get(..end).unwrap_or_default();
        let (host, _port) = host.rsplit_once(':').unwrap_or((host, ""));
        let host = percent_decoded(host).to_ascii_lowercase();
        let name = host.strip_suffix('.').unwrap_or(&host);
        name.ends_with(".in-addr.arpa") || name.ends_with(".ip6.arpa")
    })
}

/// Returns the start of the authority in a request target: after the scheme and its slashes, if it
/// has one.
fn authority_start(target: &str) -> usize {
    let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let scheme = target
        .bytes()
        .take_while(|&byte| is_of_scheme(byte))
        .count();
    let (_, rest) = target.split_at(scheme);
    let after = rest.trim_start_matches(':').trim_start_matches(['/', '\\']);
    let slashes = [":/", ":\\"];
    if scheme > 0 && slashes.iter().any(|begin| rest.starts_with(begin)) {
        target.len() - after.len()
    } else {
        0
    }
}

/// Decodes percent-escapes of printable ASCII (RFC 3986 section 2.1).
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
