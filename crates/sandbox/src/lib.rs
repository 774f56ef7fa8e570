//! What a run gives up once its inputs and outputs are open, so that a fault in a parser gives an
//! attacker little: capabilities, new privileges, files (Landlock), system calls (seccomp); and before
//! that, the user.
//!
//! All of it holds for every thread of the process. What the kernel does not offer is left out, and the
//! [`Status`] says so: a run without a sandbox is better than no run.

mod capabilities;
mod files;
mod needs;
mod part;
mod status;
mod system_calls;
mod user;

pub use needs::Needs;
pub use part::{Exemption, Exemptions, Part};
pub use status::{State, Status};
pub use user::{User, UserError};

use hw::confine::{Confinement, ConfinementReport, all_threads};
use std::io;

/// Gives up everything that a run with `needs` does without, except what the user exempts.
///
/// Call it after ports and outputs are open. What cannot be given up is in the status, with the reason.
#[must_use]
pub fn apply(needs: &Needs, exemptions: &Exemptions) -> Status {
    let is_on = |part| exemptions.reason(part).is_none();
    let mut status = Status::new(exemptions);
    let kept = is_on(Part::Capabilities).then(|| capabilities::kept(needs));
    let ruleset = is_on(Part::Landlock).then(|| files::ruleset(needs));
    let (landlock, no_landlock) = match ruleset {
        Some(Ok(ruleset)) => (Some(ruleset), None),
        Some(Err(reason)) => (None, Some(reason)),
        None => (None, None),
    };
    let has_landlock = landlock.is_some();
    let result = all_threads(Confinement {
        no_new_privs: is_on(Part::NoNewPrivs),
        bounding_set: kept.is_some(),
        capabilities: kept.as_ref().map(capabilities::Kept::bits),
        landlock,
    });
    let report = match result {
        Ok(report) => report,
        Err(error) => ConfinementReport {
            // The calling thread is confined, the others may not be: that is not in force.
            no_new_privs: Some(copy(&error)),
            capabilities: Some(copy(&error)),
            landlock: Some(error),
            ..ConfinementReport::default()
        },
    };
    if let Some(kept) = &kept {
        status.capabilities = capabilities::state(kept, &report);
    }
    if is_on(Part::NoNewPrivs) {
        status.no_new_privs = state(report.no_new_privs.as_ref(), String::new());
    }
    if has_landlock {
        status.landlock = state(report.landlock.as_ref(), files::detail());
    }
    if let Some(reason) = no_landlock {
        status.landlock = State::Missing(reason);
    }
    // Last, since it forbids what the steps before it do.
    if is_on(Part::Seccomp) {
        status.seccomp = match system_calls::apply(needs) {
            Ok(allowed) => State::InForce(format!("{allowed} system calls")),
            Err(reason) => State::Missing(reason),
        };
    }
    status.threads = report.threads;
    status.unreached = report.unreached.len();
    status
}

/// Returns what the running kernel offers, as a [`Status`] with nothing turned off.
#[must_use]
pub fn offered() -> Status {
    let mut status = Status::new(&Exemptions::default());
    status.landlock = match files::offered() {
        Ok(detail) => State::InForce(detail),
        Err(reason) => State::Missing(reason),
    };
    status.seccomp = if hw::confine::can_filter_system_calls() {
        State::InForce(String::new())
    } else {
        State::Missing("the kernel does not filter system calls".into())
    };
    status
}

/// Creates the files of this process without access for others, and without write access for its
/// group: 0640, or less if the caller's umask allows less.
pub fn restrict_new_files() {
    use rustix::fs::Mode;
    let before = rustix::process::umask(Mode::RWXO | Mode::WGRP);
    rustix::process::umask(before | Mode::RWXO | Mode::WGRP);
}

fn state(error: Option<&io::Error>, detail: String) -> State {
    match error {
        None => State::InForce(detail),
        Some(error) => State::Missing(error.to_string()),
    }
}

fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::other(error.to_string()),
    }
}
