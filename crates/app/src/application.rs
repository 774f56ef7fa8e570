//! Application classes, from a table of rules that users can extend. Rules match the server name or
//! host, the first bytes of the payload, or the port.
//!
//! A line of the table is a class and a rule:
//!
//! ```text
//! Netflix  name   netflix.com nflxvideo.net     these domains and their subdomains
//! SSH      tcp    22                            ports, of TCP or UDP (udp)
//! SSH      bytes  "SSH-"                        first payload bytes of either side; \xHH is any byte
//! ```

use crate::base_state::CLASSES_MAX;
use crate::record::{AppRecord, AppText, FoundBy};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use thiserror::Error;
use wire::FlowKey;

/// The built-in table.
const BUILT_IN: &str = include_str!("applications.txt");

/// The most bytes of a payload that a rule compares.
const PREFIX_MAX: usize = 24;

/// Number of ports.
const PORTS: usize = 1 << 16;

/// Hashes the names of the table. It needs no secret key: the user chooses these names, so there is
/// no attacker who could make them collide.
#[derive(Clone, Copy, Debug, Default)]
struct Digest(u64);

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        let last = rest
            .iter()
            .fold(1, |last, &byte| last << 8 | u64::from(byte));
        self.write_u64(last);
    }

    fn write_usize(&mut self, _: usize) {
        // The standard library writes the length before the bytes. It is not needed here, because
        // `write` makes inputs of different lengths differ.
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(MIX);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// An odd multiplier with well-mixed bits (the fraction of the golden ratio).
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// An invalid line in a table of applications.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}: {fault}")]
pub struct ApplicationsError {
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub fault: String,
}

/// The first bytes of a payload and their class.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Prefix {
    bytes: Box<[u8]>,
    class: u16,
}

/// The table of applications.
#[derive(Clone, Debug)]
pub struct Applications {
    classes: Vec<AppText>,
    names: HashMap<Box<[u8]>, u16, BuildHasherDefault<Digest>>,
    /// The class of each TCP port plus 1; 0 if it has none.
    tcp_ports: Box<[u16]>,
    /// The same for UDP.
    udp_ports: Box<[u16]>,
    /// The prefixes that start with each byte.
    prefixes: Vec<Vec<Prefix>>,
    /// Classes of the protocols that are parsed.
    pub(crate) protocols: Protocols,
}

/// Classes of the protocols that are parsed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Protocols {
    pub(crate) tls: u16,
    pub(crate) quic: u16,
    pub(crate) http: u16,
    pub(crate) dns: u16,
    pub(crate) rtp: u16,
}

impl Default for Applications {
    fn default() -> Self {
        let mut table = Self {
            classes: Vec::new(),
            names: HashMap::default(),
            tcp_ports: vec![0; PORTS].into(),
            udp_ports: vec![0; PORTS].into(),
            prefixes: vec![Vec::new(); 256],
            protocols: Protocols::default(),
        };
        let read = table.extend(BUILT_IN);
        debug_assert_eq!(read, Ok(()), "the table that is built in");
        let mut class = |name| table.class(name).unwrap_or_default();
        table.protocols = Protocols {
            tls: class("TLS"),
            quic: class("QUIC"),
            http: class("HTTP"),
            dns: class("DNS"),
            rtp: class("RTP"),
        };
        table
    }
}

