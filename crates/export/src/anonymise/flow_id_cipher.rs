//! Encryption of flow IDs. An ID is a digest of the flow key and a time, so an attacker who knows
//! the time can find the key by brute force. An encrypted ID only shows which records belong to the
//! same flow.

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Block};

/// Bits of an ID.
const ID_BITS: u32 = 53;

/// A secret permutation of 128 bits; an ID is its first bits.
#[derive(Clone)]
pub(super) struct FlowIdCipher(Aes128);

impl std::fmt::Debug for FlowIdCipher {
    /// Omits the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("FlowIds").finish_non_exhaustive()
    }
}

impl FlowIdCipher {
    /// Creates the cipher from a key.
    pub(super) fn new(key: u128) -> Self {
        Self(Aes128::new(&key.to_be_bytes().into()))
    }

    /// Encrypts a flow ID.
    pub(super) fn encrypt(&self, id: u64) -> u64 {
        let mut block = Block::from(u128::from(id).to_be_bytes());
        self.0.encrypt_block(&mut block);
        (u128::from_be_bytes(block.into()) >> (u128::BITS - ID_BITS)) as u64
    }
}
