//! Ids of flows that tell nothing of their addresses. An id is a digest of a key and a time: who knows
//! the time finds the key by trying. Enciphered, it says only which records are of one flow.

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Block};

/// Bits of an id.
const BITS: u32 = 53;

/// A secret permutation of 128 bits, of which an id takes the first.
#[derive(Clone)]
pub(super) struct FlowIds(Aes128);

impl std::fmt::Debug for FlowIds {
    /// Tells nothing of the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("FlowIds").finish_non_exhaustive()
    }
}

impl FlowIds {
    /// With this key.
    pub(super) fn new(key: u128) -> Self {
        Self(Aes128::new(&key.to_be_bytes().into()))
    }

    /// What stands for an id.
    pub(super) fn id(&self, id: u64) -> u64 {
        let mut block = Block::from(u128::from(id).to_be_bytes());
        self.0.encrypt_block(&mut block);
        (u128::from_be_bytes(block.into()) >> (u128::BITS - BITS)) as u64
    }
}
