//! Every spelling of an address is found, compared with straightforward parsers; nothing else is.

use super::super::tests::check;
use super::*;
use core::net::Ipv4Addr;
use proptest::prelude::*;
use std::net::ToSocketAddrs;

fn truncated() -> Anonymiser {
    Anonymiser::open("truncate=24/48").unwrap()
}

#[test]
fn anonymises_addresses_in_every_spelling() {
    check(
        |text| truncated().target(text),
        &[
            ("10.0.0.80", "10.0.0.0"),
            ("10.0.0.80.", "10.0.0.0"),
            ("10.0.5.", "10.0.0.0"),
            ("012.0.0.80", "10.0.0.0"),
            ("167772240", "10.0.0.0"),
            ("0x0a000050", "10.0.0.0"),
            ("0X0A.0.0.0x50", "10.0.0.0"),
            ("10.80", "10.0.0.0"),
            ("10.1.80", "10.1.0.0"),
            ("10.0.0.080", "10.0.0.0"),
            ("%31%30.0.0%2e80", "10.0.0.0"),
            ("10.0.0.80:8080", "10.0.0.0:8080"),
            ("10.0.0.80:", "10.0.0.0:"),
            ("user@10.0.0.80", "user@10.0.0.0"),
            ("10.0.0.80:secret@10.0.0.81:1", "10.0.0.0:secret@10.0.0.0:1"),
            ("2001:db8::1", "2001:db8::"),
            ("2001:db8:0:0:0:0:0:1:443", "2001:db8:::443"),
            ("[2001:db8:0:1::1]:443", "[2001:db8::]:443"),
            ("fe80::1%eth0", "fe80::%eth0"),
            ("user@[fe80::1%25eth0]:1", "user@[fe80::%25eth0]:1"),
            ("[::ffff:10.0.0.80]", "[::]"),
            ("2001:db8::1.", "2001:db8::"),
            ("::ffff:10.0.0.80.:1", ":::1"),
            ("user:10.0.0.80", "user:10.0.0.0"),
            ("[2001:db8:1:2", "[2001:db8:1::"),
            ("[2001:db8:1:2:", "[2001:db8:1::"),
            ("[2001:db8:1:2::1", "[2001:db8:1::"),
        ],
    );
}

#[test]
fn keeps_names_without_addresses() {
    let names = [
        "example.com",
        "",
        ".",
        "4chan.org",
        "1.example.com",
        "1.2.3.example",
        "999.1.1.1",
        "10.0.0.256",
        "10..0.1",
        "10.256.1",
        "1.1.65536",
        "4294967296",
        "0x100000000",
        "+1",
        "0x+1",
        "0xg",
        "1.2.3.4.5",
        "a:b",
        "a:1",
        "[v1.x]:1",
        "[2001:db8:1:2]",
        "%zz1",
        "100%",
        "/10.0.0.80",
        "/?ip=10.0.0.80",
        "*",
        "http:///",
    ];
    for name in names {
        // Five octets contain an address of four.
        let expected = if name == "1.2.3.4.5" {
            "1.0.3.4.0"
        } else {
            name
        };
        check(|text| truncated().target(text), &[(name, expected)]);
    }
}

