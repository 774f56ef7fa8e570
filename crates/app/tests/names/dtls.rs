//! Compares DTLS handshakes with those of tshark 4.0.17 (`dtls.handshake.version`,
//! `dtls.handshake.extensions.supported_version` and `dtls.handshake.ciphersuite` of the ServerHello).

use crate::captures;

/// Capture, version and cipher suite that the server chose, and the transport and highest version in
/// JA4.
const EXPECTED: &[(&str, u16, u16, &str)] = &[
    // The ClientHello is fragmented, with a cookie.
    ("zeek/tls__dtls1_0.pcap", 0xfeff, 0xc014, "dd1"),
    ("zeek/tls__dtls1_2.pcap", 0xfefd, 0xc030, "dd2"),
    ("zeek/tls__dtls13-wolfssl.pcap", 0xfefc, 0x1301, "dd3"),
    ("zeek/tls__dtls13-cid.pcap", 0xfefc, 0x1301, "dd3"),
    (
        "zeek/tls__dtls-sequence-number-jumps.pcap",
        0xfefc,
        0x1301,
        "dd3",
    ),
];

#[test]
fn dtls_matches_tshark() {
    if !traffic::present() {
        return;
    }
    for &(capture, version, cipher, ja4) in EXPECTED {
        let records = captures::read(capture);
        let mut answered = records
            .iter()
            .filter_map(|(_, record)| record.tls.as_deref())
            .filter(|tls| tls.version.is_some())
            .peekable();
        assert!(answered.peek().is_some(), "{capture}: {records:?}");
        for tls in answered {
            let chosen = (tls.version, tls.cipher);
            assert_eq!(chosen, (Some(version), Some(cipher)), "{capture}");
            let found = tls.ja4.as_deref().unwrap_or_default();
            assert!(found.starts_with(ja4), "{capture}: {tls:?}");
        }
    }
}
