//! The hash of receive-side scaling over table keys: addresses and ports end them in RSS's order.

use wire::FlowKey;
use wire::toeplitz::{
    Input, MAX_INPUT, MICROSOFT_KEY, SYMMETRIC_KEY, Toeplitz, ipv4_input, ipv6_input,
};

/// Bytes at the end of a table key that the hash covers: two IPv4 addresses and two ports.
const INPUT: usize = hw::toeplitz::NARROW;

/// Wide keys that are hashed together.
const CHUNK: usize = 32;

/// Below so many keys tables are as fast: vectors hash sixteen in the time of one.
const FEW: usize = 8;

/// Toeplitz under one RSS key.
#[derive(Clone, Debug)]
pub(super) struct KeyToeplitz {
    vectors: hw::toeplitz::Toeplitz,
    /// For few keys, and processors without the instructions.
    tables: Toeplitz,
    key: &'static [u8; 40],
}

impl KeyToeplitz {
    /// With the key of Microsoft's verification values.
    pub(super) fn microsoft() -> Self {
        Self::new(&MICROSOFT_KEY)
    }

    /// With the key under which both directions of a flow have one hash.
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

    /// Its key.
    pub(super) fn rss_key(&self) -> &'static [u8] {
        self.key
    }

    /// What a device gives the packets that `keys` were made of.
    pub(super) fn hash(&self, keys: &[u128], hashes: &mut [u32]) {
        if keys.len() < FEW || !self.vectors.hash_narrow(keys, hashes) {
            self.hash_by_tables(keys, hashes);
        }
    }

    fn hash_by_tables(&self, keys: &[u128], hashes: &mut [u32]) {
        super::each(keys, hashes, |key| {
            self.tables.hash(&key.to_le_bytes()[16 - INPUT..])
        });
    }

    /// The same for keys that table keys are only digests of.
    pub(super) fn hash_wide(&self, keys: &[FlowKey], hashes: &mut [u32]) {
        let mut inputs = [[0; MAX_INPUT]; CHUNK];
        for (keys, hashes) in keys.chunks(CHUNK).zip(hashes.chunks_mut(CHUNK)) {
            let inputs = &mut inputs[..keys.len()];
            for (input, key) in inputs.iter_mut().zip(keys) {
                *input = wide_input(key);
            }
            if keys.len() < FEW || !self.vectors.hash_wide(inputs, hashes) {
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

/// What the hash covers, and zeroes, which add nothing to it, behind.
fn wide_input(key: &FlowKey) -> [u8; MAX_INPUT] {
    if key.version != 4 {
        return ipv6_input(key);
    }
    let mut input = [0; MAX_INPUT];
    input[..INPUT].copy_from_slice(&ipv4_input(key));
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
