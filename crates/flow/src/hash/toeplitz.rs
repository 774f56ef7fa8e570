//! The RSS hash of table keys. Their last bytes are the addresses and ports, in the order of RSS.

use super::each::hash_each;
use wire::FlowKey;
use wire::toeplitz::{
    Input, MAX_INPUT, MICROSOFT_KEY, SYMMETRIC_KEY, Toeplitz, ipv4_input, ipv6_input,
};

/// The number of bytes at the end of a table key that the hash covers: two IPv4 addresses and two
/// ports.
const INPUT_BYTES: usize = hw::toeplitz::IPV4_BYTES;

/// The number of wide keys that are hashed together.
const CHUNK_KEYS: usize = 32;

/// Below this number of keys, lookup tables are as fast as vector instructions, which hash sixteen keys
/// in the time of one.
const VECTOR_KEYS_MIN: usize = 8;

/// The Toeplitz hash with one RSS key.
#[derive(Clone, Debug)]
pub(super) struct KeyToeplitz {
    vectors: hw::toeplitz::Toeplitz,
    /// For few keys, and for CPUs without the vector instructions.
    tables: Toeplitz,
    key: &'static [u8; 40],
}

impl KeyToeplitz {
    /// Uses the key of Microsoft's verification values.
    pub(super) fn microsoft() -> Self {
        Self::new(&MICROSOFT_KEY)
    }

    /// Uses the key with which both directions of a flow have the same hash.
    pub(super) fn symmetric() -> Self {
        Self::new(&SYMMETRIC_KEY)
    }

    fn new(key: &'static [u8; 40]) -> Self {
        Self {
            vectors: hw::toeplitz::Toeplitz::new(key),
            tables: Toeplitz::new(key).expect("40 bytes are long enough for a key"),
            key,
        }
    }

    /// Returns the RSS key.
    pub(super) fn rss_key(&self) -> &'static [u8] {
        self.key
    }

    /// Computes the hashes that a device gives the packets with these keys.
    pub(super) fn hash(&self, keys: &[u128], hashes: &mut [u32]) {
        if keys.len() < VECTOR_KEYS_MIN || !self.vectors.hash_ipv4(keys, hashes) {
            self.hash_by_tables(keys, hashes);
        }
    }

    fn hash_by_tables(&self, keys: &[u128], hashes: &mut [u32]) {
        hash_each(keys, hashes, |key| {
            self.tables.hash(&key.to_le_bytes()[16 - INPUT_BYTES..])
        });
    }

    /// Does the same for whole keys whose table keys are digests.
    pub(super) fn hash_wide(&self, keys: &[FlowKey], hashes: &mut [u32]) {
        let mut inputs = [[0; MAX_INPUT]; CHUNK_KEYS];
        for (keys, hashes) in keys.chunks(CHUNK_KEYS).zip(hashes.chunks_mut(CHUNK_KEYS)) {
            let inputs = &mut inputs[..keys.len()];
            for (input, key) in inputs.iter_mut().zip(keys) {
                *input = wide_input(key);
            }
            if keys.len() < VECTOR_KEYS_MIN || !self.vectors.hash_ipv6(inputs, hashes) {
                self.hash_wide_by_tables(keys, hashes);
            }
        }
    }

    fn hash_wide_by_tables(&self, keys: &[FlowKey], hashes: &mut [u32]) {
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.tables.hash_key(key, Input::AddressesAndPorts);
        }
    }
}

/// Returns the bytes that the hash covers, padded with zeroes, which do not change it.
fn wide_input(key: &FlowKey) -> [u8; MAX_INPUT] {
    if key.version != 4 {
        return ipv6_input(key);
    }
    let mut input = [0; MAX_INPUT];
    input[..INPUT_BYTES].copy_from_slice(&ipv4_input(key));
    input
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn vectors_agree_with_tables(
            flows in prop::collection::vec(any::<([u8; 16], [u8; 16], u16, u16, bool)>(), 0..100),
        ) {
            let keys: Vec<FlowKey> = flows
                .into_iter()
                .map(|(source, destination, source_port, destination_port, v6)| FlowKey {
                    version: if v6 { 6 } else { 4 },
                    source,
                    destination,
                    source_port,
                    destination_port,
                    protocol: 17,
                    ..FlowKey::default()
                })
                .collect();
            let compact: Vec<u128> = keys
                .iter()
                .map(|&key| u128::from_be_bytes(key.source) | u128::from(key.source_port) << 100)
                .collect();
            for function in [KeyToeplitz::microsoft(), KeyToeplitz::symmetric()] {
                let mut by_vectors = vec![0; keys.len()];
                let mut by_tables = vec![0; keys.len()];
                function.hash(&compact, &mut by_vectors);
                function.hash_by_tables(&compact, &mut by_tables);
                prop_assert_eq!(&by_vectors, &by_tables);
                function.hash_wide(&keys, &mut by_vectors);
                function.hash_wide_by_tables(&keys, &mut by_tables);
                prop_assert_eq!(&by_vectors, &by_tables);
            }
        }
    }
}
