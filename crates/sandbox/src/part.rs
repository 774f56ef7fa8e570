//! The parts of the sandbox, and which of them the user turns off.

use std::fmt;
use std::str::FromStr;

/// The reason of an exemption without one.
const NO_REASON: &str = "--no-sandbox";

/// A part of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The process has no capabilities but those that the run still needs.
    Capabilities,
    /// Executing a program gives no rights.
    NoNewPrivs,
    /// The process reaches only the files and TCP ports of its inputs and outputs.
    Landlock,
    /// The process makes only the system calls that runs need.
    Seccomp,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 4] = [
        Self::Capabilities,
        Self::NoNewPrivs,
        Self::Landlock,
        Self::Seccomp,
    ];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Capabilities => "capabilities",
            Self::NoNewPrivs => "no-new-privs",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Parts that are turned off for one reason: `landlock,seccomp=NFS` or `all`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exemption {
    parts: Vec<Part>,
    reason: String,
}

impl FromStr for Exemption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (names, reason) = match text.split_once('=') {
            Some((names, reason)) => (names, reason.trim()),
            None => (text, NO_REASON),
        };
        if reason.is_empty() {
            return Err(format!("'{text}' has no reason after the ="));
        }
        let mut parts = Vec::new();
        for name in names.split(',') {
            match Part::ALL.into_iter().find(|part| part.name() == name) {
                Some(part) => parts.push(part),
                None if name == "all" => parts.extend(Part::ALL),
                None => {
                    return Err(format!(
                        "'{name}' is no part of the sandbox; write all, or any of {}, and perhaps =REASON",
                        Part::ALL.map(Part::name).join(",")
                    ));
                }
            }
        }
        Ok(Self {
            parts,
            reason: reason.to_owned(),
        })
    }
}

/// All parts that are turned off.
#[derive(Clone, Debug, Default)]
pub struct Exemptions(Vec<Exemption>);

impl Exemptions {
    /// Checks how exemptions combine.
    ///
    /// # Errors
    /// If a part is on that needs another one that is off.
    pub fn new(exemptions: Vec<Exemption>) -> Result<Self, String> {
        let all = Self(exemptions);
        let needs_no_new_privs = [Part::Landlock, Part::Seccomp];
        let on = needs_no_new_privs
            .into_iter()
            .find(|part| all.reason(*part).is_none());
        match on {
            Some(part) if all.reason(Part::NoNewPrivs).is_some() => Err(format!(
                "--no-sandbox no-new-privs: {part} needs it; use --no-sandbox no-new-privs,landlock,seccomp"
            )),
            _ => Ok(all),
        }
    }

    /// Returns why a part is turned off, if it is.
    #[must_use]
    pub fn reason(&self, part: Part) -> Option<&str> {
        self.0
            .iter()
            .find(|exemption| exemption.parts.contains(&part))
            .map(|exemption| exemption.reason.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exemptions(texts: &[&str]) -> Result<Exemptions, String> {
        let parsed = texts.iter().map(|text| text.parse());
        Exemptions::new(parsed.collect::<Result<_, _>>()?)
    }

    #[test]
    fn parts_are_turned_off_with_a_reason() {
        let some = exemptions(&["landlock,seccomp=on NFS, for now", "capabilities"]).unwrap();
        assert_eq!(some.reason(Part::Landlock), Some("on NFS, for now"));
        assert_eq!(some.reason(Part::Seccomp), Some("on NFS, for now"));
        assert_eq!(some.reason(Part::Capabilities), Some("--no-sandbox"));
        assert_eq!(some.reason(Part::NoNewPrivs), None);
        let all = exemptions(&["all"]).unwrap();
        assert!(Part::ALL.iter().all(|part| all.reason(*part).is_some()));
        for wrong in [
            "",
            "landlok",
            "landlock=",
            "landlock,",
            "seccomp= ",
            "=reason",
        ] {
            assert!(exemptions(&[wrong]).is_err(), "{wrong}");
        }
        assert!(exemptions(&["no-new-privs", "seccomp"]).is_err());
        assert!(exemptions(&["no-new-privs", "seccomp,landlock"]).is_ok());
    }
}
