//! The last segments of one side: when the probe saw each, to measure round trips and to classify
//! retransmissions.

/// Number of segments kept per side, a power of two.
pub(super) const SENT: usize = 8;

const MASK: u8 = SENT as u8 - 1;

/// Bits of a time: 39 hours of nanoseconds. Spans of up to 19.5 hours are exact. A longer one looks as if
/// the clock had gone back and is taken for 0; one of more than 39 hours loses 39 hours.
const TIME_BITS: u32 = 47;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// Flag of a retransmitted segment: its acknowledgement may be for either transmission (Karn's
/// algorithm).
const RETRANSMITTED: u64 = 1 << TIME_BITS;

/// Bits other than the time.
const OTHER_BITS: u32 = u64::BITS - TIME_BITS;
const IDENTIFICATION_SHIFT: u32 = u64::BITS - u16::BITS;
const _: () = assert!(IDENTIFICATION_SHIFT == TIME_BITS + 1);

/// A sent segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct SentSegment {
    /// The sequence number after its last byte.
    end: u32,
    /// From the lowest bit: time of the last transmission, [`RETRANSMITTED`], IPv4 identification. Two
    /// halves, so that the struct has the alignment of a `u32` and no padding.
    packed: [u32; 2],
}

impl SentSegment {
    #[inline]
    fn new(end: u32, time_ns: i64, identification: u16) -> Self {
        let time = time_ns.cast_unsigned() & TIME_MASK;
        let sent = u64::from(identification) << IDENTIFICATION_SHIFT | time;
        Self {
            end,
            packed: [sent as u32, (sent >> u32::BITS) as u32],
        }
    }

    #[inline]
    fn packed(&self) -> u64 {
        u64::from(self.packed[0]) | u64::from(self.packed[1]) << u32::BITS
    }

    /// Returns the time since its last transmission, 0 if the clock went back.
    #[inline]
    fn age_ns(&self, now_ns: i64) -> u64 {
        // The shift removes the other bits and moves the sign of the difference to the highest bit.
        let age = now_ns.cast_unsigned().wrapping_sub(self.packed()) << OTHER_BITS;
        age.cast_signed().max(0).cast_unsigned() >> OTHER_BITS
    }

    const fn identification(&self) -> u16 {
        (self.packed[1] >> u16::BITS) as u16
    }

    const fn is_retransmitted(&self) -> bool {
        self.packed[1] & (RETRANSMITTED >> u32::BITS) as u32 != 0
    }

    const fn set_retransmitted(&mut self) {
        self.packed[1] |= (RETRANSMITTED >> u32::BITS) as u32;
    }
}

/// A ring of segments in the order of their sequence numbers.
///
/// An acknowledged segment stays until its slot is needed. If the ring is full and none is
/// acknowledged, the newest segment is merged with the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct SentList {
    /// The sequence number at which the oldest segment, or the hole before it, begins.
    start: u32,
    head: u8,
    length: u8,
    /// Number of acknowledged segments, which are the oldest.
    acknowledged: u8,
    /// One plus the index of the newest merged segment; 0 if there is none.
    merged: u8,
    segments: [SentSegment; SENT],
}

/// What is known of bytes that arrive again, or of the segment after a hole that is filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentInfo {
    /// Time since the segment was seen.
    pub(super) age_ns: u64,
    /// Whether the segment is older than `age_ns`, by an unknown amount.
    pub(super) is_lower_bound: bool,
    /// Whether the segment was itself a retransmission.
    pub(super) is_retransmission: bool,
    /// IPv4 identification of the segment, 0 if unknown.
    pub(super) identification: u16,
    /// IPv4 identification of the segment before it, 0 if unknown.
    pub(super) previous_identification: u16,
}

/// Returns whether sequence number `a` is after `b` (RFC 9293 section 3.4).
#[inline]
pub(super) const fn after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

impl SentList {
    #[inline]
    fn get_mut(&mut self, index: u8) -> &mut SentSegment {
        &mut self.segments[usize::from((self.head.wrapping_add(index)) & MASK)]
    }

    #[inline]
    fn get(&self, index: u8) -> &SentSegment {
        &self.segments[usize::from((self.head.wrapping_add(index)) & MASK)]
    }

    /// Clears the list. The first segment, or a hole before it, begins at `start`.
    pub(super) fn begin(&mut self, start: u32) {
        self.start = start;
        (self.head, self.length, self.acknowledged, self.merged) = (0, 0, 0, 0);
    }

    /// Returns whether any segments are merged. Data about one of them may belong to another.
    pub(super) const fn has_merged(&self) -> bool {
        self.merged > 0
    }

    /// Removes the oldest segment, which is acknowledged.
    #[inline]
    fn pop(&mut self) {
        self.start = self.get(0).end;
        self.head = self.head.wrapping_add(1) & MASK;
        self.length -= 1;
        self.acknowledged -= 1;
        self.merged = self.merged.saturating_sub(1);
    }

