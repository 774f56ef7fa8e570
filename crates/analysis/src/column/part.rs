//! Parts of the columns, which are empty, default or present together.

use crate::tcp::{Anomalies, TcpSide, limit};
use crate::{Analysis, Tcp, TcpCold};
use wire::Tunnel;
use wire::tcp::flag::{CWR, ECE, URG};

/// A group of columns that are empty, default or present together, so that one check decides for all of
/// them (see [`Analysis::part_state`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Measures that every flow has.
    #[default]
    Flow,
    /// VLAN tags. Left out if they are part of the key, which has columns of its own for them.
    Vlan,
    /// Tunnels.
    Tunnel,
    /// CE marks and fragments.
    EcnAndFragments,
    /// Inter-arrival times of each side.
    Gaps,
    /// Response times.
    Responses,
    /// Measures that every TCP flow has.
    Tcp,
    /// The TCP flags that few packets have: URG, ECE, CWR.
    RareFlags,
    /// Selective acknowledgements.
    Sacks,
    /// TCP round trips measured by acknowledgements.
    RoundTrips,
    /// TCP round trips measured by timestamps.
    TimestampRoundTrips,
    /// TCP segments out of sequence.
    Anomalies,
}

impl Part {
    /// Returns whether only TCP flows have values in this part.
    #[must_use]
    pub const fn is_tcp(self) -> bool {
        !matches!(
            self,
            Self::Flow
                | Self::Vlan
                | Self::Tunnel
                | Self::EcnAndFragments
                | Self::Gaps
                | Self::Responses
        )
    }
}

/// The state of a [`Part`] of a flow's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartState {
    /// The columns have no values.
    Empty,
    /// All values are those of a TCP flow without such events: the values of [`Analysis::empty_tcp`].
    /// Formats write a constant for all columns of the part.
    Default,
    /// The flow has values of its own.
    Present,
}

impl Analysis {
    /// Returns the state of a part of the columns.
    #[inline]
    #[must_use]
    pub fn part_state(&self, part: Part) -> PartState {
        let sides = &self.volume.sides;
        let tcp_part = |is_default: fn(&TcpSide) -> bool| {
            let tcp = self.tcp.as_ref()?;
            Some(tcp.sides.iter().all(is_default))
        };
        let cold_part = |is_default: fn(&TcpSide, &TcpCold) -> bool| {
            let sides = &self.tcp.as_ref()?.sides;
            let is_known = |side: &TcpSide| side.limits & limit::COLD == 0;
            let mut all = sides.iter().zip(&self.cold);
            // A side without cold state has no values, which are not the defaults.
            sides
                .iter()
                .any(is_known)
                .then(|| all.all(|(side, cold)| is_known(side) && is_default(side, cold)))
        };
        let is_default = match part {
            Part::Flow => Some(false),
            Part::Vlan => (self.volume.vlan != [0; 2]).then_some(false),
            Part::Tunnel => {
                let has_tunnel = self.volume.mpls_label != 0 || self.volume.tunnel != Tunnel::None;
                has_tunnel.then_some(false)
            }
            Part::EcnAndFragments => Some(
                sides
                    .iter()
                    .all(|side| side.congestion_marks | side.fragments == 0),
            ),
            Part::Gaps => Some(sides.iter().all(|side| side.gaps() == 0)),
            Part::Responses => Some(self.volume.responses == 0),
            Part::Tcp => tcp_part(|_| false),
            Part::RareFlags => cold_part(|side, _| side.has_none_of(URG | ECE | CWR)),
            Part::Sacks => {
                cold_part(|_, cold| cold.sack_blocks == 0 && cold.duplicates_reported == 0)
            }
            Part::RoundTrips => tcp_part(|side| side.rtt.count() == 0),
            Part::TimestampRoundTrips => tcp_part(|side| side.timestamp_rtt.count() == 0),
            Part::Anomalies => cold_part(|_, cold| cold.anomalies == Anomalies::default()),
        };
        match is_default {
            None => PartState::Empty,
            Some(true) => PartState::Default,
            Some(false) => PartState::Present,
        }
    }

    /// Returns the analysis of a TCP flow without any events. [`PartState::Default`] refers to its
    /// values.
    #[must_use]
    pub fn empty_tcp() -> Self {
        Self {
            tcp: Some(Tcp::default()),
            ..Self::default()
        }
    }
}
