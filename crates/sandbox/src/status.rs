//! What is in force.

use crate::part::{Exemptions, Part};
use serde::Serialize;
use std::fmt;

/// The state of a part of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "detail")]
pub enum State {
    /// In force, with a detail or an empty text.
    InForce(String),
    /// Turned off by the user, with the reason.
    Off(String),
    /// Not in force, with the reason.
    Missing(String),
}

/// What is in force.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The user that the process changed to, if it did.
    pub user: Option<String>,
    /// See [`Part::Capabilities`].
    pub capabilities: State,
    /// See [`Part::NoNewPrivs`].
    pub no_new_privs: State,
    /// See [`Part::Landlock`].
    pub landlock: State,
    /// See [`Part::Seccomp`].
    pub seccomp: State,
    /// Threads that ran already and are confined; those that they start are, too.
    pub threads: u32,
    /// Threads that ran already and are not confined by capabilities and Landlock.
    pub unreached: usize,
}

impl Status {
    pub(crate) fn new(exemptions: &Exemptions) -> Self {
        let state = |part| match exemptions.reason(part) {
            Some(reason) => State::Off(reason.to_owned()),
            None => State::InForce(String::new()),
        };
        Self {
            user: None,
            capabilities: state(Part::Capabilities),
            no_new_privs: state(Part::NoNewPrivs),
            landlock: state(Part::Landlock),
            seccomp: state(Part::Seccomp),
            threads: 0,
            unreached: 0,
        }
    }

    /// Returns the parts, each with its name in sentences and its state.
    #[must_use]
    pub const fn parts(&self) -> [(&'static str, &State); 4] {
        [
            ("capabilities", &self.capabilities),
            ("no_new_privs", &self.no_new_privs),
            ("Landlock", &self.landlock),
            ("seccomp", &self.seccomp),
        ]
    }

    /// Returns a sentence on each part that should be in force and is not.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self
            .parts()
            .into_iter()
            .filter_map(|(name, state)| match state {
                State::Missing(reason) => Some(format!("sandbox: {name} not in force: {reason}")),
                _ => None,
            })
            .collect();
        if self.unreached > 0 {
            warnings.push(format!(
                "sandbox: {} threads of libraries keep capabilities and file access, because they block signals",
                self.unreached
            ));
        }
        warnings
    }
}

impl fmt::Display for Status {
    /// Writes one line.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts = Vec::new();
        if let Some(user) = &self.user {
            texts.push(format!("user {user}"));
        }
        for (name, state) in self.parts() {
            // Of the other parts the name says what is in force.
            let in_force = match name {
                "capabilities" => "no capabilities",
                name => name,
            };
            texts.push(match state {
                State::InForce(detail) if detail.is_empty() => in_force.to_owned(),
                State::InForce(detail) => format!("{in_force} ({detail})"),
                State::Off(reason) => format!("{name}: off ({reason})"),
                State::Missing(reason) => format!("{name}: missing ({reason})"),
            });
        }
        if self.unreached > 0 {
            texts.push(format!("{} threads not confined", self.unreached));
        }
        formatter.write_str(&texts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_what_is_in_force_off_and_missing() {
        let exemptions = Exemptions::new(vec!["seccomp=a debugger".parse().unwrap()]).unwrap();
        let mut status = Status::new(&exemptions);
        status.user = Some("nobody".into());
        status.landlock = State::Missing("the kernel does not have it".into());
        assert_eq!(
            status.to_string(),
            "user nobody, no capabilities, no_new_privs, Landlock: missing (the kernel does not have it), \
             seccomp: off (a debugger)"
        );
        assert_eq!(
            status.warnings(),
            ["sandbox: Landlock not in force: the kernel does not have it"]
        );
    }
}
