//! Cold TCP state: measures of rare events. A side gets it from a pool at its first such event; most
//! sides never need it.

use super::anomaly::Anomalies;
use super::holes::Holes;
use super::sent::after;
use super::side::TcpSide;
use super::{flag, limit};
use hw::pool::{FreeListNode, Pool};
use wire::tcp::flag::{CWR, ECE, FIN, RST, SYN, URG};

/// Flags that few flows send more than once.
const COUNTED_FLAGS: [u8; 5] = [FIN, RST, URG, ECE, CWR];

/// All [`COUNTED_FLAGS`].
const ANY_COUNTED_FLAG: u8 =
    COUNTED_FLAGS[0] | COUNTED_FLAGS[1] | COUNTED_FLAGS[2] | COUNTED_FLAGS[3] | COUNTED_FLAGS[4];

/// Cold state of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct TcpCold {
    /// Segments out of sequence.
    pub anomalies: Anomalies,
    pub(super) holes: Holes,
    /// The sequence number whose acknowledgement ends fast recovery, with
    /// [`flag::IN_RECOVERY`].
    pub(super) recovery: u32,
    /// SACK blocks sent.
    pub sack_blocks: u32,
    /// Packets that advertised a window of zero.
    pub zero_windows: u16,
    /// SACK blocks that report duplicate data (RFC 2883).
    pub duplicates_reported: u16,
    /// Connections that the side opened on the flow's ports, except the first.
    more_connections: u16,
    /// For each of [`COUNTED_FLAGS`], the packets with it, except the first.
    repeated_flags: [u16; COUNTED_FLAGS.len()],
}

impl FreeListNode for TcpCold {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.sack_blocks
    }
}

/// A pool of cold states.
pub type TcpColdPool = Pool<TcpCold>;

impl TcpSide {
    /// Updates the side's cold state, which is allocated if necessary. If the pool is empty, sets
    /// [`limit::COLD`] instead.
    pub(super) fn update_cold(
        &mut self,
        pool: &mut TcpColdPool,
        update: impl FnOnce(&mut TcpCold),
    ) {
        if pool.get(self.cold).is_none() {
            self.cold = pool.allocate();
        }
        match pool.get_mut(self.cold) {
            Some(cold) => update(cold),
            None => self.limits |= limit::COLD,
        }
    }

    /// Counts the flags of a packet, except ACK and PSH.
    #[inline(never)]
    pub(super) fn count_tcp_flags(&mut self, tcp_flags: u8, pool: &mut TcpColdPool) {
        let repeated = tcp_flags & self.tcp_flags_seen & ANY_COUNTED_FLAG;
        self.tcp_flags_seen |= tcp_flags;
        self.syns = self.syns.saturating_add(u16::from(tcp_flags & SYN != 0));
        if tcp_flags & FIN != 0 {
            self.flags |= flag::FIN;
        }
        if repeated != 0 {
            self.update_cold(pool, |cold| {
                for (flag, count) in COUNTED_FLAGS.iter().zip(&mut cold.repeated_flags) {
                    *count = count.saturating_add(u16::from(repeated & flag != 0));
                }
            });
        }
    }

    /// Counts a connection that the side opens.
    pub(super) fn count_connection(&mut self, pool: &mut TcpColdPool) {
        if self.flags & flag::OPENED_CONNECTION == 0 {
            self.flags |= flag::OPENED_CONNECTION;
        } else {
            self.update_cold(pool, |cold| {
                cold.more_connections = cold.more_connections.saturating_add(1);
            });
        }
    }

    /// Returns the number of connections that the side opened on the flow's ports.
    pub(super) const fn connections(&self, cold: &TcpCold) -> u16 {
        let first = (self.flags & flag::OPENED_CONNECTION != 0) as u16;
        cold.more_connections.saturating_add(first)
    }

    #[inline(never)]
    pub(super) fn count_zero_window(&mut self, pool: &mut TcpColdPool) {
        self.update_cold(pool, |cold| {
            cold.zero_windows = cold.zero_windows.saturating_add(1);
        });
    }

    /// Returns the number of packets with `flag`, one of FIN, RST, URG, ECE and CWR; at most 65,535.
    #[must_use]
    pub fn flag_count(&self, flag: u8, cold: &TcpCold) -> u16 {
        let first = u16::from(self.tcp_flags_seen & flag != 0);
        let index = COUNTED_FLAGS.iter().position(|&it| it == flag);
        first.saturating_add(index.map_or(0, |index| cold.repeated_flags[index]))
    }

