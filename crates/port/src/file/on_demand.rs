//! A capture file that is open only while it is read.

use super::capture_file::{Advanced, CaptureFile};
use super::source::Input;
use crate::frame::{Burst, Counters, Port, PortError, Received};

/// A capture file that is opened by the first [`Port::receive`] and closed at its end, so that many can
/// wait for their turn. An error is a fault, after which the file ends.
pub struct OnDemandFile {
    input: Input,
    name: String,
    file: Option<CaptureFile>,
    /// Counters up to the end, once it has ended.
    finished: Option<Counters>,
}

impl OnDemandFile {
    /// Checks that a file can be opened, closes it again, and returns the time of its first packet in
    /// nanoseconds since the epoch. That of a pipe, and of a file without readable packets, is the
    /// earliest possible time: reading it says more.
    ///
    /// # Errors
    /// The errors of [`CaptureFile::open`].
    pub fn new(input: &Input) -> Result<(Self, i64), PortError> {
        let file = Self {
            input: input.clone(),
            name: input.to_string(),
            file: None,
            finished: None,
        };
        // Opening a pipe twice could lose its first bytes.
        if input.is_pipe() || *input == Input::StandardInput {
            return Ok((file, i64::MIN));
        }
        let mut opened = CaptureFile::open(input)?;
        let first_ns = match opened.receive() {
            Ok(Received::Burst(burst)) => burst.frames.first().map(|frame| frame.time_ns),
            _ => None,
        };
        Ok((file, first_ns.unwrap_or(i64::MIN)))
    }

    fn finish(&mut self) {
        let file = self.file.take();
        let counters = file.map_or_else(Counters::default, |mut file| file.counters());
        self.finished.get_or_insert(Counters {
            position: counters.position.max(counters.size),
            ..counters
        });
    }

    /// Counts an error that ends the file.
    fn fail(&mut self, error: &PortError) -> String {
        self.finish();
        if let Some(counters) = &mut self.finished {
            counters.faults += 1;
        }
        error.to_string()
    }
}

impl Port for OnDemandFile {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        if self.finished.is_some() {
            return Ok(Received::End);
        }
        if self.file.is_none() {
            match CaptureFile::open(&self.input) {
                Ok(file) => self.file = Some(file),
                Err(error) => return Ok(Received::Fault(self.fail(&error))),
            }
        }

        let advanced = self.file.as_mut().map(CaptureFile::advance);
        match advanced {
            Some(Ok(Advanced::Burst)) => {}
            Some(Ok(Advanced::Idle)) => return Ok(Received::Idle),
            Some(Ok(Advanced::Fault(message))) => return Ok(Received::Fault(message)),
            Some(Ok(Advanced::End)) | None => {
                self.finish();
                return Ok(Received::End);
            }
            Some(Err(error)) => return Ok(Received::Fault(self.fail(&error))),
        }
        Ok(match &self.file {
            Some(file) => Received::Burst(file.burst()),
            None => Received::End,
        })
    }

    fn counters(&mut self) -> Counters {
        match (&mut self.file, self.finished) {
            (_, Some(counters)) => counters,
            (Some(file), None) => file.counters(),
            (None, None) => Counters {
                size: self.input.size().unwrap_or(0),
                ..Counters::default()
            },
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn stop(&mut self) {
        self.finish();
    }
}
