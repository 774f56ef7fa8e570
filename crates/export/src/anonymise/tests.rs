//! Anonymised records, and rejected arguments.

use super::*;

fn truncated() -> Anonymiser {
    Anonymiser::open("truncate=24/48").unwrap()
}

#[test]
fn truncation_keeps_the_first_bits() {
    let mut anonymiser = truncated();
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    assert_eq!(
        anonymiser.address(address("192.0.2.77")),
        address("192.0.2.0")
    );
    assert_eq!(
        anonymiser.address(address("2001:db8:1:2:3:4:5:6")),
        address("2001:db8:1::")
    );
    let mut nothing = Anonymiser::open("truncate=0/0").unwrap();
    assert_eq!(nothing.ipv4(u32::MAX), 0);
    assert_eq!(nothing.ipv6(u128::MAX), 0);
    let mut all = Anonymiser::open("truncate=32/128").unwrap();
    assert_eq!(all.ipv4(0xc000_024d), 0xc000_024d);
    assert_eq!(all.ipv6(77), 77);
}

#[test]
fn rejects_invalid_arguments_with_a_reason() {
    for spec in [
        "",
        "crypto-pan",
        "crypto-pan=",
        "aes=k",
        "truncate",
        "truncate=24",
    ] {
        assert!(Anonymiser::open(spec).is_err(), "{spec}");
    }
    for bits in ["33/48", "24/129", "-1/2", "24/48/1", "a/b"] {
        let error = Anonymiser::open(&format!("truncate={bits}")).unwrap_err();
        assert!(
            matches!(error, AnonymiseError::Bits { .. }),
            "{bits}: {error}"
        );
    }
    let error = Anonymiser::open("crypto-pan=/no/such/file").unwrap_err();
    assert_eq!(
        error.to_string(),
        "key file /no/such/file: no such file; specify another, or create a key: \
         (umask 077; head -c 32 /dev/urandom > /no/such/file)"
    );
    let error = Anonymiser::open("crypto-pan=/").unwrap_err();
    assert!(
        error.to_string().contains("specify a readable file"),
        "{error}"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [1; 31]).unwrap();
    let error = Anonymiser::open(&format!("crypto-pan={}", file.path().display()));
    assert!(error.unwrap_err().to_string().contains("31 bytes"));
}

#[test]
fn anonymises_addresses_in_application_fields() {
    use app::{DnsRecord, HttpRecord, ResolvedName, TlsRecord};
    let names = AppRecord {
        resolved: Some(ResolvedName {
            is_asked: true,
            name: "192.0.2.9".into(),
            age_ns: 1,
        }),
        tls: Some(Box::new(TlsRecord {
            server_name: Some("2001:db8::7/192.0.2.7".into()),
            subject: Some("C=DE,CN=192.0.2.7,O=192.0.2.8".into()),
            issuer: Some("CN=router+CN=[2001:db8::9],serialNumber=77".into()),
            ..TlsRecord::default()
        })),
        dns: Some(Box::new(DnsRecord {
            query: Some("9.2.0.192.in-addr.arpa".into()),
            addresses: Some("192.0.2.1,198.51.100.2".into()),
            ..DnsRecord::default()
        })),
        http: Some(Box::new(HttpRecord {
            host: Some("192.0.2.3,192.0.2.4/192.0.2.5 ".into()),
            target: Some("http://192.0.2.3:80/192.0.2.3".into()),
            user_agent: Some("192.0.2.3".into()),
            ..HttpRecord::default()
        })),
        ..AppRecord::default()
    };
    let mut batch = RecordBatch {
        analyses: vec![analysis::Analysis {
            app: Some(names),
            ..analysis::Analysis::default()
        }]
        .into(),
        ..RecordBatch::default()
    };
    truncated().batch(&mut batch);
    let names = batch.analyses[0].app.as_ref().unwrap();
    let dns = names.dns.as_ref().unwrap();
    let tls = names.tls.as_ref().unwrap();
    let http = names.http.as_ref().unwrap();
    let texts = [
        names.resolved.as_ref().map(|resolved| &*resolved.name),
        tls.server_name.as_deref(),
        tls.subject.as_deref(),
        tls.issuer.as_deref(),
        dns.query.as_deref(),
        dns.addresses.as_deref(),
        http.host.as_deref(),
        http.target.as_deref(),
        http.user_agent.as_deref(),
    ];
    let expected = [
        "192.0.2.0",
        "2001:db8::/192.0.2.0",
        "C=DE,CN=192.0.2.0,O=192.0.2.8",
        "CN=router+CN=[2001:db8::],serialNumber=77",
        "0.2.0.192.in-addr.arpa",
        "192.0.2.0,198.51.100.0",
        "192.0.2.0,192.0.2.0/192.0.2.0 ",
        "http://192.0.2.0:80/192.0.2.3",
        "192.0.2.3",
    ];
    assert_eq!(texts, expected.map(Some));
}

