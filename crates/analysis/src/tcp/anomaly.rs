//! The eight classes of segments out of sequence.
//!
//! A probe between the two hosts sees segments twice, or late, for different reasons. The reason is
//! inferred as by Mellia, Meo, Muscariello and Rossi ("Passive analysis of TCP anomalies", Computer
//! Networks 52(14), 2008): from the bytes seen before, the IPv4 identification, the time since the bytes
//! (or those after the hole) were seen, and duplicate ACKs.

use super::sent::SentInfo;

/// Why a segment is out of sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Retransmitted when the sender's retransmission timer expired.
    Timeout,
    /// Retransmitted after three duplicate ACKs.
    FastRetransmit,
    /// Delivered after a segment that was sent later.
    Reordering,
    /// Duplicated by the network.
    Duplicate,
    /// A probe of a closed window, or a keep-alive.
    FlowControl,
    /// Retransmitted when the timer expired, although it had been acknowledged.
    UnnecessaryTimeout,
    /// Retransmitted after duplicate ACKs, although it had been acknowledged.
    UnnecessaryFastRetransmit,
    /// None of these.
    Unknown,
}

/// Number of classes.
pub const CLASSES: usize = 8;

impl Class {
    /// All classes, in the order of [`Anomalies::classes`].
    pub const ALL: [Self; CLASSES] = [
        Self::Timeout,
        Self::FastRetransmit,
        Self::Reordering,
        Self::Duplicate,
        Self::FlowControl,
        Self::UnnecessaryTimeout,
        Self::UnnecessaryFastRetransmit,
        Self::Unknown,
    ];

    /// Returns the class's name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::FastRetransmit => "fast retransmit",
            Self::Reordering => "reordering",
            Self::Duplicate => "duplicate",
            Self::FlowControl => "flow control",
            Self::UnnecessaryTimeout => "unnecessary timeout",
            Self::UnnecessaryFastRetransmit => "unnecessary fast retransmit",
            Self::Unknown => "unknown",
        }
    }
}

/// Counters of one side's segments out of sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Anomalies {
    /// Segments of each [`Class`], in the order of [`Class::ALL`].
    pub classes: [u32; CLASSES],
    /// Segments with bytes seen before, except duplicates and flow control.
    pub retransmitted: u32,
    /// Segments below the highest sequence number without bytes seen before.
    pub out_of_order: u32,
    /// Bytes seen before in the segments of `retransmitted`.
    pub retransmitted_bytes: u64,
    /// Bytes seen before in all segments.
    pub repeated_bytes: u64,
    /// Bytes of holes that were given up because there was no room for more.
    pub given_up_bytes: u64,
}

impl Anomalies {
    /// Counts a segment of `class`.
    pub(super) fn count(&mut self, class: Class) {
        self.classes[class as usize] += 1;
    }
}

/// What the class of a segment is inferred from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// Whether it repeats the last byte although the window is closed or all data is acknowledged.
    pub(super) is_probe: bool,
    /// Whether its bytes were seen before. Otherwise it fills a hole.
    pub(super) was_seen: bool,
    /// Whether its bytes had been acknowledged.
    pub(super) was_acknowledged: bool,
    /// Its IPv4 identification, 0 if it has none.
    pub(super) identification: u16,
    /// The earlier segment with its bytes, or the one after the hole.
    pub(super) sent_info: Option<SentInfo>,
    /// Round-trip time of the path in nanoseconds, 0 if unknown.
    pub(super) rtt_ns: u64,
    /// Estimate of the sender's retransmission timeout.
    pub(super) rto_ns: u64,
    /// Whether duplicate ACKs have requested it, or one of the segments of the same recovery.
    pub(super) has_duplicate_acks: bool,
    /// Whether three duplicate ACKs have requested its first byte.
    pub(super) is_requested: bool,
}

/// The longest delay of a copy while no round trip is known. Retransmission timers and the timer of the
/// tail loss probe (RFC 8985 section 7.2) are not shorter.
const COPY_DELAY_MAX_NS: u64 = 10_000_000;

/// If a host numbers its packets sequentially, the identifications of two consecutive packets of a flow
/// differ by less than this.
const IDENTIFICATION_STEP_MAX: u16 = 1 << 12;

impl Evidence {
    /// Returns whether the segment was sent before the one after the hole. `None` if the identifications
    /// do not seem to be sequential and so do not show the order of sending. If only these two
    /// identifications are known, they count as sequential if they are close to each other.
    fn was_sent_before(&self, sent_info: &SentInfo) -> Option<bool> {
        if self.identification == 0 || sent_info.identification == 0 {
            return None;
        }
        let step = self.identification.wrapping_sub(sent_info.identification);
        if step == 0 {
            // A constant identification: it shows no order.
            return None;
        }
        let are_sequential = if sent_info.previous_identification == 0 {
            step.cast_signed().unsigned_abs() < IDENTIFICATION_STEP_MAX
        } else {
            sent_info
                .identification
                .wrapping_sub(sent_info.previous_identification)
                < IDENTIFICATION_STEP_MAX
        };
        are_sequential.then_some(step.cast_signed() < 0)
    }

