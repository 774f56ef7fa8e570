//! Which capabilities a run keeps.

use crate::needs::Needs;
use crate::status::State;
use hw::confine::ConfinementReport;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::path::Path;

/// Capabilities that are kept, each with the reason.
#[derive(Debug, Default)]
pub(crate) struct Kept(Vec<(CapabilitySet, &'static str, String)>);

impl Kept {
    pub(crate) fn bits(&self) -> u64 {
        self.0.iter().map(|(set, ..)| set.bits()).sum()
    }

    fn keep(&mut self, set: CapabilitySet, name: &'static str, reason: String) {
        // What the process does not have cannot be kept.
        if capabilities(None).is_ok_and(|has| has.permitted.contains(set)) {
            self.0.push((set, name, reason));
        }
    }
}

/// Returns what a run with `needs` keeps: nothing, unless its threads get a real-time policy, or it
/// reaches its files only past their permissions.
pub(crate) fn kept(needs: &Needs) -> Kept {
    let mut kept = Kept::default();
    if needs.real_time {
        kept.keep(
            CapabilitySet::SYS_NICE,
            "CAP_SYS_NICE",
            "--schedule".to_owned(),
        );
    }
    let (reads, writes) = (needs.reads.clone(), needs.written_directories());
    // In a thread that has given them up: permissions, groups and access lists then count as they will.
    let checked = std::thread::Builder::new().spawn(move || {
        let Ok(mut sets) = capabilities(None) else {
            return (None, None);
        };
        sets.effective
            .remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
        if set_capabilities(None, sets).is_err() {
            return (None, None);
        }
        let write = Access::WRITE_OK | Access::EXEC_OK;
        let unwritable = writes.into_iter().find(|path| match path.is_dir() {
            true => !is_accessible(path, write),
            false => !is_accessible(path, Access::WRITE_OK),
        });
        let unreadable = reads
            .into_iter()
            .find(|path| path.exists() && !is_accessible(path, Access::READ_OK));
        (unwritable, unreadable)
    });
    let (unwritable, unreadable) = checked
        .ok()
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default();
    if let Some(path) = unwritable {
        let reason = format!("{} is not writable without it", path.display());
        kept.keep(CapabilitySet::DAC_OVERRIDE, "CAP_DAC_OVERRIDE", reason);
    }
    if let Some(path) = unreadable {
        let reason = format!("{} is not readable without it", path.display());
        let set = CapabilitySet::DAC_READ_SEARCH;
        kept.keep(set, "CAP_DAC_READ_SEARCH", reason);
    }
    kept
}

fn is_accessible(path: &Path, access: Access) -> bool {
    accessat(CWD, path, access, AtFlags::EACCESS).is_ok()
}

pub(crate) fn state(kept: &Kept, report: &ConfinementReport) -> State {
    if let Some(error) = &report.capabilities {
        return State::Missing(error.to_string());
    }
    let mut details: Vec<String> = kept
        .0
        .iter()
        .map(|(_, name, reason)| format!("{name} kept: {reason}"))
        .collect();
    if report.keeps_bounding_set {
        // Harmless with no_new_privs: no program gains from it.
        details.push("bounding set kept: emptying it needs CAP_SETPCAP".to_owned());
    }
    State::InForce(details.join("; "))
}
