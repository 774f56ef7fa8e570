//! The last segments that one side sent: when each was seen, to time its acknowledgement and to judge
//! a segment that comes again.

/// Segments that are kept of each side, a power of two.
pub(super) const SENT: usize = 8;

const MASK: u8 = SENT as u8 - 1;

/// Bits of a time: 39 hours of nanoseconds, so that spans to 19.5 hours are told from a clock that
/// went back. A longer one is told as 0, or less by 39 hours.
const TIME_BITS: u32 = 47;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// Beside the time of a segment that was sent more than once: its acknowledgement may answer either
/// (Karn's rule).
const AGAIN: u64 = 1 << TIME_BITS;

/// Bits of what is kept beside a time.
const BESIDE: u32 = u64::BITS - TIME_BITS;
const IDENTIFICATION_AT: u32 = u64::BITS - u16::BITS;
const _: () = assert!(IDENTIFICATION_AT == TIME_BITS + 1);

/// A segment.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Segment {
    /// The sequence number behind its last byte.
    end: u32,
    /// From the lowest bit on, in halves: when it was sent last in nanoseconds, [`AGAIN`], and the IPv4
    /// identification.
    sent: [u32; 2],
}

impl Segment {
    #[inline(always)]
    fn new(end: u32, time_ns: i64, identification: u16) -> Self {
        let time = time_ns.cast_unsigned() & TIME_MASK;
        let sent = u64::from(identification) << IDENTIFICATION_AT | time;
        Self {
            end,
            sent: [sent as u32, (sent >> u32::BITS) as u32],
        }
    }

    #[inline(always)]
    fn sent(&self) -> u64 {
        u64::from(self.sent[0]) | u64::from(self.sent[1]) << u32::BITS
    }

    /// Time since it was sent, 0 if the clock went back.
    #[inline(always)]
    fn age_ns(&self, now_ns: i64) -> u64 {
        // What is beside the time is shifted out, and the sign is the highest bit of the rest.
        let age = now_ns.cast_unsigned().wrapping_sub(self.sent()) << BESIDE;
        age.cast_signed().max(0).cast_unsigned() >> BESIDE
    }

    const fn identification(&self) -> u16 {
        (self.sent[1] >> u16::BITS) as u16
    }

    const fn mark_again(&mut self) {
        self.sent[1] |= (AGAIN >> u32::BITS) as u32;
    }
}

/// Segments in the order of their sequence numbers. Those that were acknowledged stay until their
/// place is needed; where none was, the newest two become one.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct SentList {
    /// The sequence number at which the oldest begins, or the gap before it.
    edge: u32,
    head: u8,
    length: u8,
    /// How many of the oldest were acknowledged.
    acknowledged: u8,
    /// The last of so many of the oldest is several that share a place; none where it is 0.
    shared: u8,
    segments: [Segment; SENT],
}

/// What is known of bytes that come again, or of a gap that is being filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Time since they, or what followed the gap, were seen.
    pub(super) age_ns: u64,
    /// Whether `age_ns` is only the least that it can be.
    pub(super) at_least: bool,
    /// Identification of the packet that had them, or that followed the gap; 0 if not known.
    pub(super) identification: u16,
    /// Identification of the packet before that; 0 if not known.
    pub(super) before: u16,
}

/// Whether sequence number `a` is behind `b` (RFC 9293 section 3.4).
#[inline(always)]
pub(super) const fn after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

impl SentList {
    #[inline(always)]
    fn at(&mut self, index: u8) -> &mut Segment {
        &mut self.segments[usize::from((self.head.wrapping_add(index)) & MASK)]
    }

    #[inline(always)]
    fn get(&self, index: u8) -> &Segment {
        &self.segments[usize::from((self.head.wrapping_add(index)) & MASK)]
    }

    /// Begins anew: the first segment begins at `edge` or behind a gap that does.
    pub(super) fn begin(&mut self, edge: u32) {
        self.edge = edge;
        (self.head, self.length, self.acknowledged, self.shared) = (0, 0, 0, 0);
    }

    /// Whether segments share a place: what is told of one of them may be another's.
    pub(super) const fn has_shared(&self) -> bool {
        self.shared > 0
    }

    /// Lets the oldest go.
    #[inline(always)]
    fn pop(&mut self) {
        self.edge = self.get(0).end;
        self.head = self.head.wrapping_add(1) & MASK;
        self.length -= 1;
        self.acknowledged -= 1;
        self.shared = self.shared.saturating_sub(1);
    }

