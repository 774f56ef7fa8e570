//! Addresses that must not be told: replaced in records before any output sees them.
//!
//! Crypto-PAn (Xu, Fan, Ammar, Moon 2002) keeps prefixes: two addresses that share their first n
//! bits share n bits afterwards, so networks can still be told apart. Truncation keeps the first
//! bits and clears the rest.

mod cache;
mod crypto_pan;

pub use crypto_pan::{CryptoPan, KEY_BYTES, KeyError};

use cache::Cache;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use flow::names::{NameText, NamesRecord};
use flow::{Record, RecordBatch};
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
        let how = match spec.split_once('=') {
            Some(("crypto-pan", path)) if !path.is_empty() => {
                How::CryptoPan(Box::new(read_key(Path::new(path))?))
            }
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

    /// By Crypto-PAn with this key.
    #[must_use]
    pub fn crypto_pan(key: &[u8; KEY_BYTES]) -> Self {
        Self::new(How::CryptoPan(Box::new(CryptoPan::new(key))))
    }

    fn new(how: How) -> Self {
        Self {
            how,
            cache: Cache::default(),
        }
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

    /// Replaces the addresses of a key. Those that are not part of it stay zero.
    pub fn key(&mut self, key: &mut FlowKey) {
        for address in [&mut key.source, &mut key.destination] {
            if *address == [0; 16] {
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

    /// Replaces all addresses of a batch: those of keys, and names that are addresses.
    pub fn batch(&mut self, batch: &mut RecordBatch) {
        for record in &mut batch.records {
            self.record(record);
        }
        for analysis in &mut batch.analyses {
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
            self.replace(&mut dns.query);
            if let Some(addresses) = &mut dns.addresses {
                *addresses = self.list(addresses).into();
            }
        }
        if let Some(http) = &mut names.http {
            self.replace(&mut http.host);
        }
        if let Some(tls) = &mut names.tls {
            self.replace(&mut tls.server_name);
        }
    }

    fn replace(&mut self, name: &mut Option<NameText>) {
        if let Some(text) = name
            && let Some(ours) = self.name(text)
        {
            *text = ours.into();
        }
    }

    /// Replaces what a name tells of an address: a name that is an address, with or without a port
    /// behind it, and the name under which DNS looks an address up (RFC 1035 section 3.5, RFC 3596
    /// section 2.5). `None` where there is nothing to replace.
    pub fn name(&mut self, name: &str) -> Option<String> {
        if let Some(address) = literal(name) {
            return Some(self.address(address).to_string());
        }
        if let Some(inner) = name.strip_prefix('[')
            && let Some((address, behind)) = inner.split_once(']')
            && let Ok(address) = address.parse::<Ipv6Addr>()
        {
            let ours = Ipv6Addr::from(self.ipv6(address.into()));
            return Some(format!("[{ours}]{behind}"));
        }
        if let Some((address, port)) = name.split_once(':')
            && let Ok(address) = address.parse::<Ipv4Addr>()
        {
            let ours = Ipv4Addr::from(self.ipv4(address.into()));
            return Some(format!("{ours}:{port}"));
        }
        self.reverse_name(name)
    }

    /// Replaces each address in a list with a comma between two; what is none of them is left as
    /// it is.
    #[must_use]
    pub fn list(&mut self, list: &str) -> String {
        let mut ours = String::with_capacity(list.len());
        for (place, item) in list.split(',').enumerate() {
            if place > 0 {
                ours.push(',');
            }
            match self.name(item) {
                Some(name) => ours.push_str(&name),
                None => ours.push_str(item),
            }
        }
        ours
    }

    /// `4.3.2.1.in-addr.arpa` and the nibbles of `ip6.arpa`, whole addresses only.
    fn reverse_name(&mut self, name: &str) -> Option<String> {
        let (stem, dot) = match name.strip_suffix('.') {
            Some(stem) => (stem, "."),
            None => (name, ""),
        };
        let lower = stem.to_ascii_lowercase();
        if let Some(octets) = lower.strip_suffix(".in-addr.arpa") {
            let octets: Vec<u8> = octets
                .split('.')
                .map(|octet| octet.parse().ok())
                .collect::<Option<_>>()?;
            let [d, c, b, a] = octets.try_into().ok()?;
            let [a, b, c, d] = self.ipv4(u32::from_be_bytes([a, b, c, d])).to_be_bytes();
            return Some(format!("{d}.{c}.{b}.{a}.in-addr.arpa{dot}"));
        }
        let nibbles = lower.strip_suffix(".ip6.arpa")?;
        let mut address: u128 = 0;
        let mut count = 0;
        for (place, nibble) in nibbles.split('.').enumerate() {
            if nibble.len() != 1 || place >= 32 {
                return None;
            }
            let digit = u128::from_str_radix(nibble, 16).ok()?;
            address |= digit << (4 * place);
            count += 1;
        }
        if count != 32 {
            return None;
        }
        let address = self.ipv6(address);
        let mut ours = String::with_capacity(74);
        for place in 0..32 {
            let digit = char::from_digit((address >> (4 * place) & 15) as u32, 16)?;
            ours.push(digit);
            ours.push('.');
        }
        Some(format!("{ours}ip6.arpa{dot}"))
    }
}

/// The address that `name` is. Addresses begin with a digit or have a colon, names of hosts hardly
/// ever: most are told apart here.
fn literal(name: &str) -> Option<IpAddr> {
    let first = *name.as_bytes().first()?;
    if first.is_ascii_digit() || name.contains(':') {
        name.parse().ok()
    } else {
        None
    }
}

fn read_key(path: &Path) -> Result<CryptoPan, AnonymiseError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(KEY_FILE_BYTES_MAX).read_to_end(&mut bytes))
        .map_err(|source| {
            let path = path.display().to_string();
            match source.kind() {
                ErrorKind::NotFound => AnonymiseError::NoKeyFile { path },
                _ => AnonymiseError::KeyFile { path, source },
            }
        })?;
    CryptoPan::from_file_contents(&bytes).map_err(|reason| AnonymiseError::Key {
        path: path.display().to_string(),
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truncated() -> Anonymiser {
        Anonymiser::open("truncate=24/48").unwrap()
    }

    #[test]
    fn truncation_keeps_the_first_bits() {
        let mut anonymiser = truncated();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(
            anonymiser.address(address("192.0.2.77")),
            address("192.0.2.0")
        );
        assert_eq!(
            anonymiser.address(address("2001:db8:1:2:3:4:5:6")),
            address("2001:db8:1::")
        );
        let mut nothing = Anonymiser::open("truncate=0/0").unwrap();
        assert_eq!(nothing.ipv4(u32::MAX), 0);
        assert_eq!(nothing.ipv6(u128::MAX), 0);
        let mut all = Anonymiser::open("truncate=32/128").unwrap();
        assert_eq!(all.ipv4(0xc000_024d), 0xc000_024d);
        assert_eq!(all.ipv6(77), 77);
    }

    #[test]
    fn what_is_not_asked_rightly_is_refused_with_the_reason() {
        for spec in [
            "",
            "crypto-pan",
            "crypto-pan=",
            "aes=k",
            "truncate",
            "truncate=24",
        ] {
            assert!(Anonymiser::open(spec).is_err(), "{spec}");
        }
        for bits in ["33/48", "24/129", "-1/2", "24/48/1", "a/b"] {
            let error = Anonymiser::open(&format!("truncate={bits}")).unwrap_err();
            assert!(
                matches!(error, AnonymiseError::Bits { .. }),
                "{bits}: {error}"
            );
        }
        let error = Anonymiser::open("crypto-pan=/no/such/file").unwrap_err();
        assert_eq!(
            error.to_string(),
            "key file /no/such/file: no such file; name another, or make a key: \
             head -c 32 /dev/urandom > /no/such/file"
        );
        let error = Anonymiser::open("crypto-pan=/").unwrap_err();
        assert!(
            error.to_string().contains("name a file that can be read"),
            "{error}"
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [1; 31]).unwrap();
        let error = Anonymiser::open(&format!("crypto-pan={}", file.path().display()));
        assert!(error.unwrap_err().to_string().contains("31 bytes"));
    }

    #[test]
    fn names_that_are_addresses_are_replaced_and_others_left() {
        let mut anonymiser = truncated();
        let mut replaced = |name: &str| anonymiser.name(name);
        assert_eq!(replaced("192.0.2.77").as_deref(), Some("192.0.2.0"));
        assert_eq!(
            replaced("192.0.2.77:8080").as_deref(),
            Some("192.0.2.0:8080")
        );
        assert_eq!(replaced("2001:db8::1").as_deref(), Some("2001:db8::"));
        assert_eq!(
            replaced("[2001:db8:0:1::1]:443").as_deref(),
            Some("[2001:db8::]:443")
        );
        assert_eq!(
            replaced("77.2.0.192.in-addr.arpa").as_deref(),
            Some("0.2.0.192.in-addr.arpa")
        );
        let mut nibbles = vec!["0"; 32];
        (nibbles[0], nibbles[31], nibbles[30], nibbles[29]) = ("b", "2", "0", "0");
        let name = format!("{}.IP6.ARPA.", nibbles.join("."));
        nibbles[0] = "0";
        let expected = format!("{}.ip6.arpa.", nibbles.join("."));
        assert_eq!(replaced(&name), Some(expected));
        for name in [
            "example.com",
            "",
            "192.0.2",
            "1.2.3.in-addr.arpa",
            "a:b",
            "x.ip6.arpa",
        ] {
            assert_eq!(replaced(name), None, "{name}");
        }
        assert_eq!(
            anonymiser.list("192.0.2.1,2001:db8::9,alias.example"),
            "192.0.2.0,2001:db8::,alias.example"
        );
    }

    #[test]
    fn names_of_a_batch_are_replaced_where_they_tell_addresses() {
        use flow::names::{DnsRecord, HttpRecord, ResolvedName, TlsRecord};
        let names = NamesRecord {
            resolved: Some(ResolvedName {
                name: "192.0.2.9".into(),
                age_ns: 1,
            }),
            tls: Some(Box::new(TlsRecord {
                server_name: Some("2001:db8::7".into()),
                ..TlsRecord::default()
            })),
            dns: Some(Box::new(DnsRecord {
                query: Some("9.2.0.192.in-addr.arpa".into()),
                addresses: Some("192.0.2.1,198.51.100.2".into()),
                ..DnsRecord::default()
            })),
            http: Some(Box::new(HttpRecord {
                host: Some("example.com".into()),
                ..HttpRecord::default()
            })),
            ..NamesRecord::default()
        };
        let mut batch = RecordBatch {
            analyses: vec![flow::Analysis {
                names: Some(names),
                ..flow::Analysis::default()
            }],
            ..RecordBatch::default()
        };
        truncated().batch(&mut batch);
        let names = batch.analyses[0].names.as_ref().unwrap();
        let dns = names.dns.as_ref().unwrap();
        let texts = [
            names.resolved.as_ref().map(|resolved| &*resolved.name),
            names.tls.as_ref().unwrap().server_name.as_deref(),
            dns.query.as_deref(),
            dns.addresses.as_deref(),
            names.http.as_ref().unwrap().host.as_deref(),
        ];
        let expected = [
            "192.0.2.0",
            "2001:db8::",
            "0.2.0.192.in-addr.arpa",
            "192.0.2.0,198.51.100.0",
            "example.com",
        ];
        assert_eq!(texts, expected.map(Some));
    }

    #[test]
    fn addresses_that_are_not_in_the_key_stay_absent() {
        let mut anonymiser = Anonymiser::crypto_pan(&[7; KEY_BYTES]);
        let mut key = FlowKey {
            version: 4,
            ..FlowKey::default()
        };
        key.source[..4].copy_from_slice(&[10, 0, 0, 1]);
        let before = key;
        anonymiser.key(&mut key);
        assert_ne!(key.source, before.source);
        assert_eq!(key.source[4..], [0; 12]);
        assert_eq!(key.destination, [0; 16]);
        assert_eq!(
            (key.version, key.source_port),
            (before.version, before.source_port)
        );
    }
}
