//! Resolves interface names: an interface may have several.

use crate::dpdk;
use port::af_packet::Options;
use rustix::net::netdevice::name_to_index;
use std::os::unix::net::UnixDatagram;

/// A source with the interface's index in the kernel.
struct ResolvedSource<'a> {
    name: &'a str,
    index: u32,
    queue: Option<u16>,
}

/// Rejects sources that share packets: one interface by two names, or a whole interface and one of
/// its queues.
///
/// # Errors
/// A one-line message that names them.
pub(crate) fn check_distinct(names: &[String]) -> Result<(), String> {
    let mut known: Vec<ResolvedSource<'_>> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            return Err(format!(
                "-i {name} is given twice: its packets would be counted twice"
            ));
        }
        let Some(source) = resolve(name) else {
            // A DPDK device, or an interface that does not exist: opening it reports that.
            continue;
        };
        let overlaps = |other: &&ResolvedSource<'_>| {
            other.index == source.index
                && (other.queue.is_none() || source.queue.is_none() || other.queue == source.queue)
        };
        if let Some(other) = known.iter().find(overlaps) {
            return Err(format!(
                "-i {} and -i {name} are one interface: its packets would be counted twice",
                other.name
            ));
        }
        known.push(source);
    }
    Ok(())
}

/// Returns an identifier of the source's link, the same for all of its names and queues.
pub(crate) fn link_id(name: &str) -> String {
    match resolve(name) {
        Some(source) => format!("#{}", source.index),
        None => name.split('@').next().unwrap_or(name).to_owned(),
    }
}

fn resolve(name: &str) -> Option<ResolvedSource<'_>> {
    if dpdk::is_device(name) {
        return None;
    }
    let Options {
        interface, queue, ..
    } = Options::from_source(name).ok()?;
    // The ioctl works on any socket.
    let socket = UnixDatagram::unbound().ok()?;
    Some(ResolvedSource {
        name,
        index: name_to_index(socket, &interface).ok()?,
        queue,
    })
}
