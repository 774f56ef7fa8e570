//! A port that ends after a number of frames (`-c`), alone or together with other ports.

use crate::frame::{BURST_COUNT_MAX, Burst, BurstCount, Counters, Port, PortError, Received};
use crate::wrapper::Wrapper;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of frames still allowed, shared by its clones.
#[derive(Clone, Debug)]
pub struct Limit(Arc<AtomicU64>);

impl Limit {
    /// Allows `max` frames in total over all ports that share the limit.
    #[must_use]
    pub fn new(max: u64) -> Self {
        Self(Arc::new(AtomicU64::new(max)))
    }

    /// Whether all allowed frames were delivered.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.remaining() == 0
    }

    fn remaining(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes up to `count` frames from the limit and returns how many it granted.
    fn take(&self, count: u64) -> u64 {
        let left = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                Some(left.saturating_sub(count))
            });
        left.unwrap_or(0).min(count)
    }
}

/// Delivers frames of another port up to a limit, exactly, then ends.
pub struct Limited<P> {
    port: P,
    limit: Limit,
    frames: u64,
    bytes: u64,
}

impl<P: Port> Limited<P> {
    /// Ends `port` when it and the other ports that share `limit` have reached it.
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

    fn wrap_receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        if self.limit.remaining() == 0 {
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

    fn wrap_receive_count(&mut self) -> Result<Received<BurstCount>, PortError> {
        // A count cannot be split: count only if the largest one fits the limit, and if no other port
        // can use up the limit meanwhile.
        let is_shared = Arc::strong_count(&self.limit.0) > 1;
        if is_shared || self.limit.remaining() < BURST_COUNT_MAX as u64 {
            return Ok(self.wrap_receive()?.map(BurstCount::from));
        }
        Ok(self.port.receive_count()?.map(|counted| {
            self.limit.take(counted.frames);
            self.frames += counted.frames;
            self.bytes += counted.bytes;
            counted
        }))
    }

    /// Counts the frames delivered. (A filter inside has counted to the end of its burst.)
    fn wrap_counters(&self, port: Counters) -> Counters {
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
    fn limit_within_a_burst_and_counters_are_exact() {
        for max in [0u64, 1, 255, 256, 257, 300, 1000] {
            let frames = (0..300).map(|number| (number, 60, [0u8; 20]));
            let port = MemoryPort::new(LinkType::Ethernet, frames);
            let mut limited = Limited::new(port, Limit::new(max));
            let mut times = Vec::new();
            while let Received::Burst(burst) = limited.receive().expect("memory has no errors") {
                times.extend(burst.frames.iter().map(|frame| frame.time_ns));
            }
            let expected = max.min(300);
            assert_eq!(times, (0..expected.cast_signed()).collect::<Vec<_>>());
            let counters = limited.counters();
            assert_eq!((counters.frames, counters.bytes), (expected, expected * 60));
        }
    }

    #[test]
    fn ports_share_a_limit() {
        for max in [1u64, 256, 300, 511, 10_000] {
            let limit = Limit::new(max);
            let mut ports: Vec<_> = (0..3)
                .map(|_| {
                    let frames = (0..300).map(|number| (number, 60, [0u8; 20]));
                    let port = MemoryPort::new(LinkType::Ethernet, frames);
                    Limited::new(port, limit.clone())
                })
                .collect();
            let mut frames = 0;
            for round in 0..12 {
                let received = ports[round % 3]
                    .receive_count()
                    .expect("memory has no errors");
                if let Received::Burst(counted) = received {
                    frames += counted.frames;
                }
            }
            assert_eq!(frames, max.min(900));
            let counted: u64 = ports.iter_mut().map(|port| port.counters().frames).sum();
            assert_eq!(counted, frames);
        }
    }

    #[test]
    fn limit_is_exact_when_frames_are_only_counted() {
        for max in [0u64, 1, 256, 4095, 4096, 4097, 9000, 20_000] {
            let frames = (0..10_000).map(|number| (number, 60, [0u8; 20]));
            let port = LargeCounts(MemoryPort::new(LinkType::Ethernet, frames));
            let mut limited = Limited::new(port, Limit::new(max));
            let mut frames = 0;
            while let Received::Burst(counted) =
                limited.receive_count().expect("memory has no errors")
            {
                assert_eq!(counted.bytes, counted.frames * 60);
                frames += counted.frames;
            }
            assert_eq!(frames, max.min(10_000));
            let counters = limited.counters();
            assert_eq!((counters.frames, counters.bytes), (frames, frames * 60));
        }
    }

    /// Returns the largest counts that a port may.
    struct LargeCounts(MemoryPort);

    impl Wrapper for LargeCounts {
        type Inner = MemoryPort;

        fn inner(&self) -> &MemoryPort {
            &self.0
        }

        fn inner_mut(&mut self) -> &mut MemoryPort {
            &mut self.0
        }

        fn wrap_receive_count(&mut self) -> Result<Received<BurstCount>, PortError> {
            let mut sum = BurstCount::default();
            while sum.frames + BURST as u64 <= BURST_COUNT_MAX as u64 {
                let Received::Burst(burst) = self.0.receive()? else {
                    break;
                };
                let counted = BurstCount::from(burst);
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