    /// Returns whether the list is empty.
    pub(super) const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends a segment. Returns false if it was merged with the one before it.
    #[inline]
    pub(super) fn push(&mut self, end: u32, time_ns: i64, identification: u16) -> bool {
        let segment = SentSegment::new(end, time_ns, identification);
        if usize::from(self.length) < SENT {
            *self.get_mut(self.length) = segment;
            self.length += 1;
            return true;
        }
        if self.acknowledged == 0 {
            *self.get_mut(self.length - 1) = segment;
            self.merged = self.length;
            return false;
        }
        // In a full ring, the oldest segment's slot is the one after the newest.
        let oldest = std::mem::replace(self.get_mut(0), segment);
        self.start = oldest.end;
        self.head = self.head.wrapping_add(1);
        self.acknowledged -= 1;
        self.merged = self.merged.saturating_sub(1);
        true
    }

    /// Marks all bytes before `acknowledged` as acknowledged. Returns the round-trip time if it can be
    /// measured: a segment ends there, no segment acknowledged with it was retransmitted, and it is the
    /// latest of those (otherwise the acknowledgement waited for another one).
    #[inline]
    pub(super) fn acknowledge(&mut self, acknowledged: u32, now_ns: i64) -> Option<u64> {
        let mut segment = *self.next_unacknowledged(acknowledged)?;
        self.acknowledged += 1;
        if self.next_unacknowledged(acknowledged).is_some() {
            segment = self.acknowledge_rest(segment, acknowledged, now_ns)?;
        }
        let is_timed = segment.end == acknowledged && segment.packed() & RETRANSMITTED == 0;
        is_timed.then(|| segment.age_ns(now_ns))
    }

    /// Returns the oldest segment that is not acknowledged yet, if it ends at or before `acknowledged`.
    #[inline]
    fn next_unacknowledged(&self, acknowledged: u32) -> Option<&SentSegment> {
        let oldest = (self.acknowledged < self.length).then(|| self.get(self.acknowledged));
        oldest.filter(|segment| !after(segment.end, acknowledged))
    }

    /// Marks the segments after `first` that are acknowledged with it. Returns the last of them if none
    /// was sent later and none was retransmitted.
    #[inline(never)]
    fn acknowledge_rest(
        &mut self,
        first: SentSegment,
        acknowledged: u32,
        now_ns: i64,
    ) -> Option<SentSegment> {
        let (mut last, mut packed) = (first, first.packed());
        let mut min_age_ns = first.age_ns(now_ns);
        while let Some(&segment) = self.next_unacknowledged(acknowledged) {
            last = segment;
            packed |= segment.packed();
            min_age_ns = min_age_ns.min(segment.age_ns(now_ns));
            self.acknowledged += 1;
        }
        let is_timed = last.age_ns(now_ns) == min_age_ns && packed & RETRANSMITTED == 0;
        is_timed.then_some(last)
    }

    /// Returns what is known of the segment with the byte at `sequence`, or of the segment after the
    /// hole that the byte is in.
    pub(super) fn find(&self, sequence: u32, now_ns: i64) -> Option<SentInfo> {
        let index = (0..self.length).find(|&index| after(self.get(index).end, sequence))?;
        let segment = self.get(index);
        let is_older = index == 0 && after(self.start, sequence);
        Some(SentInfo {
            age_ns: segment.age_ns(now_ns),
            is_lower_bound: is_older,
            is_retransmission: segment.is_retransmitted(),
            identification: if is_older {
                0
            } else {
                segment.identification()
            },
            previous_identification: match index.checked_sub(1) {
                Some(previous) if !is_older => self.get(previous).identification(),
                _ => 0,
            },
        })
    }

    /// Marks the segments with bytes from `start` to `end` as retransmitted at `now_ns`.
    pub(super) fn retransmit(&mut self, start: u32, end: u32, now_ns: i64, identification: u16) {
        let mut segment_start = self.start;
        for index in 0..self.length {
            let segment = self.get_mut(index);
            let segment_end = segment.end;
            if after(segment_end, start) && after(end, segment_start) {
                *segment = SentSegment::new(segment_end, now_ns, identification);
                segment.set_retransmitted();
            }
            segment_start = segment_end;
        }
    }

