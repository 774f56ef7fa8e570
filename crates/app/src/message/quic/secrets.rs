//! The secrets of Initial packets (RFC 9001 section 5.2), by HKDF (RFC 5869) with SHA-256. Deriving
//! them is most of the cost of a connection.

use super::version::Version;
use hkdf::Hkdf;
use sha2::Sha256;

/// The sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// Key, initialization vector and header protection key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Secrets {
    pub(super) key: [u8; 16],
    pub(super) iv: [u8; 12],
    pub(super) header: [u8; 16],
}

impl Secrets {
    /// Derives the secrets of `sender` from the destination connection ID of the client's first Initial
    /// packet.
    pub(super) fn new(version: &Version, destination_id: &[u8], sender: Sender) -> Self {
        let mut extract = version.extract();
        extract.input_ikm(destination_id);
        let (_, initial) = extract.finalize();
        let mut secret = [0; 32];
        expand(&initial, label(sender), &mut secret);
        let secret =
            Hkdf::<Sha256>::from_prk(&secret).expect("32 bytes are a valid pseudorandom key");
        let (mut key, mut iv, mut header) = ([0; 16], [0; 12], [0; 16]);
        expand(&secret, version.labels.key, &mut key);
        expand(&secret, version.labels.iv, &mut iv);
        expand(&secret, version.labels.header, &mut header);
        Self { key, iv, header }
    }
}

const fn label(sender: Sender) -> &'static str {
    match sender {
        Sender::Client => "client in",
        Sender::Server => "server in",
    }
}

/// HKDF-Expand-Label without context (RFC 8446 section 7.1).
fn expand(secret: &Hkdf<Sha256>, label: &str, out: &mut [u8]) {
    let length = (out.len() as u16).to_be_bytes();
    let label_length = [(6 + label.len()) as u8];
    let info = [
        &length[..],
        &label_length,
        b"tls13 ",
        label.as_bytes(),
        &[0],
    ];
    let expanded = secret.expand_multi_info(&info, out);
    debug_assert!(expanded.is_ok(), "HKDF-SHA-256 can expand to 32 bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hexadecimal: &str) -> Vec<u8> {
        (0..hexadecimal.len() / 2)
            .map(|at| u8::from_str_radix(&hexadecimal[2 * at..2 * at + 2], 16).unwrap())
            .collect()
    }

    const ID: &str = "8394c8f03e515708";

    /// RFC 9001 appendix A.1 and RFC 9369 appendix A.1.
    #[test]
    fn derives_the_keys_of_the_rfcs() {
        for (version, sender, key, iv, header) in [
            (
                1,
                Sender::Client,
                "1f369613dd76d5467730efcbe3b1a22d",
                "fa044b2f42a3fd3b46fb255c",
                "9f50449e04a0e810283a1e9933adedd2",
            ),
            (
                1,
                Sender::Server,
                "cf3a5331653c364c88f0f379b6067e37",
                "0ac1493ca1905853b0bba03e",
                "c206b8d9b9f0f37644430b490eeaa314",
            ),
            (
                0x6b33_43cf,
                Sender::Client,
                "8b1a0bc121284290a29e0971b5cd045d",
                "91f73e2351d8fa91660e909f",
                "45b95e15235d6f45a6b19cbcb0294ba9",
            ),
            (
                0x6b33_43cf,
                Sender::Server,
                "82db637861d55e1d011f19ea71d5d2a7",
                "dd13c276499c0249d3310652",
                "edf6d05c83121201b436e16877593c3a",
            ),
        ] {
            let version = Version::known(version).unwrap();
            let secrets = Secrets {
                key: bytes(key).try_into().unwrap(),
                iv: bytes(iv).try_into().unwrap(),
                header: bytes(header).try_into().unwrap(),
            };
            let id = bytes(ID);
            assert_eq!(Secrets::new(version, &id, sender), secrets);
        }
    }
}
