//! The values that statistics are computed from.

use std::fmt;
use std::str::FromStr;

/// No value: the gap and the inter-arrival time of a flow's first packet. It is larger than any value:
/// gaps have 48 bits, inter-arrival times 63.
pub const NO_VALUE: u64 = u64::MAX;

/// A value measured for each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// Length of the whole frame on the wire, in bytes.
    Size,
    /// Time since the flow's previous packet: nanoseconds internally, seconds in reports.
    InterArrivalTime,
    /// The interleaving gap of the FloWatcher paper: the number of other packets, of other flows or of
    /// none, between two consecutive packets of the flow. Filtered packets are not numbered, so they do
    /// not count.
    Gap,
}

impl Value {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Size, Self::InterArrivalTime, Self::Gap];

    /// Returns the name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::InterArrivalTime => "iat",
            Self::Gap => "gap",
        }
    }

    /// Returns the prefix of its columns.
    pub(super) const fn column_prefix(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::InterArrivalTime => "interArrivalTime",
            Self::Gap => "gap",
        }
    }

    /// Returns the suffix of its columns: the unit, if there is one.
    pub(super) const fn column_suffix(self) -> &'static str {
        match self {
            Self::Size => "Bytes",
            Self::InterArrivalTime => "Seconds",
            Self::Gap => "",
        }
    }

    /// Returns the unit in reports.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Size => "bytes",
            Self::InterArrivalTime => "seconds",
            Self::Gap => "packets",
        }
    }

    /// Returns its definition, for the definitions of columns.
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

    /// Returns the divisor from the internal unit to that of reports.
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

/// A name that is not the name of a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown value `{name}`: expected one of {}", Value::ALL.map(Value::name).join(", "))]
pub struct UnknownValue {
    /// The unknown name.
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
