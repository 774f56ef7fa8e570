//! Classic BPF programs that the kernel runs before a frame enters the ring.
//!
//! What a program refuses costs no room and appears in no counter of the socket. The programs are
//! written by hand: they look at what the kernel knows of a frame, never at its bytes.

use libc::sock_filter;

/// Load a word from what the kernel knows of the packet: linux/filter.h, `SKF_AD_OFF`.
const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
/// Jump if equal to the constant.
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
/// Return a constant: how many bytes of the frame to keep, 0 to refuse it.
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const ALL_BYTES: u32 = u32::MAX;

const fn load(ancillary: i32) -> sock_filter {
    instruction(LOAD, (libc::SKF_AD_OFF + ancillary) as u32, 0, 0)
}

/// Jumps over `over` instructions where the word equals `value`, else goes on.
const fn skip_if(value: u32, over: u8) -> sock_filter {
    instruction(JUMP_EQUAL, value, over, 0)
}

const fn keep(bytes: u32) -> sock_filter {
    instruction(RETURN, bytes, 0, 0)
}

const fn instruction(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Refuses everything.
pub(super) const NOTHING: [sock_filter; 1] = [keep(0)];

/// A receive queue, by the mappings with which the kernel marks a packet that came on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    mappings: [u32; 2],
}

impl Queue {
    /// Queue `number` of a device whose driver records the queue: as its number plus one
    /// (`skb_record_rx_queue`), so that 0 means that the driver did not, as drivers with a single
    /// queue do not. Queue 0 takes these too, so that every received packet belongs to exactly one
    /// queue.
    pub(super) fn recorded(number: u16) -> Self {
        let mapping = u32::from(number) + 1;
        let unrecorded = if number == 0 { 0 } else { mapping };
        Self {
            mappings: [mapping, unrecorded],
        }
    }

    /// Queue `number` of a device whose driver leaves the number of the sender's queue as it is.
    pub(super) fn kept(number: u16) -> Self {
        Self {
            mappings: [number.into(); 2],
        }
    }
}

/// The program for a queue and a snap length; empty where everything is wanted whole.
///
/// A filter, rather than `PACKET_FANOUT_QM`, gives one queue alone: fan-out by queue spreads the
/// queues over as many sockets as there are, modulo their number, so one socket in a group of one
/// gets all of them. The mapping of a packet that is being sent is the number of its transmit
/// queue, hence such are refused first.
pub(super) fn program(queue: Option<Queue>, snap_bytes: Option<u32>) -> Vec<sock_filter> {
    // Keeping 0 bytes would mean to refuse the frame.
    let kept = snap_bytes.map_or(ALL_BYTES, |bytes| bytes.max(1));
    match queue {
        None if kept == ALL_BYTES => Vec::new(),
        None => vec![keep(kept)],
        Some(queue) => vec![
            load(libc::SKF_AD_PKTTYPE),
            skip_if(u32::from(libc::PACKET_OUTGOING), 3),
            load(libc::SKF_AD_QUEUE),
            skip_if(queue.mappings[0], 2),
            skip_if(queue.mappings[1], 1),
            keep(0),
            keep(kept),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program of the instructions used here for one packet.
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
    fn a_received_frame_belongs_to_exactly_one_queue_and_a_sent_one_to_none() {
        let recorded = [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3)];
        let kept = [(0, 0), (1, 1), (2, 2), (3, 3)];
        let kinds = [
            (Queue::recorded as fn(u16) -> Queue, &recorded[..]),
            (Queue::kept, &kept),
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
    fn a_snap_length_never_becomes_a_refusal() {
        assert!(program(None, None).is_empty());
        assert_eq!(run(&program(None, Some(96)), 4, 0), 96);
        assert_eq!(run(&program(None, Some(0)), 0, 0), 1);
        assert_eq!(run(&program(Some(Queue::recorded(1)), Some(96)), 0, 2), 96);
    }
}