#[test]
fn anonymises_truncated_addresses() {
    check(
        |text| truncated().list_item(text),
        &[
            ("10.0.0.8", "10.0.0.0"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::"),
            ("2001:db8:1:2", "2001:db8:1::"),
            ("2001:db8:1:2:", "2001:db8:1::"),
            ("2001:db8:1:2:3:4:5", "2001:db8:1::"),
            ("::ffff:10.0.0.", "::"),
            ("", ""),
        ],
    );
}

/// As a host and as a DNS query, whatever follows the name.
#[test]
fn reverse_name_may_contain_a_slash() {
    let names = [
        ("64/27.0.0.10.in-addr.arpa", "0/27.0.0.10.in-addr.arpa"),
        ("64/26.1.0.10.IN-ADDR.ARPA.", "0/26.1.0.10.IN-ADDR.ARPA."),
        ("70.64/27.0.0.10.in-addr.arpa", "0.0/27.0.0.10.in-addr.arpa"),
        ("x/y.80.0.0.10.in-addr.arpa", "x/y.0.0.0.10.in-addr.arpa"),
        (
            "a/b.1.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
            "a/b.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
        ),
    ];
    check(|text| truncated().name(text), &names);
    check(|text| truncated().target(text), &names);
    let mut cipher = Anonymiser::crypto_pan(&[7; 32]);
    for (name, _) in names {
        let replacement = cipher.name(name);
        assert!(
            replacement
                .as_deref()
                .is_some_and(|replacement| replacement != name)
        );
        assert_eq!(cipher.target(name), replacement);
    }
    check(
        |text| truncated().target(text),
        &[
            (
                "u@64/27.0.0.10.in-addr.arpa:80/64/27",
                "u@0/27.0.0.10.in-addr.arpa:80/64/27",
            ),
            // A path after a host that is a whole address.
            (
                "10.0.0.80/27.0.0.10.in-addr.arpa",
                "10.0.0.0/27.0.0.10.in-addr.arpa",
            ),
            (
                "0x0a000050/27.0.0.10.in-addr.arpa",
                "10.0.0.0/27.0.0.10.in-addr.arpa",
            ),
            ("/27.0.0.10.in-addr.arpa", "/27.0.0.10.in-addr.arpa"),
            (
                "http://example.com/27.0.0.10.in-addr.arpa",
                "http://example.com/27.0.0.10.in-addr.arpa",
            ),
        ],
    );
}

#[test]
fn anonymises_the_host_of_a_target_but_not_its_path() {
    check(
        |text| truncated().target(text),
        &[
            ("http://10.0.0.80/x", "http://10.0.0.0/x"),
            ("http://10.0.0.80", "http://10.0.0.0"),
            ("HTTP://10.0.0.80?10.0.0.80", "HTTP://10.0.0.0?10.0.0.80"),
            ("http://10.0.0.80#x", "http://10.0.0.0#x"),
            ("http:\\\\10.0.0.80\\x", "http:\\\\10.0.0.0\\x"),
            ("http:/10.80/1", "http:/10.0.0.0/1"),
            ("http://[2001:db8::1]/x", "http://[2001:db8::]/x"),
            (
                "ftp+x://u:p@10.0.0.80:21/10.0.0.80",
                "ftp+x://u:p@10.0.0.0:21/10.0.0.80",
            ),
            ("10.0.0.80:443", "10.0.0.0:443"),
            ("[2001:db8::1]:443", "[2001:db8::]:443"),
            (
                "http://example.com/10.0.0.80",
                "http://example.com/10.0.0.80",
            ),
            (
                "http://80.0.0.10.in-addr.arpa:1/",
                "http://0.0.0.10.in-addr.arpa:1/",
            ),
        ],
    );
}

/// The IPv4 steps of the WHATWG host parser, except that an invalid octal number is decimal.
fn plainly(host: &str) -> Option<Ipv4Addr> {
    let mut parts: Vec<&str> = host.split('.').collect();
    if parts.len() > 1 && parts.last() == Some(&"") {
        parts.pop();
    }
    if parts.len() > 4 {
        return None;
    }
    let mut numbers: Vec<u128> = Vec::new();
    for part in &parts {
        let lower = part.to_lowercase();
        let (radix, digits) = match lower.strip_prefix("0x") {
            Some(digits) => (16, digits.to_owned()),
            None if lower.starts_with('0') && !lower.contains(['8', '9']) => (8, lower),
            None => (10, lower),
        };
        if part.is_empty() {
            return None;
        }
        let mut number = 0_u128;
        for digit in digits.chars() {
            let digit = digit.to_digit(radix)?;
            number = (number * u128::from(radix) + u128::from(digit)).min(1 << 64);
        }
        numbers.push(number);
    }
    let last = numbers.pop()?;
    if numbers.iter().any(|number| *number > 255) || last >= 256_u128.pow(4 - numbers.len() as u32)
    {
        return None;
    }
    let mut address = last;
    for (position, number) in numbers.iter().enumerate() {
        address += number * 256_u128.pow(3 - position as u32);
    }
    Some((address as u32).into())
}

fn spelled(number: u32, radix: u8, zeros: usize) -> String {
    let zeros = "0".repeat(zeros);
    match radix {
        0 => number.to_string(),
        1 => format!("0{zeros}{number:o}"),
        2 => format!("0x{zeros}{number:x}"),
        _ => format!("0X{zeros}{number:X}"),
    }
}

proptest! {
    #[test]
    fn ipv4_parser_matches_the_standard(host in "[0-9a-fxX.+]{0,14}|(0x|0X|0)?[0-9]{1,11}(\\.(0x|0)?[0-9a]{0,4}){0,4}\\.?") {
        prop_assert_eq!(ipv4(&host), plainly(&host));
    }

    /// The system resolver accepts all spellings without sending a query.
    #[test]
    fn every_spelling_of_an_address_is_found(
        address: u32,
        parts in 1_u32..5,
        spellings in proptest::collection::vec((0_u8..4, 0_usize..3), 4),
        dot: bool,
    ) {
        let mut texts = Vec::new();
        let mut rest = u64::from(address) << 32;
        for (&(radix, zeros), position) in spellings.iter().zip(1..=parts) {
            let bits = if position < parts { 8 } else { 40 - 8 * parts };
            texts.push(spelled((rest >> (64 - bits)) as u32, radix, zeros));
            rest <<= bits;
        }
        let mut host = texts.join(".");
        let resolved = (host.as_str(), 0).to_socket_addrs().unwrap().next().unwrap();
        prop_assert_eq!(resolved.ip(), Ipv4Addr::from(address));
        if dot {
            host.push('.');
        }
        prop_assert_eq!(ipv4(&host), Some(address.into()));
        let replacement = Anonymiser::open("truncate=32/128").unwrap().target(&format!("http://{host}:1/2"));
        prop_assert_eq!(replacement, Some(format!("http://{}:1/2", Ipv4Addr::from(address))));
    }

    #[test]
    fn accepts_arbitrary_text(text in "\\PC{0,40}|[\\[\\]@:%./\\\\0-9a-f-]{0,40}") {
        let mut anonymiser = truncated();
        let once = anonymiser.target(&text);
        let names = anonymiser.distinguished_name(&text);
        prop_assert!(once.is_none_or(|replacement| !replacement.is_empty()));
        prop_assert!(names.is_none_or(|replacement| replacement.contains('=')));
    }
}
