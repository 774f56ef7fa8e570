//! Several capture files as one port.

use super::capture_file::{Advanced, CaptureFile};
use super::source::Input;
use crate::frame::{Burst, Counters, Port, PortError, Received};
use std::collections::VecDeque;

/// Reads capture files one after another, in the order given.
///
/// A fault in the middle of a file ends that file; the next one follows.
pub struct CaptureFiles {
    current: Option<CaptureFile>,
    /// Why inputs could not be opened at the start, to be reported.
    open_errors: VecDeque<String>,
    pending: VecDeque<Input>,
    /// Counters of the files before `current`.
    finished: Counters,
    /// Size of all files in bytes, 0 if any is unknown.
    size: u64,
    name: String,
}

impl CaptureFiles {
    /// Opens each of `inputs` once, so that a wrong name among many is reported at the start and not
    /// after hours of reading. Only the first stays open.
    ///
    /// Several threads that each read everything open the same inputs each.
    ///
    /// # Errors
    /// The errors of [`CaptureFile::open`]; if there is no input; if standard input is given twice.
    pub fn open(inputs: &[Input]) -> Result<Self, PortError> {
        check_inputs(inputs)?;
        for input in inputs {
            check_openable(input)?;
        }
        Self::start(inputs.to_vec(), VecDeque::new())
    }

    /// Opens the inputs that can be opened, as [`CaptureFiles::open`] does. Each of the others is a
    /// fault, which is reported first.
    ///
    /// # Errors
    /// That of the first input, if none can be opened; if there is no input; if standard input is given
    /// twice.
    pub fn open_available(inputs: &[Input]) -> Result<Self, PortError> {
        check_inputs(inputs)?;
        let mut available = Vec::with_capacity(inputs.len());
        let mut errors = VecDeque::new();
        for input in inputs {
            match check_openable(input) {
                Ok(()) => available.push(input.clone()),
                Err(error) => errors.push_back(error),
            }
        }
        match errors.pop_front() {
            Some(first) if available.is_empty() => Err(first),
            first => {
                let errors = first.into_iter().chain(errors);
                Self::start(available, errors.map(|error| error.to_string()).collect())
            }
        }
    }

    fn start(inputs: Vec<Input>, open_errors: VecDeque<String>) -> Result<Self, PortError> {
        let sizes: Option<Vec<u64>> = inputs.iter().map(Input::size).collect();
        let mut files = Self {
            name: String::new(),
            current: None,
            open_errors,
            pending: inputs.into(),
            finished: Counters::default(),
            size: sizes.map_or(0, |sizes| sizes.iter().sum()),
        };
        files.open_next()?;
        Ok(files)
    }

    /// Closes the current file and adds its counters to `finished`.
    fn close_current(&mut self) {
        if let Some(mut finished) = self.current.take() {
            let counters = finished.counters();
            self.finished.frames += counters.frames;
            self.finished.bytes += counters.bytes;
            self.finished.faults += counters.faults;
            self.finished.snaplen_errors += counters.snaplen_errors;
            self.finished.position += counters.position.max(counters.size);
        }
    }

    /// Opens the next file; returns false if there is none.
    fn open_next(&mut self) -> Result<bool, PortError> {
        let Some(input) = self.pending.pop_front() else {
            return Ok(false);
        };
        let file = CaptureFile::open(&input)?;
        file.name().clone_into(&mut self.name);
        self.current = Some(file);
        Ok(true)
    }
}

fn check_inputs(inputs: &[Input]) -> Result<(), PortError> {
    let standard = |input: &&Input| **input == Input::StandardInput;
    if inputs.iter().filter(standard).count() > 1 {
        return Err(PortError::Failed(
            "standard input (-) is given more than once but can be read only once".to_owned(),
        ));
    }
    if inputs.is_empty() {
        return Err(PortError::Failed(
            "no capture file is given; use -r FILE".to_owned(),
        ));
    }
    Ok(())
}

/// Opens an input and closes it. Opening a named pipe twice could lose its first bytes.
fn check_openable(input: &Input) -> Result<(), PortError> {
    if !input.is_pipe() {
        CaptureFile::open(input)?;
    }
    Ok(())
}

impl Port for CaptureFiles {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        if let Some(error) = self.open_errors.pop_front() {
            self.finished.faults += 1;
            return Ok(Received::Fault(error));
        }
        loop {
            let Some(file) = &mut self.current else {
                match self.open_next() {
                    Ok(true) => continue,
                    Ok(false) => return Ok(Received::End),
                    Err(error) => {
                        self.finished.faults += 1;
                        return Ok(Received::Fault(error.to_string()));
                    }
                }
            };
            match file.advance() {
                Ok(Advanced::Burst) => break,
                Ok(Advanced::Idle) => return Ok(Received::Idle),
                Ok(Advanced::Fault(message)) => return Ok(Received::Fault(message)),
                Ok(Advanced::End) => self.close_current(),
                Err(error) => {
                    self.finished.faults += 1;
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
        let mut snaplen_errors = self.finished.snaplen_errors;
        snaplen_errors += current.snaplen_errors;
        Counters {
            frames: self.finished.frames + current.frames,
            bytes: self.finished.bytes + current.bytes,
            faults: self.finished.faults + current.faults,
            position: self.finished.position + current.position,
            size: self.size,
            snaplen_errors,
            ..Counters::default()
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn stop(&mut self) {
        self.pending.clear();
        if let Some(file) = &mut self.current {
            file.stop();
        }
    }
}
