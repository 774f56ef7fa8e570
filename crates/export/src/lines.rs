//! Records as lines: gathered into large blocks, written with one call a block, and whole even
//! when the disk fills in the middle of one; in one file, or in one after the other.

mod format;
mod place;

pub(crate) use format::Format;
pub(crate) use place::Place;

use crate::error::ExportError;
use crate::output::{Output, Unended, Whereabouts};
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
    /// Of those written, the ones in the file that is being written.
    in_file: u64,
    /// The output ends with so many bytes of a line, whose rest stands first in `text`.
    torn: usize,
    /// The reader has gone.
    closed: bool,
    /// The only file there is has not begun, because the disk was full when it was opened.
    unbegun: bool,
}

impl Lines {
    /// Opens what can be opened at once. `header` is a line, or nothing.
    pub(crate) fn open(place: Place, header: &[u8]) -> Result<Self, ExportError> {
        let (lines, begun) = Self::make(place, header)?;
        begun.map(|()| lines)
    }

    /// As [`Self::open`], but where the disk is full already there may be room later: until then
    /// records are lost.
    pub(crate) fn open_or_await_room(place: Place, header: &[u8]) -> Result<Self, ExportError> {
        let (mut lines, begun) = Self::make(place, header)?;
        match begun {
            Err(ExportError::DiskFull { .. }) => lines.unbegun = true,
            begun => begun?,
        }
        Ok(lines)
    }

