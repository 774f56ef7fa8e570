//! Definitions of a flow.

/// Which packets form a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowDefinition {
    /// Same addresses, ports and protocol, one direction.
    #[default]
    FiveTuple,
    /// The same, both directions in one flow.
    Bidirectional,
    /// Same source address.
    Source,
    /// Same destination address.
    Destination,
    /// Same source and destination address.
    SourceDestination,
    /// Same RSS hash: the device's, or a computed one if the device gives none. The headers of frames
    /// with a hash are not parsed, and two flows with the same hash merge.
    Rss,
}

impl FlowDefinition {
    /// Returns whether the source and the destination address are part of a flow's key.
    #[must_use]
    pub const fn addresses(self) -> [bool; 2] {
        match self {
            Self::FiveTuple | Self::Bidirectional | Self::SourceDestination => [true, true],
            Self::Source => [true, false],
            Self::Destination => [false, true],
            Self::Rss => [false, false],
        }
    }

    /// Returns whether ports and protocol are part of a flow's key.
    #[must_use]
    pub const fn has_ports(self) -> bool {
        matches!(self, Self::FiveTuple | Self::Bidirectional)
    }
}
