//! Writes records as lines: buffered in large blocks, each written with one system call. Lines stay
//! whole even when the disk fills up in the middle of one. The output is a single file, or a
//! sequence of files.

mod destination;
mod format;

pub(crate) use destination::Destination;
pub(crate) use format::{LineExporter, LineFormat};

use crate::error::ExportError;
use crate::output::{ContentStatus, FileStatus, Output, TruncatedStream};
use crate::rotation::{FilePaths, FileWindow};
use crate::text::TextBuffer;
use destination::BLOCK_BYTES;

/// Room after the block for the line that crosses its end; a longer line makes the buffer grow.
const LINE_BYTES: usize = 8 * 1024;

/// Buffers and writes lines. Invariant: lines ended = written + lost + pending.
#[derive(Debug)]
pub(crate) struct LineWriter {
    /// Pending lines, and the line being written.
    pub(crate) text: TextBuffer,
    /// First line of every file.
    header: Box<[u8]>,
    /// How a file begins that can be continued.
    start: Box<[u8]>,
    destination: Destination,
    /// The current file; `None` before the first line, between two files, and after an error that
    /// ended the file.
    output: Option<Output>,
    /// Its temporary and final path, if it is renamed when complete.
    paths: Option<FilePaths>,
    /// Times that belong in the current file.
    window: FileWindow,
    /// Length at which a block is written; less near the end of a file of limited size.
    block_bytes: usize,
    /// Complete lines in `text`.
    pending: u64,
    written: u64,
    lost: u64,
    /// Lines written to the current file.
    written_to_file: u64,
    /// Bytes of an incomplete line at the end of the output; `text` starts with the rest of that
    /// line.
    torn_bytes: usize,
    /// The reader has closed the output.
    reader_gone: bool,
    /// The single file has no header yet, because the disk was full when it was opened.
    header_pending: bool,
}

impl LineWriter {
    /// Opens the output; a rotating output opens its first file with the first record. `header` is
    /// a line or empty.
    pub(crate) fn open(destination: Destination, header: &[u8]) -> Result<Self, ExportError> {
        let (lines, header_result) = Self::create(destination, header, header)?;
        header_result.map(|()| lines)
    }

    /// Like [`Self::open`], but accepts a full disk, since space may become available; records are
    /// lost until then. A file that begins with `start` can be continued.
    pub(crate) fn open_allowing_full_disk(
        destination: Destination,
        header: &[u8],
        start: &[u8],
    ) -> Result<Self, ExportError> {
        let (mut lines, header_result) = Self::create(destination, header, start)?;
        match header_result {
            Err(ExportError::DiskFull { .. }) => lines.header_pending = true,
            header_result => header_result?,
        }
        Ok(lines)
    }

    /// Creates the single file, if there is one, and returns the result of writing its header.
    fn create(
        destination: Destination,
        header: &[u8],
        start: &[u8],
    ) -> Result<(Self, Result<(), ExportError>), ExportError> {
        destination.check(start)?;
        let mut lines = Self::new(destination, header, start);
        if lines.destination.rotates() {
            return Ok((lines, Ok(())));
        }
        lines.window = FileWindow::UNBOUNDED;
        if lines.destination.is_pipe() {
            // The writer thread waits for its reader.
            lines.header_pending = true;
            return Ok((lines, Ok(())));
        }
        let (output, paths) = lines.create_file()?;
        let header_result = lines.begin_file(output, paths);
        Ok((lines, header_result))
    }

    fn new(destination: Destination, header: &[u8], start: &[u8]) -> Self {
        Self {
            text: TextBuffer::with_capacity(BLOCK_BYTES + LINE_BYTES),
            header: header.into(),
            start: start.into(),
            block_bytes: destination.block_bytes(0),
            destination,
            output: None,
            paths: None,
            window: FileWindow::default(),
            pending: 0,
            written: 0,
            lost: 0,
            written_to_file: 0,
            torn_bytes: 0,
            reader_gone: false,
            header_pending: false,
        }
    }

    /// Starts another file if a record of this time needs one. To be called before the record's
    /// line is appended to `text`.
    #[inline]
    pub(crate) fn rotate_if_due(&mut self, time_ns: i64) -> Result<(), ExportError> {
        if self.window.is_rotation_due(time_ns) {
            self.rotate(time_ns)
        } else {
            Ok(())
        }
    }

    #[cold]
    #[inline(never)]
    fn rotate(&mut self, time_ns: i64) -> Result<(), ExportError> {
        let result = self.end_file();
        self.window = self.destination.next_window(&self.window, time_ns);
        result
    }

