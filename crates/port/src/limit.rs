//! A port that ends after a number of frames (`-c`).

use crate::frame::{Burst, COUNTED_MAX, Counted, Counters, Port, PortError, Received};
use crate::wrapper::Wrapper;

/// Hands over the first `most` frames of another port, exactly, then ends.
pub struct Limited<P> {
    port: P,
    left: u64,
    frames: u64,
    bytes: u64,
}

impl<P: Port> Limited<P> {
    /// Ends `port` after `most` frames.
    #[must_use]
    pub fn new(port: P, most: u64) -> Self {
        Self {
            port,
            left: most,
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
        if self.left == 0 {
            return Ok(Received::End);
        }
        let received = self.port.receive()?;
        let Received::Burst(burst) = received else {
            return Ok(received);
        };
        let count = usize::try_from(self.left).unwrap_or(usize::MAX);
        let frames = &burst.frames[..count.min(burst.frames.len())];
        self.left -= frames.len() as u64;
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
        // So many may come at once, and no part of them can be left.
        if self.left < COUNTED_MAX as u64 {
            return Ok(self.pass_on()?.map(Counted::from));
        }
        Ok(self.port.count()?.map(|counted| {
            self.left -= counted.frames;
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
            let mut limited = Limited::new(port, most);
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
    fn a_limit_is_as_exact_for_who_only_counts() {
        for most in [0u64, 1, 256, 4095, 4096, 4097, 9000, 20_000] {
            let frames = (0..10_000).map(|number| (number, 60, [0u8; 20]));
            let mut limited =
                Limited::new(AtOnce(MemoryPort::new(LinkType::Ethernet, frames)), most);
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
