//! The slots of a bucket of the bucket table.

/// Slots of a bucket. The last one never holds a flow.
pub(super) const LANES: u32 = 32;

/// Iterates over the lanes whose bits are set.
pub(super) struct Lanes(pub(super) u32);

impl Iterator for Lanes {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let lane = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(lane)
    }
}
