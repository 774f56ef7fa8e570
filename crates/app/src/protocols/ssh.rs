//! SSH: the version strings of both sides, and a fingerprint of the algorithms that each offers
//! (HASSH by Salesforce, "HASSH - a profiling method for SSH clients and servers").

use crate::column::{columns, text};
use crate::message::Reader;
use crate::parser::{Context, Parser, Probe, Verdict};
use crate::payload::L4Payload;
use crate::record::{AppRecord, SshRecord};
use crate::services::Services;
use crate::text_pool::TextId;
use md5::{Digest, Md5};
use wire::work;

/// The port of SSH.
const PORT: u16 = 22;

/// The start of a version string (RFC 4253 section 4.2).
const VERSION_START: &[u8] = b"SSH-";

/// The longest line before the key exchange, in bytes. A version string has up to 255; lines that a
/// server sends before it have no limit in RFC 4253.
const LINE_MAX: usize = 1024;

/// The most bytes of lines before a version string in which it is looked for.
const LINES_BEFORE_MAX: usize = 512;

/// The longest packet that is read, in bytes (RFC 4253 section 6.1).
const PACKET_MAX: u32 = 35_000;

/// The most lines before a version string: a banner.
const LINES_MAX: usize = 16;

/// Number of packets with payload after which the key exchange is given up.
const PACKETS_MAX: u8 = 40;

/// Numbers of messages (RFC 4250 section 4.1.2).
mod message {
    /// SSH_MSG_DISCONNECT, the first of four that may come at any time.
    pub(super) const DISCONNECT: u8 = 1;
    /// SSH_MSG_DEBUG, the last of them.
    pub(super) const DEBUG: u8 = 4;
    /// SSH_MSG_KEXINIT.
    pub(super) const KEXINIT: u8 = 20;
}

/// An SSH connection, by direction.
#[derive(Debug, Default)]
pub(crate) struct SshState {
    versions: [TextId; 2],
    fingerprints: [TextId; 2],
    /// Whether the version string of each direction was read.
    has_version: [bool; 2],
    /// Direction of the client, once it is known.
    client: Option<u8>,
}

impl Parser for SshState {
    fn probe(_: &L4Payload<'_>, bytes: &[u8], is_start: bool) -> Probe {
        let start = &bytes[..bytes.len().min(VERSION_START.len())];
        if !is_start {
            Probe::No
        } else if !VERSION_START.starts_with(start) {
            match has_version_after_lines(bytes) {
                true => Probe::Yes,
                false => Probe::No,
            }
        } else if start.len() < VERSION_START.len() {
            Probe::NeedMore
        } else {
            Probe::Yes
        }
    }

    fn start(_: &mut Services) -> Self {
        Self::default()
    }

    /// Reads a line before the key exchange, or a packet of it.
    fn segment(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
        if cx.common.packets >= PACKETS_MAX {
            Verdict::Done
        } else if self.has_version[cx.direction()] {
            self.read_packet(cx, bytes)
        } else {
            self.read_line(cx, bytes)
        }
    }

    fn is_first(bytes: &[u8]) -> bool {
        bytes.starts_with(VERSION_START)
    }

    fn finish(&mut self, cx: &mut Context<'_>, record: &mut AppRecord) {
        let client = usize::from(self.client.unwrap_or(0));
        let texts = &mut cx.services.texts;
        let ssh = SshRecord {
            client_version: texts.take(self.versions[client]),
            server_version: texts.take(self.versions[1 - client]),
            hassh: texts.take(self.fingerprints[client]),
            hassh_server: texts.take(self.fingerprints[1 - client]),
        };
        if ssh != SshRecord::default() {
            record.ssh = Some(Box::new(ssh));
        }
    }
}