    /// Inserts a segment that fills a hole. `was_acknowledged` means that it was acknowledged before it
    /// arrived. Returns false if there is no room.
    pub(super) fn insert(
        &mut self,
        end: u32,
        now_ns: i64,
        identification: u16,
        is_retransmission: bool,
        was_acknowledged: bool,
    ) -> bool {
        let next = (0..self.length).find(|&index| after(self.get(index).end, end));
        let Some(position) = next else {
            return false;
        };
        if usize::from(self.length) == SENT {
            if self.acknowledged == 0 || position == 0 {
                return false;
            }
            self.pop();
            return self.insert(
                end,
                now_ns,
                identification,
                is_retransmission,
                was_acknowledged,
            );
        }
        for index in (position..self.length).rev() {
            let moved = *self.get(index);
            *self.get_mut(index + 1) = moved;
        }
        let mut segment = SentSegment::new(end, now_ns, identification);
        if is_retransmission {
            segment.set_retransmitted();
        }
        *self.get_mut(position) = segment;
        self.length += 1;
        if position < self.merged {
            self.merged += 1;
        }
        if position < self.acknowledged || was_acknowledged {
            self.acknowledged += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_times_the_segment_that_ends_there() {
        let base = u32::MAX - 150;
        let mut list = SentList::default();
        list.begin(base);
        for number in 0..3u32 {
            let start = base.wrapping_add(100 * number);
            assert!(list.push(start.wrapping_add(100), 1000 + i64::from(number), 7));
        }
        // In the middle of a segment.
        assert_eq!(list.acknowledge(base.wrapping_add(50), 1100), None);
        assert_eq!(list.acknowledge(base.wrapping_add(200), 1100), Some(99));
        assert_eq!(list.acknowledge(base.wrapping_add(200), 1101), None);
        list.retransmit(base.wrapping_add(200), base.wrapping_add(300), 1200, 8);
        assert_eq!(list.acknowledge(base.wrapping_add(300), 1300), None);
    }

    #[test]
    fn a_clock_that_goes_back_gives_a_round_trip_of_zero() {
        let mut list = SentList::default();
        list.push(100, 5000, 0);
        assert_eq!(list.acknowledge(100, 4000), Some(0));
    }

    #[test]
    fn round_trips_are_exact_up_to_nineteen_hours() {
        const HOUR_NS: i64 = 3_600_000_000_000;
        for sent_ns in [0, 1_700_000_000_123_456_789] {
            let measured = |took_ns| {
                let mut list = SentList::default();
                list.push(100, sent_ns, 0);
                list.acknowledge(100, sent_ns + took_ns)
            };
            for took_ns in [1, 2 * HOUR_NS, 19 * HOUR_NS] {
                assert_eq!(measured(took_ns), Some(took_ns.cast_unsigned()));
            }
            assert_eq!(measured(20 * HOUR_NS), Some(0));
            assert_eq!(measured(1 << TIME_BITS), Some(0));
            assert_eq!(measured((1 << TIME_BITS) + 5), Some(5));
        }
    }

    #[test]
    fn an_acknowledgement_delayed_by_a_hole_gives_no_round_trip() {
        let mut list = SentList::default();
        list.push(100, 10, 1);
        list.push(300, 20, 3);
        assert!(list.insert(200, 90, 2, false, false));
        assert_eq!(list.acknowledge(300, 100), None);
        let known = list.find(250, 120).unwrap();
        assert_eq!(
            (
                known.age_ns,
                known.identification,
                known.previous_identification
            ),
            (100, 3, 2)
        );
    }

    #[test]
    fn a_segment_after_its_acknowledgement_does_not_affect_others() {
        let mut list = SentList::default();
        list.push(100, 10, 1);
        assert_eq!(list.acknowledge(200, 20), None);
        list.push(300, 30, 3);
        assert!(list.insert(200, 35, 2, false, true));
        assert_eq!(list.acknowledge(300, 40), Some(10));
    }

    #[test]
    fn a_full_list_merges_the_newest_two_segments() {
        let mut list = SentList::default();
        for number in 0..20u32 {
            let kept = list.push(10 * number + 10, i64::from(number), 0);
            assert_eq!(kept, number < SENT as u32);
        }
        assert_eq!(list.acknowledge(10, 100), Some(100));
        assert_eq!(list.acknowledge(200, 100), Some(81));
        assert!(list.push(210, 300, 0));
        assert_eq!(
            list.find(5, 400).map(|known| known.is_lower_bound),
            Some(true)
        );
    }

    #[test]
    fn merged_segments_are_reported_until_they_leave_the_list() {
        let mut list = SentList::default();
        for number in 0..SENT as u32 {
            assert!(list.push(10 * number + 10, 0, 0));
            assert!(!list.has_merged());
        }
        assert!(!list.push(90, 0, 0) && list.has_merged());
        // An older segment leaves the list, and another is inserted.
        list.acknowledge(15, 0);
        assert!(list.insert(15, 0, 0, false, false) && list.has_merged());
        list.acknowledge(90, 0);
        for number in 0..SENT as u32 {
            assert!(list.has_merged(), "{number}");
            assert!(list.push(100 + 10 * number, 0, 0));
        }
        assert!(!list.has_merged());
        assert!(!list.push(1000, 0, 0));
        list.begin(0);
        assert!(!list.has_merged());
    }
}
