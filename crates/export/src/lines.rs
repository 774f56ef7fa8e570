//! Records as lines: gathered into large blocks, written with one call a block, and whole even
//! when the disk fills in the middle of one; in one file, or in one after the other.

mod place;

pub(crate) use place::Place;

use crate::error::ExportError;
use crate::output::{Output, Whereabouts};
use crate::rotation::{Names, Slot};
use crate::text::Text;

/// A block goes out when it has this many bytes: large enough that the call costs nothing a
/// record, small enough to stay in the second-level cache.
const BLOCK_BYTES: usize = 256 * 1024;

/// Room behind the block for the line that crosses its end; a longer one makes the text grow.
const LINE_BYTES: usize = 8 * 1024;

/// Lines on their way to an output. The invariant: lines given = written + lost + waiting.
#[derive(Debug)]
pub(crate) struct Lines {
    /// Where the current line is written.
    pub(crate) text: Text,
    /// What every file begins with.
    header: Box<[u8]>,
    place: Place,
    /// The file that is being written; none before the first line, between two, and after a fault
    /// that ended it.
    output: Option<Output>,
    /// Its names, where it has another when it is complete.
    names: Option<Names>,
    /// What goes into it by time.
    slot: Slot,
    /// A block is that long, or as long as the file has room.
    block_bytes: usize,
    /// Whole lines in `text`.
    waiting: u64,
    written: u64,
    lost: u64,
    /// Of those written, the ones that compression may still hold.
    in_doubt: u64,
    /// Of those written, the ones since the file was last seen under its name.
    unseen: u64,
    /// The output ends inside a line, whose rest stands first in `text`.
    torn: bool,
    /// The reader has gone.
    closed: bool,
}

impl Lines {
    /// Opens what can be opened at once. `header` is a line, or nothing.
    pub(crate) fn open(place: Place, header: &[u8]) -> Result<Self, ExportError> {
        place.check()?;
        let mut lines = Self::new(place, header);
        if !lines.place.rotates() {
            lines.slot = Slot::ALWAYS;
            lines.open_file()?;
        }
        Ok(lines)
    }

    fn new(place: Place, header: &[u8]) -> Self {
        Self {
            text: Text::with_capacity(BLOCK_BYTES + LINE_BYTES),
            header: header.into(),
            block_bytes: place.block_bytes(0),
            place,
            output: None,
            names: None,
            slot: Slot::default(),
            waiting: 0,
            written: 0,
            lost: 0,
            in_doubt: 0,
            unseen: 0,
            torn: false,
            closed: false,
        }
    }

    /// Says that the next line is of a record of this time, before it is put into `text`.
    #[inline(always)]
    pub(crate) fn make_way(&mut self, time_ns: i64) -> Result<(), ExportError> {
        if self.slot.excludes(time_ns) {
            self.next_slot(time_ns)
        } else {
            Ok(())
        }
    }

    #[cold]
    #[inline(never)]
    fn next_slot(&mut self, time_ns: i64) -> Result<(), ExportError> {
        let result = self.end_file();
        self.slot = self.place.slot(time_ns);
        result
    }

    /// Says that a line in `text` is complete, its line feed included.
    #[inline(always)]
    pub(crate) fn end_line(&mut self) -> Result<(), ExportError> {
        self.waiting += 1;
        if self.text.len() >= self.block_bytes {
            self.write_block()
        } else {
            Ok(())
        }
    }

    #[inline(never)]
    fn write_block(&mut self) -> Result<(), ExportError> {
        let result = self.write_waiting();
        if self
            .output
            .as_ref()
            .is_some_and(|output| self.place.is_full(output.taken()))
        {
            return result.and(self.end_file());
        }
        result
    }

    /// Writes what waits, and lets readers have it. A file that somebody has moved or removed
    /// meanwhile is made anew.
    pub(crate) fn flush(&mut self) -> Result<(), ExportError> {
        let found = self.look_after_file();
        let result = if self.waiting > 0 || self.torn {
            self.write_waiting()
        } else {
            Ok(())
        };
        found.and(result).and(self.sync())
    }

