use core::net::IpAddr;

use proptest::prelude::*;

use super::*;

fn key(source: &str, source_port: u16, destination: &str, destination_port: u16) -> FlowKey {
    fn octets(address: &str) -> (u8, [u8; 16]) {
        match address.parse().unwrap() {
            IpAddr::V4(v4) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&v4.octets());
                (4, bytes)
            }
            IpAddr::V6(v6) => (6, v6.octets()),
        }
    }
    let (version, source) = octets(source);
    FlowKey {
        version,
        source,
        destination: octets(destination).1,
        source_port,
        destination_port,
        ..FlowKey::default()
    }
}

/// Microsoft, "Verifying the RSS Hash Calculation", table for IPv4: source, destination, hash of
/// the addresses, hash with the TCP ports.
#[test]
fn microsofts_ipv4_vectors() {
    let hasher = Toeplitz::new(&MICROSOFT_KEY).unwrap();
    for (source, source_port, destination, destination_port, addresses, ports) in [
        (
            "66.9.149.187",
            2794,
            "161.142.100.80",
            1766,
            0x323e_8fc2,
            0x51cc_c178,
        ),
        (
            "199.92.111.2",
            14230,
            "65.69.140.83",
            4739,
            0xd718_262a,
            0xc626_b0ea,
        ),
        (
            "24.19.198.95",
            12898,
            "12.22.207.184",
            38024,
            0xd2d0_a5de,
            0x5c2b_394a,
        ),
        (
            "38.27.205.30",
            48228,
            "209.142.163.6",
            2217,
            0x8298_9176,
            0xafc7_327f,
        ),
        (
            "153.39.163.191",
            44251,
            "202.188.127.2",
            1303,
            0x5d18_09c5,
            0x10e8_28a2,
        ),
    ] {
        let key = key(source, source_port, destination, destination_port);
        assert_eq!(hasher.hash_key(&key, Input::Addresses), addresses);
        assert_eq!(hasher.hash_key(&key, Input::AddressesAndPorts), ports);
    }
}

/// The same, table for IPv6.
#[test]
fn microsofts_ipv6_vectors() {
    let hasher = Toeplitz::new(&MICROSOFT_KEY).unwrap();
    for (source, source_port, destination, destination_port, addresses, ports) in [
        (
            "3ffe:2501:200:1fff::7",
            2794,
            "3ffe:2501:200:3::1",
            1766,
            0x2cc1_8cd5,
            0x4020_7d3d,
        ),
        (
            "3ffe:501:8::260:97ff:fe40:efab",
            14230,
            "ff02::1",
            4739,
            0x0f0c_461c,
            0xdde5_1bbf,
        ),
        (
            "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
            44251,
            "fe80::200:f8ff:fe21:67cf",
            38024,
            0x4b61_e985,
            0x02d1_feef,
        ),
    ] {
        let key = key(source, source_port, destination, destination_port);
        assert_eq!(hasher.hash_key(&key, Input::Addresses), addresses);
        assert_eq!(hasher.hash_key(&key, Input::AddressesAndPorts), ports);
    }
}

#[test]
fn a_key_of_52_bytes_hashes_as_its_first_40_and_a_shorter_one_is_refused() {
    let key = key("66.9.149.187", 2794, "161.142.100.80", 1766);
    let short = Toeplitz::new(&SYMMETRIC_KEY).unwrap();
    let long: [u8; 52] = std::array::from_fn(|at| [0x6d, 0x5a][at % 2]);
    let long = Toeplitz::new(&long).unwrap();
    assert_eq!(
        short.hash_key(&key, Input::AddressesAndPorts),
        long.hash_key(&key, Input::AddressesAndPorts)
    );
    assert_eq!(
        Toeplitz::new(&MICROSOFT_KEY[..39]).err(),
        Some(KeyTooShort { length: 39 })
    );
}

/// The definition, bit by bit: for every set bit of the input, the 32 bits of key under it.
fn bit_by_bit(key: &[u8], input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
    let mut hash = 0;
    for at in (0..input.len() * 8).filter(|&at| bit(input, at) == 1) {
        hash ^= (0..32).fold(0, |word, next| word << 1 | u32::from(bit(key, at + next)));
    }
    hash
}

proptest! {
    #[test]
    fn tables_agree_with_the_definition(
        secret in prop::array::uniform32(any::<u8>()),
        tail in prop::array::uniform8(any::<u8>()),
        input in prop::collection::vec(any::<u8>(), 0..=MAX_INPUT),
    ) {
        let secret = [&secret[..], &tail].concat();
        prop_assert_eq!(Toeplitz::new(&secret).unwrap().hash(&input), bit_by_bit(&secret, &input));
    }

    #[test]
    fn the_symmetric_key_gives_both_directions_one_hash(
        source: [u8; 16], destination: [u8; 16], source_port: u16, destination_port: u16, v6: bool,
    ) {
        let hasher = Toeplitz::new(&SYMMETRIC_KEY).unwrap();
        let version = if v6 { 6 } else { 4 };
        let key = FlowKey {
            version, source, destination, source_port, destination_port, ..FlowKey::default()
        };
        for input in [Input::Addresses, Input::AddressesAndPorts] {
            prop_assert_eq!(hasher.hash_key(&key, input), hasher.hash_key(&key.reversed(), input));
        }
    }
}
