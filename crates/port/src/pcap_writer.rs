//! Writing captures: pcap with nanoseconds.

use crate::frame::PortError;
use crate::slot_memory::SlotMemory;
use crate::transmit::{Slot, Transmit};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use wire::LinkType;

/// "pcap with nanoseconds", in the byte order of whoever wrote it.
const MAGIC: u32 = 0xa1b2_3c4d;

/// Largest packet that a reader has to expect, as libpcap writes it.
const SNAP_LENGTH: u32 = 262_144;

/// Written at a time.
const BLOCK_BYTES: usize = 256 << 10;

/// A capture that frames are written to.
pub struct PcapWriter {
    name: String,
    writer: Box<dyn Write + Send>,
    buffer: Vec<u8>,
    memory: SlotMemory,
    frames: u64,
    bytes: u64,
}

impl PcapWriter {
    /// Creates the file, or writes over it; `-` is standard output.
    ///
    /// # Errors
    /// When it cannot be created: a missing right is [`PortError::Permission`].
    pub fn create(path: &Path, link: LinkType) -> Result<Self, PortError> {
        if path == Path::new("-") {
            return Self::new("standard output", Box::new(io::stdout()), link);
        }
        let name = path.display().to_string();
        match File::create(path) {
            Ok(file) => Self::new(&name, Box::new(file), link),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                Err(PortError::Permission(format!(
                    "{name}: no permission to write it; choose another directory, or: sudo touch {name} && sudo chown $USER {name}"
                )))
            }
            Err(error) => Err(PortError::Failed(match error.kind() {
                ErrorKind::NotFound => {
                    format!("{name}: no such directory; create the directory that it lies in")
                }
                ErrorKind::IsADirectory => format!("{name} is a directory; name a file in it"),
                _ => format!("{name}: cannot be written: {error}"),
            })),
        }
    }

    /// Writes to anything; messages call it `name`.
    ///
    /// # Errors
    /// None now; what is written first is the header of the file, with the first block.
    pub fn new(
        name: &str,
        writer: Box<dyn Write + Send>,
        link: LinkType,
    ) -> Result<Self, PortError> {
        let mut buffer = Vec::with_capacity(BLOCK_BYTES + usize::from(u16::MAX));
        buffer.extend(MAGIC.to_le_bytes());
        buffer.extend(2u16.to_le_bytes());
        buffer.extend(4u16.to_le_bytes());
        // Time zone and accuracy, which nobody uses.
        buffer.extend([0; 8]);
        buffer.extend(SNAP_LENGTH.to_le_bytes());
        buffer.extend(u32::from(link.linktype()).to_le_bytes());
        Ok(Self {
            name: name.to_owned(),
            writer,
            buffer,
            memory: SlotMemory::new(),
            frames: 0,
            bytes: 0,
        })
    }

    fn write(&mut self) -> Result<(), PortError> {
        let result = self.writer.write_all(&self.buffer);
        self.buffer.clear();
        result.map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &io::Error) -> PortError {
        match error.kind() {
            ErrorKind::BrokenPipe => PortError::ReaderGone(self.name.clone()),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                PortError::Failed(format!("{}: no space left on the device", self.name))
            }
            _ => PortError::Failed(format!("{}: cannot be written: {error}", self.name)),
        }
    }
}

impl Transmit for PcapWriter {
    fn reserve(&mut self, count: usize, room: usize) -> Result<&mut [Slot<'_>], PortError> {
        Ok(self.memory.lend(count, room))
    }

    fn submit(&mut self, count: usize) -> Result<usize, PortError> {
        let count = count.min(self.memory.lent());
        for index in 0..count {
            let (frame, time_ns, _) = self.memory.frame(index);
            // A time before 1970 has no form in this format.
            let time_ns = time_ns.max(0).cast_unsigned();
            let length = (frame.len() as u32).to_le_bytes();
            let seconds = (time_ns / 1_000_000_000) as u32;
            let rest = (time_ns % 1_000_000_000) as u32;
            self.buffer.extend(seconds.to_le_bytes());
            self.buffer.extend(rest.to_le_bytes());
            self.buffer.extend(length);
            self.buffer.extend(length);
            self.buffer.extend_from_slice(frame);
            self.bytes += frame.len() as u64;
            if self.buffer.len() >= BLOCK_BYTES {
                self.write()?;
            }
        }
        self.frames += count as u64;
        self.memory.take(count, count);
        Ok(count)
    }

    fn discard(&mut self) {
        self.memory.discard();
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.write()?;
        let result = self.writer.flush();
        result.map_err(|error| self.failure(&error))
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
    fn what_is_written_is_read_to_the_nanosecond() {
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

    #[test]
    fn a_disk_that_is_full_and_a_reader_that_is_gone_are_told_apart() {
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
            Err(PortError::ReaderGone(_))
        ));
        assert!(matches!(
            flush(ErrorKind::StorageFull),
            Err(PortError::Failed(_))
        ));
        let error = PcapWriter::create(Path::new("/nowhere/x.pcap"), LinkType::Ethernet).err();
        assert!(error.unwrap().to_string().contains("/nowhere/x.pcap"));
    }
}
