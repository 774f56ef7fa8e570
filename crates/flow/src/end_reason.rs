//! Reasons for which a flow ends.

/// Why a flow ended: IPFIX flowEndReason, with separate values for TCP FIN and RST.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndReason {
    /// No packet for longer than the idle timeout (flowEndReason 1).
    #[default]
    IdleTimeout,
    /// The flow lasted for the active timeout; its next packet starts another record (flowEndReason 2).
    ActiveTimeout,
    /// Both sides of a TCP connection sent FIN (flowEndReason 3).
    TcpFin,
    /// A TCP RST (flowEndReason 3).
    TcpReset,
    /// The input ended, or the meter was stopped (flowEndReason 4).
    EndOfInput,
    /// Evicted in favour of another flow because the table was full (flowEndReason 5).
    LackOfResources,
}

impl EndReason {
    /// Returns the value of the IPFIX element flowEndReason (136).
    #[must_use]
    pub const fn ipfix(self) -> u8 {
        match self {
            Self::IdleTimeout => 1,
            Self::ActiveTimeout => 2,
            Self::TcpFin | Self::TcpReset => 3,
            Self::EndOfInput => 4,
            Self::LackOfResources => 5,
        }
    }
}
