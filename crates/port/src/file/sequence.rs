//! Several captures in turn as one port.

use super::capture_file::{Advanced, CaptureFile};
use super::source::Input;
use crate::frame::{Burst, Counters, Port, PortError, Received};
use std::collections::VecDeque;

/// Capture files read one after the other, in the order given.
///
/// A fault in the middle of a file ends that file, and the next one follows.
pub struct CaptureFiles {
    current: Option<CaptureFile>,
    waiting: VecDeque<Input>,
    /// Of the files before `current`.
    done: Counters,
    /// Of all the files, 0 if that of one is unknown.
    size: u64,
    name: String,
}

impl CaptureFiles {
    /// Opens each of `inputs` once, so that a wrong name among many is told before hours of reading
    /// and not after; only the first stays open.
    ///
    /// Threads that each want to read everything each open the same inputs.
    ///
    /// # Errors
    /// Those of [`CaptureFile::open`], when there is no input, and when standard input is named twice.
    pub fn open(inputs: &[Input]) -> Result<Self, PortError> {
        let standard = |input: &&Input| **input == Input::StandardInput;
        if inputs.iter().filter(standard).count() > 1 {
            return Err(PortError::Failed(
                "standard input (-) is named more than once, and can be read only once".to_owned(),
            ));
        }
        let Some((first, others)) = inputs.split_first() else {
            return Err(PortError::Failed(
                "no capture file is named; name one with -r".to_owned(),
            ));
        };
        for input in others {
            // Opening a named pipe would wait for its writer, and take his first bytes.
            if !input.is_pipe() {
                CaptureFile::open(input)?;
            }
        }
        let current = CaptureFile::open(first)?;
        let sizes: Option<Vec<u64>> = inputs.iter().map(Input::size).collect();
        Ok(Self {
            name: current.name().to_owned(),
            current: Some(current),
            waiting: others.iter().cloned().collect(),
            done: Counters::default(),
            size: sizes.map_or(0, |sizes| sizes.iter().sum()),
        })
    }

    /// Closes the file at hand.
    fn close(&mut self) {
        if let Some(mut finished) = self.current.take() {
            let counters = finished.counters();
            self.done.frames += counters.frames;
            self.done.bytes += counters.bytes;
            self.done.faults += counters.faults;
            self.done.snap_lengths += counters.snap_lengths;
            self.done.position += counters.position.max(counters.size);
        }
    }

    /// Opens the next file; false when there is none.
    fn open_next(&mut self) -> Result<bool, PortError> {
        let Some(input) = self.waiting.pop_front() else {
            return Ok(false);
        };
        let file = CaptureFile::open(&input)?;
        file.name().clone_into(&mut self.name);
        self.current = Some(file);
        Ok(true)
    }
}

impl Port for CaptureFiles {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        loop {
            let Some(file) = &mut self.current else {
                match self.open_next() {
                    Ok(true) => continue,
                    Ok(false) => return Ok(Received::End),
                    Err(error) => {
                        self.done.faults += 1;
                        return Ok(Received::Fault(error.to_string()));
                    }
                }
            };
            match file.advance() {
                Ok(Advanced::Burst) => break,
                Ok(Advanced::Idle) => return Ok(Received::Idle),
                Ok(Advanced::Fault(message)) => return Ok(Received::Fault(message)),
                Ok(Advanced::End) => self.close(),
                Err(error) => {
                    self.done.faults += 1;
                    return Ok(Received::Fault(error.to_string()));
                }
            }
        }
        Ok(match &self.current {
            Some(file) => Received::Burst(file.burst()),
            None => Received::End,
        })
    }

    fn counters(&mut self) -> Counters {
        let current = self.current.as_mut().map(Port::counters);
        let current = current.unwrap_or_default();
        let mut snap_lengths = self.done.snap_lengths;
        snap_lengths += current.snap_lengths;
        Counters {
            frames: self.done.frames + current.frames,
            bytes: self.done.bytes + current.bytes,
            faults: self.done.faults + current.faults,
            position: self.done.position + current.position,
            size: self.size,
            snap_lengths,
            ..Counters::default()
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn stop(&mut self) {
        self.waiting.clear();
        if let Some(file) = &mut self.current {
            file.stop();
        }
    }
}