    /// Ends a line in `text`, which includes its line feed.
    #[inline]
    pub(crate) fn end_line(&mut self) -> Result<(), ExportError> {
        self.pending += 1;
        if self.text.len() >= self.block_bytes {
            self.write_full_block()
        } else {
            Ok(())
        }
    }

    #[inline(never)]
    fn write_full_block(&mut self) -> Result<(), ExportError> {
        let result = self.write_pending();
        if self
            .output
            .as_ref()
            .is_some_and(|output| self.destination.is_full(output.bytes_written()))
        {
            let result = result.and(self.end_file());
            if self.pending == 0 {
                self.window = self.destination.window_after_full(&self.window);
            }
            return result;
        }
        result
    }

    /// Writes pending lines, so that readers can see them. If the file was moved or removed, a new
    /// one is created.
    pub(crate) fn flush(&mut self) -> Result<(), ExportError> {
        let checked = self.check_file();
        let result = if self.pending > 0 {
            self.write_pending()
        } else {
            let header_result = self.retry_begin();
            header_result.and(self.output.as_mut().map_or(Ok(()), Output::sync))
        };
        checked.and(result)
    }

    /// Flushes, and begins another file if the current one was moved or files are rotated.
    pub(crate) fn reopen(&mut self) -> Result<(), ExportError> {
        if self.destination.rotates() {
            return self.end_file();
        }
        let result = self.flush();
        if self.output.is_none() && !self.reader_gone {
            return result.and(self.open_file());
        }
        result
    }

    /// Checks whether others have changed the contents of the file. After a truncation, its lines count as
    /// lost and a header follows.
    fn check_contents(&mut self) -> Result<(), ExportError> {
        let Some(output) = &mut self.output else {
            return Ok(());
        };
        match output.content_status() {
            ContentStatus::Intact => Ok(()),
            ContentStatus::Extended => {
                output.accept_extension();
                Err(ExportError::Shared {
                    target: output.name().to_owned(),
                })
            }
            ContentStatus::Truncated => self.restart_file(),
        }
    }

    #[cold]
    fn restart_file(&mut self) -> Result<(), ExportError> {
        let (Some(output), paths) = (self.output.take(), self.paths.take()) else {
            return Ok(());
        };
        self.drop_torn_line();
        let fault = ExportError::Truncated {
            target: output.name().to_owned(),
            lost: self.written_to_file,
        };
        self.written -= self.written_to_file;
        self.lost += self.written_to_file;
        self.written_to_file = 0;
        self.begin_file(output.restart()?, paths)?;
        Err(fault)
    }

    fn check_file(&mut self) -> Result<(), ExportError> {
        let Some(output) = &self.output else {
            return Ok(());
        };
        match output.file_status() {
            FileStatus::InPlace => self.check_contents(),
            // The lines written so far are in the moved file.
            FileStatus::Moved => {
                let (_, result) = self.finish_output();
                // It keeps its new path.
                self.paths = None;
                let result = result.and(self.store_file(true));
                self.forget_file();
                result
            }
            FileStatus::Removed => {
                let target = output.name().to_owned();
                self.drop_torn_line();
                self.lose_file();
                self.forget_file();
                Err(ExportError::Removed { target })
            }
        }
    }

    /// Drops the current file as it is.
    fn forget_file(&mut self) {
        self.output = None;
        self.paths = None;
        self.written_to_file = 0;
    }

    /// Drops a line whose first part is in a file that is no longer written.
    fn drop_torn_line(&mut self) {
        if self.torn_bytes == 0 {
            return;
        }
        let bytes = self.text.as_bytes();
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let rest = end.map_or(bytes.len(), |at| at + 1)..bytes.len();
        self.text.keep_range(rest);
        self.torn_bytes = 0;
        self.pending -= 1;
        self.lost += 1;
    }

    fn open_file(&mut self) -> Result<(), ExportError> {
        let (output, paths) = self.create_file()?;
        self.begin_file(output, paths)
    }

    fn create_file(&mut self) -> Result<(Output, Option<FilePaths>), ExportError> {
        self.destination.create(self.window.stamp_ns(), &self.start)
    }

    /// Begins the single file if its header is still missing and no line is pending.
    fn retry_begin(&mut self) -> Result<(), ExportError> {
        if self.header_pending && self.pending == 0 {
            self.open_file()
        } else {
            Ok(())
        }
    }

