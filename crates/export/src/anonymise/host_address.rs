//! Parses hosts that are addresses, in any spelling.

use core::net::{Ipv4Addr, Ipv6Addr};

/// Parses a host as an IPv6 address. Returns it with its zone including the percent sign (RFC 4007
/// section 11).
pub(super) fn ipv6(host: &str) -> Option<(u128, &str)> {
    let (address, zone) = host.split_at(host.find('%').unwrap_or(host.len()));
    let address = address.strip_suffix('.').unwrap_or(address);
    let address: Ipv6Addr = address.parse().ok()?;
    Some((address.into(), zone))
}

/// Parses the start of an IPv6 address that was cut; missing parts are zero.
pub(super) fn truncated_ipv6(text: &str) -> Option<u128> {
    if text.is_empty() {
        return None;
    }
    let address = |rest| Some(ipv6(&format!("{text}{rest}"))?.0);
    ["::", ":", "0"].into_iter().find_map(address)
}

/// Parses a host as an IPv4 address in every spelling that `inet_aton` and the WHATWG URL host
/// parser accept: up to four numbers, decimal, octal (`0`) or hexadecimal (`0x`), the last of which
/// fills all remaining bytes; an optional final dot.
pub(super) fn ipv4(host: &str) -> Option<Ipv4Addr> {
    let stem = host.strip_suffix('.').unwrap_or(host);
    let mut before: u32 = 0;
    // Bits left for the following numbers.
    let mut bits = 32;
    let mut numbers = stem.split('.').peekable();
    while let Some(text) = numbers.next() {
        let number = ipv4_number(text)?;
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

/// Parses one number of an IPv4 address. An invalid octal number is read as decimal, as lenient
/// parsers do.
fn ipv4_number(text: &str) -> Option<u32> {
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