    /// Whether there is none.
    pub(super) const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds a segment behind all others; whether it found a place of its own.
    #[inline(always)]
    pub(super) fn push(&mut self, end: u32, time_ns: i64, identification: u16) -> bool {
        let segment = Segment::new(end, time_ns, identification);
        if usize::from(self.length) < SENT {
            *self.at(self.length) = segment;
            self.length += 1;
            return true;
        }
        if self.acknowledged == 0 {
            *self.at(self.length - 1) = segment;
            self.shared = self.length;
            return false;
        }
        // The place of the oldest is the one behind the newest.
        let oldest = std::mem::replace(self.at(0), segment);
        self.edge = oldest.end;
        self.head = self.head.wrapping_add(1);
        self.acknowledged -= 1;
        self.shared = self.shared.saturating_sub(1);
        true
    }

    /// Takes an acknowledgement of all bytes before `acknowledged` in. The time since the segment
    /// that it answers, if that can be told: one ends there, it was sent once, and it is the
    /// latest of those acknowledged together (else the acknowledgement waited for another).
    #[inline(always)]
    pub(super) fn acknowledge(&mut self, acknowledged: u32, now_ns: i64) -> Option<u64> {
        let mut answered = *self.unanswered(acknowledged)?;
        self.acknowledged += 1;
        if self.unanswered(acknowledged).is_some() {
            answered = self.acknowledge_others(answered, acknowledged, now_ns)?;
        }
        let answers = answered.end == acknowledged && answered.sent() & AGAIN == 0;
        answers.then(|| answered.age_ns(now_ns))
    }

    /// The oldest segment that was not acknowledged, if it ends before `acknowledged`.
    #[inline(always)]
    fn unanswered(&self, acknowledged: u32) -> Option<&Segment> {
        let oldest = (self.acknowledged < self.length).then(|| self.get(self.acknowledged));
        oldest.filter(|segment| !after(segment.end, acknowledged))
    }

    /// Takes those that are acknowledged behind `first`: the last of them, if none was sent later and
    /// none more than once.
    #[inline(never)]
    fn acknowledge_others(
        &mut self,
        first: Segment,
        acknowledged: u32,
        now_ns: i64,
    ) -> Option<Segment> {
        let (mut last, mut again) = (first, first.sent());
        let mut youngest_ns = first.age_ns(now_ns);
        while let Some(&segment) = self.unanswered(acknowledged) {
            last = segment;
            again |= segment.sent();
            youngest_ns = youngest_ns.min(segment.age_ns(now_ns));
            self.acknowledged += 1;
        }
        let is_alone = last.age_ns(now_ns) == youngest_ns && again & AGAIN == 0;
        is_alone.then_some(last)
    }

    /// What is known of the byte at `sequence`, or of the segment behind the gap that it is in.
    pub(super) fn find(&self, sequence: u32, now_ns: i64) -> Option<Known> {
        let index = (0..self.length).find(|&index| after(self.get(index).end, sequence))?;
        let segment = self.get(index);
        let older = index == 0 && after(self.edge, sequence);
        Some(Known {
            age_ns: segment.age_ns(now_ns),
            at_least: older,
            identification: if older { 0 } else { segment.identification() },
            before: match index.checked_sub(1) {
                Some(before) if !older => self.get(before).identification(),
                _ => 0,
            },
        })
    }

    /// Notes that the bytes from `start` to `end` were sent again now.
    pub(super) fn send_again(&mut self, start: u32, end: u32, now_ns: i64, identification: u16) {
        let mut begin = self.edge;
        for index in 0..self.length {
            let segment = self.at(index);
            let (first, last) = (begin, segment.end);
            if after(last, start) && after(end, first) {
                *segment = Segment::new(last, now_ns, identification);
                segment.mark_again();
            }
            begin = last;
        }
    }

