//! Addresses in labels: with truncation, where the expected value is obvious; with Crypto-PAn,
//! where it follows from the address.

use super::super::tests::check;
use super::*;
use crate::anonymise::KEY_BYTES;
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;

fn truncated(bits: &str) -> Anonymiser {
    Anonymiser::open(&format!("truncate={bits}")).unwrap()
}

fn crypto_pan() -> Anonymiser {
    Anonymiser::crypto_pan(&[7; KEY_BYTES])
}

fn reversed(address: u32) -> String {
    Ipv4Addr::from(address.swap_bytes()).to_string()
}

/// The nibbles of an address in reverse order.
fn nibbles(address: u128) -> Vec<String> {
    (0..32)
        .map(|position| format!("{:x}", address >> (4 * position) & 15))
        .collect()
}

#[test]
fn anonymises_reverse_names_with_extra_labels() {
    check(
        |name| truncated("12/20").name(name),
        &[
            ("80.5.31.10.in-addr.arpa", "0.0.16.10.in-addr.arpa"),
            ("80.5.31.10.IN-ADDR.ARPA.", "0.0.16.10.IN-ADDR.ARPA."),
            ("5.31.10.in-addr.arpa", "0.16.10.in-addr.arpa"),
            ("31.10.in-addr.arpa", "16.10.in-addr.arpa"),
            (
                "b._dns-sd._udp.0.5.31.10.in-addr.arpa",
                "b._dns-sd._udp.0.0.16.10.in-addr.arpa",
            ),
            (
                "80.of-us.5.31.10.in-addr.arpa",
                "0.of-us.0.16.10.in-addr.arpa",
            ),
            ("8.b.d.0.1.f.f.2.ip6.arpa", "0.0.0.0.1.f.f.2.ip6.arpa"),
            (
                "b._dns-sd._udp.8.F.1.0.0.2.ip6.arpa",
                "b._dns-sd._udp.0.f.1.0.0.2.ip6.arpa",
            ),
        ],
    );
    for name in [
        "in-addr.arpa",
        "x.in-addr.arpa",
        "256.in-addr.arpa",
        "+1.in-addr.arpa",
        "1\\.2.in-addr.arpa",
        "ip6.arpa",
        "10.ip6.arpa",
        "x.ip6.arpa.",
        "1.2.3.in-addr.example",
        "1.example.com",
        "1\\.2.3x\\.4.example",
    ] {
        assert_eq!(truncated("0/0").name(name), None, "{name}");
    }
}

#[test]
fn anonymises_ranges() {
    check(
        |name| truncated("32/128").name(name),
        &[
            ("64-27.0.0.10.in-addr.arpa", "64-27.0.0.10.in-addr.arpa"),
            ("0/25.0.0.10.in-addr.arpa", "0/25.0.0.10.in-addr.arpa"),
            ("0-31.0.0.10.in-addr.arpa", "0-31.0.0.10.in-addr.arpa"),
            // No prefix has these ends or this length.
            ("10-20.0.0.10.in-addr.arpa", "0-31.0.0.10.in-addr.arpa"),
            ("95-64.0.0.10.in-addr.arpa", "95-64.0.0.10.in-addr.arpa"),
            ("77/33.0.0.10.in-addr.arpa", "127/0.0.0.10.in-addr.arpa"),
            ("77/27.0.0.10.in-addr.arpa", "64/27.0.0.10.in-addr.arpa"),
            ("64-19.0.10.in-addr.arpa", "64-19.0.10.in-addr.arpa"),
        ],
    );
    check(
        |name| truncated("25/128").name(name),
        &[
            ("64/27.0.0.10.in-addr.arpa", "0/27.0.0.10.in-addr.arpa"),
            ("192-223.0.0.10.in-addr.arpa", "128-159.0.0.10.in-addr.arpa"),
            (
                "200.192-27.0.0.10.in-addr.arpa",
                "128.128-27.0.0.10.in-addr.arpa",
            ),
            ("1.2.64-19.0.10.in-addr.arpa", "0.2.64-19.0.10.in-addr.arpa"),
        ],
    );
}

