//! Records as lines: gathered into large blocks, written with one call a block, and whole even
//! when the disk fills in the middle of one.

use crate::error::ExportError;
use crate::output::Output;
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
    output: Output,
    /// Whole lines in `text`.
    waiting: u64,
    written: u64,
    lost: u64,
    /// The output ends inside a line, whose rest stands first in `text`.
    torn: bool,
    /// The reader has gone.
    closed: bool,
}

impl Lines {
    pub(crate) fn new(output: Output) -> Self {
        Self {
            text: Text::with_capacity(BLOCK_BYTES + LINE_BYTES),
            output,
            waiting: 0,
            written: 0,
            lost: 0,
            torn: false,
            closed: false,
        }
    }

    /// Says that a line in `text` is complete, its line feed included.
    #[inline(always)]
    pub(crate) fn end_line(&mut self) -> Result<(), ExportError> {
        self.waiting += 1;
        if self.text.len() >= BLOCK_BYTES {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Writes what waits. After a fault, what could not be written is lost, but for the rest of a
    /// line of which a part was: that goes first when there is room again, so that every line in
    /// the output is whole.
    pub(crate) fn flush(&mut self) -> Result<(), ExportError> {
        if self.closed {
            self.lose_all();
            return Err(ExportError::BrokenPipe {
                target: self.output.name().to_owned(),
            });
        }
        let bytes = self.text.as_bytes();
        let (taken, result) = self.output.write(bytes);
        let Err(fault) = result else {
            self.written += self.waiting;
            self.waiting = 0;
            self.torn = false;
            self.text.clear();
            return Ok(());
        };
        let (out, rest) = bytes.split_at(taken);
        let whole = out.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let torn = out.last().map_or(self.torn, |&last| last != b'\n');
        let rest_of_line = rest
            .iter()
            .position(|&byte| byte == b'\n')
            .filter(|_| torn)
            .map_or(0, |at| at + 1);
        self.written += whole;
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

    fn lose_all(&mut self) {
        self.lost += self.waiting;
        self.waiting = 0;
        self.torn = false;
        self.text.clear();
    }

    /// Writes what waits, for the last time: what cannot be written now is lost.
    pub(crate) fn finish(&mut self) -> Result<(), ExportError> {
        let result = self.flush();
        self.lose_all();
        result
    }

    /// Takes a line out of the count of those written: a header, which is no record.
    pub(crate) fn uncount(&mut self) {
        self.written = self.written.saturating_sub(1);
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

    proptest! {
        /// Whatever room a disk has at whatever time, its lines are whole, in order and counted.
        #[test]
        fn lines_stay_whole_on_a_disk_that_fills_and_is_cleared(
            rooms in proptest::collection::vec(0_usize..700_000, 1..8),
            padding in 1_usize..5_000,
        ) {
            let disk = LimitedDisk::default();
            let mut lines = Lines::new(disk.output());
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
        let mut lines = Lines::new(disk.output());
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
