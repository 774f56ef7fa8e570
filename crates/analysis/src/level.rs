//! Levels of analysis.

/// What `--statistics tcp`, `app` and `full` select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Volume, timing and TCP.
    Tcp,
    /// Volume, timing, and the names and measures of applications.
    Application,
    /// Everything.
    Full,
}

impl Level {
    /// All levels.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Application, Self::Full];

    /// Returns the level's name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Application => "app",
            Self::Full => "full",
        }
    }

    /// Returns the level with this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// Returns the level that includes both.
    #[must_use]
    pub fn union(first: Option<Self>, second: Self) -> Self {
        match first {
            None => second,
            Some(first) if first == second => first,
            Some(_) => Self::Full,
        }
    }

    /// Returns whether TCP is analysed.
    #[must_use]
    pub const fn has_tcp(self) -> bool {
        !matches!(self, Self::Application)
    }

    /// Returns whether payloads are inspected.
    #[must_use]
    pub const fn has_applications(self) -> bool {
        !matches!(self, Self::Tcp)
    }
}
