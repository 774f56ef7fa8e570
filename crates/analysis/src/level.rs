//! What is analysed of every flow.

/// What `--statistics tcp`, `app` and `full` choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Volume, timing and TCP.
    Tcp,
    /// Volume, timing and the names and measures of applications.
    Application,
    /// All of it.
    Full,
}

impl Level {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Application, Self::Full];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Application => "app",
            Self::Full => "full",
        }
    }

    /// The level that is called `name`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// What two levels choose together.
    #[must_use]
    pub fn both(first: Option<Self>, second: Self) -> Self {
        match first {
            None => second,
            Some(first) if first == second => first,
            Some(_) => Self::Full,
        }
    }

    /// Whether TCP is analysed.
    #[must_use]
    pub const fn has_tcp(self) -> bool {
        !matches!(self, Self::Application)
    }

    /// Whether payloads are looked into.
    #[must_use]
    pub const fn has_applications(self) -> bool {
        !matches!(self, Self::Tcp)
    }
}
