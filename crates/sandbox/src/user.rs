//! Changes the user of the process.

use crate::part::{Exemptions, Part};
use hw::confine::{Confinement, all_threads};
use nix::unistd::{Gid, Uid, initgroups, setgroups, setresgid, setresuid};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities};
use std::ffi::CString;

/// A user that exists.
#[derive(Clone, Debug)]
pub struct User {
    name: String,
    uid: Uid,
    gid: Gid,
}

/// Why the user cannot be changed: a one-line message.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// There is no such user.
    #[error("--user {0}: no such user; create it: sudo useradd --system {0}")]
    Unknown(String),
    /// No permission to change the user.
    #[error(
        "--user {name}: changing the user needs root; run with sudo, or omit --user and run as {name}"
    )]
    Permission {
        /// The user.
        name: String,
    },
    /// Any other system error.
    #[error("--user {name}: {source}")]
    System {
        /// The user.
        name: String,
        /// The system error.
        source: std::io::Error,
    },
}

impl User {
    /// Looks up a user by name or number.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(name: &str) -> Result<Self, UserError> {
        let found = match name.parse() {
            Ok(number) => nix::unistd::User::from_uid(Uid::from_raw(number)),
            Err(_) => nix::unistd::User::from_name(name),
        };
        match found {
            Ok(Some(user)) => Ok(Self {
                name: user.name,
                uid: user.uid,
                gid: user.gid,
            }),
            _ => Err(UserError::Unknown(name.to_owned())),
        }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Changes the user and the groups of all threads, for good. No capability is left, except that for
    /// a real-time policy if `real_time`.
    ///
    /// # Errors
    /// If it is not permitted.
    pub fn become_user(&self, real_time: bool, exemptions: &Exemptions) -> Result<(), UserError> {
        if Uid::current() == self.uid && Uid::effective() == self.uid && !self.uid.is_root() {
            return Ok(());
        }
        let failed = |source: nix::Error| match source {
            nix::Error::EPERM => UserError::Permission {
                name: self.name.clone(),
            },
            source => UserError::System {
                name: self.name.clone(),
                source: source.into(),
            },
        };
        let system = |source: rustix::io::Errno| UserError::System {
            name: self.name.clone(),
            source: source.into(),
        };
        match CString::new(self.name.as_str()) {
            Ok(name) => initgroups(&name, self.gid),
            Err(_) => setgroups(&[self.gid]),
        }
        .map_err(failed)?;
        setresgid(self.gid, self.gid, self.gid).map_err(failed)?;
        if exemptions.reason(Part::Capabilities).is_none() {
            // The user that is left may not do this later. An error shows in the status.
            let _ = all_threads(Confinement {
                bounding_set: true,
                ..Confinement::default()
            });
        }
        if real_time {
            set_keep_capabilities(true).map_err(system)?;
        }
        // libc changes all threads.
        setresuid(self.uid, self.uid, self.uid).map_err(failed)?;
        if real_time {
            let kept = CapabilitySet::SYS_NICE;
            let sets = CapabilitySets {
                effective: kept,
                permitted: kept,
                inheritable: CapabilitySet::empty(),
            };
            set_capabilities(None, sets).map_err(system)?;
        }
        Ok(())
    }
}
