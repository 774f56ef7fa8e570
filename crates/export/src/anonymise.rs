//! Addresses that must not be told: replaced in records before any output sees them.
//!
//! Crypto-PAn (Xu, Fan, Ammar, Moon 2002) keeps prefixes: two addresses that share their first n
//! bits share n bits afterwards, so networks can still be told apart. Truncation keeps the first
//! bits and clears the rest.

mod cache;
mod crypto_pan;
mod flow_ids;
mod host;
mod labels;
mod parts;

pub use crypto_pan::{CryptoPan, KEY_BYTES, KeyError};

use app::{NameText, NamesRecord};
use cache::Cache;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use flow::{FlowDefinition, Record, RecordBatch};
use flow_ids::FlowIds;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use wire::FlowKey;

/// A key file is read up to here: no key is longer, and a device has no end.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// Replaces addresses, each always by the same.
///
/// Clones have a memory each, and give the same answers.
#[derive(Clone, Debug)]
pub struct Anonymiser {
    how: How,
    cache: Cache,
    /// Which addresses are part of a key: the source, the destination.
    in_key: [bool; 2],
    flow_ids: FlowIds,
}

#[derive(Clone, Debug)]
enum How {
    CryptoPan(Box<CryptoPan>),
    /// Bits kept of IPv4 and IPv6 addresses.
    Truncate {
        ipv4: u32,
        ipv6: u32,
    },
}

/// Why addresses cannot be anonymised as asked.
#[derive(Debug, thiserror::Error)]
pub enum AnonymiseError {
    /// Neither of the two ways.
    #[error("`{spec}` is not crypto-pan=KEYFILE or truncate=24/48 (bits kept of IPv4/IPv6)")]
    Unknown {
        /// What was asked.
        spec: String,
    },
    /// Bits that addresses do not have.
    #[error("truncate={bits}: two numbers of bits to keep as in 24/48, at most 32 and 128")]
    Bits {
        /// What was asked.
        bits: String,
    },
    /// There is no key file.
    #[error(
        "key file {path}: no such file; name another, or make a key: head -c 32 /dev/urandom > {path}"
    )]
    NoKeyFile {
        /// The file.
        path: String,
    },
    /// Not allowed to read the key file.
    #[error("key file {path}: no permission to read it; run as its owner, or name another")]
    Permission {
        /// The file.
        path: String,
    },
    /// The key file cannot be read.
    #[error("key file {path}: {source}; name a file that can be read, with a key of 32 bytes")]
    KeyFile {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The key file holds no key.
    #[error("key file {path}: {reason}")]
    Key {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: KeyError,
    },
}

impl Anonymiser {
    /// By `crypto-pan=KEYFILE` or `truncate=BITS/BITS`.
    ///
    /// # Errors
    /// When it is neither, or the key file holds no key.
    pub fn open(spec: &str) -> Result<Self, AnonymiseError> {
        if let Some(path) = Self::key_file(spec) {
            return Ok(Self::new(How::CryptoPan(Box::new(read_key(path)?))));
        }
        let how = match spec.split_once('=') {
            Some(("truncate", bits)) => {
                let wrong = || AnonymiseError::Bits {
                    bits: bits.to_owned(),
                };
                let (ipv4, ipv6) = bits.split_once('/').ok_or_else(wrong)?;
                let (ipv4, ipv6): (u32, u32) = (
                    ipv4.parse().map_err(|_| wrong())?,
                    ipv6.parse().map_err(|_| wrong())?,
                );
                if ipv4 > 32 || ipv6 > 128 {
                    return Err(wrong());
                }
                How::Truncate { ipv4, ipv6 }
            }
            _ => {
                return Err(AnonymiseError::Unknown {
                    spec: spec.to_owned(),
                });
            }
        };
        Ok(Self::new(how))
    }

    /// The key file that such a text names.
    #[must_use]
    pub fn key_file(spec: &str) -> Option<&Path> {
        let path = spec.strip_prefix("crypto-pan=")?;
        (!path.is_empty()).then(|| Path::new(path))
    }

    /// By Crypto-PAn with this key.
    #[must_use]
    pub fn crypto_pan(key: &[u8; KEY_BYTES]) -> Self {
        Self::new(How::CryptoPan(Box::new(CryptoPan::new(key))))
    }

    fn new(how: How) -> Self {
        let key = match &how {
            How::CryptoPan(cipher) => cipher.derived(*b"ids of flows    "),
            How::Truncate { .. } => 0,
        };
        Self {
            flow_ids: FlowIds::new(key),
            how,
            cache: Cache::default(),
            in_key: [true; 2],
        }
    }

