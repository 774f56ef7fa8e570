//! The hash of receive-side scaling over a table key: addresses and ports lie there in RSS's order.

use wire::toeplitz::{MICROSOFT_KEY, SYMMETRIC_KEY, Toeplitz};

/// Bytes of a table key that the hash covers: two IPv4 addresses and two ports.
const INPUT: usize = 12;

/// Toeplitz under one RSS key.
#[derive(Clone, Debug)]
pub(super) struct KeyToeplitz(Toeplitz);

impl KeyToeplitz {
    /// With the key of Microsoft's verification values.
    pub(super) fn microsoft() -> Self {
        Self::new(&MICROSOFT_KEY)
    }

    /// With the key under which both directions of a flow have one hash.
    pub(super) fn symmetric() -> Self {
        Self::new(&SYMMETRIC_KEY)
    }

    fn new(key: &[u8; 40]) -> Self {
        Self(Toeplitz::new(key).expect("40 bytes are long enough for a key"))
    }

    /// What a device gives the packet that `key` was made of.
    #[inline(always)]
    pub(super) fn hash(&self, key: u128) -> u32 {
        self.0.hash(&key.to_le_bytes()[..INPUT])
    }
}