impl Applications {
    /// Adds the lines of `text`. They take precedence over earlier ones.
    ///
    /// # Errors
    /// For the first invalid line.
    pub fn extend(&mut self, text: &str) -> Result<(), ApplicationsError> {
        for (index, line) in text.lines().enumerate() {
            self.line(line).map_err(|fault| ApplicationsError {
                line: index + 1,
                fault,
            })?;
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let form = "expected CLASS name|tcp|udp|bytes VALUE…";
        let (class, rest) = line.split_once(char::is_whitespace).ok_or(form)?;
        let (kind, values) = rest
            .trim_start()
            .split_once(char::is_whitespace)
            .ok_or(form)?;
        let class = self.class(class)?;
        match kind {
            "name" => {
                for name in values.split_whitespace() {
                    let name = name.trim_matches('.').to_ascii_lowercase();
                    if name.is_empty() {
                        return Err("the name has only dots".to_owned());
                    }
                    self.names.insert(name.into_bytes().into(), class);
                }
            }
            "tcp" | "udp" => {
                for port in values.split_whitespace() {
                    let port: u16 = port
                        .parse()
                        .map_err(|_| format!("{port:?} is not a port"))?;
                    let ports = if kind == "tcp" {
                        &mut self.tcp_ports
                    } else {
                        &mut self.udp_ports
                    };
                    ports[usize::from(port)] = class + 1;
                }
            }
            "bytes" => {
                let bytes = unquote(values.trim())?;
                let first = *bytes.first().ok_or("the quotes are empty")?;
                if bytes.len() > PREFIX_MAX {
                    return Err(format!("more than {PREFIX_MAX} bytes"));
                }
                self.prefixes[usize::from(first)].insert(
                    0,
                    Prefix {
                        bytes: bytes.into(),
                        class,
                    },
                );
            }
            other => return Err(format!("{other:?} is not name, tcp, udp or bytes")),
        }
        Ok(())
    }

    fn class(&mut self, name: &str) -> Result<u16, String> {
        if let Some(at) = self.classes.iter().position(|class| **class == *name) {
            return Ok(at as u16);
        }
        if self.classes.len() == usize::from(CLASSES_MAX) {
            return Err("more than 32,767 classes".to_owned());
        }
        self.classes.push(name.into());
        Ok((self.classes.len() - 1) as u16)
    }

    /// Name of a class.
    pub(crate) fn name(&self, class: u16) -> Option<&AppText> {
        self.classes.get(usize::from(class))
    }

    /// The class of a host name: that of the longest name in the table that equals it or is a parent
    /// domain of it.
    #[must_use]
    pub fn by_name(&self, host: &str) -> Option<u16> {
        let mut host = host.as_bytes();
        while let [rest @ .., b'.'] = host {
            host = rest;
        }
        let mut buffer = [0u8; 255];
        let lower = buffer.get_mut(..host.len())?;
        lower.copy_from_slice(host);
        lower.make_ascii_lowercase();
        let mut rest = &*lower;
        loop {
            if let Some(&class) = self.names.get(rest) {
                return Some(class);
            }
            let dot = rest.iter().position(|&byte| byte == b'.')?;
            rest = &rest[dot + 1..];
        }
    }

    /// The class of a payload: that of the longest prefix in the table that it starts with.
    pub(crate) fn by_bytes(&self, payload: &[u8]) -> Option<u16> {
        let candidates = &self.prefixes[usize::from(*payload.first()?)];
        let found = candidates
            .iter()
            .filter(|prefix| payload.starts_with(&prefix.bytes))
            .rev()
            .max_by_key(|prefix| prefix.bytes.len())?;
        Some(found.class)
    }

    /// The class of the responder's port, or of the initiator's if that has none.
    #[must_use]
    pub fn by_port(&self, protocol: u8, initiator: u16, responder: u16) -> Option<u16> {
        let ports = match protocol {
            wire::ip_protocol::TCP => &self.tcp_ports,
            wire::ip_protocol::UDP => &self.udp_ports,
            _ => return None,
        };
        let class = |port: u16| ports[usize::from(port)].checked_sub(1);
        class(responder).or_else(|| class(initiator))
    }

    /// A class as a record has it.
    pub(crate) fn application(
        &self,
        class: u16,
        found_by: FoundBy,
    ) -> Option<crate::record::Application> {
        Some(crate::record::Application {
            name: self.name(class)?.clone(),
            found_by,
        })
    }

    /// Sets the application class, in the most certain way that gives one.
    pub(crate) fn classify(&self, key: &FlowKey, record: &mut AppRecord) {
        let protocols = self.protocols;
        let by_sni = || {
            let name = record.tls.as_ref()?.server_name.as_ref()?;
            Some((self.by_name(name)?, FoundBy::Sni))
        };
        let by_host = || {
            let host = record.http.as_ref()?.host.as_ref()?;
            Some((self.by_name(without_port(host))?, FoundBy::Host))
        };
        let by_protocol = || {
            let has_rtp = record.rtp.iter().any(Option::is_some);
            let class = match record {
                _ if has_rtp => protocols.rtp,
                AppRecord { dns: Some(_), .. } => protocols.dns,
                _ => return None,
            };
            Some((class, FoundBy::Bytes))
        };
        let by_resolved_name = |is_asked: bool, found_by| {
            let resolved = record.resolved.as_ref()?;
            let class = (resolved.is_asked == is_asked).then(|| self.by_name(&resolved.name));
            Some((class??, found_by))
        };
        // A protocol that carries any application says less than the name of the server.
        let by_carrier = || {
            let class = match record {
                AppRecord { quic: Some(_), .. } => protocols.quic,
                AppRecord { tls: Some(_), .. } => protocols.tls,
                AppRecord { http: Some(_), .. } => protocols.http,
                _ => return None,
            };
            Some((class, FoundBy::Bytes))
        };
        let by_port = || {
            let class = self.by_port(key.protocol, key.source_port, key.destination_port)?;
            Some((class, FoundBy::Port))
        };
        let found = by_sni().or_else(by_host).or_else(by_protocol);
        let found = match (found, &record.application) {
            (None, Some(_)) => return,
            (found, _) => found
                .or_else(|| by_resolved_name(true, FoundBy::Dns))
                .or_else(by_carrier)
                .or_else(by_port)
                .or_else(|| by_resolved_name(false, FoundBy::DnsResponse)),
        };
        record.application = found.and_then(|(class, by)| self.application(class, by));
    }
}

/// A host without its port, which follows the last colon.
fn without_port(host: &str) -> &str {
    let has_colon = |any, byte: &u8| any | (*byte == b':');
    match host.as_bytes().iter().fold(false, has_colon) {
        true => host.rsplit_once(':').map_or(host, |(host, _)| host),
        false => host,
    }
}

const HEX_ERROR: &str = "\\x must be followed by two hexadecimal digits";

/// The bytes of a quoted text.
fn unquote(text: &str) -> Result<Vec<u8>, String> {
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .ok_or("bytes must be in double quotes")?;
    let mut bytes = Vec::new();
    let mut rest = inner;
    while let Some(first) = rest.chars().next() {
        if let Some(code) = rest.strip_prefix("\\x") {
            let digits = code.get(..2).ok_or(HEX_ERROR)?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| HEX_ERROR)?);
            rest = &code[2..];
        } else {
            let mut utf8 = [0; 4];
            bytes.extend_from_slice(first.encode_utf8(&mut utf8).as_bytes());
            rest = &rest[first.len_utf8()..];
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_table_is_valid_and_user_lines_take_precedence() {
        let mut table = Applications::default();
        let class = |table: &Applications, host| {
            table
                .by_name(host)
                .and_then(|class| table.name(class).cloned())
        };
        assert_eq!(
            class(&table, "www.YouTube.com.").as_deref(),
            Some("YouTube")
        );
        assert_eq!(class(&table, "notyoutube.com").as_deref(), None);
        let mine = "Mine name youtube.com\nMine tcp 22\nMine bytes \"\\x00x\"\n# no\n";
        assert_eq!(table.extend(mine), Ok(()));
        assert_eq!(class(&table, "youtube.com").as_deref(), Some("Mine"));
        let mine = table.by_port(6, 50_000, 22);
        assert_eq!(mine.and_then(|c| table.name(c)).unwrap(), "Mine");
        assert_eq!(table.by_bytes(b"\0xy"), mine);
        assert_eq!(table.by_bytes(b"\0y"), None);
        assert_eq!(table.by_bytes(b""), None);
    }

    #[test]
    fn reports_the_number_of_an_invalid_line() {
        for (text, line) in [
            ("\nSSH", 2),
            ("SSH tcp", 1),
            ("SSH tcp 65536", 1),
            ("A bytes x", 1),
            ("A bytes \"\\x0\"", 1),
            ("A bytes \"\\xé\"", 1),
            ("A icmp 1", 1),
            ("A name .", 1),
        ] {
            let error = Applications::default().extend(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
        }
    }
}
