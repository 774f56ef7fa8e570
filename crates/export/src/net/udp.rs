//! The UDP transport. Nothing confirms that a datagram arrives: sent means that the system has accepted
//! it. A receiver's host may report that the port is closed.

use crate::net::endpoint::HostPort;
use crate::net::resolve::resolve;
use crate::net::transport::{Connection, Framing, SendFault, Transport};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;
use std::vec;

/// A datagram of this size passes Ethernet (MTU 1500 bytes) with room for IPv6 and tunnel headers.
const PREFERRED_BYTES: usize = 1400;

/// Longest payload of a UDP datagram over IPv4, whose total length has 16 bits: 65,535 bytes without
/// the IP header (20) and the UDP header (8).
const PAYLOAD_BYTES_MAX: usize = 65_507;

/// Sends datagrams to a UDP port.
#[derive(Debug)]
pub(crate) struct Udp(pub(crate) HostPort);

impl Transport for Udp {
    fn framing(&self) -> Framing {
        Framing::Datagram {
            preferred_bytes: PREFERRED_BYTES,
        }
    }

    fn connect(&mut self, _: Duration) -> io::Result<Box<dyn Connection>> {
        let mut addresses = resolve(&self.0)?.into_iter();
        let socket =
            open_next(&mut addresses).unwrap_or_else(|| Err(ErrorKind::AddrNotAvailable.into()))?;
        Ok(Box::new(UdpConnection { socket, addresses }))
    }
}

/// Opens a socket for the next address that the system can send to; returns the last error if there is
/// none, and `None` if there are no addresses.
fn open_next(addresses: &mut vec::IntoIter<SocketAddr>) -> Option<io::Result<UdpSocket>> {
    let mut fault = None;
    for address in addresses {
        let any: IpAddr = match address {
            address if address.is_ipv4() => Ipv4Addr::UNSPECIFIED.into(),
            _ => Ipv6Addr::UNSPECIFIED.into(),
        };
        // Only a connected socket receives the errors that the network reports.
        let socket =
            UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(address).map(|()| socket));
        match socket {
            Ok(socket) => return Some(Ok(socket)),
            Err(error) => fault = Some(Err(error)),
        }
    }
    fault
}

struct UdpConnection {
    socket: UdpSocket,
    /// Addresses not tried yet: a host with IPv6 and IPv4 may receive over one of them only, which
    /// shows when it refuses a datagram.
    addresses: vec::IntoIter<SocketAddr>,
}

impl Connection for UdpConnection {
    fn send(&mut self, message: &[u8], timeout: Duration) -> Result<(), SendFault> {
        if message.len() > PAYLOAD_BYTES_MAX {
            return Err(SendFault::TooLong);
        }
        self.socket
            .set_write_timeout(Some(timeout))
            .map_err(SendFault::Closed)?;
        loop {
            return match self.socket.send(message) {
                Ok(_) => Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // The system refuses datagrams that are too long for the route (EMSGSIZE), which the
                // standard library has no stable kind for.
                Err(error) if error.raw_os_error() == Some(EMSGSIZE) => Err(SendFault::TooLong),
                // ICMP port unreachable, for an earlier datagram.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    if let Some(Ok(socket)) = open_next(&mut self.addresses) {
                        self.socket = socket;
                    }
                    Err(SendFault::PreviousLost(error))
                }
                Err(error) => Err(SendFault::Closed(error)),
            };
        }
    }

    fn take_error(&mut self) -> Option<io::Error> {
        self.socket.take_error().ok().flatten()
    }
}

/// "Message too long", the same number on all architectures of Linux that Rust supports but MIPS.
const EMSGSIZE: i32 = 90;

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    fn connect(port: u16) -> Box<dyn Connection> {
        let host = "127.0.0.1".to_owned();
        Udp(HostPort { host, port }).connect(TIMEOUT).unwrap()
    }

    #[test]
    fn rejects_only_messages_that_no_datagram_can_hold() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut connection = connect(receiver.local_addr().unwrap().port());
        let message = vec![b'x'; PAYLOAD_BYTES_MAX + 1];
        let result = connection.send(&message, TIMEOUT);
        assert!(matches!(result, Err(SendFault::TooLong)), "{result:?}");
        connection.send(&message[1..], TIMEOUT).unwrap();
        receiver.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut received = vec![0; message.len()];
        assert_eq!(receiver.recv(&mut received).unwrap(), PAYLOAD_BYTES_MAX);
    }

    #[test]
    fn closed_port_is_reported_for_the_previous_datagram() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut connection = connect(receiver.local_addr().unwrap().port());
        drop(receiver);
        connection.send(b"first", TIMEOUT).unwrap();
        let result = connection.send(b"second", TIMEOUT);
        assert!(
            matches!(result, Err(SendFault::PreviousLost(_))),
            "{result:?}"
        );
        connection.send(b"second", TIMEOUT).unwrap();
        let error = connection.take_error().unwrap();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(connection.take_error().is_none());
    }
}
