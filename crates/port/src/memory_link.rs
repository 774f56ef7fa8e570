//! A link in memory: one end sends, the other receives. A full link accepts no more frames.

use crate::frame::{BURST, Burst, Counters, Frame, Port, PortError, Received};
use crate::frame_list::FrameList;
use crate::slot_memory::SlotMemory;
use crate::transmit::{Slot, Transmit};
use rtrb::{Consumer, Producer, RingBuffer};
use std::num::NonZeroU32;
use wire::LinkType;

/// A frame in transit. Its memory is reused.
struct QueuedFrame {
    bytes: Vec<u8>,
    time_ns: i64,
    rss_hash: u32,
}

/// The sending end of a [`memory_link`].
pub struct MemorySender {
    memory: SlotMemory,
    full: Producer<QueuedFrame>,
    empty: Consumer<QueuedFrame>,
    frames: u64,
    bytes: u64,
}

/// The receiving end of a [`memory_link`]. It ends when the sender was dropped and all frames are
/// delivered.
pub struct MemoryReceiver {
    full: Consumer<QueuedFrame>,
    empty: Producer<QueuedFrame>,
    held: Vec<QueuedFrame>,
    frames: FrameList,
    link: LinkType,
    counters: Counters,
    stopped: bool,
}

/// Creates a link that holds `capacity` frames, at least one, for one sending and one receiving thread.
#[must_use]
pub fn memory_link(capacity: usize, link: LinkType) -> (MemorySender, MemoryReceiver) {
    let capacity = capacity.max(1);
    let (full_in, full_out) = RingBuffer::new(capacity);
    let (mut empty_in, empty_out) = RingBuffer::new(capacity);
    for _ in 0..capacity {
        // Cannot fail: the ring has this capacity.
        let _ = empty_in.push(QueuedFrame {
            bytes: Vec::new(),
            time_ns: 0,
            rss_hash: 0,
        });
    }
    let sender = MemorySender {
        memory: SlotMemory::new(),
        full: full_in,
        empty: empty_out,
        frames: 0,
        bytes: 0,
    };
    let receiver = MemoryReceiver {
        full: full_out,
        empty: empty_in,
        held: Vec::with_capacity(BURST),
        frames: FrameList::default(),
        link,
        counters: Counters::default(),
        stopped: false,
    };
    (sender, receiver)
}

impl Transmit for MemorySender {
    fn reserve(&mut self, count: usize, slot_bytes: usize) -> Result<&mut [Slot<'_>], PortError> {
        self.memory.reserve(count, slot_bytes)
    }

    /// Accepts frames while the link has room.
    fn submit(&mut self, count: usize) -> Result<usize, PortError> {
        let count = count.min(self.memory.reserved());
        let mut accepted = 0;
        while accepted < count {
            let Ok(mut queued) = self.empty.pop() else {
                break;
            };
            let (frame, time_ns, rss_hash) = self.memory.frame(accepted);
            queued.bytes.clear();
            queued.bytes.extend_from_slice(frame);
            (queued.time_ns, queued.rss_hash) = (time_ns, rss_hash);
            self.bytes += frame.len() as u64;
            // Cannot fail: there are as many frames as the ring holds.
            let _ = self.full.push(queued);
            accepted += 1;
        }
        self.frames += accepted as u64;
        self.memory.commit(accepted, count);
        Ok(accepted)
    }

    fn discard(&mut self) {
        self.memory.discard();
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn sent(&self) -> (u64, u64) {
        (self.frames, self.bytes)
    }

    fn name(&self) -> &'static str {
        "memory"
    }
}

impl Port for MemoryReceiver {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        // Cannot fail: they came from this ring.
        if let Ok(slots) = self.empty.write_chunk_uninit(self.held.len()) {
            slots.fill_from_iter(self.held.drain(..));
        }
        if self.stopped {
            return Ok(Received::End);
        }
        let available = self.full.slots().min(BURST);
        if let Ok(frames) = self.full.read_chunk(available) {
            self.held.extend(frames);
        }
        if self.held.is_empty() {
            // Check the ring once more: the sender may have sent between the read above and its exit.
            let has_ended = self.full.is_abandoned() && self.full.is_empty();
            return Ok(if has_ended {
                Received::End
            } else {
                Received::Idle
            });
        }
        // SAFETY: only the frames written now are read below. Their bytes belong to `held`, which does
        // not change before the next `receive`; the returned burst borrows `self` until then.
        let frames = unsafe { self.frames.slots() };
        for (frame, queued) in frames.iter_mut().zip(&self.held) {
            *frame = Frame {
                rss_hash: NonZeroU32::new(queued.rss_hash),
                ..Frame::new(&queued.bytes, queued.time_ns, queued.bytes.len() as u32)
            };
            self.counters.bytes += queued.bytes.len() as u64;
        }
        self.counters.frames += self.held.len() as u64;
        Ok(Received::Burst(Burst {
            link: self.link,
            frames: self.frames.first(self.held.len()),
        }))
    }

    fn counters(&mut self) -> Counters {
        self.counters
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn stop(&mut self) {
        self.stopped = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_link_applies_backpressure_and_keeps_the_order() {
        const FRAMES: u64 = 20_000;
        let (mut sender, mut receiver) = memory_link(64, LinkType::Ethernet);
        let sending = std::thread::spawn(move || {
            let (mut next, mut left) = (0, 0);
            while next < FRAMES || left > 0 {
                let slots = sender
                    .reserve(left + 100.min(FRAMES - next) as usize, 70)
                    .unwrap();
                for slot in &mut slots[left..] {
                    slot.bytes[..8].copy_from_slice(&next.to_le_bytes());
                    slot.length = 8 + (next % 50) as usize;
                    slot.rss_hash = next as u32;
                    next += 1;
                }
                let count = slots.len();
                left = count - sender.submit(count).unwrap();
            }
            sender.sent()
        });
        let mut next = 0u64;
        loop {
            match receiver.receive().unwrap() {
                Received::Burst(burst) => {
                    for frame in burst.frames {
                        assert_eq!(frame.bytes[..8], next.to_le_bytes());
                        assert_eq!(frame.bytes.len() as u64, 8 + next % 50);
                        assert_eq!(frame.rss_hash, NonZeroU32::new(next as u32));
                        next += 1;
                    }
                }
                Received::End => break,
                Received::Idle => std::thread::yield_now(),
                Received::Fault(fault) => panic!("{fault}"),
            }
        }
        assert_eq!(next, FRAMES);
        let counters = receiver.counters();
        assert_eq!(sending.join().unwrap(), (counters.frames, counters.bytes));
    }
}
