//! No address is left in a text, whatever surrounds it.

use super::super::tests::check;
use super::*;
use proptest::prelude::*;

fn truncated() -> Anonymiser {
    Anonymiser::open("truncate=24/48").unwrap()
}

#[test]
fn anonymises_addresses_in_arbitrary_text() {
    let texts = [
        ("10.0.0.80,10.0.0.80", "10.0.0.0,10.0.0.0"),
        ("10.0.0.80 ", "10.0.0.0 "),
        ("\t10.80", "\t10.0.0.0"),
        ("10.80;167772240", "10.0.0.0;10.0.0.0"),
        ("10.0.0.80:80, 10.0.0.81:81", "10.0.0.0:80, 10.0.0.0:81"),
        ("10.0.0.80:80:10.0.0.80", "10.0.0.0:80:10.0.0.0"),
        ("[10.0.0.80]", "[10.0.0.0]"),
        ("[fe80::1]10.0.0.80", "[fe80::]10.0.0.0"),
        ("fe80::1%10.0.0.80", "fe80::%10.0.0.0"),
        ("fe80::1,2001:db8::1", "fe80::,2001:db8::"),
        ("u:p:fe80::1:1,x", "u:p:fe80::,x"),
        ("10.7.8.80.x:fe80::1", "0.7.8.0.x:fe80::"),
        ("10.0.0.80/24", "10.0.0.0/24"),
        ("<0x0a.0.0.0120>x", "<10.0.0.0>x"),
        ("10.0.0.80%20", "10.0.0.0%20"),
        ("x%2010.0.0.80", "x%2010.0.0.0"),
        ("caf\u{e9} 10.0.0.80\u{a0}", "caf\u{e9} 10.0.0.0\u{a0}"),
        // DNS-SD labels; their escapes are kept.
        (
            "Camera\\032\\(10\\.0\\.0\\.80\\)._http._tcp.local",
            "Camera\\032\\(10\\.0\\.0\\.0\\)._http._tcp.local",
        ),
        (
            "Camera\\03210\\.7\\.8\\.80.local",
            "Camera\\0320\\.7\\.8\\.0.local",
        ),
        ("10.0.0.80\\032", "10.0.0.0\\032"),
        (
            "80.0.0.10.in-addr.arpa,81.0.0.10.in-addr.arpa ",
            "0.0.0.10.in-addr.arpa,0.0.0.10.in-addr.arpa ",
        ),
        ("10\\.7.8.80\\.example", "0\\.7.8.0\\.example"),
        // The order of the octets is unknown.
        ("host10.7.8.80-a.example", "host0.7.8.0-a.example"),
        ("x-1.10.7.8.80-a", "x-1.0.7.8.0-a"),
        ("80.7.8.10.of-10.7.8.80-a", "0.7.8.0.of-0.7.8.0-a"),
    ];
    check(|text| truncated().name(text), &texts);
    check(|text| truncated().host_field(text), &texts);
}

#[test]
fn text_around_a_host_is_not_a_path() {
    check(
        |text| truncated().host_field(text),
        &[
            ("10.0.0.80/10.0.0.80", "10.0.0.0/10.0.0.0"),
            ("10.0.0.80://x/", "10.0.0.0://x/"),
            (
                "http://x/?a=10.0.0.80#fe80::1",
                "http://x/?a=10.0.0.0#fe80::",
            ),
            ("x\\10.0.0.80", "x\\10.0.0.0"),
            (
                "h://x/80.0.0.10.in-addr.arpa",
                "h://x/0.0.0.10.in-addr.arpa",
            ),
            ("example.com/5", "example.com/5"),
        ],
    );
    check(
        |text| truncated().target(text),
        &[
            ("a10.0.0.80://x/10.0.0.80", "a0.0.0.0://x/10.0.0.80"),
            (
                "http://10.0.0.80,x/10.0.0.80",
                "http://10.0.0.0,x/10.0.0.80",
            ),
        ],
    );
}

#[test]
fn anonymises_whole_common_names() {
    check(
        |names| truncated().distinguished_name(names),
        &[
            (
                "CN=10.0.0.80\\,10.0.0.80,O=10.0.0.80",
                "CN=10.0.0.0\\,10.0.0.0,O=10.0.0.80",
            ),
            ("CN=router (10.0.0.80)+CN=x", "CN=router (10.0.0.0)+CN=x"),
            ("CN=10.0.0.80\\ ", "CN=10.0.0.0\\ "),
            ("O=a\\,CN=10.0.0.80", "O=a\\,CN=10.0.0.80"),
        ],
    );
}

#[test]
fn keeps_numbers_among_words() {
    for name in [
        "Printer\\032\\(2\\)._ipp._tcp.local",
        "Printer 2.1 (5)",
        "a 10.0.80",
        "1.2.3 4x",
        "300.1.2.3-a",
        "10.0.0.1300 x",
        "x::y ::",
        "00:11:22:33:44:55 x",
        "12:30 x",
        "example.com, 5",
    ] {
        check(|text| truncated().name(text), &[(name, name)]);
    }
}

proptest! {
    /// An address is delimited by any character that cannot belong to it.
    #[test]
    fn no_address_is_left(
        address: u32,
        wide: u128,
        before in "(\\PC{0,20}[^0-9a-fA-F:.%\\\\])?",
        after in "([^0-9a-fA-F:.%\\\\@]\\PC{0,20})?",
        between in "[ ,;()|=@\\[\\]<>\u{e9}]{1,3}",
    ) {
        // Addresses that the surrounding text cannot contain by chance.
        let (v4, v6) = (Ipv4Addr::from(address | 0x6464_6464), Ipv6Addr::from(wide | 1 << 127));
        let mut cipher = Anonymiser::crypto_pan(&[7; 32]);
        let (replacement4, replacement6) = (cipher.address(v4.into()), cipher.address(v6.into()));
        prop_assume!(IpAddr::V4(v4) != replacement4);
        let text = format!("{before}{v4}{between}{v6}{between}{v4}{after}");
        for replacement in [cipher.name(&text), cipher.host_field(&text)] {
            let replacement = replacement.unwrap_or_default();
            prop_assert!(replacement.contains(&format!("{replacement4}{between}{replacement6}{between}{replacement4}")), "{} of {}", replacement, text);
            prop_assert!(!replacement.contains(&v6.to_string()), "{} of {}", replacement, text);
        }
    }

    #[test]
    fn accepts_arbitrary_text(text in "\\PC{0,40}|[\\[\\]@:%./\\\\0-9a-f, -]{0,60}") {
        let mut anonymiser = truncated();
        for replacement in [anonymiser.name(&text), anonymiser.host_field(&text), anonymiser.replace_embedded(&text)] {
            prop_assert!(replacement.is_none_or(|replacement| !replacement.is_empty()));
        }
    }
}