fn of_version(version: u8) -> FlowKey {
    FlowKey {
        version,
        ..FlowKey::default()
    }
}

#[test]
fn addresses_outside_the_key_stay_zero() {
    use FlowDefinition::{Bidirectional, Destination, FiveTuple, Rss, Source, SourceDestination};
    for (flow, source, destination) in [
        (FiveTuple, true, true),
        (Bidirectional, true, true),
        (SourceDestination, true, true),
        (Source, true, false),
        (Destination, false, true),
        (Rss, false, false),
    ] {
        let mut anonymiser = Anonymiser::crypto_pan(&[7; KEY_BYTES]).for_flows(flow);
        for version in [4, 6] {
            let mut key = of_version(version);
            anonymiser.key(&mut key);
            assert_eq!(key.source != [0; 16], source, "{flow:?} {version}");
            assert_eq!(key.destination != [0; 16], destination, "{flow:?}");
        }
    }
    let mut anonymiser = Anonymiser::crypto_pan(&[7; KEY_BYTES]).for_flows(Source);
    let mut key = FlowKey {
        source_port: 77,
        ..of_version(4)
    };
    key.source[..4].copy_from_slice(&[10, 0, 0, 1]);
    let before = key;
    anonymiser.key(&mut key);
    assert_ne!(key.source, before.source);
    assert_eq!(key.source[4..], [0; 12]);
    let rest = |key: FlowKey| (key.version, key.source_port, key.destination);
    assert_eq!(rest(key), rest(before));
}

/// Results of yacryptopan, another implementation, with the same key.
#[test]
fn anonymises_unspecified_addresses() {
    let mut anonymiser = Anonymiser::crypto_pan(&[0; KEY_BYTES]);
    for (version, expected) in [
        (4, "255.159.6.112"),
        (6, "ff9f:670:2078:1fff:0:2600:c603:f904"),
    ] {
        let mut key = of_version(version);
        anonymiser.key(&mut key);
        let expected: IpAddr = expected.parse().unwrap();
        assert_eq!(key.source_address(), expected);
        assert_eq!(key.destination_address(), expected);
    }
}

/// Asserts the replacement of each text; unchanged texts are listed with themselves.
#[track_caller]
pub(super) fn check(mut replaced: impl FnMut(&str) -> Option<String>, cases: &[(&str, &str)]) {
    for &(text, expected) in cases {
        assert_eq!(
            replaced(text).as_deref().unwrap_or(text),
            expected,
            "{text}"
        );
    }
}

#[test]
fn flow_ids_depend_on_the_key() {
    let ids = |mut anonymiser: Anonymiser, ids: &[u64]| -> Vec<u64> {
        let mut batch = RecordBatch::default();
        for &flow_id in ids {
            batch.analyses.push(analysis::Analysis {
                flow_id,
                ..analysis::Analysis::default()
            });
        }
        anonymiser.batch(&mut batch);
        batch.analyses.iter().map(|it| it.flow_id).collect()
    };
    let original = [77, 78, 77];
    let keyed = |byte| ids(Anonymiser::crypto_pan(&[byte; KEY_BYTES]), &original);
    let seeded = |seed| ids(truncated().with_seed(seed), &original);
    for replacement in [keyed(7), keyed(8), seeded(1), seeded(2)] {
        assert_eq!(
            (replacement[0], replacement[0] == replacement[1]),
            (replacement[2], false)
        );
        assert!(
            replacement
                .iter()
                .all(|id| *id >> 53 == 0 && !original.contains(id))
        );
    }
    assert_eq!((keyed(7), seeded(1)), (keyed(7), seeded(1)));
    assert!(keyed(7) != keyed(8) && seeded(1) != seeded(2));
}
