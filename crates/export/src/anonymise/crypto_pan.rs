//! Crypto-PAn: prefix-preserving anonymisation of addresses (Xu, Fan, Ammar, Moon:
//! Prefix-Preserving IP Address Anonymization, ICNP 2002), with AES-128 as the pseudorandom
//! function.
//!
//! Bit i of an address is flipped by the first bit of the encryption of a block made from the first
//! i bits of the address, padded with secret bits. The flip depends only on the preceding bits, so
//! common prefixes stay common, and only the key can undo it.

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Block};

/// Length of a key: 16 bytes for AES-128 and 16 bytes of padding, which is encrypted before use.
pub const KEY_BYTES: usize = 32;

/// Blocks encrypted together, to fill the CPU's AES pipeline.
const BLOCKS_IN_FLIGHT: usize = 16;

/// The cipher and its padding.
#[derive(Clone)]
pub struct CryptoPan {
    cipher: Aes128,
    padding: u128,
}

impl std::fmt::Debug for CryptoPan {
    /// Omits the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CryptoPan").finish_non_exhaustive()
    }
}

/// Why a file contains no valid key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Neither 32 bytes nor 64 digits.
    #[error(
        "contains {0} bytes; a key is 32 raw bytes or 64 hexadecimal digits (create one: head -c 32 /dev/urandom > FILE)"
    )]
    Length(usize),
    /// 64 characters, but not all are hexadecimal digits.
    #[error(
        "contains 64 characters, but not only hexadecimal digits; a key is 32 raw bytes or 64 hexadecimal digits"
    )]
    Digits,
}

impl CryptoPan {
    /// Creates the function from a key.
    #[must_use]
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        let (halves, _) = key.as_chunks::<16>();
        let [cipher_key, padding] = [halves[0], halves[1]];
        let cipher = Aes128::new(&cipher_key.into());
        let mut block = Block::from(padding);
        cipher.encrypt_block(&mut block);
        Self {
            cipher,
            padding: u128::from_be_bytes(block.into()),
        }
    }

    /// Reads the key from the contents of a file: 32 bytes, or 64 hexadecimal digits with any
    /// whitespace.
    ///
    /// # Errors
    /// The contents are neither.
    pub fn from_file_contents(contents: &[u8]) -> Result<Self, KeyError> {
        if let Ok(key) = contents.try_into() {
            return Ok(Self::new(key));
        }
        let digits: Vec<u8> = contents
            .iter()
            .copied()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect();
        if digits.len() != 2 * KEY_BYTES {
            return Err(KeyError::Length(contents.len()));
        }
        let mut key = [0; KEY_BYTES];
        let (pairs, _) = digits.as_chunks::<2>();
        for (byte, &[high, low]) in key.iter_mut().zip(pairs) {
            let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(KeyError::Digits);
            *byte = (digit(high)? << 4 | digit(low)?) as u8;
        }
        Ok(Self::new(&key))
    }

    /// Derives a key for another purpose, which `label` names.
    pub(super) fn derive_key(&self, label: [u8; 16]) -> u128 {
        let mut block = Block::from((u128::from_be_bytes(label) ^ self.padding).to_be_bytes());
        self.cipher.encrypt_block(&mut block);
        u128::from_be_bytes(block.into())
    }

    /// Anonymises an IPv4 address.
    #[must_use]
    pub fn ipv4(&self, address: u32) -> u32 {
        let wide = u128::from(address) << 96;
        address ^ (self.flip_mask(wide, 32) >> 96) as u32
    }

    /// Anonymises an IPv6 address.
    #[must_use]
    pub fn ipv6(&self, address: u128) -> u128 {
        address ^ self.flip_mask(address, 128)
    }

    /// Returns the bits to flip in the first `bits` bits of `address`, which starts at the highest
    /// bit.
    fn flip_mask(&self, address: u128, bits: u32) -> u128 {
        let mut flips: u128 = 0;
        let mut blocks = [Block::default(); BLOCKS_IN_FLIGHT];
        let mut position = 0;
        while position < bits {
            for (block, length) in blocks.iter_mut().zip(position..) {
                let prefix = !u128::MAX.checked_shr(length).unwrap_or_default();
                let input = address & prefix | self.padding & !prefix;
                *block = Block::from(input.to_be_bytes());
            }
            self.cipher.encrypt_blocks(&mut blocks);
            for (block, length) in blocks.iter().zip(position..) {
                let bit = u128::from(block[0] >> 7);
                flips |= bit << (127 - length);
            }
            position += BLOCKS_IN_FLIGHT as u32;
        }
        flips
    }
}

#[cfg(test)]
mod tests;
