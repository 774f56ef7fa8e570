//! The hash of receive-side scaling over a table key: addresses and ports lie there in RSS's order.

use wire::FlowKey;
use wire::toeplitz::{Input, MICROSOFT_KEY, SYMMETRIC_KEY, Toeplitz};

/// Bytes of a table key that the hash covers: two IPv4 addresses and two ports.
const INPUT: usize = 12;

/// Toeplitz under one RSS key.
#[derive(Clone, Debug)]
pub(super) struct KeyToeplitz {
    function: Toeplitz,
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
            function: Toeplitz::new(key).expect("40 bytes are long enough for a key"),
            key,
        }
    }

    /// Its key.
    pub(super) fn rss_key(&self) -> &'static [u8] {
        self.key
    }

    /// What a device gives the packet that `key` was made of.
    #[inline(always)]
    pub(super) fn hash(&self, key: u128) -> u32 {
        self.function.hash(&key.to_le_bytes()[..INPUT])
    }

    /// The same for a key that a table key is only a digest of.
    pub(super) fn hash_wide(&self, key: &FlowKey) -> u32 {
        self.function.hash_key(key, Input::AddressesAndPorts)
    }
}