    /// Returns whether no packet had any of `flags`.
    #[must_use]
    pub const fn has_none_of(&self, flags: u8) -> bool {
        self.tcp_flags_seen & flags == 0
    }

    /// Adds a hole. If there is no room, gives up the oldest one.
    pub(super) fn add_hole(&mut self, from: u32, to: u32, pool: &mut TcpColdPool) {
        let mut given_up = Some([from, to]);
        self.update_cold(pool, |cold| given_up = cold.holes.insert(from, to));
        self.give_up_hole(given_up, pool);
    }

    /// Removes bytes that arrived from the holes. Returns how many of them were in one.
    pub(super) fn fill_holes(&mut self, from: u32, to: u32, pool: &mut TcpColdPool) -> u32 {
        let Some(cold) = pool.get_mut(self.cold) else {
            return 0;
        };
        let (filled, given_up) = cold.holes.fill(from, to);
        self.give_up_hole(given_up, pool);
        filled
    }

    /// Counts the bytes of a hole that is no longer kept, if any.
    fn give_up_hole(&mut self, hole: Option<[u32; 2]>, pool: &mut TcpColdPool) {
        let Some([from, to]) = hole else {
            return;
        };
        let is_open = self.flags & flag::ACKNOWLEDGED == 0 || after(to, self.acknowledged);
        self.limits |= if is_open { limit::HOLES } else { limit::MISSED };
        let bytes = u64::from(to.wrapping_sub(from));
        self.update_cold(pool, |cold| cold.anomalies.given_up_bytes += bytes);
    }

    /// Forgets the holes. Their acknowledged bytes stay counted as missed.
    pub(super) fn forget_holes(&self, pool: &mut TcpColdPool) {
        if let Some(cold) = pool.get_mut(self.cold) {
            cold.anomalies.given_up_bytes += self.missed_in_holes(cold);
            cold.holes = Holes::default();
        }
    }

    /// Starts the next record: resets the counters. The connections stay, and so do the holes that are
    /// not acknowledged yet. The acknowledged ones count in the record that ended.
    pub(super) fn reset_cold(&mut self, pool: &mut TcpColdPool) {
        let Some(cold) = pool.get_mut(self.cold) else {
            return;
        };
        let mut holes = cold.holes;
        if self.flags & flag::ACKNOWLEDGED != 0 {
            let below = self.missed_below(cold);
            if holes.bytes_below(below) > 0 {
                self.limits |= limit::MISSED;
            }
            holes.remove_below(below);
        }
        *cold = TcpCold {
            holes,
            recovery: cold.recovery,
            more_connections: cold.more_connections,
            ..TcpCold::default()
        };
        let is_needed = self.flags & flag::IN_RECOVERY != 0 || cold.more_connections > 0;
        if cold.holes.is_empty() && !is_needed {
            pool.free(std::mem::take(&mut self.cold));
        }
    }

    /// Returns the acknowledged bytes in holes, which the probe missed.
    fn missed_in_holes(&self, cold: &TcpCold) -> u64 {
        if self.flags & flag::ACKNOWLEDGED == 0 || cold.holes.is_empty() {
            return 0;
        }
        cold.holes.bytes_below(self.missed_below(cold))
    }

    /// Returns the sequence number below which acknowledged holes are missed bytes.
    ///
    /// A hole of one sequence number behind all data is not: it is that of a FIN which the probe missed.
    /// If the side's data or FIN continues behind it, it was a byte.
    fn missed_below(&self, cold: &TcpCold) -> u32 {
        let last = self.next.wrapping_sub(1);
        let is_lost_fin = self.flags & flag::FIN == 0 && cold.holes.contains(last, self.next);
        if is_lost_fin && after(self.acknowledged, last) {
            last
        } else {
            self.acknowledged
        }
    }

    /// Returns the bytes that the probe missed: acknowledged but never seen.
    ///
    /// If the peer sent a FIN, and of the end of this side nothing was seen, the last sequence number that
    /// the peer acknowledged is that of this side's FIN, also behind data that was missed.
    pub(super) fn missed_bytes(&self, peer: &Self, cold: &TcpCold) -> u64 {
        let missed = self.missed_in_holes(cold);
        let last = self.next.wrapping_sub(1);
        let ends_with_fin = missed > 0
            && peer.flags & flag::FIN != 0
            && self.has_none_of(FIN | RST)
            && self.flags & flag::FIN == 0
            && self.missed_below(cold) == self.next
            && cold.holes.ends_at(self.next)
            && after(last, self.start);
        missed - u64::from(ends_with_fin) + cold.anomalies.given_up_bytes
    }
}

const _: () = assert!(size_of::<TcpCold>() == 112);
