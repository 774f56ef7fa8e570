//! Compares each hash of a flow key with values published by other programs and papers.

use flow::hash::{FlowHash, HashKind, fmix32, spread};
use proptest::prelude::*;
use wire::FlowKey;

fn flow_hash(kind: HashKind) -> FlowHash {
    FlowHash::new(kind, 5)
}

fn hash32(kind: HashKind, key: u128) -> u32 {
    let mut hash = [0];
    flow_hash(kind).hash32_burst(&[key], &mut hash);
    hash[0]
}

fn key(source: [u8; 4], source_port: u16, destination: [u8; 4], destination_port: u16) -> u128 {
    let mut key = FlowKey {
        version: 4,
        protocol: 6,
        source_port,
        destination_port,
        ..FlowKey::default()
    };
    key.source[..4].copy_from_slice(&source);
    key.destination[..4].copy_from_slice(&destination);
    key.compact().expect("an IPv4 key is compact")
}

/// The messages of the vectors below: zeroes, 0 to 15, a text, and the 5-tuple of Microsoft's first
/// verification value.
fn messages() -> [u128; 4] {
    let rising = std::array::from_fn(|i| i as u8);
    let tuple = key([66, 9, 149, 187], 2794, [161, 142, 100, 80], 1766);
    [
        0,
        u128::from_le_bytes(rising),
        u128::from_le_bytes(*b"flowatch16bytes!"),
        tuple,
    ]
}

#[test]
fn murmur3_equals_the_python_package_mmh3() {
    // mmh3 5.3.1, mmh3.hash(message, 0, signed=False).
    let expected = [0x8134_cdf8, 0x1915_73dd, 0x49cc_00ac, 0xc749_c6bb];
    assert_eq!(
        messages().map(|message| hash32(HashKind::Murmur3, message)),
        expected
    );
}

#[test]
fn spooky_equals_the_python_package_spookyhash() {
    // spookyhash 2.1.1 (SpookyV2), spookyhash.hash64(message, 0).
    let expected = [
        0xc646_1a80_843a_61b8,
        0x3402_25d6_331f_2651,
        0xbdca_72db_22fd_98b2,
        0x3553_3866_0875_ec8e,
    ];
    assert_eq!(
        messages().map(|message| flow_hash(HashKind::Spooky).hash_one(message)),
        expected
    );
    assert_eq!(hash32(HashKind::Spooky, 0), 0x843a_61b8);
}

#[test]
fn crc32c_equals_the_catalogue_and_the_rfc() {
    // The check value of CRC-32C, and RFC 3720, appendix B.4: 32 bytes of zeroes.
    assert_eq!(hw::crc32c::bytes(b"123456789"), 0xe306_9283);
    assert_eq!(hw::crc32c::bytes(&[0; 32]), 0x8a91_36aa);
    for message in messages() {
        let expected = hw::crc32c::bytes(&message.to_le_bytes());
        assert_eq!(hash32(HashKind::Crc32c, message), expected);
    }
}

#[test]
fn toeplitz_equals_microsofts_verification_values() {
    for (source, source_port, destination, destination_port, expected) in [
        (
            [66, 9, 149, 187],
            2794,
            [161, 142, 100, 80],
            1766,
            0x51cc_c178,
        ),
        (
            [199, 92, 111, 2],
            14230,
            [65, 69, 140, 83],
            4739,
            0xc626_b0ea,
        ),
        (
            [24, 19, 198, 95],
            12898,
            [12, 22, 207, 184],
            38024,
            0x5c2b_394a,
        ),
        (
            [38, 27, 205, 30],
            48228,
            [209, 142, 163, 6],
            2217,
            0xafc7_327f,
        ),
        (
            [153, 39, 163, 191],
            44251,
            [202, 188, 127, 2],
            1303,
            0x10e8_28a2,
        ),
    ] {
        let key = key(source, source_port, destination, destination_port);
        assert_eq!(hash32(HashKind::Toeplitz, key), expected);
        // A larger burst takes the vector path.
        let mut hashes = [0; 40];
        flow_hash(HashKind::Toeplitz).hash32_burst(&[key; 40], &mut hashes);
        assert_eq!(hashes, [expected; 40]);
    }
}

