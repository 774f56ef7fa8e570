//! The secrets of Initial packets (RFC 9001 section 5.2), by HKDF (RFC 5869) with SHA-256. Deriving
//! them is most of the cost of a connection.

use super::initial::Sender;
use super::version::Version;
use hkdf::Hkdf;
use hw::sha256::{self, BEGIN, Block, State, compress};
use sha2::Sha256;

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
        if sha256::is_fast()
            && let Some(secrets) = Self::together(version, destination_id, sender)
        {
            return secrets;
        }
        Self::one_by_one(version, destination_id, sender)
    }

    fn one_by_one(version: &Version, destination_id: &[u8], sender: Sender) -> Self {
        let mut extract = version.extract();
        extract.input_ikm(destination_id);
        let (_, initial) = extract.finalize();
        let mut secret = [0; 32];
        expand(&initial, label(sender), &mut secret);
        let secret =
            Hkdf::<Sha256>::from_prk(&secret).expect("32 bytes are as many as SHA-256 gives");
        let (mut key, mut iv, mut header) = ([0; 16], [0; 12], [0; 16]);
        expand(&secret, version.labels.key, &mut key);
        expand(&secret, version.labels.iv, &mut iv);
        expand(&secret, version.labels.header, &mut header);
        Self { key, iv, header }
    }

    /// The same with as many hashes at once as do not wait for each other: the two of a new key of HMAC,
    /// and the three of what is made of the last one. `None` where an id is too long for one block.
    fn together(version: &Version, destination_id: &[u8], sender: Sender) -> Option<Self> {
        let [initial] = version.hmac().of([block(&[destination_id])?]);
        let [secret] = Hmac::new(&bytes(initial)).of([expansion(label(sender), 32)?]);
        let labels = &version.labels;
        let [key, iv, header] = Hmac::new(&bytes(secret)).of([
            expansion(labels.key, 16)?,
            expansion(labels.iv, 12)?,
            expansion(labels.header, 16)?,
        ]);
        Some(Self {
            key: *bytes(key).first_chunk()?,
            iv: *bytes(iv).first_chunk()?,
            header: *bytes(header).first_chunk()?,
        })
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
    debug_assert!(
        expanded.is_ok(),
        "32 bytes are within what SHA-256 expands to"
    );
}

/// What HMAC hashes for the same of `length` bytes, at most 32.
fn expansion(label: &str, length: u8) -> Option<Block> {
    block(&[
        &[0, length, 6 + label.len() as u8],
        b"tls13 ",
        label.as_bytes(),
        // No context, and the first of the blocks that HKDF gives.
        &[0, 1],
    ])
}

/// HMAC (RFC 2104) under a key, whose two blocks are hashed.
#[derive(Debug)]
pub(super) struct Hmac {
    inner: State,
    outer: State,
}

impl Hmac {
    /// Under a key of no more bytes than a block has.
    pub(super) fn new(key: &[u8]) -> Self {
        let padded = |with: u8| {
            let mut block = [with; 64];
            for (byte, key) in block.iter_mut().zip(key) {
                *byte ^= key;
            }
            block
        };
        let mut states = [BEGIN; 2];
        compress(&mut states, &[padded(0x36), padded(0x5c)]);
        let [inner, outer] = states;
        Self { inner, outer }
    }

    /// Of messages that are one [`block`] each.
    fn of<const COUNT: usize>(&self, messages: [Block; COUNT]) -> [State; COUNT] {
        let (mut inner, mut outer) = ([self.inner; COUNT], [self.outer; COUNT]);
        compress(&mut inner, &messages);
        // 32 bytes fit.
        let blocks = inner.map(|state| block(&[&bytes(state)]).unwrap_or([0; 64]));
        compress(&mut outer, &blocks);
        outer
    }
}

/// A message behind a first block, padded as SHA-256 wants it; `None` where it does not fit.
fn block(parts: &[&[u8]]) -> Option<Block> {
    let mut block = [0; 64];
    let mut at = 0;
    for part in parts {
        block.get_mut(at..at + part.len())?.copy_from_slice(part);
        at += part.len();
    }
    let (message, length) = block.split_last_chunk_mut::<8>()?;
    *message.get_mut(at)? = 0x80;
    *length = (8 * (64 + at as u64)).to_be_bytes();
    Some(block)
}

/// A hash as bytes.
fn bytes(state: State) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(state) {
        *place = word.to_be_bytes();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            assert_eq!(Secrets::one_by_one(version, &id, sender), secrets);
            assert_eq!(Secrets::together(version, &id, sender), Some(secrets));
        }
    }

    proptest! {
        /// Up to what fits into a block with its padding.
        #[test]
        fn both_ways_are_the_same(id in prop::collection::vec(any::<u8>(), 0..70), draft in 0u32..64) {
            let version = Version::known(0xff00_0000 + draft).or(Version::known(1)).unwrap();
            for sender in [Sender::Client, Sender::Server] {
                let secrets = Secrets::one_by_one(version, &id, sender);
                let together = Secrets::together(version, &id, sender);
                prop_assert_eq!(together, (id.len() < 56).then_some(secrets));
            }
        }
    }
}