    /// Compression gives out what it holds.
    fn sync(&mut self) -> Result<(), ExportError> {
        if self.in_doubt > 0
            && let Some(output) = &mut self.output
        {
            output.sync()?;
            self.in_doubt = 0;
        }
        Ok(())
    }

    fn look_after_file(&mut self) -> Result<(), ExportError> {
        let Some(output) = &self.output else {
            return Ok(());
        };
        match output.whereabouts() {
            Whereabouts::InPlace => {
                self.unseen = 0;
                Ok(())
            }
            // What was written is where it was moved to.
            Whereabouts::Moved => {
                let result = self.finish_output();
                self.abandon();
                result
            }
            Whereabouts::Removed => {
                let target = output.name().to_owned();
                self.written -= self.unseen;
                self.lost += self.unseen;
                self.abandon();
                Err(ExportError::Removed { target })
            }
        }
    }

    /// Forgets the file as it is.
    fn abandon(&mut self) {
        self.output = None;
        self.names = None;
        self.unseen = 0;
        self.in_doubt = 0;
        if self.torn {
            self.drop_rest_of_line();
        }
    }

    /// The rest of a line whose first part is in a file that is gone.
    fn drop_rest_of_line(&mut self) {
        let bytes = self.text.as_bytes();
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let rest = end.map_or(bytes.len(), |at| at + 1)..bytes.len();
        self.text.keep(rest);
        self.torn = false;
        self.waiting = self.waiting.saturating_sub(1);
        self.lost += 1;
    }

    fn open_file(&mut self) -> Result<(), ExportError> {
        let (mut output, names) = self.place.create(self.slot.stamp())?;
        let (taken, result) = output.write(&self.header);
        if let Err(fault) = result {
            // A file without its first line is of no use.
            if taken < self.header.len() || output.compresses() {
                self.closed |= fault.is_broken_pipe();
                if let Some(names) = &names {
                    let _ = std::fs::remove_file(&names.now);
                }
                return Err(fault);
            }
        }
        self.block_bytes = self.place.block_bytes(output.taken());
        self.output = Some(output);
        self.names = names;
        Ok(())
    }

    /// Writes what waits. After a fault, what could not be written is lost, but for the rest of a
    /// line of which a part was: that goes first when there is room again, so that every line in
    /// the output is whole.
    fn write_waiting(&mut self) -> Result<(), ExportError> {
        if self.closed {
            self.lose_all();
            return Err(ExportError::BrokenPipe {
                target: self.place.to_string(),
            });
        }
        if self.output.is_none()
            && let Err(fault) = self.open_file()
        {
            self.lose_all();
            return Err(fault);
        }
        let Some(output) = &mut self.output else {
            return Ok(());
        };
        let bytes = self.text.as_bytes();
        let (taken, result) = output.write(bytes);
        self.block_bytes = self.place.block_bytes(output.taken());
        let fault = match result {
            Ok(()) => {
                self.count_written(self.waiting);
                self.waiting = 0;
                self.torn = false;
                self.text.clear();
                return Ok(());
            }
            Err(fault) => fault,
        };
        let (out, rest) = bytes.split_at(taken);
        let whole = out.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let torn = out.last().map_or(self.torn, |&last| last != b'\n');
        let rest_of_line = rest
            .iter()
            .position(|&byte| byte == b'\n')
            .filter(|_| torn)
            .map_or(0, |at| at + 1);
        self.count_written(whole);
        self.lost += self.waiting - whole - u64::from(torn);
        self.waiting = u64::from(torn);
        self.torn = torn;
        self.text.keep(taken..taken + rest_of_line);
        if fault.is_broken_pipe() {
            self.closed = true;
            self.lose_all();
        }
        Err(fault)
    }

    fn count_written(&mut self, lines: u64) {
        self.written += lines;
        self.unseen += lines;
        if self.output.as_ref().is_some_and(Output::compresses) {
            self.in_doubt += lines;
        }
    }

    fn lose_all(&mut self) {
        self.lost += self.waiting;
        self.waiting = 0;
        self.torn = false;
        self.text.clear();
    }

