//! Resolves interface names: an interface may have several.

use crate::sources::{self, KernelLink};

/// Rejects sources that share packets: one interface by two names, or a whole interface and one of
/// its queues.
///
/// # Errors
/// A one-line message that names them.
pub(crate) fn check_distinct(names: &[String]) -> Result<(), String> {
    let mut known: Vec<(&str, KernelLink)> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            return Err(format!(
                "-i {name} is given twice: its packets would be counted twice"
            ));
        }
        let Some(link) = sources::kind(name).kernel_link(name) else {
            // Not of the kernel, or an interface that does not exist: opening it reports that.
            continue;
        };
        if let Some((other, found)) = known.iter().find(|(_, known)| overlap(known, &link)) {
            let are = match found.index.is_none() || link.index.is_none() {
                true => "overlap",
                false => "are one interface",
            };
            return Err(format!(
                "-i {other} and -i {name} {are}: its packets would be counted twice"
            ));
        }
        known.push((name, link));
    }
    Ok(())
}

/// Whether two sources share packets.
fn overlap(one: &KernelLink, other: &KernelLink) -> bool {
    let is_all = one.index.is_none() || other.index.is_none();
    let is_any_queue = one.queue.is_none() || other.queue.is_none();
    (is_all || one.index == other.index) && (is_any_queue || one.queue == other.queue)
}

/// Returns the first name of the link that source number `number` belongs to.
pub(crate) fn first_of_link(names: &[String], number: usize) -> String {
    let link = link_id(&names[number]);
    let first = names.iter().find(|name| link_id(name) == link);
    first.unwrap_or(&names[number]).clone()
}

/// Returns an identifier of the source's link, the same for all of its names and queues.
pub(crate) fn link_id(name: &str) -> String {
    match sources::kind(name).kernel_link(name) {
        Some(KernelLink {
            index: Some(index), ..
        }) => format!("#{index}"),
        _ => name.split('@').next().unwrap_or(name).to_owned(),
    }
}
