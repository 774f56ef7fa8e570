//! Fan-out: several sockets that share the frames of an interface by flow.

use super::socket::Socket;
use super::{AfPacket, Options, io_failure};
use crate::PortError;

/// Maximum number of sockets in a group on every kernel (`PACKET_FANOUT_MAX`).
pub const MAX_MEMBERS: usize = 256;

/// Opens an interface with `members` sockets and distributes the flows over them. The kernel's hash of
/// addresses and ports is symmetric, so that one socket gets both directions of a flow. Fragments other
/// than the first have no ports and are hashed by addresses only; see [`Options::defragment`].
///
/// Each socket has a ring of the configured size. No frame is received twice; until the last socket is
/// started, some frames are not received yet and not counted.
///
/// The flows of a stopped socket are not moved to another one.
///
/// # Errors
/// The errors of [`AfPacket::open`]; if `members` is 0 or more than [`MAX_MEMBERS`].
pub fn open_fanout(options: &Options, members: usize) -> Result<Vec<AfPacket>, PortError> {
    let name = &options.interface;
    if members == 1 {
        return Ok(vec![AfPacket::open(options)?]);
    }
    if options.is_any() {
        return Err(PortError::Failed(format!(
            "{name}: frames of all interfaces cannot be distributed to {members} sockets; name the interfaces"
        )));
    }
    let limit = match u32::try_from(members) {
        Ok(limit) if (1..=MAX_MEMBERS).contains(&members) => limit,
        _ => {
            return Err(PortError::Failed(format!(
                "{name}: a fan-out group has 1 to {MAX_MEMBERS} sockets, not {members}"
            )));
        }
    };
    let mut mode = libc::PACKET_FANOUT_HASH;
    if options.defragment {
        mode |= libc::PACKET_FANOUT_FLAG_DEFRAG;
    }
    // A socket must be bound before it joins, and gets every frame in between. The filters reject all
    // frames until all sockets have joined.
    let mut ports = Vec::with_capacity(members);
    let mut group = None;
    for _ in 0..members {
        let port = AfPacket::open_rejecting_all(options)?;
        if port.ignores_outgoing {
            // In a group, the option of the group decides what is ignored, not that of the socket.
            mode |= libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        }
        let joined = match group {
            None => port
                .socket
                .create_fanout_group(mode, limit)
                .map(|id| group = Some(id)),
            Some(id) => port.socket.join_fanout_group(id, mode, limit),
        };
        joined.map_err(|error| match error.raw_os_error() {
            // On older kernels a socket can join only while its interface is up.
            Some(libc::EINVAL | libc::ENETDOWN) if port.down => PortError::Failed(format!(
                "{name}: this kernel supports fan-out only on an interface that is up (ip link set {name} up)"
            )),
            _ => io_failure(name, "join a fan-out group", &error),
        })?;
        ports.push(port);
    }
    // Closing a socket waits for frames in flight, which still follow the old rules.
    drop(Socket::open());
    for port in &ports {
        port.attach_filter(options)?;
    }
    Ok(ports)
}