    /// Returns whether the network copied the segment, which was seen before.
    ///
    /// A copy keeps its identification, but so may a retransmission (RFC 1122 section 3.2.1.5), and a
    /// sender may give all packets the same one (RFC 6864 section 4.1). What tells them apart is time: a
    /// copy takes another way through the network, a retransmission waits for a round trip or a timer. The
    /// round trips measured may be too long, because receivers delay ACKs, so one that duplicate ACKs
    /// requested since it was sent is not a copy.
    fn is_copy_of(&self, sent_info: &SentInfo) -> bool {
        let delay_max_ns = match self.rtt_ns {
            0 => COPY_DELAY_MAX_NS,
            rtt_ns => rtt_ns / 2,
        };
        let was_requested = self.is_requested && !sent_info.is_retransmission;
        self.identification == sent_info.identification
            && !sent_info.is_lower_bound
            && sent_info.age_ns < delay_max_ns
            && !was_requested
    }

    /// Returns the class of the segment.
    ///
    /// The first row that fits decides. A segment whose age is only a lower bound (it is older than the
    /// oldest one kept) is never a duplicate or reordered.
    ///
    /// | Evidence | Class |
    /// |---|---|
    /// | repeats the last byte, and the window is closed or all data acknowledged | flow control |
    /// | no earlier or later segment is kept to compare with | unknown |
    /// | seen before with the same identification or without one, within half a round trip (10 ms if none is known), and not requested by duplicate ACKs since it was sent | duplicate |
    /// | fills a hole within the retransmission timeout, with an identification before the next segment's (if they are not sequential: within a round trip, and no duplicate ACKs) | reordering |
    /// | the retransmission timeout has passed | timeout, unnecessary if its bytes had been acknowledged |
    /// | duplicate ACKs | fast retransmit, unnecessary if its bytes had been acknowledged |
    /// | anything else | unknown |
    pub(super) fn classify(&self) -> Class {
        if self.is_probe {
            return Class::FlowControl;
        }
        let Some(sent_info) = self.sent_info else {
            return Class::Unknown;
        };
        if self.was_seen {
            if self.is_copy_of(&sent_info) {
                return Class::Duplicate;
            }
        } else if !sent_info.is_lower_bound && sent_info.age_ns < self.rto_ns {
            // Reordered, or retransmitted. A retransmission takes at least a round trip. It may keep its
            // identification, so that after the timeout this does not show the order of sending.
            let is_soon = sent_info.age_ns < self.rtt_ns && !self.has_duplicate_acks;
            if self.was_sent_before(&sent_info).unwrap_or(is_soon) {
                return Class::Reordering;
            }
        }
        let is_timeout = sent_info.age_ns >= self.rto_ns;
        match (is_timeout, self.has_duplicate_acks, self.was_acknowledged) {
            (true, _, false) => Class::Timeout,
            (true, _, true) => Class::UnnecessaryTimeout,
            (false, true, false) => Class::FastRetransmit,
            (false, true, true) => Class::UnnecessaryFastRetransmit,
            (false, false, _) => Class::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A segment whose bytes were seen 5 ms ago, on a path of 20 ms.
    fn seen() -> Evidence {
        Evidence {
            is_probe: false,
            was_seen: true,
            was_acknowledged: false,
            identification: 8,
            sent_info: Some(SentInfo {
                age_ns: 5 * MS,
                is_lower_bound: false,
                is_retransmission: false,
                identification: 7,
                previous_identification: 6,
            }),
            rtt_ns: 20 * MS,
            rto_ns: 200 * MS,
            has_duplicate_acks: false,
            is_requested: false,
        }
    }

    /// Returns the class of `evidence` with a change to what is known of the other segment.
    fn class_with(evidence: Evidence, change: impl FnOnce(&mut SentInfo)) -> Class {
        let mut sent_info = evidence.sent_info.unwrap();
        change(&mut sent_info);
        let changed = Evidence {
            sent_info: Some(sent_info),
            ..evidence
        };
        changed.classify()
    }

    #[test]
    fn a_probe_or_a_segment_without_another_needs_no_more_evidence() {
        let mut evidence = seen();
        evidence.sent_info = None;
        assert_eq!(evidence.classify(), Class::Unknown);
        evidence.is_probe = true;
        assert_eq!(evidence.classify(), Class::FlowControl);
    }

    #[test]
    fn seen_bytes_are_duplicates_by_identification_and_by_age() {
        let is = |evidence, expected, change: fn(&mut SentInfo)| {
            assert_eq!(class_with(evidence, change), expected);
        };
        is(seen(), Class::Duplicate, |it| it.identification = 8);
        is(seen(), Class::Unknown, |_| {});
        // In the same microsecond.
        is(seen(), Class::Duplicate, |it| {
            (it.identification, it.age_ns) = (8, 0);
        });
        // A retransmission that keeps its identification.
        is(seen(), Class::Unknown, |it| {
            (it.identification, it.age_ns) = (8, 10 * MS);
        });
        is(seen(), Class::Timeout, |it| {
            (it.identification, it.age_ns) = (8, 200 * MS);
        });
        is(seen(), Class::Unknown, |it| {
            (it.identification, it.is_lower_bound) = (8, true);
        });
        let mut unnumbered = seen();
        unnumbered.identification = 0;
        is(unnumbered, Class::Unknown, |_| {});
        is(unnumbered, Class::Duplicate, |it| it.identification = 0);
        is(unnumbered, Class::Unknown, |it| {
            (it.identification, it.age_ns) = (0, 10 * MS);
        });
        is(unnumbered, Class::Unknown, |it| {
            (it.identification, it.is_lower_bound) = (0, true);
        });
    }

    /// The round trips may be measured too long.
    #[test]
    fn a_segment_that_duplicate_acks_requested_is_no_copy_of_the_first_one() {
        let requested = Evidence {
            has_duplicate_acks: true,
            is_requested: true,
            ..seen()
        };
        for is_retransmission in [false, true] {
            let class = class_with(requested, |it| {
                (it.identification, it.is_retransmission) = (8, is_retransmission);
            });
            let expected = match is_retransmission {
                true => Class::Duplicate,
                false => Class::FastRetransmit,
            };
            assert_eq!(class, expected);
        }
        let recovering = Evidence {
            has_duplicate_acks: true,
            ..seen()
        };
        let class = class_with(recovering, |it| it.identification = 8);
        assert_eq!(class, Class::Duplicate);
    }

    #[test]
    fn a_hole_filled_after_the_timeout_is_retransmitted_with_any_identification() {
        for identification in [1, 5, 7, 8, 9, 0] {
            let filling = Evidence {
                was_seen: false,
                identification,
                ..seen()
            };
            let class = class_with(filling, |it| it.age_ns = 200 * MS);
            assert_eq!(class, Class::Timeout, "{identification}");
        }
    }

    #[test]
    fn without_a_round_trip_a_copy_comes_within_ten_milliseconds() {
        for (identification, age_ns, expected) in [
            (8, 0, Class::Duplicate),
            (8, 10 * MS - 1, Class::Duplicate),
            (8, 10 * MS, Class::Unknown),
            (8, 1000 * MS, Class::Timeout),
            (0, 0, Class::Duplicate),
            (0, 1000 * MS, Class::Timeout),
        ] {
            let evidence = Evidence {
                identification,
                rtt_ns: 0,
                rto_ns: 1000 * MS,
                ..seen()
            };
            let class = class_with(evidence, |it| {
                (it.identification, it.age_ns) = (identification, age_ns);
            });
            assert_eq!(class, expected, "{identification} {age_ns}");
        }
    }

    #[test]
    fn segments_that_fill_a_hole_are_reordered_if_sent_before_the_next_one() {
        let mut filling = seen();
        filling.was_seen = false;
        assert_eq!(filling.classify(), Class::Unknown, "sent after it");
        filling.identification = 6;
        assert_eq!(filling.classify(), Class::Reordering);
        assert_eq!(
            class_with(filling, |it| it.is_lower_bound = true),
            Class::Unknown
        );
        // Identifications that are not sequential: by age.
        let random = |age_ns| {
            move |it: &mut SentInfo| {
                (it.previous_identification, it.age_ns) = (40_000, age_ns);
            }
        };
        assert_eq!(class_with(filling, random(19 * MS)), Class::Reordering);
        assert_eq!(class_with(filling, random(20 * MS)), Class::Unknown);
        // Constant identifications show no order either.
        let constant = |age_ns| {
            move |it: &mut SentInfo| {
                (it.identification, it.previous_identification) = (6, 6);
                it.age_ns = age_ns;
            }
        };
        assert_eq!(class_with(filling, constant(19 * MS)), Class::Reordering);
        assert_eq!(class_with(filling, constant(200 * MS)), Class::Timeout);
        filling.has_duplicate_acks = true;
        assert_eq!(class_with(filling, random(19 * MS)), Class::FastRetransmit);
    }

    #[test]
    fn retransmissions_are_by_timeout_or_by_duplicate_acks_and_may_be_unnecessary() {
        for (age_ns, has_duplicate_acks, was_acknowledged, expected) in [
            (200 * MS, false, false, Class::Timeout),
            (200 * MS, true, false, Class::Timeout),
            (200 * MS, false, true, Class::UnnecessaryTimeout),
            (199 * MS, true, false, Class::FastRetransmit),
            (199 * MS, true, true, Class::UnnecessaryFastRetransmit),
            (199 * MS, false, true, Class::Unknown),
            (199 * MS, false, false, Class::Unknown),
        ] {
            let evidence = Evidence {
                has_duplicate_acks,
                was_acknowledged,
                ..seen()
            };
            assert_eq!(class_with(evidence, |it| it.age_ns = age_ns), expected);
        }
    }
}
