//! Anonymisation: replaces addresses in records before any output sees them.
//!
//! Crypto-PAn (Xu, Fan, Ammar, Moon 2002) preserves prefixes: two addresses that share their first
//! n bits still share exactly n bits afterwards, so networks stay distinguishable. Truncation keeps
//! the first bits and clears the rest.

mod cache;
mod crypto_pan;
mod flow_id_cipher;
mod host;
mod host_address;
mod labels;
mod parts;

pub use crypto_pan::{CryptoPan, KEY_BYTES, KeyError};

use app::{AppRecord, AppText};
use cache::Cache;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use flow::{FlowDefinition, Record, RecordBatch};
use flow_id_cipher::FlowIdCipher;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use wire::FlowKey;

/// Limit on reading the key file: no key is longer, and a device file never ends.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// The permission bits of a file's mode.
const PERMISSION_BITS: u32 = 0o7777;

/// Permissions that no key file may have: read by others, written by others or the group.
const EXPOSING_BITS: u32 = 0o026;

/// Replaces addresses; the same address always gets the same replacement.
///
/// Each clone has its own cache; all clones return the same replacements.
#[derive(Clone, Debug)]
pub struct Anonymiser {
    method: Method,
    cache: Cache,
    /// Whether the source and the destination address are part of the flow key.
    in_key: [bool; 2],
    flow_id_cipher: FlowIdCipher,
}

#[derive(Clone, Debug)]
enum Method {
    CryptoPan(Box<CryptoPan>),
    /// Number of leading bits to keep.
    Truncate {
        ipv4: u32,
        ipv6: u32,
    },
}

/// Why an `--anonymise` argument cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AnonymiseError {
    /// Neither `crypto-pan=` nor `truncate=`.
    #[error(
        "`{spec}` is not crypto-pan=KEYFILE or truncate=24/48 (bits to keep of IPv4/IPv6 addresses)"
    )]
    Unknown {
        /// The argument.
        spec: String,
    },
    /// A bit count is missing or too large.
    #[error("truncate={bits}: specify two bit counts, as in 24/48, of at most 32 and 128")]
    Bits {
        /// The text after `truncate=`.
        bits: String,
    },
    /// The key file does not exist.
    #[error(
        "key file {path}: no such file; specify another, or create a key: (umask 077; head -c 32 /dev/urandom > {path})"
    )]
    NoKeyFile {
        /// The file.
        path: String,
    },
    /// No permission to read the key file.
    #[error("key file {path}: no permission to read it; run as its owner, or specify another")]
    Permission {
        /// The file.
        path: String,
    },
    /// Users other than its owner and group can read the key file, or it can be changed by users other
    /// than its owner.
    #[error(
        "key file {path}: its permissions ({mode:04o}) let other users read or change the key; protect it: chmod \
         go-w,o-r '{path}'"
    )]
    Exposed {
        /// The file.
        path: String,
        /// Its permission bits.
        mode: u32,
    },
    /// Reading the key file failed.
    #[error("key file {path}: {source}; specify a readable file that contains a key of 32 bytes")]
    KeyFile {
        /// The file.
        path: String,
        /// The system error.
        source: std::io::Error,
    },
    /// The key file contains no valid key.
    #[error("key file {path}: {reason}")]
    Key {
        /// The file.
        path: String,
        /// What is wrong with the contents.
        reason: KeyError,
    },
}