    /// Truncation has no key: ids of flows are enciphered by this one.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        if matches!(self.how, How::Truncate { .. }) {
            self.flow_ids = FlowIds::new(seed.into());
        }
        self
    }

    /// For records of these flows: an address that is no part of their keys stays absent. Without
    /// this, both are part of them.
    #[must_use]
    pub const fn of_flows(mut self, flow: FlowDefinition) -> Self {
        self.in_key = flow.addresses();
        self
    }

    /// Whether it is Crypto-PAn.
    #[must_use]
    pub const fn is_crypto_pan(&self) -> bool {
        matches!(self.how, How::CryptoPan(_))
    }

    /// What stands for an IPv4 address.
    pub fn ipv4(&mut self, address: u32) -> u32 {
        match &self.how {
            How::Truncate { ipv4, .. } => {
                address & u32::MAX.checked_shl(32 - ipv4).unwrap_or_default()
            }
            How::CryptoPan(cipher) => self
                .cache
                .get(4, u128::from(address), || u128::from(cipher.ipv4(address)))
                as u32,
        }
    }

    /// What stands for an IPv6 address.
    pub fn ipv6(&mut self, address: u128) -> u128 {
        match &self.how {
            How::Truncate { ipv6, .. } => {
                address & u128::MAX.checked_shl(128 - ipv6).unwrap_or_default()
            }
            How::CryptoPan(cipher) => self.cache.get(6, address, || cipher.ipv6(address)),
        }
    }

    /// What stands for an address.
    pub fn address(&mut self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(address) => Ipv4Addr::from(self.ipv4(address.into())).into(),
            IpAddr::V6(address) => Ipv6Addr::from(self.ipv6(address.into())).into(),
        }
    }

    /// Replaces the addresses of a key, unspecified ones (`0.0.0.0`, `::`) too. Those that are not
    /// part of it stay zero.
    pub fn key(&mut self, key: &mut FlowKey) {
        let addresses = [&mut key.source, &mut key.destination];
        for (address, is_there) in addresses.into_iter().zip(self.in_key) {
            if !is_there {
                continue;
            }
            match key.version {
                4 => {
                    let [a, b, c, d, ..] = *address;
                    let ours = self.ipv4(u32::from_be_bytes([a, b, c, d]));
                    address[..4].copy_from_slice(&ours.to_be_bytes());
                }
                6 => *address = self.ipv6(u128::from_be_bytes(*address)).to_be_bytes(),
                // A hash alone.
                _ => {}
            }
        }
    }

    /// Replaces the addresses of a record's key.
    pub fn record(&mut self, record: &mut Record) {
        self.key(&mut record.key);
    }

    /// Replaces all addresses of a batch: those of keys, and names that are addresses; and the ids of
    /// flows, which would tell them to who tries.
    pub fn batch(&mut self, batch: &mut RecordBatch) {
        for record in &mut batch.records {
            self.record(record);
        }
        for analysis in &mut batch.analyses {
            analysis.flow_id = self.flow_ids.id(analysis.flow_id);
            if let Some(names) = &mut analysis.names {
                self.names(names);
            }
        }
    }

    /// Replaces what the application layer told of addresses.
    fn names(&mut self, names: &mut NamesRecord) {
        if let Some(resolved) = &mut names.resolved
            && let Some(ours) = self.name(&resolved.name)
        {
            resolved.name = ours.into();
        }
        if let Some(dns) = &mut names.dns {
            replace(&mut dns.query, |name| self.name(name));
            replace(&mut dns.addresses, |list| {
                each_part(list, |it| it == ',', |address| self.listed(address))
            });
        }
        if let Some(http) = &mut names.http {
            replace(&mut http.host, |host| self.only_host(host));
            replace(&mut http.target, |target| self.target(target));
        }
        if let Some(tls) = &mut names.tls {
            replace(&mut tls.server_name, |name| self.only_host(name));
            for names in [&mut tls.subject, &mut tls.issuer] {
                replace(names, |names| self.distinguished_name(names));
            }
        }
    }
}

fn replace(text: &mut Option<NameText>, with: impl FnOnce(&str) -> Option<String>) {
    if let Some(theirs) = text
        && let Some(ours) = with(theirs)
    {
        *theirs = ours.into();
    }
}

/// Replaces parts of a text that has one character that separates between two. `None` where there is
/// nothing to replace.
fn each_part(
    text: &str,
    separates: impl FnMut(char) -> bool,
    mut with: impl FnMut(&str) -> Option<String>,
) -> Option<String> {
    let mut ours = String::with_capacity(text.len());
    let mut any = false;
    let mut done = 0;
    let separators = text.match_indices(separates);
    for (end, separator) in separators.chain([(text.len(), "")]) {
        let part = &text[done..end];
        let replaced = with(part);
        any |= replaced.is_some();
        ours.push_str(replaced.as_deref().unwrap_or(part));
        ours.push_str(separator);
        done = end + separator.len();
    }
    any.then_some(ours)
}

fn read_key(path: &Path) -> Result<CryptoPan, AnonymiseError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(KEY_FILE_BYTES_MAX).read_to_end(&mut bytes))
        .map_err(|source| {
            let path = path.display().to_string();
            match source.kind() {
                ErrorKind::NotFound => AnonymiseError::NoKeyFile { path },
                ErrorKind::PermissionDenied => AnonymiseError::Permission { path },
                _ => AnonymiseError::KeyFile { path, source },
            }
        })?;
    CryptoPan::from_file_contents(&bytes).map_err(|reason| AnonymiseError::Key {
        path: path.display().to_string(),
        reason,
    })
}

#[cfg(test)]
mod tests;
