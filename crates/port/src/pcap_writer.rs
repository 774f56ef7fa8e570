//! Writes capture files: pcap with nanosecond timestamps.

use crate::frame::PortError;
use crate::slot_memory::SlotMemory;
use crate::transmit::{Slot, Transmit};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use wire::LinkType;

/// Magic number of pcap with nanoseconds, written in little-endian.
const MAGIC: u32 = 0xa1b2_3c4d;

/// The snaplen that libpcap writes: the largest packet that a reader must expect.
const SNAPLEN: u32 = 262_144;

/// Bytes of the file header and of a record header, and the offset of the captured length in the
/// latter.
const FILE_HEADER: usize = 24;
const FRAME_HEADER: usize = 16;
const LENGTH_OFFSET: usize = 8;

/// Bytes per write.
const BLOCK_BYTES: usize = 256 << 10;

/// A pcap file as a sink of frames.
pub struct PcapWriter {
    name: String,
    writer: Box<dyn Write + Send>,
    /// A second handle of the file, if it was created here, to truncate it after a failed write.
    file: Option<File>,
    buffer: Vec<u8>,
    memory: SlotMemory,
    /// Frames and bytes written so far, including the headers.
    written: (u64, u64),
    frames: u64,
    bytes: u64,
}

impl PcapWriter {
    /// Creates or overwrites the file; `-` is standard output.
    ///
    /// # Errors
    /// If it cannot be created; [`PortError::Permission`] if a permission is missing.
    pub fn create(path: &Path, link: LinkType) -> Result<Self, PortError> {
        if path == Path::new("-") {
            let name = "standard output";
            let writer = standard_output().map_err(|error| {
                PortError::Failed(format!("{name}: cannot be written: {error}"))
            })?;
            return Self::new(name, writer, link);
        }
        let name = path.display().to_string();
        match File::create(path) {
            Ok(file) => {
                // Optional: used only to truncate the file after an error.
                let second = file.try_clone().ok();
                let mut writer = Self::new(&name, Box::new(file), link)?;
                writer.file = second;
                Ok(writer)
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                Err(PortError::Permission(format!(
                    "{name}: no permission to write it; choose another directory, or: sudo touch {name} && sudo chown $USER {name}"
                )))
            }
            Err(error) => Err(PortError::Failed(match error.kind() {
                ErrorKind::NotFound => {
                    format!("{name}: no such directory; create the parent directory first")
                }
                ErrorKind::IsADirectory => format!("{name}: is a directory; specify a file in it"),
                _ => format!("{name}: cannot be written: {error}"),
            })),
        }
    }

    /// Writes to `writer`, which messages call `name`.
    ///
    /// # Errors
    /// None at present: the file header is written with the first block.
    pub fn new(
        name: &str,
        writer: Box<dyn Write + Send>,
        link: LinkType,
    ) -> Result<Self, PortError> {
        let mut buffer = Vec::with_capacity(BLOCK_BYTES + usize::from(u16::MAX));
        buffer.extend(MAGIC.to_le_bytes());
        buffer.extend(2u16.to_le_bytes());
        buffer.extend(4u16.to_le_bytes());
        // Time zone and accuracy: unused, 0.
        buffer.extend([0; 8]);
        buffer.extend(SNAPLEN.to_le_bytes());
        buffer.extend(u32::from(link.linktype()).to_le_bytes());
        Ok(Self {
            name: name.to_owned(),
            writer,
            file: None,
            buffer,
            memory: SlotMemory::new(),
            written: (0, 0),
            frames: 0,
            bytes: 0,
        })
    }

    fn write_buffer(&mut self) -> Result<(), PortError> {
        let mut written = 0;
        let mut result = Ok(());
        while let Some(rest) = self.buffer.get(written..).filter(|rest| !rest.is_empty()) {
            match self.writer.write(rest) {
                Ok(0) => result = Err(ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => result = Err(error),
            }
            if result.is_err() {
                break;
            }
        }
        let (frames, bytes) = self.count_whole_frames(written);
        self.written.0 += frames;
        self.written.1 += bytes;
        self.buffer.clear();
        result.map_err(|error| {
            if let Some(file) = &self.file {
                // Cut off a partial frame, which readers would report as damage. Fails on a device,
                // which has no length.
                let _ = file.set_len(self.written.1);
            }
            self.write_error(&error)
        })
    }

    /// Returns the number of frames that lie completely within the first `written` bytes of the buffer,
    /// and the end of the last of them.
    fn count_whole_frames(&self, written: usize) -> (u64, u64) {
        let mut frames = 0;
        let mut end = if self.written.1 == 0 { FILE_HEADER } else { 0 };
        if end > written {
            return (0, 0);
        }
        while let Some(&[a, b, c, d]) = self
            .buffer
            .get(end + LENGTH_OFFSET..end + LENGTH_OFFSET + 4)
        {
            let next = end + FRAME_HEADER + u32::from_le_bytes([a, b, c, d]) as usize;
            if next > written {
                break;
            }
            frames += 1;
            end = next;
        }
        (frames, end as u64)
    }

    fn write_error(&self, error: &io::Error) -> PortError {
        let name = &self.name;
        match error.kind() {
            ErrorKind::BrokenPipe => PortError::BrokenPipe(name.clone()),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                PortError::Failed(format!(
                    "{name}: no space left on the device; the first {} packets were written: free space and start \
                     again, or write fewer packets (-c)",
                    self.written.0
                ))
            }
            _ => PortError::Failed(format!("{name}: cannot be written: {error}")),
        }
    }
}

