//! The Toeplitz hash of receive-side scaling (Microsoft, "RSS Hashing Types" and "Verifying the RSS
//! Hash Calculation"), as network devices compute it.

use crate::FlowKey;

/// Microsoft's key, with which the published verification values are computed.
pub const MICROSOFT_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// The key 0x6d5a repeated, under which both directions of a flow have one hash (Woo and Park,
/// "Scalable TCP Session Monitoring with Symmetric Receive-side Scaling", 2012).
///
/// Its hashes have 16 bits of entropy: enough to steer packets to queues, not to identify flows.
pub const SYMMETRIC_KEY: [u8; 40] = {
    let mut key = [0x6d; 40];
    let mut at = 1;
    while at < key.len() {
        key[at] = 0x5a;
        at += 2;
    }
    key
};

/// Longest input in bytes: two IPv6 addresses and two ports.
pub const MAX_INPUT: usize = 36;

/// Key bytes that the longest input needs: each input bit uses 32 bits of key.
const LEAST_KEY: usize = MAX_INPUT + 4;

/// The key is shorter than 40 bytes, which IPv6 addresses and ports need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyTooShort {
    /// Its length in bytes.
    pub length: usize,
}

impl core::fmt::Display for KeyTooShort {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let length = self.length;
        write!(
            f,
            "the RSS key has {length} bytes, at least {LEAST_KEY} are needed"
        )
    }
}

impl core::error::Error for KeyTooShort {}

/// Which fields a hash covers (the hash types of RSS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Source and destination address.
    Addresses,
    /// Addresses, then source and destination port.
    AddressesAndPorts,
}

/// A key with precomputed hashes of every byte value at every position: 36 KiB, one lookup per input
/// byte.
#[derive(Clone)]
pub struct Toeplitz {
    tables: Box<[[u32; 256]; MAX_INPUT]>,
}

impl core::fmt::Debug for Toeplitz {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Toeplitz").finish_non_exhaustive()
    }
}

impl Toeplitz {
    /// Prepares `key`. Devices have keys of 40 or of 52 bytes; bytes after the 40th are not used.
    ///
    /// # Errors
    /// [`KeyTooShort`] below 40 bytes.
    pub fn new(key: &[u8]) -> Result<Self, KeyTooShort> {
        let key = key
            .first_chunk::<LEAST_KEY>()
            .ok_or(KeyTooShort { length: key.len() })?;
        let mut tables = Box::new([[0; 256]; MAX_INPUT]);
        for (position, table) in tables.iter_mut().enumerate() {
            // The 40 bits of key under this byte: bit b of the byte, counted from the highest,
            // meets the 32 that begin at bit b.
            let mut window = [0; 8];
            window[3..].copy_from_slice(&key[position..position + 5]);
            let window = u64::from_be_bytes(window);
            for bit in 0..8 {
                let under = (window >> (8 - bit)) as u32;
                for (value, hash) in table.iter_mut().enumerate() {
                    if value & (0x80 >> bit) != 0 {
                        *hash ^= under;
                    }
                }
            }
        }
        Ok(Self { tables })
    }

    /// The hash of `input`, in network byte order. Bytes after [`MAX_INPUT`] are ignored.
    #[inline]
    #[must_use]
    pub fn hash(&self, input: &[u8]) -> u32 {
        input
            .iter()
            .zip(self.tables.iter())
            .fold(0, |hash, (&byte, table)| hash ^ table[usize::from(byte)])
    }

    /// The hash that a device computes over the `input` fields of a packet with `key`.
    #[inline]
    #[must_use]
    pub fn hash_key(&self, key: &FlowKey, input: Input) -> u32 {
        match (key.version, input) {
            (4, Input::Addresses) => self.hash(&ipv4_input(key)[..8]),
            (4, Input::AddressesAndPorts) => self.hash(&ipv4_input(key)),
            (_, Input::Addresses) => self.hash(&ipv6_input(key)[..32]),
            (_, Input::AddressesAndPorts) => self.hash(&ipv6_input(key)),
        }
    }
}

/// The bytes of an IPv4 key in the order of RSS: source and destination address, source and
/// destination port. Addresses alone are the first 8.
#[inline]
#[must_use]
pub fn ipv4_input(key: &FlowKey) -> [u8; 12] {
    let [s0, s1, s2, s3, ..] = key.source;
    let [d0, d1, d2, d3, ..] = key.destination;
    let [sp0, sp1] = key.source_port.to_be_bytes();
    let [dp0, dp1] = key.destination_port.to_be_bytes();
    [s0, s1, s2, s3, d0, d1, d2, d3, sp0, sp1, dp0, dp1]
}

/// The bytes of an IPv6 key in the same order; addresses alone are the first 32.
#[inline]
#[must_use]
pub fn ipv6_input(key: &FlowKey) -> [u8; MAX_INPUT] {
    let mut bytes = [0; MAX_INPUT];
    bytes[..16].copy_from_slice(&key.source);
    bytes[16..32].copy_from_slice(&key.destination);
    bytes[32..34].copy_from_slice(&key.source_port.to_be_bytes());
    bytes[34..].copy_from_slice(&key.destination_port.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests;