    /// Adds a segment that fills a gap (`again`: sent to replace a lost one), if there is room.
    /// `acknowledged`: it was, before it came.
    pub(super) fn insert(
        &mut self,
        end: u32,
        now_ns: i64,
        identification: u16,
        again: bool,
        acknowledged: bool,
    ) -> bool {
        let place = (0..self.length).find(|&index| after(self.get(index).end, end));
        let Some(place) = place else {
            return false;
        };
        if usize::from(self.length) == SENT {
            if self.acknowledged == 0 || place == 0 {
                return false;
            }
            self.pop();
            return self.insert(end, now_ns, identification, again, acknowledged);
        }
        for index in (place..self.length).rev() {
            let moved = *self.get(index);
            *self.at(index + 1) = moved;
        }
        let mut segment = Segment::new(end, now_ns, identification);
        if again {
            segment.mark_again();
        }
        *self.at(place) = segment;
        self.length += 1;
        if place < self.shared {
            self.shared += 1;
        }
        if place < self.acknowledged || acknowledged {
            self.acknowledged += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_answers_the_segment_that_ends_there() {
        let base = u32::MAX - 150;
        let mut list = SentList::default();
        list.begin(base);
        for number in 0..3u32 {
            let start = base.wrapping_add(100 * number);
            assert!(list.push(start.wrapping_add(100), 1000 + i64::from(number), 7));
        }
        // In the middle of a segment: an answer to none.
        assert_eq!(list.acknowledge(base.wrapping_add(50), 1100), None);
        assert_eq!(list.acknowledge(base.wrapping_add(200), 1100), Some(99));
        assert_eq!(list.acknowledge(base.wrapping_add(200), 1101), None);
        list.send_again(base.wrapping_add(200), base.wrapping_add(300), 1200, 8);
        assert_eq!(list.acknowledge(base.wrapping_add(300), 1300), None);
    }

    #[test]
    fn a_clock_that_goes_back_makes_no_round_trip_of_hours() {
        let mut list = SentList::default();
        list.push(100, 5000, 0);
        assert_eq!(list.acknowledge(100, 4000), Some(0));
    }

    #[test]
    fn a_round_trip_is_right_up_to_nineteen_hours() {
        const HOUR_NS: i64 = 3_600_000_000_000;
        for sent_ns in [0, 1_700_000_000_123_456_789] {
            let told = |took_ns| {
                let mut list = SentList::default();
                list.push(100, sent_ns, 0);
                list.acknowledge(100, sent_ns + took_ns)
            };
            for took_ns in [1, 2 * HOUR_NS, 19 * HOUR_NS] {
                assert_eq!(told(took_ns), Some(took_ns.cast_unsigned()));
            }
            assert_eq!(told(20 * HOUR_NS), Some(0));
            assert_eq!(told(1 << TIME_BITS), Some(0));
            assert_eq!(told((1 << TIME_BITS) + 5), Some(5));
        }
    }

    #[test]
    fn an_acknowledgement_that_waited_for_a_gap_to_be_filled_times_nothing() {
        let mut list = SentList::default();
        list.push(100, 10, 1);
        list.push(300, 20, 3);
        assert!(list.insert(200, 90, 2, false, false));
        assert_eq!(list.acknowledge(300, 100), None);
        let known = list.find(250, 120).unwrap();
        assert_eq!(
            (known.age_ns, known.identification, known.before),
            (100, 3, 2)
        );
    }

    #[test]
    fn a_segment_that_comes_after_its_acknowledgement_hides_no_other() {
        let mut list = SentList::default();
        list.push(100, 10, 1);
        assert_eq!(list.acknowledge(200, 20), None);
        list.push(300, 30, 3);
        assert!(list.insert(200, 35, 2, false, true));
        assert_eq!(list.acknowledge(300, 40), Some(10));
    }

    #[test]
    fn a_full_list_joins_the_newest_two_and_keeps_the_oldest() {
        let mut list = SentList::default();
        for number in 0..20u32 {
            let kept = list.push(10 * number + 10, i64::from(number), 0);
            assert_eq!(kept, number < SENT as u32);
        }
        assert_eq!(list.acknowledge(10, 100), Some(100));
        assert_eq!(list.acknowledge(200, 100), Some(81));
        assert!(list.push(210, 300, 0));
        assert_eq!(list.find(5, 400).map(|known| known.at_least), Some(true));
    }

    #[test]
    fn a_shared_place_is_known_until_it_is_let_go() {
        let mut list = SentList::default();
        for number in 0..SENT as u32 {
            assert!(list.push(10 * number + 10, 0, 0));
            assert!(!list.has_shared());
        }
        assert!(!list.push(90, 0, 0) && list.has_shared());
        // One of those before is let go, and one is put between them.
        list.acknowledge(15, 0);
        assert!(list.insert(15, 0, 0, false, false) && list.has_shared());
        list.acknowledge(90, 0);
        for number in 0..SENT as u32 {
            assert!(list.has_shared(), "{number}");
            assert!(list.push(100 + 10 * number, 0, 0));
        }
        assert!(!list.has_shared());
        assert!(!list.push(1000, 0, 0));
        list.begin(0);
        assert!(!list.has_shared());
    }
}