impl SshState {
    /// Reads a line: the version string, or one that a server sends before it.
    fn read_line(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
        work::count(bytes.len().min(LINE_MAX));
        let Some(end) = bytes.iter().take(LINE_MAX).position(|&byte| byte == b'\n') else {
            return match bytes.len() < LINE_MAX {
                true => Verdict::NeedMore,
                false => Verdict::Done,
            };
        };
        let line = &bytes[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(version) = line.strip_prefix(VERSION_START) {
            let direction = cx.direction();
            cx.classify_by_bytes(line);
            self.has_version[direction] = true;
            self.versions[direction] = cx.intern(line);
            // Without this, the client is the initiator, which the flow key may not know if its first
            // packet was not captured.
            let ports = (cx.packet.source_port, cx.packet.destination_port);
            match ports {
                (PORT, PORT) => {}
                (PORT, _) => self.client = Some(1 - direction as u8),
                (_, PORT) => self.client = Some(direction as u8),
                _ => {}
            }
            // Version 1 has no lists of algorithms by direction; 1.99 means both versions.
            if version.starts_with(b"1.") && !version.starts_with(b"1.99") {
                return Verdict::Done;
            }
        }
        Verdict::Consumed(end + 1)
    }

    /// Reads a packet of the key exchange, up to the algorithms (RFC 4253 sections 6 and 7.1).
    fn read_packet(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Verdict {
        let mut reader = Reader::new(bytes);
        let (Some(length), Some(padding), Some(number)) = (reader.u32(), reader.u8(), reader.u8())
        else {
            return Verdict::NeedMore;
        };
        if length < 2 + u32::from(padding) || length > PACKET_MAX {
            return Verdict::Done;
        }
        let end = 4 + length as usize;
        match number {
            message::DISCONNECT..=message::DEBUG => Verdict::Consumed(end),
            message::KEXINIT => {
                let Some(packet) = bytes.get(6..end) else {
                    return Verdict::NeedMore;
                };
                self.read_key_exchange(cx, &packet[..packet.len() - usize::from(padding)]);
                Verdict::Done
            }
            _ => Verdict::Done,
        }
    }

    /// Reads the lists of algorithms of a side.
    fn read_key_exchange(&mut self, cx: &mut Context<'_>, payload: &[u8]) {
        // The digest costs ten times as much as a scan.
        work::count(10 * payload.len());
        let mut reader = Reader::new(payload);
        let lists = (|| {
            // The cookie.
            reader.take(16)?;
            let mut lists = [&[][..]; 8];
            for list in &mut lists {
                let length = reader.u32()?;
                *list = reader.take(length as usize)?;
            }
            Some(lists)
        })();
        let Some(
            [
                keys,
                _host_keys,
                ciphers_to_server,
                ciphers_to_client,
                macs_to_server,
                macs_to_client,
                compression_to_server,
                compression_to_client,
            ],
        ) = lists
        else {
            return;
        };
        let direction = cx.direction();
        if let Some(is_client) = marks_client(keys) {
            self.client = Some(match is_client {
                true => direction as u8,
                false => 1 - direction as u8,
            });
        }
        let client = usize::from(self.client.unwrap_or(0));
        let parts = match direction == client {
            true => [
                keys,
                ciphers_to_server,
                macs_to_server,
                compression_to_server,
            ],
            false => [
                keys,
                ciphers_to_client,
                macs_to_client,
                compression_to_client,
            ],
        };
        let mut digest = Md5::new();
        for (index, part) in parts.into_iter().enumerate() {
            if index > 0 {
                digest.update(b";");
            }
            digest.update(part);
        }
        let digit = |value: u8| b"0123456789abcdef"[usize::from(value & 15)];
        let mut text = [0; 32];
        for (digits, byte) in text.chunks_exact_mut(2).zip(digest.finalize()) {
            digits.copy_from_slice(&[digit(byte >> 4), digit(byte)]);
        }
        self.fingerprints[direction] = cx.intern(&text);
    }
}

/// Whether a version string follows other lines at the start of a stream. Only a server sends these.
fn has_version_after_lines(bytes: &[u8]) -> bool {
    let first = &bytes[..bytes.len().min(LINES_BEFORE_MAX)];
    memchr::memchr_iter(b'\n', first)
        .take(LINES_MAX)
        .map(|end| &first[end + 1..])
        .any(|line| line.starts_with(b"SSH-2.0-") || line.starts_with(b"SSH-1.99-"))
}

/// Whether a list of key exchanges is a client's, by the names that only one side sends (RFC 8308
/// section 2.1, and OpenSSH's strict key exchange). `None` if there are none.
fn marks_client(keys: &[u8]) -> Option<bool> {
    keys.split(|&byte| byte == b',')
        .find_map(|name| match name {
            b"ext-info-c" | b"kex-strict-c-v00@openssh.com" => Some(true),
            b"ext-info-s" | b"kex-strict-s-v00@openssh.com" => Some(false),
            _ => None,
        })
}

columns! {
    pub(crate) COLUMNS
    Ssh {
        "sshClientVersion" Text "" [] "" "Version string of the SSH client (RFC 4253 section 4.2), from `SSH-` to the end of the line. The client is the side that says so in its key exchange (RFC 8308 section 2.1), else the side that does not use port 22, else the initiator."
            = |r| text(r.ssh.as_ref().map(|s| &s.client_version));
        "sshServerVersion" Text "" [] "" "Version string of the SSH server."
            = |r| text(r.ssh.as_ref().map(|s| &s.server_version));
        "sshHassh" Text "" [] "" "HASSH fingerprint of the client: MD5, in hexadecimal, of the algorithms in its SSH_MSG_KEXINIT (RFC 4253 section 7.1) for key exchange, and for encryption, MAC and compression from client to server, separated by semicolons."
            = |r| text(r.ssh.as_ref().map(|s| &s.hassh));
        "sshHasshServer" Text "" [] "" "HASSHServer fingerprint of the server: the same of its SSH_MSG_KEXINIT, with the algorithms from server to client."
            = |r| text(r.ssh.as_ref().map(|s| &s.hassh_server));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_found_at_the_start_or_after_lines() {
        let probe = |bytes: &[u8]| SshState::probe(&L4Payload::empty(0, 6), bytes, true);
        assert_eq!(probe(b"SSH-2.0-x"), Probe::Yes);
        assert_eq!(probe(b"SS"), Probe::NeedMore);
        assert_eq!(probe(b"Hello\r\nSSH-2.0-x\r\n"), Probe::Yes);
        assert_eq!(probe(b"SSX"), Probe::No);
        let later = SshState::probe(&L4Payload::empty(0, 6), b"SSH-2.0-x", false);
        assert_eq!(later, Probe::No);
    }

    #[test]
    fn markers_name_the_side() {
        assert_eq!(marks_client(b"a,ext-info-c"), Some(true));
        assert_eq!(marks_client(b"kex-strict-s-v00@openssh.com,a"), Some(false));
        assert_eq!(marks_client(b"a,b,ext-info-cc"), None);
    }
}