/// Standard output without the standard library's line buffer.
#[cfg(unix)]
fn standard_output() -> io::Result<Box<dyn Write + Send>> {
    use std::os::fd::AsFd;
    let descriptor = io::stdout().as_fd().try_clone_to_owned()?;
    Ok(Box::new(File::from(descriptor)))
}

#[cfg(not(unix))]
fn standard_output() -> io::Result<Box<dyn Write + Send>> {
    Ok(Box::new(io::stdout()))
}

impl Transmit for PcapWriter {
    fn reserve(&mut self, count: usize, slot_bytes: usize) -> Result<&mut [Slot<'_>], PortError> {
        self.memory.reserve(count, slot_bytes)
    }

    fn submit(&mut self, count: usize) -> Result<usize, PortError> {
        let count = count.min(self.memory.reserved());
        for index in 0..count {
            let (frame, time_ns, _) = self.memory.frame(index);
            // The format has no timestamps before 1970.
            let time_ns = time_ns.max(0).cast_unsigned();
            let length = (frame.len() as u32).to_le_bytes();
            let seconds = (time_ns / 1_000_000_000) as u32;
            let nanoseconds = (time_ns % 1_000_000_000) as u32;
            self.buffer.extend(seconds.to_le_bytes());
            self.buffer.extend(nanoseconds.to_le_bytes());
            self.buffer.extend(length);
            self.buffer.extend(length);
            self.buffer.extend_from_slice(frame);
            self.bytes += frame.len() as u64;
            if self.buffer.len() >= BLOCK_BYTES {
                self.write_buffer()?;
            }
        }
        self.frames += count as u64;
        self.memory.commit(count, count);
        Ok(count)
    }

    fn discard(&mut self) {
        self.memory.discard();
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.write_buffer()?;
        let result = self.writer.flush();
        result.map_err(|error| self.write_error(&error))
    }

    fn sent(&self) -> (u64, u64) {
        (self.frames, self.bytes)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::CaptureFile;
    use crate::frame::{Port, Received};
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn written_frames_are_read_back_to_the_nanosecond() {
        let written = Shared::default();
        let mut writer =
            PcapWriter::new("memory", Box::new(written.clone()), LinkType::Raw).unwrap();
        for round in 0..40i64 {
            let slots = writer.reserve(256, 1500).unwrap();
            for (index, slot) in slots.iter_mut().enumerate() {
                let number = round * 256 + index as i64;
                slot.length = 20 + index;
                slot.bytes.fill(index as u8);
                slot.time_ns = 1_700_000_000_999_999_000 + number;
            }
            assert_eq!(writer.submit(256).unwrap(), 256);
        }
        writer.flush().unwrap();
        assert_eq!(writer.sent(), (10_240, 40 * (20 * 256 + 255 * 128)));
        let bytes = written.0.lock().unwrap().clone();
        let mut file = CaptureFile::from_reader("memory", Box::new(io::Cursor::new(bytes)));
        let mut number = 0;
        loop {
            match file.receive().unwrap() {
                Received::Burst(burst) => {
                    assert_eq!(burst.link, LinkType::Raw);
                    for frame in burst.frames {
                        let index = number % 256;
                        assert_eq!(frame.bytes, vec![index as u8; 20 + index as usize]);
                        assert_eq!(frame.time_ns, 1_700_000_000_999_999_000 + number);
                        number += 1;
                    }
                }
                Received::End => break,
                Received::Idle => {}
                Received::Fault(fault) => panic!("{fault}"),
            }
        }
        assert_eq!(number, 10_240);
    }

    /// A disk with this many free bytes, which accepts small writes only.
    struct SmallDisk(usize);

    impl Write for SmallDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let written = bytes.len().min(self.0).min(7);
            if written == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.0 -= written;
            Ok(written)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn full_disk_error_has_the_number_of_packets_written() {
        const FRAME: usize = FRAME_HEADER + 1000;
        for (free, frames) in [
            (0, 0),
            (FILE_HEADER + FRAME - 1, 0),
            (FILE_HEADER + FRAME, 1),
            (FILE_HEADER + 2 * FRAME - 1, 1),
            (FILE_HEADER + 700 * FRAME, 700),
            (FILE_HEADER + 701 * FRAME - 1000, 700),
        ] {
            let mut writer =
                PcapWriter::new("x", Box::new(SmallDisk(free)), LinkType::Ethernet).unwrap();
            let result = (0..10).try_for_each(|_| {
                for slot in writer.reserve(100, 1500)? {
                    slot.length = 1000;
                }
                writer.submit(100).map(|_| ())
            });
            let text = result
                .and_then(|()| writer.flush())
                .unwrap_err()
                .to_string();
            let part = format!("the first {frames} packets were written: free space");
            assert!(text.contains(&part), "{free}: {text}");
        }
    }

    #[test]
    fn full_disk_and_broken_pipe_are_different_errors() {
        struct Failing(ErrorKind);
        impl Write for Failing {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let flush = |kind| {
            PcapWriter::new("x", Box::new(Failing(kind)), LinkType::Ethernet)
                .unwrap()
                .flush()
        };
        assert!(matches!(
            flush(ErrorKind::BrokenPipe),
            Err(PortError::BrokenPipe(_))
        ));
        assert!(matches!(
            flush(ErrorKind::StorageFull),
            Err(PortError::Failed(_))
        ));
        let error = PcapWriter::create(Path::new("/nowhere/x.pcap"), LinkType::Ethernet).err();
        assert!(error.unwrap().to_string().contains("/nowhere/x.pcap"));
    }
}
