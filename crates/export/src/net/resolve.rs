//! Resolves the name of a receiver.

use crate::net::endpoint::HostPort;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// Returns the addresses of a receiver, in the system's order of preference. Blocks while the system
/// asks its name servers.
///
/// # Errors
/// The name does not resolve.
pub(crate) fn resolve(address: &HostPort) -> io::Result<Vec<SocketAddr>> {
    let HostPort { host, port } = address;
    let addresses = (host.as_str(), *port).to_socket_addrs();
    let addresses: Vec<_> = addresses
        .map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("the name {host} does not resolve: {error}"),
            )
        })?
        .collect();
    if addresses.is_empty() {
        return Err(io::Error::other(format!("the name {host} has no address")));
    }
    Ok(addresses)
}
