//! Protection of Initial packets (RFC 9001 section 5): anyone who sees the client's first packet
//! can derive their keys.

use super::version::Version;
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::aes::Aes128;
use aes_gcm::aes::cipher::{Block, BlockCipherEncrypt};
use aes_gcm::{Aes128Gcm, Nonce, Tag};
use hkdf::Hkdf;
use sha2::Sha256;

/// Bytes of the tag behind a packet.
const TAG: usize = 16;

/// Who sent a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// Keys of one side's Initial packets.
pub struct InitialKeys {
    packet: Aes128Gcm,
    iv: [u8; 12],
    header: Aes128,
}

impl core::fmt::Debug for InitialKeys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("InitialKeys")
    }
}

impl InitialKeys {
    /// Derives the keys of `sender` from the destination connection id of the client's first
    /// Initial packet (RFC 9001 section 5.2).
    #[must_use]
    pub fn new(version: &Version, destination_id: &[u8], sender: Sender) -> Self {
        let secrets = Secrets::new(version, destination_id, sender);
        Self {
            packet: Aes128Gcm::new(&secrets.key.into()),
            iv: secrets.iv,
            header: Aes128::new(&secrets.header.into()),
        }
    }

    /// Takes the protection off a packet whose number begins at `number_at`. The packet is left in
    /// `buffer`, and its payload begins there at what is returned; `None` where the packet is too
    /// short, or is not authentic.
    pub fn open(&self, packet: &[u8], number_at: usize, buffer: &mut Vec<u8>) -> Option<usize> {
        // The sample is taken as if the number had four bytes (RFC 9001 section 5.4.2).
        let sample: [u8; 16] = *packet.get(number_at + 4..)?.first_chunk()?;
        let mut mask = Block::<Aes128>::from(sample);
        self.header.encrypt_block(&mut mask);
        let first = packet.first()? ^ (mask[0] & 0x0f);
        let number_length = usize::from(first & 3) + 1;
        let body_at = number_at + number_length;
        let tag_at = packet.len().checked_sub(TAG).filter(|&at| at >= body_at)?;
        buffer.clear();
        buffer.extend_from_slice(&packet[..tag_at]);
        buffer[0] = first;
        let mut nonce = self.iv;
        for index in 0..number_length {
            buffer[number_at + index] ^= mask[1 + index];
            nonce[12 - number_length + index] ^= buffer[number_at + index];
        }
        let tag: [u8; TAG] = *packet[tag_at..].first_chunk()?;
        let (header, body) = buffer.split_at_mut(body_at);
        self.packet
            .decrypt_inout_detached(&Nonce::from(nonce), header, body.into(), &Tag::from(tag))
            .ok()?;
        Some(body_at)
    }
}

/// What the keys are made of.
struct Secrets {
    key: [u8; 16],
    iv: [u8; 12],
    header: [u8; 16],
}

impl Secrets {
    fn new(version: &Version, destination_id: &[u8], sender: Sender) -> Self {
        let mut extract = version.extract();
        extract.input_ikm(destination_id);
        let (_, initial) = extract.finalize();
        let label = match sender {
            Sender::Client => "client in",
            Sender::Server => "server in",
        };
        let mut secret = [0; 32];
        expand(&initial, label, &mut secret);
        let secret =
            Hkdf::<Sha256>::from_prk(&secret).expect("32 bytes are as many as SHA-256 gives");
        let (mut key, mut iv, mut header) = ([0; 16], [0; 12], [0; 16]);
        expand(&secret, version.labels.key, &mut key);
        expand(&secret, version.labels.iv, &mut iv);
        expand(&secret, version.labels.header, &mut header);
        Self { key, iv, header }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::quic::{Kind, crypto_frames, long_packet};
    use crate::app::tls::{ServerHello, messages};

    fn bytes(hexadecimal: &str) -> Vec<u8> {
        (0..hexadecimal.len() / 2)
            .map(|at| u8::from_str_radix(&hexadecimal[2 * at..2 * at + 2], 16).unwrap())
            .collect()
    }

    const ID: &str = "8394c8f03e515708";

    /// RFC 9001 appendix A.1 and RFC 9369 appendix A.1.
    #[test]
    fn keys_are_the_rfcs() {
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
            let secrets = Secrets::new(Version::known(version).unwrap(), &bytes(ID), sender);
            assert_eq!(secrets.key[..], bytes(key));
            assert_eq!(secrets.iv[..], bytes(iv));
            assert_eq!(secrets.header[..], bytes(header));
        }
    }

    /// The server's Initial packets of RFC 9001 appendix A.3 and RFC 9369 appendix A.3.
    #[test]
    fn the_rfcs_packets_are_opened() {
        for packet in [
            "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a\
             5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf73c3ec2493a1839b3\
             dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84\
             022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc4\
             2158407dd074ee",
            "dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c47089698\
             baeea26b91eb761d9b89237bbf87263017915358230035f7fd3945d88965cf17\
             f9af6e16886c61bfc703106fbaf3cb4cfa52382dd16a393e42757507698075b2\
             c984c707f0a0812d8cd5a6881eaf21ceda98f4bd23f6fe1a3e2c43edd9ce7ca8\
             4bed8521e2e140",
        ] {
            let datagram = bytes(packet);
            let (packet, rest) = long_packet(&datagram).unwrap();
            assert_eq!((packet.kind, rest.len()), (Kind::Initial, 0));
            assert_eq!(packet.source_id, bytes("f067a5502a4262b5"));
            let version = Version::known(packet.version).unwrap();
            let keys = InitialKeys::new(version, &bytes(ID), Sender::Server);
            let mut buffer = Vec::new();
            let payload_at = keys
                .open(packet.packet, packet.number_at, &mut buffer)
                .unwrap();
            let frame = crypto_frames(&buffer[payload_at..]).next().unwrap();
            let message = messages(frame.data).next().unwrap();
            let hello = ServerHello::read(message.body).unwrap();
            assert_eq!((hello.version, hello.cipher_suite), (0x0304, 0x1301));
            let other = InitialKeys::new(version, &bytes(ID), Sender::Client);
            assert!(
                other
                    .open(packet.packet, packet.number_at, &mut buffer)
                    .is_none()
            );
        }
    }

    #[test]
    fn no_packet_is_too_short() {
        let version = Version::known(1).unwrap();
        let keys = InitialKeys::new(version, &[], Sender::Client);
        let mut buffer = Vec::new();
        for length in 0..64 {
            for number_at in 0..length + 2 {
                let packet = vec![0xc3; length];
                assert!(keys.open(&packet, number_at, &mut buffer).is_none());
            }
        }
    }
}
