//! A disk with limited space, for tests.

use super::{Output, Sink};
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex};

/// Accepts bytes while there is space, possibly only a part of a write; then reports that it is
/// full.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestDisk(Arc<Mutex<DiskState>>);

#[derive(Debug, Default)]
struct DiskState {
    bytes: Vec<u8>,
    free: usize,
    /// Like a pipe: written bytes cannot be truncated.
    is_stream: bool,
}

impl TestDisk {
    /// Returns an output on this disk.
    pub(crate) fn output(&self) -> Output {
        Output::new("disk".to_owned(), Sink::TestDisk(self.clone()))
    }

    /// Creates a disk that cannot truncate.
    pub(crate) fn stream() -> Self {
        let disk = Self::default();
        disk.0.lock().unwrap().is_stream = true;
        disk
    }

    /// Number of bytes on the disk, if it can truncate.
    pub(super) fn length(&self) -> Option<u64> {
        let state = self.0.lock().unwrap();
        (!state.is_stream).then_some(state.bytes.len() as u64)
    }

    /// Truncates the contents and frees their space.
    pub(super) fn truncate(&self, length: usize) {
        let mut state = self.0.lock().unwrap();
        state.free += state.bytes.len() - length;
        state.bytes.truncate(length);
    }

    /// Adds free space.
    pub(crate) fn add_space(&self, bytes: usize) {
        self.0.lock().unwrap().free += bytes;
    }

    /// Removes free space.
    pub(crate) fn remove_space(&self, bytes: usize) {
        self.0.lock().unwrap().free -= bytes;
    }

    /// Returns the contents.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().bytes.clone()
    }
}

impl Write for TestDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock().unwrap();
        let accepted = bytes.len().min(state.free);
        if accepted == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        state.free -= accepted;
        state.bytes.extend_from_slice(&bytes[..accepted]);
        Ok(accepted)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
