//! What is measured of a packet.

use std::fmt;
use std::str::FromStr;

/// What a statistic is computed of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// Length of the whole frame on the wire, bytes.
    Size,
    /// Time since the flow's previous packet: nanoseconds within, seconds in reports.
    InterArrivalTime,
    /// The interleaving gap of the FloWatcher paper: packets between two consecutive packets of the
    /// flow, of other flows or of none. Those that a filter left out had no number.
    Gap,
}

impl Value {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Size, Self::InterArrivalTime, Self::Gap];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::InterArrivalTime => "iat",
            Self::Gap => "gap",
        }
    }

    /// What its columns begin with.
    pub(super) const fn column_prefix(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::InterArrivalTime => "interArrivalTime",
            Self::Gap => "gap",
        }
    }

    /// What its columns end with: the unit, where there is one.
    pub(super) const fn column_suffix(self) -> &'static str {
        match self {
            Self::Size => "Bytes",
            Self::InterArrivalTime => "Seconds",
            Self::Gap => "",
        }
    }

    /// Unit in reports.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Size => "bytes",
            Self::InterArrivalTime => "seconds",
            Self::Gap => "packets",
        }
    }

    /// What it is, for definitions of columns.
    pub(super) const fn definition(self) -> &'static str {
        match self {
            Self::Size => "the length on the wire of the flow's packets (whole frames)",
            Self::InterArrivalTime => "the time between two consecutive packets of the flow",
            Self::Gap => {
                "the interleaving gap: packets of other flows or of none (ARP and the like), without \
                 those that a filter left out, between two consecutive packets of the flow"
            }
        }
    }

    /// By how much a number is divided for reports.
    pub(super) const fn divisor(self) -> f64 {
        match self {
            Self::Size | Self::Gap => 1.0,
            Self::InterArrivalTime => 1e9,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no value's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no value is called `{name}`: there are {}", Value::ALL.map(Value::name).join(", "))]
pub struct UnknownValue {
    /// The name that was given.
    pub name: String,
}

impl FromStr for Value {
    type Err = UnknownValue;

    fn from_str(name: &str) -> Result<Self, UnknownValue> {
        Self::ALL
            .into_iter()
            .find(|value| value.name() == name)
            .ok_or_else(|| UnknownValue {
                name: name.to_owned(),
            })
    }
}
