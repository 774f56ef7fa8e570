//! Crypto-PAn: prefix-preserving anonymisation of addresses (Xu, Fan, Ammar, Moon: Prefix-Preserving
//! IP Address Anonymization, ICNP 2002), with AES-128 as the pseudorandom function.
//!
//! Bit i of an address is flipped by the first bit of the cipher of a block that holds the first i
//! bits of the address and the secret padding behind them. It depends on the bits before it alone,
//! so common prefixes stay common, and it can be undone with the key only.

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Block};

/// Bytes of a key: 16 of AES-128 and 16 of padding, which is enciphered before it is used.
pub const KEY_BYTES: usize = 32;

/// Blocks that are enciphered at a time: what processors have in flight.
const AT_A_TIME: usize = 16;

/// The function and its padding.
#[derive(Clone)]
pub struct CryptoPan {
    cipher: Aes128,
    padding: u128,
}

impl std::fmt::Debug for CryptoPan {
    /// Tells nothing of the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CryptoPan").finish_non_exhaustive()
    }
}

/// Why a file holds no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Neither 32 bytes nor 64 digits.
    #[error(
        "holds {0} bytes; a key is 32 bytes as they are, or 64 hexadecimal digits (head -c 32 /dev/urandom > FILE)"
    )]
    Length(usize),
    /// Of the length of hexadecimal digits, with something else in it.
    #[error("64 characters that are not all hexadecimal digits; a key is 32 bytes, or 64 digits")]
    Digits,
}

impl CryptoPan {
    /// With this key.
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

    /// With the key that a file of these contents holds: 32 bytes, or 64 hexadecimal digits with
    /// blanks and line ends wherever.
    ///
    /// # Errors
    /// When it holds none.
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

    /// A key for something else than addresses, which `label` names.
    pub(super) fn derived(&self, label: [u8; 16]) -> u128 {
        let mut block = Block::from((u128::from_be_bytes(label) ^ self.padding).to_be_bytes());
        self.cipher.encrypt_block(&mut block);
        u128::from_be_bytes(block.into())
    }

    /// What stands for an IPv4 address.
    #[must_use]
    pub fn ipv4(&self, address: u32) -> u32 {
        let wide = u128::from(address) << 96;
        address ^ (self.flips(wide, 32) >> 96) as u32
    }

    /// What stands for an IPv6 address.
    #[must_use]
    pub fn ipv6(&self, address: u128) -> u128 {
        address ^ self.flips(address, 128)
    }

    /// The bits to flip in an address that begins with the highest bit, of which it has `bits`.
    fn flips(&self, address: u128, bits: u32) -> u128 {
        let mut flips: u128 = 0;
        let mut blocks = [Block::default(); AT_A_TIME];
        let mut place = 0;
        while place < bits {
            for (block, length) in blocks.iter_mut().zip(place..) {
                let prefix = !u128::MAX.checked_shr(length).unwrap_or_default();
                let input = address & prefix | self.padding & !prefix;
                *block = Block::from(input.to_be_bytes());
            }
            self.cipher.encrypt_blocks(&mut blocks);
            for (block, length) in blocks.iter().zip(place..) {
                let bit = u128::from(block[0] >> 7);
                flips |= bit << (127 - length);
            }
            place += AT_A_TIME as u32;
        }
        flips
    }
}

#[cfg(test)]
mod tests;
