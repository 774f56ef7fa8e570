//! Which interface a name stands for: an interface may have several.

use crate::dpdk;
use port::af_packet::Options;
use rustix::net::netdevice::name_to_index;
use std::os::unix::net::UnixDatagram;

/// A source as the kernel knows it.
struct Known<'a> {
    name: &'a str,
    index: u32,
    queue: Option<u16>,
}

/// Refuses sources of which two have packets in common: one interface by two names, or one of its
/// queues beside the whole.
///
/// # Errors
/// One line that names them.
pub(crate) fn check(names: &[String]) -> Result<(), String> {
    let mut known: Vec<Known<'_>> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            return Err(format!(
                "-i {name} is given twice: its packets would count twice"
            ));
        }
        let Some(source) = find(name) else {
            // No interface of the kernel, or none that is there: opening it tells.
            continue;
        };
        let meets = |other: &&Known<'_>| {
            other.index == source.index
                && (other.queue.is_none() || source.queue.is_none() || other.queue == source.queue)
        };
        if let Some(other) = known.iter().find(meets) {
            return Err(format!(
                "-i {} and -i {name} are one interface: packets would count twice",
                other.name
            ));
        }
        known.push(source);
    }
    Ok(())
}

/// The link that a source is of, the same for all names and queues of it.
pub(crate) fn link(name: &str) -> String {
    match find(name) {
        Some(source) => format!("#{}", source.index),
        None => name.split('@').next().unwrap_or(name).to_owned(),
    }
}

fn find(name: &str) -> Option<Known<'_>> {
    if dpdk::is_device(name) {
        return None;
    }
    let Options {
        interface, queue, ..
    } = Options::from_source(name).ok()?;
    // Any socket will do.
    let socket = UnixDatagram::unbound().ok()?;
    Some(Known {
        name,
        index: name_to_index(socket, &interface).ok()?,
        queue,
    })
}
