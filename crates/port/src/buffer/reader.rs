//! The end of a buffer that is read: a port.

use super::Shared;
use super::block::Block;
use super::sort::{Order, Place};
use crate::frame::{BURST, Burst, Counters, Port, PortError, Received};
use crate::frame_list::FrameList;
use rtrb::{Consumer, Producer};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

/// Looks in vain before the reader sleeps.
const SPINS: u32 = 2000;

/// How long it sleeps, and how often before it says that it is idle.
const NAP: Duration = Duration::from_micros(50);
const NAPS: u32 = 100;

/// Hands over the frames of a buffer, in the order in which they came or, on request, sorted by flow
/// within a bound.
pub struct BufferPort {
    full: Consumer<Block>,
    empty: Producer<Block>,
    shared: Arc<Shared>,
    name: String,
    rss_key: Option<Box<[u8]>>,
    /// Blocks at hand.
    blocks: Vec<Block>,
    /// The next frame of the one block at hand, or of the order.
    next: usize,
    /// Bytes that are sorted together; 0: none.
    sort_bytes: usize,
    order: Order,
    frames: FrameList,
    counted: [u64; 2],
}

impl BufferPort {
    pub(super) fn new(
        full: Consumer<Block>,
        empty: Producer<Block>,
        shared: Arc<Shared>,
        name: &str,
        rss_key: Option<&[u8]>,
        sort_bytes: usize,
    ) -> Self {
        Self {
            full,
            empty,
            shared,
            name: name.to_owned(),
            rss_key: rss_key.map(Box::from),
            blocks: Vec::new(),
            next: 0,
            sort_bytes,
            order: Order::default(),
            frames: FrameList::default(),
            counted: [0; 2],
        }
    }

    /// Frames at hand that have not been handed over.
    fn left(&self) -> usize {
        let all = match self.sort_bytes {
            0 => self.blocks.first().map_or(0, |block| block.frames.len()),
            _ => self.order.places().len(),
        };
        all - self.next
    }

    /// Gives the blocks at hand back, and takes as many as there are and are wanted. Whether there is
    /// anything.
    fn refill(&mut self) -> bool {
        for mut block in self.blocks.drain(..) {
            block.clear();
            // The ring holds all blocks that there are.
            let _ = self.empty.push(block);
        }
        self.next = 0;
        let mut bytes = 0;
        while let Ok(block) = self.full.pop() {
            bytes += block.len();
            self.blocks.push(block);
            if bytes >= self.sort_bytes {
                break;
            }
        }
        if self.sort_bytes > 0 {
            self.order.sort(&self.blocks);
        }
        self.left() > 0
    }

    /// Waits a while for frames; whether some came.
    fn wait(&mut self) -> bool {
        for look in 0..SPINS + NAPS {
            if self.refill() {
                return true;
            }
            if self.shared.ended.load(Ordering::Relaxed) || self.has_fault() {
                return false;
            }
            if look < SPINS {
                std::hint::spin_loop();
            } else {
                thread::sleep(NAP);
            }
        }
        false
    }

    fn has_fault(&self) -> bool {
        let faults = self.shared.faults.lock();
        !faults.unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The next frames at hand, of one link type.
    fn burst(&mut self) -> Burst<'_> {
        let one;
        let places: &[Place] = if self.sort_bytes == 0 {
            let last = self.left().min(BURST) + self.next;
            one = Place::of_block(self.next..last);
            &one
        } else {
            &self.order.places()[self.next..]
        };
        let link = places.first().map_or(wire::LinkType::Ethernet, |place| {
            self.blocks[place.block()].link
        });
        // SAFETY: the frames' bytes lie on the heap, in blocks at hand, which do not change until the
        // next `receive`, and nothing reads the list before it is written again.
        let frames = unsafe { self.frames.borrow() };
        let mut count = 0;
        for (room, place) in frames.iter_mut().zip(places) {
            let block = &self.blocks[place.block()];
            if block.link != link {
                break;
            }
            *room = block.frame(place.frame());
            count += 1;
        }
        self.next += count;
        let frames = &frames[..count];
        self.counted[0] += count as u64;
        self.counted[1] += frames
            .iter()
            .map(|frame| u64::from(frame.wire_length))
            .sum::<u64>();
        Burst { link, frames }
    }
}

impl Port for BufferPort {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        if self.left() == 0 {
            // Looked at first: what was written before the end is seen after it.
            let ended = self.shared.ended.load(Ordering::Acquire);
            if !self.refill() {
                if let Some(fault) = self.shared.fault() {
                    return Ok(Received::Fault(fault));
                }
                if ended {
                    let error = self.shared.error.lock();
                    let error = error.unwrap_or_else(PoisonError::into_inner).take();
                    return error.map_or(Ok(Received::End), Err);
                }
                if !self.wait() {
                    return Ok(Received::Idle);
                }
            }
        }
        Ok(Received::Burst(self.burst()))
    }

    /// Those of the port behind the buffer, with what the buffer had no room for; frames and bytes
    /// are those handed over.
    fn counters(&mut self) -> Counters {
        let counters = self.shared.counters.lock();
        Counters {
            frames: self.counted[0],
            bytes: self.counted[1],
            ..*counters.unwrap_or_else(PoisonError::into_inner)
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn rss_key(&self) -> Option<&[u8]> {
        self.rss_key.as_deref()
    }

    fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}