#[test]
fn anonymises_whole_addresses_before_other_names() {
    let mut crypto_pan = crypto_pan();
    let replacement = reversed(crypto_pan.ipv4(0x0a00_0050));
    for (name, expected) in [
        (
            "80.0.0.10.zen.spamhaus.org",
            format!("{replacement}.zen.spamhaus.org"),
        ),
        (
            "www.80.0.0.10.example.",
            format!("www.{replacement}.example."),
        ),
        ("7.80.0.0.10.example", format!("7.{replacement}.example")),
        (
            "80.0.0.10.of.80.0.0.10.in-addr.arpa",
            format!("{replacement}.of.{replacement}.in-addr.arpa"),
        ),
        ("x.80.0.0.10", format!("x.{replacement}")),
    ] {
        assert_eq!(crypto_pan.name(name), Some(expected));
    }
    // The order of the octets is unknown.
    check(
        |name| truncated("24/124").name(name),
        &[
            ("80.7.8.10.zen.spamhaus.org", "0.7.8.0.zen.spamhaus.org"),
            ("10.8.7.80.nip.io:8080", "0.8.7.0.nip.io:8080"),
        ],
    );
    let all = nibbles(!(7 << 124 | 7)).join(".");
    let expected = format!("0{}0.example", &all[1..all.len() - 1]);
    let name = format!("{all}.example");
    assert_eq!(truncated("24/124").name(&name), Some(expected));
}

proptest! {
    /// The replacement of a network's name is a prefix of the replacement of each of its addresses.
    #[test]
    fn network_names_are_prefixes_of_address_names(address: u32, wide: u128, octets in 1_usize..5, digits in 1_usize..33) {
        let mut crypto_pan = crypto_pan();
        let last = |text: &str, labels: usize| {
            let mut all: Vec<&str> = text.split('.').collect();
            all.drain(..all.len() - labels);
            all.join(".")
        };
        let name = format!("{}.in-addr.arpa", last(&reversed(address), octets));
        let replacement = reversed(crypto_pan.ipv4(address));
        prop_assert_eq!(crypto_pan.name(&name), Some(format!("{}.in-addr.arpa", last(&replacement, octets))));

        let text = |address: u128| nibbles(address).join(".");
        let name = format!("{}.ip6.arpa", last(&text(wide), digits));
        let replacement = text(Ipv6Addr::from(crypto_pan.ipv6(wide)).into());
        prop_assert_eq!(crypto_pan.name(&name), Some(format!("{}.ip6.arpa", last(&replacement, digits))));
        let name = format!("{}.zen.spamhaus.org", text(wide));
        prop_assert_eq!(crypto_pan.name(&name), Some(format!("{replacement}.zen.spamhaus.org")));
    }

    /// The replacement of a range contains the replacement of each of its addresses.
    #[test]
    fn ranges_contain_their_addresses(address: u32, length in 24_u8..33) {
        let mut crypto_pan = crypto_pan();
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        let last = |address: u32| address as u8;
        let [a, b, c, d] = address.to_be_bytes();
        let replacement = crypto_pan.ipv4(address);
        let [e, f, g, h] = replacement.to_be_bytes();
        let (first, end) = (last(address & mask), last(address | !mask));
        let by_length = format!("{d}.{first}/{length}.{c}.{b}.{a}.in-addr.arpa");
        let expected = format!("{h}.{}/{length}.{g}.{f}.{e}.in-addr.arpa", last(replacement & mask));
        prop_assert_eq!(crypto_pan.name(&by_length), Some(expected));
        let by_ends = format!("{d}.{first}-{end}.{c}.{b}.{a}.in-addr.arpa");
        let (first, end) = (last(replacement & mask), last(replacement | !mask));
        let expected = format!("{h}.{first}-{end}.{g}.{f}.{e}.in-addr.arpa");
        prop_assert_eq!(crypto_pan.name(&by_ends), Some(expected));
    }

    #[test]
    fn reverses_nibbles(number: u128) {
        let text: String = format!("{number:032x}").chars().rev().collect();
        prop_assert_eq!(format!("{:032x}", nibbles_reversed(number)), text);
    }
}
