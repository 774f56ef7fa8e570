//! Classic BPF programs that the kernel runs on a frame before it enters the ring.
//!
//! A rejected frame takes no space in the ring and is not counted by the socket. The programs are
//! hand-written: they use only the kernel's ancillary data of a frame, never its bytes.

use libc::sock_filter;

/// Load a word of ancillary data of the packet: linux/filter.h, `SKF_AD_OFF`.
const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
/// Jump if equal to the constant.
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
/// Return a constant: the bytes of the frame to keep, 0 to reject it.
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const ALL_BYTES: u32 = u32::MAX;

const fn load(ancillary: i32) -> sock_filter {
    instruction(LOAD, (libc::SKF_AD_OFF + ancillary) as u32, 0, 0)
}

/// Skips `count` instructions if the word equals `value`.
const fn jump_if_equal(value: u32, count: u8) -> sock_filter {
    instruction(JUMP_EQUAL, value, count, 0)
}

const fn accept(bytes: u32) -> sock_filter {
    instruction(RETURN, bytes, 0, 0)
}

const fn instruction(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Rejects all frames.
pub(super) const REJECT_ALL: [sock_filter; 1] = [accept(0)];

/// Matches a receive queue by the queue mappings that the kernel sets on its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueFilter {
    mappings: [u32; 2],
}

impl QueueFilter {
    /// Matches queue `number` of a device whose driver records it: as the number plus one
    /// (`skb_record_rx_queue`). A mapping of 0 means not recorded, as by drivers with a single queue.
    /// Queue 0 matches these, too, so that every received packet belongs to exactly one queue.
    pub(super) fn from_recorded_queue(number: u16) -> Self {
        let mapping = u32::from(number) + 1;
        let unrecorded = if number == 0 { 0 } else { mapping };
        Self {
            mappings: [mapping, unrecorded],
        }
    }

    /// Matches queue `number` of a device whose driver leaves the number of the sender's queue in the
    /// mapping.
    pub(super) fn from_peer_queue(number: u16) -> Self {
        Self {
            mappings: [number.into(); 2],
        }
    }
}

/// Returns the program for a queue and a snaplen; empty if all frames are accepted whole.
///
/// A filter is used instead of `PACKET_FANOUT_QM`, since fan-out by queue distributes all queues over
/// the sockets of a group, modulo their number: a group of one socket gets all of them. Outgoing
/// packets are rejected first, since their mapping is the number of the transmit queue.
pub(super) fn program(queue: Option<QueueFilter>, snaplen: Option<u32>) -> Vec<sock_filter> {
    let kept = kept_bytes(snaplen);
    match queue {
        None if kept == ALL_BYTES => Vec::new(),
        None => vec![accept(kept)],
        Some(queue) => vec![
            load(libc::SKF_AD_PKTTYPE),
            jump_if_equal(u32::from(libc::PACKET_OUTGOING), 3),
            load(libc::SKF_AD_QUEUE),
            jump_if_equal(queue.mappings[0], 2),
            jump_if_equal(queue.mappings[1], 1),
            accept(0),
            accept(kept),
        ],
    }
}

/// Returns the program for a snaplen on all interfaces. It rejects outgoing packets of the loopback
/// interface with this index, because each is also received, as libpcap does.
pub(super) fn program_any(loopback: Option<i32>, snaplen: Option<u32>) -> Vec<sock_filter> {
    let Some(loopback) = loopback else {
        return program(None, snaplen);
    };
    vec![
        load(libc::SKF_AD_PKTTYPE),
        jump_if_equal(u32::from(libc::PACKET_OUTGOING), 1),
        accept(kept_bytes(snaplen)),
        load(libc::SKF_AD_IFINDEX),
        jump_if_equal(loopback.cast_unsigned(), 1),
        accept(kept_bytes(snaplen)),
        accept(0),
    ]
}

/// Returns the bytes to keep of each frame; returning 0 would reject it.
fn kept_bytes(snaplen: Option<u32>) -> u32 {
    snaplen.map_or(ALL_BYTES, |bytes| bytes.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interprets a program of the instructions used here for one packet.
    fn run(program: &[sock_filter], packet_type: u32, queue_mapping: u32) -> u32 {
        let mut accumulator = 0;
        let mut at = 0;
        loop {
            let step = program[at];
            at += 1;
            match step.code {
                LOAD if step.k == (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32 => {
                    accumulator = packet_type;
                }
                LOAD => accumulator = queue_mapping,
                JUMP_EQUAL if accumulator == step.k => at += usize::from(step.jt),
                JUMP_EQUAL => at += usize::from(step.jf),
                _ => return step.k,
            }
        }
    }

    #[test]
    fn received_frames_match_exactly_one_queue_and_sent_ones_none() {
        let recorded = [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3)];
        let kept = [(0, 0), (1, 1), (2, 2), (3, 3)];
        let kinds = [
            (
                QueueFilter::from_recorded_queue as fn(u16) -> QueueFilter,
                &recorded[..],
            ),
            (QueueFilter::from_peer_queue, &kept),
        ];
        for (kind, owners) in kinds {
            for &(mapping, owner) in owners {
                for queue in 0..4 {
                    let program = program(Some(kind(queue)), None);
                    let expected = if queue == owner { ALL_BYTES } else { 0 };
                    assert_eq!(run(&program, 0, mapping), expected, "{queue} {mapping}");
                    assert_eq!(run(&program, 4, mapping), 0);
                }
            }
        }
    }

    #[test]
    fn only_outgoing_loopback_frames_are_rejected_on_any() {
        let program = program_any(Some(1), None);
        // The interpreter returns its last argument for all other ancillary data: the index.
        for (packet_type, interface, expected) in [
            (0, 1, ALL_BYTES),
            (0, 2, ALL_BYTES),
            (4, 2, ALL_BYTES),
            (4, 1, 0),
        ] {
            assert_eq!(run(&program, packet_type, interface), expected);
        }
        assert!(program_any(None, None).is_empty());
    }

    #[test]
    fn snaplen_never_rejects_a_frame() {
        assert!(program(None, None).is_empty());
        assert_eq!(run(&program(None, Some(96)), 4, 0), 96);
        assert_eq!(run(&program(None, Some(0)), 0, 0), 1);
        assert_eq!(
            run(
                &program(Some(QueueFilter::from_recorded_queue(1)), Some(96)),
                0,
                2
            ),
            96
        );
    }
}
