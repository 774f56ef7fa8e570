//! The receiver of a network output: `tcp://HOST:PORT`, `udp://HOST:PORT` or `unix:PATH`.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;

/// Longest path of a Unix socket in bytes: `sun_path` without its final zero (unix(7)).
const UNIX_PATH_BYTES_MAX: usize = 107;

/// The address of a receiver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A TCP server.
    Tcp(HostPort),
    /// A UDP port.
    Udp(HostPort),
    /// A stream socket in the file system.
    Unix(PathBuf),
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// The port; not 0.
    pub port: u16,
}

impl Endpoint {
    /// Parses the text after `FORMAT:`. Returns `None` if it is the path of a file.
    ///
    /// # Errors
    /// It has the form of a URL but names no receiver.
    pub fn from_target(text: &str) -> Result<Option<Self>, EndpointError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return unix(path).map(Some);
        }
        let Some((scheme, address)) = text.split_once("://") else {
            // Otherwise a forgotten `//` would create a file of this name.
            return match text.split_once(':') {
                Some((scheme @ ("tcp" | "udp"), address)) => Err(EndpointError::NoSlashes {
                    scheme: scheme.to_owned(),
                    address: address.to_owned(),
                }),
                _ => Ok(None),
            };
        };
        match scheme {
            "tcp" => HostPort::parse(address).map(Self::Tcp).map(Some),
            "udp" => HostPort::parse(address).map(Self::Udp).map(Some),
            scheme if scheme.contains('/') => Ok(None),
            scheme => Err(EndpointError::UnknownScheme {
                scheme: scheme.to_owned(),
            }),
        }
    }
}

fn unix(path: &str) -> Result<Endpoint, EndpointError> {
    if path.is_empty() {
        return Err(EndpointError::NoPath);
    }
    if path.len() > UNIX_PATH_BYTES_MAX {
        return Err(EndpointError::LongPath { bytes: path.len() });
    }
    Ok(Endpoint::Unix(path.into()))
}

impl HostPort {
    fn parse(text: &str) -> Result<Self, EndpointError> {
        let no_port = || EndpointError::NoPort {
            address: text.to_owned(),
        };
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or_else(no_port)?;
                // `fe80::1%eth0` names the interface of a link-local address (RFC 4007).
                let address = host.split_once('%').map_or(host, |(address, _)| address);
                if address.parse::<Ipv6Addr>().is_err() {
                    return Err(EndpointError::NotIpv6 {
                        host: host.to_owned(),
                    });
                }
                (host, rest.strip_prefix(':').ok_or_else(no_port)?)
            }
            None => text.rsplit_once(':').ok_or_else(no_port)?,
        };
        if host.contains(':') && !text.starts_with('[') {
            return Err(EndpointError::NoBrackets {
                address: text.to_owned(),
            });
        }
        if host.is_empty() {
            return Err(EndpointError::NoHost {
                address: text.to_owned(),
            });
        }
        let port = port.parse().ok().filter(|&port| port != 0);
        Ok(Self {
            host: host.to_owned(),
            port: port.ok_or_else(no_port)?,
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "tcp://{address}"),
            Self::Udp(address) => write!(formatter, "udp://{address}"),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(formatter, "[{host}]:{port}")
        } else {
            write!(formatter, "{host}:{port}")
        }
    }
}

/// Why the address of a receiver is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The host is missing.
    #[error("no host in `{address}`; use HOST:PORT, as in tcp://collector.example:9000")]
    NoHost {
        /// The text after `//`.
        address: String,
    },
    /// The port is missing or not a number from 1 to 65535.
    #[error(
        "`{address}` does not end in a port; use HOST:PORT with a port from 1 to 65535, as in \
         tcp://collector.example:9000 (network outputs have no options)"
    )]
    NoPort {
        /// The text after `//`.
        address: String,
    },
    /// An IPv6 address without brackets.
    #[error("write the IPv6 address in `{address}` in brackets, as in tcp://[2001:db8::1]:9000")]
    NoBrackets {
        /// The text after `//`.
        address: String,
    },
    /// The text in brackets is not an IPv6 address.
    #[error(
        "`{host}` is not an IPv6 address; only these have brackets, as in tcp://[2001:db8::1]:9000"
    )]
    NotIpv6 {
        /// The text in brackets.
        host: String,
    },
    /// The slashes after the scheme are missing.
    #[error(
        "use {scheme}://{address} to send to a receiver, or ./{scheme}:{address} to write a file"
    )]
    NoSlashes {
        /// The scheme.
        scheme: String,
        /// The text after it.
        address: String,
    },
    /// A URL with another scheme.
    #[error("cannot send to {scheme}://; use tcp://HOST:PORT, udp://HOST:PORT or unix:PATH")]
    UnknownScheme {
        /// The scheme.
        scheme: String,
    },
    /// No path follows `unix:`.
    #[error("no path after `unix:`; specify a socket, as in unix:/run/collector.sock")]
    NoPath,
    /// The path of a Unix socket is too long for the system.
    #[error(
        "the path of a Unix socket has at most {UNIX_PATH_BYTES_MAX} bytes, this one {bytes}; use a shorter one"
    )]
    LongPath {
        /// Its length.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_print_as_they_were_written() {
        for text in [
            "tcp://collector.example:9000",
            "tcp://192.0.2.1:1",
            "udp://[2001:db8::1]:65535",
            "tcp://[fe80::1%eth0]:9000",
            "unix:/run/a,b.sock",
            "unix:relative",
        ] {
            let endpoint = Endpoint::from_target(text).unwrap().unwrap();
            assert_eq!(endpoint.to_string(), text);
        }
        let endpoint = Endpoint::from_target("tcp://[::1]:80").unwrap();
        let Some(Endpoint::Tcp(HostPort { host, port })) = endpoint else {
            panic!("{endpoint:?}");
        };
        assert_eq!((host.as_str(), port), ("::1", 80));
    }

    #[test]
    fn other_targets_are_files() {
        for text in [
            "flows.csv",
            "c:/x:y",
            "dir/tcp:a",
            "./tcp:a:1",
            "a/b://c",
            "unix",
        ] {
            assert_eq!(Endpoint::from_target(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn errors_say_what_to_write() {
        let long = format!("unix:/{}", "x".repeat(107));
        for (text, words) in [
            ("tcp://", "HOST:PORT"),
            ("tcp://host", "port from 1 to 65535"),
            ("tcp://host:", "port from 1 to 65535"),
            ("tcp://host:0", "port from 1 to 65535"),
            ("tcp://host:65536", "port from 1 to 65535"),
            ("tcp://host:80,gz", "no options"),
            ("udp://:80", "no host"),
            ("tcp://2001:db8::1:80", "in brackets"),
            ("tcp://[2001:db8::1]", "port from 1 to 65535"),
            ("tcp://[2001:db8::1", "port from 1 to 65535"),
            ("tcp://[host]:80", "not an IPv6 address"),
            ("tcp:host:80", "use tcp://host:80"),
            ("http://host:80", "cannot send to http://"),
            ("unix:", "no path"),
            (&long, "at most 107 bytes"),
        ] {
            let error = Endpoint::from_target(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
