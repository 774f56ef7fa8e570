//! What is kept of a side only once it was seen: of most it never is.

use super::TcpSide;
use super::anomaly::Anomalies;
use super::holes::Holes;
use super::{limit, mark};
use hw::pool::{Linked, Pool};
use wire::tcp::flag::{CWR, ECE, FIN, RST, SYN, URG};

/// Flags that few flows have more than once.
const FLAGS: [u8; 5] = [FIN, RST, URG, ECE, CWR];

/// All of them.
const ANY_FLAG: u8 = FLAGS[0] | FLAGS[1] | FLAGS[2] | FLAGS[3] | FLAGS[4];

/// What is rare, of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Rare {
    /// What was out of sequence.
    pub anomalies: Anomalies,
    pub(super) holes: Holes,
    /// A loss is repaired when this is acknowledged.
    pub(super) recovery: u32,
    /// SACK blocks.
    pub sack_blocks: u32,
    /// Packets that told a window of zero.
    pub zero_windows: u16,
    /// SACK blocks that report a duplicate (RFC 2883).
    pub duplicates_reported: u16,
    /// Connections that it opened on the ports of the flow, but for the first.
    more_connections: u16,
    /// Of each of [`FLAGS`] the packets with it but for the first.
    again: [u16; FLAGS.len()],
}

impl Linked for Rare {
    fn link(&mut self) -> &mut u32 {
        &mut self.sack_blocks
    }
}

/// The places for what is rare.
pub type RarePool = Pool<Rare>;

impl TcpSide {
    /// Notes something rare of this side, if there is a place for it.
    pub(super) fn note(&mut self, pool: &mut RarePool, note: impl FnOnce(&mut Rare)) {
        if pool.get(self.rare).is_none() {
            self.rare = pool.take();
        }
        match pool.get_mut(self.rare) {
            Some(rare) => note(rare),
            None => self.limits |= limit::RARE,
        }
    }

    /// Counts flags other than ACK and PSH.
    #[inline(never)]
    pub(super) fn count_flags(&mut self, flags: u8, pool: &mut RarePool) {
        let again = flags & self.flags_seen & ANY_FLAG;
        self.flags_seen |= flags;
        self.syns = self.syns.saturating_add(u16::from(flags & SYN != 0));
        if flags & FIN != 0 {
            self.marks |= mark::FIN;
        }
        if again != 0 {
            self.note(pool, |rare| {
                for (flag, count) in FLAGS.iter().zip(&mut rare.again) {
                    *count = count.saturating_add(u16::from(again & flag != 0));
                }
            });
        }
    }

    /// Counts a connection that it opens.
    pub(super) fn count_connection(&mut self, pool: &mut RarePool) {
        if self.marks & mark::OPENED == 0 {
            self.marks |= mark::OPENED;
        } else {
            self.note(pool, |rare| {
                rare.more_connections = rare.more_connections.saturating_add(1);
            });
        }
    }

    /// Connections that it opened on the ports of the flow.
    pub(super) const fn connections(&self, rare: &Rare) -> u16 {
        let first = (self.marks & mark::OPENED != 0) as u16;
        rare.more_connections.saturating_add(first)
    }

    #[inline(never)]
    pub(super) fn count_zero_window(&mut self, pool: &mut RarePool) {
        self.note(pool, |rare| {
            rare.zero_windows = rare.zero_windows.saturating_add(1);
        });
    }

    /// Packets with FIN, RST, URG, ECE or CWR, at most 65,535.
    #[must_use]
    pub fn flag_count(&self, flag: u8, rare: &Rare) -> u16 {
        let first = u16::from(self.flags_seen & flag != 0);
        let place = FLAGS.iter().position(|&it| it == flag);
        first.saturating_add(place.map_or(0, |place| rare.again[place]))
    }

    /// Whether no packet had any of `flags`.
    #[must_use]
    pub const fn never_had(&self, flags: u8) -> bool {
        self.flags_seen & flags == 0
    }

    /// Adds a gap; one for which there is no place is given up.
    pub(super) fn add_gap(&mut self, from: u32, to: u32, pool: &mut RarePool) {
        let mut given_up = Some([from, to]);
        self.note(pool, |rare| given_up = rare.holes.add(from, to));
        self.give_up(given_up, pool);
    }

    /// Takes bytes out of the gaps: how many of them were in one.
    pub(super) fn fill_gaps(&mut self, from: u32, to: u32, pool: &mut RarePool) -> u32 {
        let Some(rare) = pool.get_mut(self.rare) else {
            return 0;
        };
        let (filled, given_up) = rare.holes.fill(from, to);
        self.give_up(given_up, pool);
        filled
    }

    fn give_up(&mut self, gap: Option<[u32; 2]>, pool: &mut RarePool) {
        let Some([from, to]) = gap else {
            return;
        };
        let is_open = self.marks & mark::ACKNOWLEDGED == 0 || super::after(to, self.acknowledged);
        self.limits |= if is_open { limit::GAPS } else { limit::MISSED };
        let bytes = u64::from(to.wrapping_sub(from));
        self.note(pool, |rare| rare.anomalies.given_up_bytes += bytes);
    }

    /// Forgets the gaps; what was missed in them stays counted.
    pub(super) fn forget_gaps(&self, pool: &mut RarePool) {
        if let Some(rare) = pool.get_mut(self.rare) {
            rare.anomalies.given_up_bytes += self.missed_in_gaps(rare);
            rare.holes = Holes::default();
        }
    }

    /// Begins another record: what was counted goes; connections stay, and gaps as far as they may
    /// still be filled: what was acknowledged of them is in the record that ends.
    pub(super) fn next_rare(&mut self, pool: &mut RarePool) {
        let Some(rare) = pool.get_mut(self.rare) else {
            return;
        };
        let mut holes = rare.holes;
        if self.marks & mark::ACKNOWLEDGED != 0 {
            if holes.before(self.acknowledged) > 0 {
                self.limits |= limit::MISSED;
            }
            holes.forget_before(self.acknowledged);
        }
        *rare = Rare {
            holes,
            recovery: rare.recovery,
            more_connections: rare.more_connections,
            ..Rare::default()
        };
        let lasts = self.marks & mark::RECOVERS != 0 || rare.more_connections > 0;
        if rare.holes.is_empty() && !lasts {
            pool.release(std::mem::take(&mut self.rare));
        }
    }

    /// Bytes that were acknowledged, lie in a gap, and so were missed by the probe.
    fn missed_in_gaps(&self, rare: &Rare) -> u64 {
        if self.marks & mark::ACKNOWLEDGED == 0 || rare.holes.is_empty() {
            return 0;
        }
        rare.holes.before(self.acknowledged)
    }

    /// Bytes missed by the probe: acknowledged and never seen.
    #[must_use]
    pub fn missed_bytes(&self, rare: &Rare) -> u64 {
        self.missed_in_gaps(rare) + rare.anomalies.given_up_bytes
    }
}

const _: () = assert!(size_of::<Rare>() == 112);
