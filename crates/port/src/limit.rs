//! A port that ends after a number of frames (`-c`), its own or those of several ports together.

use crate::frame::{Burst, COUNTED_MAX, Counted, Counters, Port, PortError, Received};
use crate::wrapper::Wrapper;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Frames that may still be handed over.
#[derive(Clone, Debug)]
pub struct Limit(Arc<AtomicU64>);

impl Limit {
    /// So many, whoever hands them over.
    #[must_use]
    pub fn new(most: u64) -> Self {
        Self(Arc::new(AtomicU64::new(most)))
    }

    fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes so many, or as many as are left.
    fn take(&self, count: u64) -> u64 {
        let left = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                Some(left.saturating_sub(count))
            });
        left.unwrap_or(0).min(count)
    }
}

/// Hands over frames of another port as far as a limit goes, exactly, then ends.
pub struct Limited<P> {
    port: P,
    limit: Limit,
    frames: u64,
    bytes: u64,
}

impl<P: Port> Limited<P> {
    /// Ends `port` where `limit` is reached, by its frames and those of others that share it.
    #[must_use]
    pub fn new(port: P, limit: Limit) -> Self {
        Self {
            port,
            limit,
            frames: 0,
            bytes: 0,
        }
    }
}

impl<P: Port> Wrapper for Limited<P> {
    type Inner = P;

    fn inner(&self) -> &P {
        &self.port
    }

    fn inner_mut(&mut self) -> &mut P {
        &mut self.port
    }

    fn pass_on(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        if self.limit.left() == 0 {
            return Ok(Received::End);
        }
        let received = self.port.receive()?;
        let Received::Burst(burst) = received else {
            return Ok(received);
        };
        let count = self.limit.take(burst.frames.len() as u64) as usize;
        let frames = &burst.frames[..count];
        if frames.is_empty() {
            return Ok(Received::End);
        }
        self.frames += frames.len() as u64;
        self.bytes += frames
            .iter()
            .map(|frame| u64::from(frame.wire_length))
            .sum::<u64>();
        Ok(Received::Burst(Burst {
            link: burst.link,
            frames,
        }))
    }

    fn count_on(&mut self) -> Result<Received<Counted>, PortError> {
        // So many may come at once, and no part of them can be left; nor is it known what others take.
        let is_shared = Arc::strong_count(&self.limit.0) > 1;
        if is_shared || self.limit.left() < COUNTED_MAX as u64 {
            return Ok(self.pass_on()?.map(Counted::from));
        }
        Ok(self.port.count()?.map(|counted| {
            self.limit.take(counted.frames);
            self.frames += counted.frames;
            self.bytes += counted.bytes;
            counted
        }))
    }

    /// Those of the port, with the frames that were handed over; the filter below, if there is one,
    /// may have looked further, to the end of the burst.
    fn amend(&self, port: Counters) -> Counters {
        Counters {
            frames: self.frames,
            bytes: self.bytes,
            ..port
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::BURST;
    use crate::memory::MemoryPort;
    use wire::LinkType;

    #[test]
    fn a_limit_within_a_burst_is_exact_and_so_are_the_counters() {
        for most in [0u64, 1, 255, 256, 257, 300, 1000] {
            let frames = (0..300).map(|number| (number, 60, [0u8; 20]));
            let port = MemoryPort::new(LinkType::Ethernet, frames);
            let mut limited = Limited::new(port, Limit::new(most));
            let mut times = Vec::new();
            while let Received::Burst(burst) = limited.receive().expect("memory has no errors") {
                times.extend(burst.frames.iter().map(|frame| frame.time_ns));
            }
            let expected = most.min(300);
            assert_eq!(times, (0..expected.cast_signed()).collect::<Vec<_>>());
            let counters = limited.counters();
            assert_eq!((counters.frames, counters.bytes), (expected, expected * 60));
        }
    }

    #[test]
    fn ports_that_share_a_limit_keep_it_together() {
        for most in [1u64, 256, 300, 511, 10_000] {
            let limit = Limit::new(most);
            let mut ports: Vec<_> = (0..3)
                .map(|_| {
                    let frames = (0..300).map(|number| (number, 60, [0u8; 20]));
                    let port = MemoryPort::new(LinkType::Ethernet, frames);
                    Limited::new(port, limit.clone())
                })
                .collect();
            let mut frames = 0;
            for turn in 0..12 {
                let received = ports[turn % 3].count().expect("memory has no errors");
                if let Received::Burst(counted) = received {
                    frames += counted.frames;
                }
            }
            assert_eq!(frames, most.min(900));
            let counted: u64 = ports.iter_mut().map(|port| port.counters().frames).sum();
            assert_eq!(counted, frames);
        }
    }

    #[test]
    fn a_limit_is_as_exact_for_who_only_counts() {
        for most in [0u64, 1, 256, 4095, 4096, 4097, 9000, 20_000] {
            let frames = (0..10_000).map(|number| (number, 60, [0u8; 20]));
            let port = AtOnce(MemoryPort::new(LinkType::Ethernet, frames));
            let mut limited = Limited::new(port, Limit::new(most));
            let mut frames = 0;
            while let Received::Burst(counted) = limited.count().expect("memory has no errors") {
                assert_eq!(counted.bytes, counted.frames * 60);
                frames += counted.frames;
            }
            assert_eq!(frames, most.min(10_000));
            let counters = limited.counters();
            assert_eq!((counters.frames, counters.bytes), (frames, frames * 60));
        }
    }

    /// Counts as many frames at once as a port may.
    struct AtOnce(MemoryPort);

    impl Wrapper for AtOnce {
        type Inner = MemoryPort;

        fn inner(&self) -> &MemoryPort {
            &self.0
        }

        fn inner_mut(&mut self) -> &mut MemoryPort {
            &mut self.0
        }

        fn count_on(&mut self) -> Result<Received<Counted>, PortError> {
            let mut sum = Counted::default();
            while sum.frames + BURST as u64 <= COUNTED_MAX as u64 {
                let Received::Burst(burst) = self.0.receive()? else {
                    break;
                };
                let counted = Counted::from(burst);
                sum.frames += counted.frames;
                sum.bytes += counted.bytes;
            }
            Ok(if sum.frames == 0 {
                Received::End
            } else {
                Received::Burst(sum)
            })
        }
    }
}
