//! The work that Initial packets may cause. Anyone can send them, and each costs up to a hundred times
//! a packet that is only counted.

/// Units of work for the decryption of a packet with known keys, and for up to [`FRAMES_PER_UNIT`]
/// CRYPTO frames.
pub(crate) const OPEN: u8 = 1;

/// Units of work for the derivation of keys, which costs about four decryptions.
pub(crate) const DERIVE: u8 = 4;

/// A unit of work is as much as scanning this number of bytes.
const UNIT_BYTES: usize = 64;

/// CRYPTO frames for one unit of work.
pub(crate) const FRAMES_PER_UNIT: usize = 16;

/// Units of work in each direction of a flow, spent by failures in full and by packets of a handshake
/// once each. A ClientHello that fills a reassembly buffer has 14 packets.
const FLOW_MAX: u8 = 24;

/// After that, one of this number of packets is tried, so that forged packets cannot hide a hello for
/// ever.
const TRIED_OF: u8 = 64;

/// Units of work per millisecond of packet time in all flows together: about a quarter of a core.
const PER_MILLISECOND: i64 = 256;

/// Units of work that may be spent at once, after a time with less.
const BURST: i64 = 1 << 16;

/// A time difference that is no reordering, in milliseconds: another capture starts.
const RESTART_MS: i64 = 1000;

/// What one direction of a flow has spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowWork(u8);

impl FlowWork {
    pub(crate) const fn is_spent(self) -> bool {
        self.0 >= FLOW_MAX
    }

    /// Whether this packet may be tried.
    pub(crate) const fn may_try(&mut self) -> bool {
        if !self.is_spent() {
            return true;
        }
        self.0 += 1;
        let may_try = self.0 >= FLOW_MAX + TRIED_OF;
        if may_try {
            self.0 = FLOW_MAX;
        }
        may_try
    }

    pub(crate) const fn spend(&mut self, units: u8) {
        if !self.is_spent() {
            self.0 = self.0.saturating_add(units);
            if self.0 > FLOW_MAX {
                self.0 = FLOW_MAX;
            }
        }
    }
}

/// What all flows may spend: a token bucket that packet time fills.
#[derive(Debug)]
pub(crate) struct WorkBudget {
    units: i64,
    time_ms: i64,
    /// Packets that were not tried, and packets whose frames were not all read.
    pub(crate) cuts: u64,
    /// Units of work done. It says in tests what a packet costs.
    pub(crate) done: u64,
}

impl Default for WorkBudget {
    fn default() -> Self {
        Self {
            units: BURST,
            time_ms: i64::MIN,
            cuts: 0,
            done: 0,
        }
    }
}

impl WorkBudget {
    /// Whether work is left at this time, in nanoseconds.
    pub(crate) fn is_left(&mut self, time_ns: i64) -> bool {
        let now_ms = time_ns.div_euclid(1_000_000);
        let passed = now_ms.saturating_sub(self.time_ms);
        if passed > 0 {
            let earned = passed.saturating_mul(PER_MILLISECOND);
            self.units = self.units.saturating_add(earned).min(BURST);
        }
        if !(-RESTART_MS..=0).contains(&passed) {
            self.time_ms = now_ms;
        }
        self.units > 0
    }

    pub(crate) fn spend(&mut self, units: u8) {
        wire::work::count(UNIT_BYTES * usize::from(units));
        self.units -= i64::from(units);
        self.done += u64::from(units);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_tries_one_of_many_packets_when_its_work_is_spent() {
        let mut work = FlowWork::default();
        let tried = (0..6400).filter(|_| {
            let may_try = work.may_try();
            if may_try {
                work.spend(OPEN + DERIVE);
            }
            may_try
        });
        let tried = tried.count();
        assert!((100..110).contains(&tried), "{tried}");
    }

    #[test]
    fn packet_time_fills_the_bucket() {
        let mut budget = WorkBudget::default();
        let mut spent = 0;
        while budget.is_left(0) {
            budget.spend(OPEN + DERIVE);
            spent += i64::from(OPEN + DERIVE);
        }
        assert!((BURST..BURST + 5).contains(&spent));
        assert!(!budget.is_left(999_999) && !budget.is_left(-5_000_000));
        assert!(budget.is_left(1_000_000));
        // An earlier time fills nothing, but the bucket continues from there.
        for _ in 0..100 {
            budget.spend(DERIVE);
        }
        assert!(!budget.is_left(-10_000_000_000));
        assert!(budget.is_left(-9_000_000_000));
        // No time is out of range.
        for time in [i64::MAX, i64::MIN, 0] {
            let _ = budget.is_left(time);
        }
    }
}
