//! The reading end of a capture buffer: a port.

use super::block::Block;
use super::shared::Shared;
use super::sort::{FlowOrder, FrameRef};
use crate::frame::{BURST, Burst, Counters, Port, PortError, Received};
use crate::frame_list::FrameList;
use rtrb::{Consumer, Producer};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

/// Empty polls before the reader sleeps.
const SPINS_UNTIL_SLEEP: u32 = 2000;

/// Duration of a sleep, and number of sleeps before the reader returns `Idle`.
const SLEEP: Duration = Duration::from_micros(50);
const SLEEPS_UNTIL_IDLE: u32 = 100;

/// Delivers the frames of a capture buffer in the order of arrival or, on request, sorted by flow
/// within a window.
pub struct BufferPort {
    full: Consumer<Block>,
    empty: Producer<Block>,
    shared: Arc<Shared>,
    name: String,
    rss_key: Option<Box<[u8]>>,
    /// The blocks being read.
    blocks: Vec<Block>,
    /// The next frame of the current block, or of `order` if sorting.
    next: usize,
    /// Bytes that are sorted together; 0: no sorting.
    sort_bytes: usize,
    order: FlowOrder,
    frames: FrameList,
    delivered: [u64; 2],
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
            order: FlowOrder::default(),
            frames: FrameList::default(),
            delivered: [0; 2],
        }
    }

    /// Number of frames in the current blocks that have not been delivered.
    fn remaining(&self) -> usize {
        let all = match self.sort_bytes {
            0 => self.blocks.first().map_or(0, |block| block.frames.len()),
            _ => self.order.refs().len(),
        };
        all - self.next
    }

    /// Recycles the current blocks and takes the next: one, or as many as are sorted together. Returns
    /// whether there are frames.
    fn refill(&mut self) -> bool {
        for mut block in self.blocks.drain(..) {
            block.clear();
            // Cannot fail: the ring holds all blocks.
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
        self.remaining() > 0
    }

    /// Waits a short time for frames; returns whether some arrived.
    fn wait(&mut self) -> bool {
        for poll in 0..SPINS_UNTIL_SLEEP + SLEEPS_UNTIL_IDLE {
            if self.refill() {
                return true;
            }
            if self.shared.ended.load(Ordering::Relaxed) || self.has_fault() {
                return false;
            }
            if poll < SPINS_UNTIL_SLEEP {
                std::hint::spin_loop();
            } else {
                thread::sleep(SLEEP);
            }
        }
        false
    }

    fn has_fault(&self) -> bool {
        let faults = self.shared.faults.lock();
        !faults.unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Returns the next frames of one link type.
    fn burst(&mut self) -> Burst<'_> {
        let in_block;
        let refs: &[FrameRef] = if self.sort_bytes == 0 {
            let end = self.remaining().min(BURST) + self.next;
            in_block = FrameRef::in_block(self.next..end);
            &in_block
        } else {
            &self.order.refs()[self.next..]
        };
        let link = refs.first().map_or(wire::LinkType::Ethernet, |first| {
            self.blocks[first.block()].link
        });
        // SAFETY: the frames' bytes are on the heap, in the current blocks, which do not change until
        // the next `receive`; the list is overwritten before it is read again.
        let frames = unsafe { self.frames.slots() };
        let mut count = 0;
        for (slot, reference) in frames.iter_mut().zip(refs) {
            let block = &self.blocks[reference.block()];
            if block.link != link {
                break;
            }
            *slot = block.frame(reference.frame());
            count += 1;
        }
        self.next += count;
        let frames = &frames[..count];
        self.delivered[0] += count as u64;
        self.delivered[1] += frames
            .iter()
            .map(|frame| u64::from(frame.wire_length))
            .sum::<u64>();
        Burst { link, frames }
    }
}

impl Port for BufferPort {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        if self.remaining() == 0 {
            // Load `ended` before polling: frames written before the end are then seen by the poll.
            let ended = self.shared.ended.load(Ordering::Acquire);
            if !self.refill() {
                if let Some(fault) = self.shared.pop_fault() {
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

    /// Returns the counters of the source port with the buffer's overflow; `frames` and `bytes` are
    /// those delivered here.
    fn counters(&mut self) -> Counters {
        let counters = self.shared.counters.lock();
        Counters {
            frames: self.delivered[0],
            bytes: self.delivered[1],
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