    fn begin_file(
        &mut self,
        mut output: Output,
        paths: Option<FilePaths>,
    ) -> Result<(), ExportError> {
        let header: &[u8] = if output.continues() {
            b""
        } else {
            &self.header
        };
        let (accepted, result) = output.write(header);
        if let Err(fault) = result {
            // A file without a header is useless.
            if accepted < header.len() || output.compresses() {
                self.reader_gone |= fault.is_broken_pipe();
                if paths.is_some() {
                    output.remove();
                } else {
                    // An empty file does not look complete. For a pipe it is too late.
                    let _ = output.truncate(0);
                }
                return Err(fault);
            }
        }
        self.block_bytes = self.destination.block_bytes(output.bytes_written());
        self.output = Some(output);
        self.paths = paths;
        self.header_pending = false;
        Ok(())
    }

    /// Writes pending lines. After an error, unwritten lines are lost, except the rest of a line
    /// that was written in part: it goes first when there is space again, so that every line in the
    /// output is whole.
    fn write_pending(&mut self) -> Result<(), ExportError> {
        if self.reader_gone {
            self.lose_pending();
            return Err(ExportError::BrokenPipe {
                target: self.destination.to_string(),
            });
        }
        let checked = self.check_contents();
        if self.output.is_none() {
            self.destination.recreate_directory();
            if let Err(fault) = self.open_file() {
                self.lose_pending();
                return Err(fault);
            }
        }
        checked.and(self.write_text())
    }

    /// Writes the text to the open file.
    fn write_text(&mut self) -> Result<(), ExportError> {
        let Some(output) = &mut self.output else {
            return Ok(());
        };
        let bytes = self.text.as_bytes();
        let (accepted, result) = output.write(bytes);
        self.block_bytes = self.destination.block_bytes(output.bytes_written());
        let fault = match result {
            Ok(()) => {
                self.count_written(self.pending);
                self.pending = 0;
                self.torn_bytes = 0;
                self.text.clear();
                return Ok(());
            }
            Err(fault) => fault,
        };
        let (out, rest) = bytes.split_at(accepted);
        let whole = out.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let torn_bytes = match out.iter().rposition(|&byte| byte == b'\n') {
            Some(at) => accepted - at - 1,
            None => self.torn_bytes + accepted,
        };
        let rest_of_line = rest
            .iter()
            .position(|&byte| byte == b'\n')
            .filter(|_| torn_bytes > 0)
            .map_or(0, |at| at + 1);
        self.count_written(whole);
        self.torn_bytes = torn_bytes;
        let torn_lines = u64::from(torn_bytes > 0);
        self.lost += self.pending - whole - torn_lines;
        self.pending = torn_lines;
        self.text.keep_range(accepted..accepted + rest_of_line);
        if fault.is_broken_pipe() {
            self.reader_gone = true;
            self.lose_pending();
        }
        Err(fault)
    }

    fn count_written(&mut self, lines: u64) {
        self.written += lines;
        self.written_to_file += lines;
    }

    fn lose_pending(&mut self) {
        self.lost += self.pending;
        self.pending = 0;
        self.torn_bytes = 0;
        self.text.clear();
    }

    /// Writes pending lines and completes the file; the next line begins another one.
    pub(crate) fn end_file(&mut self) -> Result<(), ExportError> {
        let mut result = self.check_file();
        if self.output.is_none() && self.pending == 0 {
            return result;
        }
        result = result.and(self.write_pending());
        let (whole, ended) = self.finish_output();
        result = result.and(ended);
        result = result.and(self.store_file(whole));
        self.forget_file();
        result
    }

    /// Puts the finished file onto its device, then gives it its final name if it is `whole`. Records
    /// whose place there is not certain are lost.
    fn store_file(&mut self, whole: bool) -> Result<(), ExportError> {
        let Some(output) = &self.output else {
            return Ok(());
        };
        if self.paths.is_some() && self.written_to_file == 0 {
            output.remove();
            return Ok(());
        }
        let stored = output.store(self.paths.is_some());
        let result = match &self.paths {
            Some(paths) if whole => stored.and_then(|()| paths.commit()),
            // An incomplete file keeps its temporary name, which readers ignore.
            _ => stored,
        };
        if result.is_err() {
            self.lose_file();
        }
        result
    }

    /// Counts the records of the current file as lost.
    const fn lose_file(&mut self) {
        self.written -= self.written_to_file;
        self.lost += self.written_to_file;
        self.written_to_file = 0;
    }

