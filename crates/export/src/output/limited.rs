//! A disk for tests, with as much room as a test gives it.

use super::{Output, Sink};
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex};

/// Takes bytes while there is room, in part if need be, and says that it is full afterwards.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitedDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    room: usize,
    /// As a pipe: what was written cannot be cut off.
    is_stream: bool,
}

impl LimitedDisk {
    /// An output on this disk.
    pub(crate) fn output(&self) -> Output {
        Output::new("disk".to_owned(), Sink::Limited(self.clone()))
    }

    /// A disk that cannot take bytes back.
    pub(crate) fn stream() -> Self {
        let disk = Self::default();
        disk.0.lock().unwrap().is_stream = true;
        disk
    }

    /// Bytes on it, where it can take them back.
    pub(super) fn length(&self) -> Option<u64> {
        let state = self.0.lock().unwrap();
        (!state.is_stream).then_some(state.bytes.len() as u64)
    }

    /// Takes back all but the first bytes, whose room is free again.
    pub(super) fn cut(&self, length: usize) {
        let mut state = self.0.lock().unwrap();
        state.room += state.bytes.len() - length;
        state.bytes.truncate(length);
    }

    /// Makes more room.
    pub(crate) fn give(&self, room: usize) {
        self.0.lock().unwrap().room += room;
    }

    /// Leaves less room.
    pub(crate) fn take(&self, room: usize) {
        self.0.lock().unwrap().room -= room;
    }

    /// What was written.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().bytes.clone()
    }
}

impl Write for LimitedDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock().unwrap();
        let taken = bytes.len().min(state.room);
        if taken == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        state.room -= taken;
        state.bytes.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