    /// Writes what waits and completes the file; the next line begins another.
    pub(crate) fn end_file(&mut self) -> Result<(), ExportError> {
        let mut result = self.look_after_file();
        if self.output.is_none() && self.waiting == 0 {
            return result;
        }
        result = result.and(self.write_waiting());
        if self.torn {
            self.drop_rest_of_line();
        }
        result = result.and(self.finish_output());
        if let (Some(names), true) = (&self.names, self.output.is_some()) {
            // One that is not whole keeps the name that no reader looks for.
            result = result.and_then(|()| names.complete());
        }
        self.output = None;
        self.names = None;
        self.unseen = 0;
        result
    }

    /// Ends compression; what it still held and cannot give out is lost.
    fn finish_output(&mut self) -> Result<(), ExportError> {
        let Some(output) = &mut self.output else {
            return Ok(());
        };
        let result = output.finish();
        if result.is_err() {
            self.written -= self.in_doubt;
            self.lost += self.in_doubt;
        }
        self.in_doubt = 0;
        result
    }

    /// Writes what waits, for the last time: what cannot be written now is lost.
    pub(crate) fn finish(&mut self) -> Result<(), ExportError> {
        let result = self.end_file();
        self.lose_all();
        result
    }

    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    pub(crate) const fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::limited::LimitedDisk;
    use proptest::prelude::*;

    /// Lines on a disk without a header.
    fn lines(disk: &LimitedDisk) -> Lines {
        let mut lines = Lines::new(Place::Disk(disk.clone()), b"");
        lines.slot = Slot::ALWAYS;
        lines.open_file().unwrap();
        lines
    }

    proptest! {
        /// Whatever room a disk has at whatever time, its lines are whole, in order and counted.
        #[test]
        fn lines_stay_whole_on_a_disk_that_fills_and_is_cleared(
            rooms in proptest::collection::vec(0_usize..700_000, 1..8),
            padding in 1_usize..5_000,
        ) {
            let disk = LimitedDisk::default();
            let mut lines = lines(&disk);
            let padding = "x".repeat(padding);
            let mut given = 0;
            let mut faults = 0;
            for room in rooms {
                disk.give(room);
                for _ in 0..1_000_000 / padding.len() {
                    lines.text.append(20, |pen| pen.unsigned(given));
                    lines.text.slice(padding.as_bytes());
                    lines.text.slice(b"\n");
                    given += 1;
                    faults += u64::from(lines.end_line().is_err());
                }
            }
            disk.give(2 * BLOCK_BYTES);
            prop_assert!(lines.finish().is_ok());
            prop_assert!(faults > 0);

            let text = String::from_utf8(disk.bytes()).unwrap();
            let mut previous = None;
            let mut whole = 0;
            for line in text.lines() {
                let number: Option<u64> = line
                    .strip_suffix(&padding)
                    .and_then(|number| number.parse().ok());
                prop_assert!(number.is_some() && number > previous, "{:?}", number);
                previous = number;
                whole += 1;
            }
            prop_assert!(text.is_empty() || text.ends_with('\n'));
            prop_assert_eq!(lines.written(), whole);
            prop_assert_eq!(lines.written() + lines.lost(), given);
        }
    }

    #[test]
    fn the_rest_of_a_line_waits_for_room() {
        let disk = LimitedDisk::default();
        disk.give(4);
        let mut lines = lines(&disk);
        for line in ["one\n", "two\n", "three\n"] {
            lines.text.slice(line.as_bytes());
            lines.end_line().unwrap();
        }
        disk.give(1);
        assert!(lines.flush().is_err());
        assert_eq!(disk.bytes(), b"one\nt");
        assert_eq!((lines.written(), lines.lost()), (1, 1));
        assert!(lines.flush().is_err());
        assert_eq!((lines.written(), lines.lost()), (1, 1));
        lines.text.slice(b"four\n");
        lines.end_line().unwrap();
        disk.give(100);
        lines.finish().unwrap();
        assert_eq!(disk.bytes(), b"one\ntwo\nfour\n");
        assert_eq!((lines.written(), lines.lost()), (3, 1));
    }
}
