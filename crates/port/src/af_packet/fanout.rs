//! Several sockets that share the frames of one interface by flow.

use super::socket::Socket;
use super::{AfPacket, Options, failure};
use crate::PortError;

/// The most sockets in one group that every kernel admits (`PACKET_FANOUT_MAX`).
pub const MAX_MEMBERS: usize = 256;

/// Opens an interface with `members` sockets, each of which gets the frames of its share of the
/// flows: the kernel hashes the addresses and ports, the same for both directions of a flow, so a flow and
/// the answers to it meet at one socket. Fragments other than the first carry no ports: they
/// are hashed by addresses alone, see [`Options::defragment`].
///
/// Each socket has a ring of the size that the options say. All start to receive together, with
/// no frame twice; between the first and the last of them frames are not yet received, and not
/// counted.
///
/// When one of them is stopped, its flows end with it, so that no flow changes sockets.
///
/// # Errors
/// Those of [`AfPacket::open`], and when `members` is 0 or more than [`MAX_MEMBERS`].
pub fn open_fanout(options: &Options, members: usize) -> Result<Vec<AfPacket>, PortError> {
    let name = &options.interface;
    if members == 1 {
        return Ok(vec![AfPacket::open(options)?]);
    }
    let limit = match u32::try_from(members) {
        Ok(limit) if (1..=MAX_MEMBERS).contains(&members) => limit,
        _ => {
            return Err(PortError::Failed(format!(
                "{name}: frames can be shared among 1 to {MAX_MEMBERS} sockets, not {members}"
            )));
        }
    };
    let mut mode = libc::PACKET_FANOUT_HASH;
    if options.defragment {
        mode |= libc::PACKET_FANOUT_FLAG_DEFRAG;
    }
    // A socket gets every frame between its binding and its joining, which have to come in this
    // order: until all have joined the filters let nothing through.
    let mut ports = Vec::with_capacity(members);
    let mut group = None;
    for _ in 0..members {
        let port = AfPacket::open_deaf(options)?;
        if port.ignores_outgoing {
            // What a socket of a group ignores is the group's to say.
            mode |= libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        }
        let joined = match group {
            None => port
                .socket
                .found_group(mode, limit)
                .map(|id| group = Some(id)),
            Some(id) => port.socket.join_group(id, mode, limit),
        };
        joined.map_err(|error| match error.raw_os_error() {
            // Older kernels let a socket join only while its interface is up.
            Some(libc::EINVAL | libc::ENETDOWN) if port.down => PortError::Failed(format!(
                "{name}: this kernel shares frames only of an interface that is up (ip link set {name} up)"
            )),
            _ => failure(name, "join a fan-out group", &error),
        })?;
        ports.push(port);
    }
    // Closing a socket waits for the frames that are on their way by the old rules.
    drop(Socket::open());
    for port in &ports {
        port.filter(options)?;
    }
    Ok(ports)
}