    /// Makes the file that can be made at once, and tells whether it was begun.
    fn make(place: Place, header: &[u8]) -> Result<(Self, Result<(), ExportError>), ExportError> {
        place.check()?;
        let mut lines = Self::new(place, header);
        if lines.place.rotates() {
            return Ok((lines, Ok(())));
        }
        lines.slot = Slot::ALWAYS;
        let (output, names) = lines.place.create(lines.slot.stamp())?;
        let begun = lines.begin(output, names);
        Ok((lines, begun))
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
            in_file: 0,
            torn: 0,
            closed: false,
            unbegun: false,
        }
    }

    /// Says that the next line is of a record of this time, before it is put into `text`.
    #[inline(always)]
    pub(crate) fn make_way(&mut self, time_ns: i64) -> Result<(), ExportError> {
        if self.slot.is_over(time_ns) {
            self.next_slot(time_ns)
        } else {
            Ok(())
        }
    }

    #[cold]
    #[inline(never)]
    fn next_slot(&mut self, time_ns: i64) -> Result<(), ExportError> {
        let result = self.end_file();
        self.slot = self.place.slot_after(&self.slot, time_ns);
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
            let result = result.and(self.end_file());
            if self.waiting == 0 {
                self.slot = self.place.slot_behind_full(&self.slot);
            }
            return result;
        }
        result
    }

    /// Writes what waits, and lets readers have it. A file that somebody has moved or removed
    /// meanwhile is made anew.
    pub(crate) fn flush(&mut self) -> Result<(), ExportError> {
        let found = self.look_after_file();
        let result = if self.waiting > 0 {
            self.write_waiting()
        } else {
            let begun = self.begin_late();
            begun.and(self.output.as_mut().map_or(Ok(()), Output::sync))
        };
        found.and(result)
    }

    fn look_after_file(&mut self) -> Result<(), ExportError> {
        let Some(output) = &self.output else {
            return Ok(());
        };
        match output.whereabouts() {
            Whereabouts::InPlace => Ok(()),
            // What was written is where it was moved to.
            Whereabouts::Moved => {
                let (_, result) = self.finish_output();
                self.abandon();
                result
            }
            Whereabouts::Removed => {
                let target = output.name().to_owned();
                self.drop_rest_of_line();
                self.written -= self.in_file;
                self.lost += self.in_file;
                self.abandon();
                Err(ExportError::Removed { target })
            }
        }
    }

    /// Forgets the file as it is.
    fn abandon(&mut self) {
        self.output = None;
        self.names = None;
        self.in_file = 0;
    }

    /// Gives a line up whose first part is in a file that nothing goes into any more.
    fn drop_rest_of_line(&mut self) {
        if self.torn == 0 {
            return;
        }
        let bytes = self.text.as_bytes();
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let rest = end.map_or(bytes.len(), |at| at + 1)..bytes.len();
        self.text.keep(rest);
        self.torn = 0;
        self.waiting -= 1;
        self.lost += 1;
    }

    fn open_file(&mut self) -> Result<(), ExportError> {
        let (output, names) = self.place.create(self.slot.stamp())?;
        self.begin(output, names)
    }

    /// Begins the only file, where it has not begun and there is nothing to write into it.
    fn begin_late(&mut self) -> Result<(), ExportError> {
        if self.unbegun && self.waiting == 0 {
            self.open_file()
        } else {
            Ok(())
        }
    }

    fn begin(&mut self, mut output: Output, names: Option<Names>) -> Result<(), ExportError> {
        let (taken, result) = output.write(&self.header);
        if let Err(fault) = result {
            // A file without its first line is of no use.
            if taken < self.header.len() || output.compresses() {
                self.closed |= fault.is_broken_pipe();
                if names.is_some() {
                    output.remove();
                } else {
                    // An empty one does not look as if it were whole. Of a pipe it is too late.
                    let _ = output.cut(0);
                }
                return Err(fault);
            }
        }
        self.block_bytes = self.place.block_bytes(output.taken());
        self.output = Some(output);
        self.names = names;
        self.unbegun = false;
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
        if self.output.is_none() {
            self.place.make_directory_again();
            if let Err(fault) = self.open_file() {
                self.lose_all();
                return Err(fault);
            }
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
                self.torn = 0;
                self.text.clear();
                return Ok(());
            }
            Err(fault) => fault,
        };
        let (out, rest) = bytes.split_at(taken);
        let whole = out.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let torn = match out.iter().rposition(|&byte| byte == b'\n') {
            Some(at) => taken - at - 1,
            None => self.torn + taken,
        };
        let rest_of_line = rest
            .iter()
            .position(|&byte| byte == b'\n')
            .filter(|_| torn > 0)
            .map_or(0, |at| at + 1);
        self.count_written(whole);
        self.torn = torn;
        let torn = u64::from(torn > 0);
        self.lost += self.waiting - whole - torn;
        self.waiting = torn;
        self.text.keep(taken..taken + rest_of_line);
        if fault.is_broken_pipe() {
            self.closed = true;
            self.lose_all();
        }
        Err(fault)
    }

    fn count_written(&mut self, lines: u64) {
        self.written += lines;
        self.in_file += lines;
    }

    fn lose_all(&mut self) {
        self.lost += self.waiting;
        self.waiting = 0;
        self.torn = 0;
        self.text.clear();
    }

    /// Writes what waits and completes the file; the next line begins another.
    pub(crate) fn end_file(&mut self) -> Result<(), ExportError> {
        let mut result = self.look_after_file();
        if self.output.is_none() && self.waiting == 0 {
            return result;
        }
        result = result.and(self.write_waiting());
        let (whole, ended) = self.finish_output();
        result = result.and(ended);
        if let (Some(names), Some(output)) = (&self.names, &self.output) {
            if self.in_file == 0 {
                output.remove();
            } else if whole {
                result = result.and(names.complete());
            }
            // One that is not whole keeps the name that no reader looks for.
        }
        self.abandon();
        result
    }

    /// Ends the file behind its last whole line, as far as it can be cut off there, and ends
    /// compression: whether a reader finds a whole file.
    fn finish_output(&mut self) -> (bool, Result<(), ExportError>) {
        let Some(output) = &mut self.output else {
            return (true, Ok(()));
        };
        let torn = self.torn as u64;
        let is_cut = torn == 0 || output.cut(output.taken().saturating_sub(torn)).is_ok();
        let ended = output.finish();
        self.drop_rest_of_line();
        match ended {
            Ok(()) => (is_cut, Ok(())),
            Err(Unended {
                fault,
                missing,
                whole,
            }) => {
                self.written -= missing;
                self.in_file -= missing;
                self.lost += missing;
                (whole, Err(fault))
            }
        }
    }

    /// Writes what waits, for the last time: what cannot be written now is lost.
    pub(crate) fn finish(&mut self) -> Result<(), ExportError> {
        let begun = self.begin_late();
        let result = begun.and(self.end_file());
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
            room_at_the_end in proptest::bool::ANY,
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
            disk.give(if room_at_the_end { 2 * BLOCK_BYTES } else { 0 });
            prop_assert!(lines.finish().is_ok() || !room_at_the_end);
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

    /// Whatever room there is for a compressed file: a reader finds the records that are counted,
    /// and an end behind them, as soon as there is room for two writes.
    #[test]
    fn a_compressed_file_ends_behind_what_found_room() {
        use crate::output::Compression;
        use std::io::Read;
        for compression in Compression::ALL {
            let written_into = |room: usize, late_room: usize| {
                let disk = LimitedDisk::default();
                disk.give(room);
                let mut lines = Lines::new(Place::Disk(disk.clone()), b"");
                lines.slot = Slot::ALWAYS;
                let mut output = disk.output().compress(Some(compression)).unwrap();
                output.write(b"").1.unwrap();
                lines.output = Some(output);
                for number in 0..15_u64 {
                    if number == 12 {
                        disk.give(late_room);
                    }
                    let noise = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    lines.text.slice(format!("{noise:x}\n").as_bytes());
                    lines.end_line().unwrap();
                    if number % 3 == 2 {
                        let _ = lines.flush();
                    }
                }
                let result = lines.finish();
                assert_eq!(lines.written() + lines.lost(), 15);
                let bytes = disk.bytes();
                let mut text = String::new();
                let read = match compression {
                    Compression::Gzip => {
                        flate2::bufread::GzDecoder::new(&*bytes).read_to_string(&mut text)
                    }
                    Compression::Zstandard => zstd::Decoder::with_buffer(&*bytes)
                        .unwrap()
                        .read_to_string(&mut text),
                };
                let what = format!("{compression:?} {room} {late_room}: {result:?} {read:?}");
                assert_eq!(text.matches('\n').count() as u64, lines.written(), "{what}");
                assert!(read.is_ok() || lines.written() <= 3, "{what}");
                (bytes.len(), lines.written())
            };
            let (all, lines) = written_into(10_000, 0);
            assert_eq!(lines, 15);
            let counts: Vec<u64> = (0..all).map(|room| written_into(room, 0).1).collect();
            assert!(counts.is_sorted(), "{counts:?}");
            for count in [0, 3, 6, 9, 12] {
                assert!(counts.contains(&count), "{counts:?}");
            }
            for room in 0..all {
                // What waited for room goes out, and what comes then.
                assert!(written_into(room, 10_000).1 >= 6);
            }
        }
    }

    /// Whatever room there was when it was opened: the header is whole and the first line.
    #[test]
    fn a_header_that_found_no_room_comes_before_any_line() {
        const HEADER: &[u8] = b"header\n";
        for room in 0..HEADER.len() {
            let disk = LimitedDisk::default();
            disk.give(room);
            let place = || Place::Disk(disk.clone());
            assert!(Lines::open(place(), HEADER).is_err());
            let mut lines = Lines::open_or_await_room(place(), HEADER).unwrap();
            lines.text.slice(b"one\n");
            lines.end_line().unwrap();
            for _ in 0..2 {
                assert!(matches!(lines.flush(), Err(ExportError::DiskFull { .. })));
            }
            assert_eq!(disk.bytes(), b"");
            disk.give(100);
            lines.flush().unwrap();
            assert_eq!(disk.bytes(), HEADER);
            lines.text.slice(b"two\n");
            lines.end_line().unwrap();
            lines.finish().unwrap();
            assert_eq!(disk.bytes(), b"header\ntwo\n");
            assert_eq!((lines.written(), lines.lost()), (1, 1));

            disk.take(100 + room - HEADER.len() - b"two\n".len());
            let mut lines = Lines::open_or_await_room(place(), HEADER).unwrap();
            assert!(matches!(lines.finish(), Err(ExportError::DiskFull { .. })));
        }
    }

    #[test]
    fn the_rest_of_a_line_waits_for_room() {
        let disk = LimitedDisk::stream();
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