#[test]
fn add_and_xor_combine_the_fields() {
    let key = key([10, 0, 0, 1], 1000, [10, 0, 0, 2], 80);
    assert_eq!(hash32(HashKind::Add, key), 0x1400_0003 + 1000 + 80 + 6);
    assert_eq!(hash32(HashKind::Xor, key), 3 ^ 1000 ^ 80 ^ 6);
}

#[test]
fn the_finaliser_equals_murmur3s() {
    // mmh3 5.3.1: the hash of no bytes under seed s is fmix32(s).
    assert_eq!(
        [0, 1, 0xffff_ffff].map(fmix32),
        [0, 0x514e_28b7, 0x81f1_6f39]
    );
}

#[test]
fn names_parse_and_an_unknown_name_is_rejected_with_the_list() {
    for kind in HashKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
        assert_eq!(kind.to_string(), kind.name());
    }
    let error = "sha256".parse::<HashKind>().unwrap_err().to_string();
    assert!(
        error.contains("`sha256`") && error.contains("keyed, toeplitz"),
        "{error}"
    );
}

#[test]
fn only_the_keyed_hash_depends_on_the_seed() {
    for kind in HashKind::ALL {
        let differ = FlowHash::new(kind, 1).hash_one(77) != FlowHash::new(kind, 2).hash_one(77);
        assert_eq!(differ, kind == HashKind::Keyed, "{kind}");
    }
}

proptest! {
    #[test]
    fn burst_and_single_hashes_are_equal_and_the_two_forms_agree(
        keys in prop::collection::vec(any::<u128>(), 0..300),
    ) {
        for kind in HashKind::ALL {
            let hash = flow_hash(kind);
            let mut wide = vec![0; keys.len()];
            let mut narrow = vec![0; keys.len()];
            hash.hash_burst(&keys, &mut wide);
            hash.hash32_burst(&keys, &mut narrow);
            for ((&key, wide), narrow) in keys.iter().zip(wide).zip(narrow) {
                prop_assert_eq!(wide, hash.hash_one(key));
                prop_assert_eq!(narrow, hash32(kind, key));
                let expected = match kind {
                    HashKind::Keyed | HashKind::Spooky => wide & !0xffff_ffff | u64::from(narrow),
                    _ => spread(narrow),
                };
                prop_assert_eq!(wide, expected);
            }
        }
    }

    #[test]
    fn symmetric_hashes_are_the_same_for_both_directions(
        source: [u8; 4], destination: [u8; 4], source_port: u16, destination_port: u16,
    ) {
        let forward = key(source, source_port, destination, destination_port);
        let reverse = key(destination, destination_port, source, source_port);
        for kind in [HashKind::SymmetricToeplitz, HashKind::Add, HashKind::Xor] {
            prop_assert_eq!(hash32(kind, forward), hash32(kind, reverse));
        }
    }
}

/// The double hash of the paper loses the flows that do not fit its 2^16 buckets of two entries: 10.4
/// % of 2^16 random flows (Poisson with mean 1: the share beyond the second flow of each bucket). A
/// good hash must be near that share for structured keys too: those of a subnet that talks to one
/// host.
#[test]
fn structured_keys_spread_like_random_ones() {
    let keys: Vec<u128> = (0..1u32 << 16)
        .map(|i| key([10, 0, (i >> 8) as u8, i as u8], 1024, [192, 168, 0, 1], 80))
        .collect();
    for kind in [HashKind::Keyed, HashKind::Murmur3, HashKind::Spooky] {
        let mut held = vec![0u32; 1 << 16];
        for key in &keys {
            held[usize::from(flow_hash(kind).hash_one(*key) as u16)] += 1;
        }
        let lost: u32 = held.iter().map(|count| count.saturating_sub(2)).sum();
        let share = f64::from(lost) / keys.len() as f64;
        assert!((share - 0.1036).abs() < 0.005, "{kind} loses {share}");
    }
}