impl Anonymiser {
    /// Parses `crypto-pan=KEYFILE` or `truncate=BITS/BITS`, and reads the key file.
    ///
    /// # Errors
    /// The argument has neither form, a bit count is too large, or the key file contains no valid
    /// key.
    pub fn open(spec: &str) -> Result<Self, AnonymiseError> {
        if let Some(path) = Self::key_file(spec) {
            return Ok(Self::new(Method::CryptoPan(Box::new(read_key(path)?))));
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
                Method::Truncate { ipv4, ipv6 }
            }
            _ => {
                return Err(AnonymiseError::Unknown {
                    spec: spec.to_owned(),
                });
            }
        };
        Ok(Self::new(how))
    }

    /// Returns the key file that an `--anonymise` argument names.
    #[must_use]
    pub fn key_file(spec: &str) -> Option<&Path> {
        let path = spec.strip_prefix("crypto-pan=")?;
        (!path.is_empty()).then(|| Path::new(path))
    }

    /// Creates a Crypto-PAn anonymiser with this key.
    #[must_use]
    pub fn crypto_pan(key: &[u8; KEY_BYTES]) -> Self {
        Self::new(Method::CryptoPan(Box::new(CryptoPan::new(key))))
    }

    fn new(method: Method) -> Self {
        let key = match &method {
            Method::CryptoPan(cipher) => cipher.derive_key(*b"ids of flows    "),
            Method::Truncate { .. } => 0,
        };
        Self {
            flow_id_cipher: FlowIdCipher::new(key),
            method,
            cache: Cache::default(),
            in_key: [true; 2],
        }
    }

    /// Sets the key that encrypts flow IDs. Only truncation needs it; Crypto-PAn derives one from
    /// its own key.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        if matches!(self.method, Method::Truncate { .. }) {
            self.flow_id_cipher = FlowIdCipher::new(seed.into());
        }
        self
    }

    /// Restricts the anonymiser to the addresses that these flows have in their keys: others stay
    /// zero. By default both are anonymised.
    #[must_use]
    pub const fn for_flows(mut self, flow: FlowDefinition) -> Self {
        self.in_key = flow.addresses();
        self
    }

    /// Whether the method is Crypto-PAn.
    #[must_use]
    pub const fn is_crypto_pan(&self) -> bool {
        matches!(self.method, Method::CryptoPan(_))
    }

    /// Anonymises an IPv4 address.
    pub fn ipv4(&mut self, address: u32) -> u32 {
        match &self.method {
            Method::Truncate { ipv4, .. } => {
                address & u32::MAX.checked_shl(32 - ipv4).unwrap_or_default()
            }
            Method::CryptoPan(cipher) => {
                self.cache
                    .get_or_insert_with(4, u128::from(address), || u128::from(cipher.ipv4(address)))
                    as u32
            }
        }
    }

    /// Anonymises an IPv6 address.
    pub fn ipv6(&mut self, address: u128) -> u128 {
        match &self.method {
            Method::Truncate { ipv6, .. } => {
                address & u128::MAX.checked_shl(128 - ipv6).unwrap_or_default()
            }
            Method::CryptoPan(cipher) => self
                .cache
                .get_or_insert_with(6, address, || cipher.ipv6(address)),
        }
    }

    /// Anonymises an address.
    pub fn address(&mut self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(address) => Ipv4Addr::from(self.ipv4(address.into())).into(),
            IpAddr::V6(address) => Ipv6Addr::from(self.ipv6(address.into())).into(),
        }
    }

    /// Anonymises the addresses of a flow key, including unspecified ones (`0.0.0.0`, `::`).
    /// Addresses that are not part of the key stay zero.
    pub fn key(&mut self, key: &mut FlowKey) {
        let addresses = [&mut key.source, &mut key.destination];
        for (address, is_there) in addresses.into_iter().zip(self.in_key) {
            if !is_there {
                continue;
            }
            match key.version {
                4 => {
                    let [a, b, c, d, ..] = *address;
                    let replacement = self.ipv4(u32::from_be_bytes([a, b, c, d]));
                    address[..4].copy_from_slice(&replacement.to_be_bytes());
                }
                6 => *address = self.ipv6(u128::from_be_bytes(*address)).to_be_bytes(),
                // The key is a hash and has no addresses.
                _ => {}
            }
        }
    }

    /// Anonymises the addresses in a record's key.
    pub fn record(&mut self, record: &mut Record) {
        self.key(&mut record.key);
    }

    /// Anonymises a batch: addresses in keys, addresses in application-layer text, and flow IDs (an
    /// attacker could otherwise recover the addresses from an ID by brute force).
    pub fn batch(&mut self, batch: &mut RecordBatch) {
        for record in &mut batch.records {
            self.record(record);
        }
        for analysis in &mut batch.analyses {
            analysis.flow_id = self.flow_id_cipher.encrypt(analysis.flow_id);
            if let Some(names) = &mut analysis.app {
                self.names(names);
            }
        }
    }

    /// Anonymises addresses in application-layer fields.
    fn names(&mut self, names: &mut AppRecord) {
        if let Some(resolved) = &mut names.resolved
            && let Some(replacement) = self.name(&resolved.name)
        {
            resolved.name = replacement.into();
        }
        if let Some(dns) = &mut names.dns {
            replace(&mut dns.query, |name| self.name(name));
            replace(&mut dns.addresses, |list| {
                replace_parts(list, |it| it == ',', |address| self.list_item(address))
            });
        }
        if let Some(http) = &mut names.http {
            replace(&mut http.host, |host| self.host_field(host));
            replace(&mut http.target, |target| self.target(target));
        }
        if let Some(tls) = &mut names.tls {
            replace(&mut tls.server_name, |name| self.host_field(name));
            for names in [&mut tls.subject, &mut tls.issuer] {
                replace(names, |names| self.distinguished_name(names));
            }
        }
    }
}

fn replace(text: &mut Option<AppText>, with: impl FnOnce(&str) -> Option<String>) {
    if let Some(original) = text
        && let Some(replacement) = with(original)
    {
        *original = replacement.into();
    }
}

/// Applies `with` to each part of a text between single-character separators. Returns `None` if
/// nothing changed.
fn replace_parts(
    text: &str,
    separates: impl FnMut(char) -> bool,
    mut with: impl FnMut(&str) -> Option<String>,
) -> Option<String> {
    let mut replacement = String::with_capacity(text.len());
    let mut changed = false;
    let mut copied = 0;
    let separators = text.match_indices(separates);
    for (end, separator) in separators.chain([(text.len(), "")]) {
        let part = &text[copied..end];
        let replaced = with(part);
        changed |= replaced.is_some();
        replacement.push_str(replaced.as_deref().unwrap_or(part));
        replacement.push_str(separator);
        copied = end + separator.len();
    }
    changed.then_some(replacement)
}

fn read_key(path: &Path) -> Result<CryptoPan, AnonymiseError> {
    let mut bytes = Vec::new();
    let mut mode = 0;
    File::open(path)
        .and_then(|file| {
            // Of the open file: the path may name another one a moment later. A pipe has no permissions
            // that mean anything.
            let metadata = file.metadata()?;
            if metadata.is_file() {
                mode = metadata.permissions().mode() & PERMISSION_BITS;
            }
            file.take(KEY_FILE_BYTES_MAX).read_to_end(&mut bytes)
        })
        .map_err(|source| {
            let path = path.display().to_string();
            match source.kind() {
                ErrorKind::NotFound => AnonymiseError::NoKeyFile { path },
                ErrorKind::PermissionDenied => AnonymiseError::Permission { path },
                _ => AnonymiseError::KeyFile { path, source },
            }
        })?;
    if mode & EXPOSING_BITS != 0 {
        let path = path.display().to_string();
        return Err(AnonymiseError::Exposed { path, mode });
    }
    CryptoPan::from_file_contents(&bytes).map_err(|reason| AnonymiseError::Key {
        path: path.display().to_string(),
        reason,
    })
}

#[cfg(test)]
mod tests;
