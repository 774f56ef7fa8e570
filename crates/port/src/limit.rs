//! A port that ends after a number of frames (`-c`).

use crate::frame::{BURST, Burst, Counted, Counters, Port, PortError, Received};
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
        if self.left < BURST as u64 {
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
        for most in [0u64, 1, 255, 256, 257, 300, 1000] {
            let frames = (0..300).map(|number| (number, 60, [0u8; 20]));
            let mut limited = Limited::new(MemoryPort::new(LinkType::Ethernet, frames), most);
            let mut frames = 0;
            while let Received::Burst(counted) = limited.count().expect("memory has no errors") {
                assert_eq!(counted.bytes, counted.frames * 60);
                frames += counted.frames;
            }
            assert_eq!(frames, most.min(300));
            let counters = limited.counters();
            assert_eq!((counters.frames, counters.bytes), (frames, frames * 60));
        }
    }
}