    /// Truncates the file after its last whole line, if possible, and ends the compressed stream.
    /// Returns whether the file is well-formed.
    fn finish_output(&mut self) -> (bool, Result<(), ExportError>) {
        let Some(output) = &mut self.output else {
            return (true, Ok(()));
        };
        let torn_bytes = self.torn_bytes as u64;
        let is_cut = torn_bytes == 0
            || output
                .truncate(output.bytes_written().saturating_sub(torn_bytes))
                .is_ok();
        let ended = output.finish();
        self.drop_torn_line();
        match ended {
            Ok(()) => (is_cut, Ok(())),
            Err(TruncatedStream {
                fault,
                lost_lines: missing,
                is_terminated: whole,
            }) => {
                self.written -= missing;
                self.written_to_file -= missing;
                self.lost += missing;
                (whole, Err(fault))
            }
        }
    }

    /// Writes pending lines for the last time: what cannot be written now is lost.
    pub(crate) fn finish(&mut self) -> Result<(), ExportError> {
        let header_result = self.retry_begin();
        let result = header_result.and(self.end_file());
        self.lose_pending();
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
    use crate::output::ExistingFile;
    use crate::output::test_disk::TestDisk;
    use proptest::prelude::*;

    /// A writer without a header on a test disk.
    fn lines(disk: &TestDisk) -> LineWriter {
        let mut lines = LineWriter::new(Destination::Disk(disk.clone()), b"", b"");
        lines.window = FileWindow::UNBOUNDED;
        lines.open_file().unwrap();
        lines
    }

    proptest! {
        /// However often others truncate the file, each line in it is whole and counted, a header comes
        /// first, and no hole is left.
        #[test]
        fn truncated_files_hold_what_is_counted(
            steps in proptest::collection::vec((1_u64..40_000, 0_usize..4, proptest::bool::ANY), 1..12),
            compresses in proptest::bool::ANY,
        ) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join(if compresses { "a.gz" } else { "a" });
            let target = crate::target::Target::Path(path.clone());
            let destination = Destination::new(&target, None, ExistingFile::Overwrite).unwrap();
            let mut lines = LineWriter::open(destination, b"header\n").unwrap();
            let (mut ended, mut truncated) = (0, 0);
            for (count, action, flushes) in steps {
                for _ in 0..count {
                    lines.text.append(30, |cursor| cursor.unsigned(ended));
                    lines.text.push_bytes(b",some text\n");
                    let _ = lines.end_line();
                    ended += 1;
                }
                if flushes {
                    lines.flush().unwrap();
                }
                if action == 0 {
                    let length = std::fs::metadata(&path).unwrap().len();
                    std::fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
                    if length > 0 {
                        truncated += 1;
                        let fault = lines.flush();
                        let is_reported = matches!(fault, Err(ExportError::Truncated { .. }));
                        prop_assert!(is_reported, "{:?}", fault);
                    }
                }
            }
            lines.finish().unwrap();
            prop_assert_eq!(lines.written() + lines.lost(), ended);
            prop_assert!(truncated > 0 || lines.lost() == 0);
            let bytes = std::fs::read(&path).unwrap();
            let mut text = String::new();
            if compresses {
                let mut decoder = flate2::read::MultiGzDecoder::new(&*bytes);
                std::io::Read::read_to_string(&mut decoder, &mut text).unwrap();
            } else {
                text = String::from_utf8(bytes).unwrap();
            }
            prop_assert!(text.starts_with("header\n"));
            let is_whole = |line: &str| line.ends_with(",some text");
            prop_assert!(text.lines().skip(1).all(is_whole));
            prop_assert_eq!(text.lines().count() as u64 - 1, lines.written());
        }

        /// However the free space changes, lines in the output are whole, in order and counted
        /// correctly.
        #[test]
        fn lines_stay_whole_while_disk_space_comes_and_goes(
            spaces in proptest::collection::vec(0_usize..700_000, 1..8),
            padding in 1_usize..5_000,
            space_at_the_end in proptest::bool::ANY,
        ) {
            let disk = TestDisk::default();
            let mut lines = lines(&disk);
            let padding = "x".repeat(padding);
            let mut ended = 0;
            let mut faults = 0;
            for space in spaces {
                disk.add_space(space);
                for _ in 0..1_000_000 / padding.len() {
                    lines.text.append(20, |cursor| cursor.unsigned(ended));
                    lines.text.push_bytes(padding.as_bytes());
                    lines.text.push_bytes(b"\n");
                    ended += 1;
                    faults += u64::from(lines.end_line().is_err());
                }
            }
            disk.add_space(if space_at_the_end { 2 * BLOCK_BYTES } else { 0 });
            prop_assert!(lines.finish().is_ok() || !space_at_the_end);
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
            prop_assert_eq!(lines.written() + lines.lost(), ended);
        }
    }

