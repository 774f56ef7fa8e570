//! Packet protection of Initial packets (RFC 9001 section 5). Their keys can be derived from the
//! client's first packet alone.

use super::secrets::{Secrets, Sender};
use super::version::Version;
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::aes::Aes128;
use aes_gcm::aes::cipher::{Block, BlockCipherEncrypt};
use aes_gcm::{Aes128Gcm, Nonce, Tag};

/// Length of the AEAD tag at the end of a packet, in bytes.
const TAG: usize = 16;

/// The keys of the Initial packets of one side.
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
    /// Derives the keys of `sender` from the destination connection ID of the client's first Initial
    /// packet (RFC 9001 section 5.2).
    #[must_use]
    pub fn new(version: &Version, destination_id: &[u8], sender: Sender) -> Self {
        let secrets = Secrets::new(version, destination_id, sender);
        Self {
            packet: Aes128Gcm::new(&secrets.key.into()),
            iv: secrets.iv,
            header: Aes128::new(&secrets.header.into()),
        }
    }

    /// Removes the protection of a packet whose packet number is at `number_offset`. Writes the
    /// decrypted packet to `buffer` and returns the offset of its payload. `None` if the packet is too
    /// short or not authentic.
    pub fn open(&self, packet: &[u8], number_offset: usize, buffer: &mut Vec<u8>) -> Option<usize> {
        // The sample starts four bytes after the start of the packet number, whatever its length
        // (RFC 9001 section 5.4.2).
        let sample: [u8; 16] = *packet.get(number_offset + 4..)?.first_chunk()?;
        let mut mask = Block::<Aes128>::from(sample);
        self.header.encrypt_block(&mut mask);
        let first = packet.first()? ^ (mask[0] & 0x0f);
        let number_length = usize::from(first & 3) + 1;
        let body_at = number_offset + number_length;
        let tag_at = packet.len().checked_sub(TAG).filter(|&at| at >= body_at)?;
        buffer.clear();
        buffer.extend_from_slice(&packet[..tag_at]);
        buffer[0] = first;
        let mut nonce = self.iv;
        for index in 0..number_length {
            buffer[number_offset + index] ^= mask[1 + index];
            nonce[12 - number_length + index] ^= buffer[number_offset + index];
        }
        let tag: [u8; TAG] = *packet[tag_at..].first_chunk()?;
        let (header, body) = buffer.split_at_mut(body_at);
        self.packet
            .decrypt_inout_detached(&Nonce::from(nonce), header, body.into(), &Tag::from(tag))
            .ok()?;
        Some(body_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::quic::{Kind, crypto_frames, read_long_packet};
    use crate::message::tls::{ServerHello, messages};

    fn bytes(hexadecimal: &str) -> Vec<u8> {
        (0..hexadecimal.len() / 2)
            .map(|at| u8::from_str_radix(&hexadecimal[2 * at..2 * at + 2], 16).unwrap())
            .collect()
    }

    const ID: &str = "8394c8f03e515708";

    /// The server's Initial packets in RFC 9001 appendix A.3 and RFC 9369 appendix A.3.
    #[test]
    fn decrypts_packets_of_the_rfcs() {
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
            let (packet, rest) = read_long_packet(&datagram).unwrap();
            assert_eq!((packet.kind, rest.len()), (Kind::Initial, 0));
            assert_eq!(packet.source_id, bytes("f067a5502a4262b5"));
            let version = Version::known(packet.version).unwrap();
            let keys = InitialKeys::new(version, &bytes(ID), Sender::Server);
            let mut buffer = Vec::new();
            let payload_at = keys
                .open(packet.packet, packet.number_offset, &mut buffer)
                .unwrap();
            let frame = crypto_frames(&buffer[payload_at..]).next().unwrap();
            let message = messages(frame.data).next().unwrap();
            let hello = ServerHello::read(message.body).unwrap();
            assert_eq!((hello.version, hello.cipher_suite), (0x0304, 0x1301));
            let other = InitialKeys::new(version, &bytes(ID), Sender::Client);
            assert!(
                other
                    .open(packet.packet, packet.number_offset, &mut buffer)
                    .is_none()
            );
        }
    }

    #[test]
    fn rejects_packets_of_any_short_length() {
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