    /// With any amount of space, a compressed file contains the lines that are counted as written,
    /// and is terminated as soon as there is space for two writes.
    #[test]
    fn compressed_file_ends_after_the_last_write_that_fits() {
        use crate::output::Compression;
        use std::io::Read;
        for compression in Compression::ALL {
            let written_into = |space: usize, late_space: usize| {
                let disk = TestDisk::default();
                disk.add_space(space);
                let mut lines = LineWriter::new(Destination::Disk(disk.clone()), b"", b"");
                lines.window = FileWindow::UNBOUNDED;
                let mut output = disk.output().compress(Some(compression)).unwrap();
                output.write(b"").1.unwrap();
                lines.output = Some(output);
                for number in 0..15_u64 {
                    if number == 12 {
                        disk.add_space(late_space);
                    }
                    let noise = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    lines.text.push_bytes(format!("{noise:x}\n").as_bytes());
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
                let what = format!("{compression:?} {space} {late_space}: {result:?} {read:?}");
                assert_eq!(text.matches('\n').count() as u64, lines.written(), "{what}");
                assert!(read.is_ok() || lines.written() <= 3, "{what}");
                (bytes.len(), lines.written())
            };
            let (all, lines) = written_into(10_000, 0);
            assert_eq!(lines, 15);
            let counts: Vec<u64> = (0..all).map(|space| written_into(space, 0).1).collect();
            assert!(counts.is_sorted(), "{counts:?}");
            for count in [0, 3, 6, 9, 12] {
                assert!(counts.contains(&count), "{counts:?}");
            }
            for space in 0..all {
                // Data that waited for space is written, and so are later lines.
                assert!(written_into(space, 10_000).1 >= 6);
            }
        }
    }

    /// With any amount of space at the start, the header is whole and comes first.
    #[test]
    fn delayed_header_precedes_all_lines() {
        const HEADER: &[u8] = b"header\n";
        for space in 0..HEADER.len() {
            let disk = TestDisk::default();
            disk.add_space(space);
            let destination = || Destination::Disk(disk.clone());
            assert!(LineWriter::open(destination(), HEADER).is_err());
            let mut lines =
                LineWriter::open_allowing_full_disk(destination(), HEADER, HEADER).unwrap();
            lines.text.push_bytes(b"one\n");
            lines.end_line().unwrap();
            for _ in 0..2 {
                assert!(matches!(lines.flush(), Err(ExportError::DiskFull { .. })));
            }
            assert_eq!(disk.bytes(), b"");
            disk.add_space(100);
            lines.flush().unwrap();
            assert_eq!(disk.bytes(), HEADER);
            lines.text.push_bytes(b"two\n");
            lines.end_line().unwrap();
            lines.finish().unwrap();
            assert_eq!(disk.bytes(), b"header\ntwo\n");
            assert_eq!((lines.written(), lines.lost()), (1, 1));

            disk.remove_space(100 + space - HEADER.len() - b"two\n".len());
            let mut lines =
                LineWriter::open_allowing_full_disk(destination(), HEADER, HEADER).unwrap();
            assert!(matches!(lines.finish(), Err(ExportError::DiskFull { .. })));
        }
    }

    #[test]
    fn rest_of_a_line_waits_for_space() {
        let disk = TestDisk::stream();
        disk.add_space(4);
        let mut lines = lines(&disk);
        for line in ["one\n", "two\n", "three\n"] {
            lines.text.push_bytes(line.as_bytes());
            lines.end_line().unwrap();
        }
        disk.add_space(1);
        assert!(lines.flush().is_err());
        assert_eq!(disk.bytes(), b"one\nt");
        assert_eq!((lines.written(), lines.lost()), (1, 1));
        assert!(lines.flush().is_err());
        assert_eq!((lines.written(), lines.lost()), (1, 1));
        lines.text.push_bytes(b"four\n");
        lines.end_line().unwrap();
        disk.add_space(100);
        lines.finish().unwrap();
        assert_eq!(disk.bytes(), b"one\ntwo\nfour\n");
        assert_eq!((lines.written(), lines.lost()), (3, 1));
    }
}
