//! Builds capture files and reads them in chunks, for tests.

use super::CaptureFile;
use crate::frame::{Counters, Port, Received};
use std::io::{self, Read};

/// A packet of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) link: u16,
    pub(super) time_ns: i64,
    pub(super) wire_length: u32,
    pub(super) bytes: Vec<u8>,
}

/// Writes a capture file in one of the two byte orders.
pub(super) struct Writer {
    big: bool,
    pub(super) bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn new(big: bool) -> Self {
        Self {
            big,
            bytes: Vec::new(),
        }
    }

    pub(super) fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        })
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        })
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        })
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends a pcap file header.
    pub(super) fn pcap_header(&mut self, magic: u32, minor: u16, network: u32) -> &mut Self {
        self.u32(magic)
            .u16(2)
            .u16(minor)
            .u32(0)
            .u32(0)
            .u32(65535)
            .u32(network)
    }

    /// Appends a pcap record.
    pub(super) fn pcap_record(
        &mut self,
        seconds: u32,
        fraction: u32,
        wire_length: u32,
        bytes: &[u8],
    ) -> &mut Self {
        self.u32(seconds)
            .u32(fraction)
            .u32(bytes.len() as u32)
            .u32(wire_length)
            .raw(bytes)
    }

    /// Appends a pcapng block with a body, which is padded.
    pub(super) fn block(&mut self, kind: u32, body: &[u8]) -> &mut Self {
        let padded = body.len().next_multiple_of(4);
        let length = padded as u32 + 12;
        self.u32(kind)
            .u32(length)
            .raw(body)
            .raw(&vec![0; padded - body.len()])
            .u32(length)
    }

    /// Appends a header of a section of unspecified length.
    pub(super) fn section(&mut self) -> &mut Self {
        let mut body = Self::new(self.big);
        body.u32(0x1a2b_3c4d).u16(1).u16(0).u64(u64::MAX);
        self.block(0x0a0d_0d0a, &body.bytes)
    }

    /// Appends an interface description with padded options.
    pub(super) fn interface(
        &mut self,
        link: u16,
        snap: u32,
        options: &[(u16, &[u8])],
    ) -> &mut Self {
        let mut body = Self::new(self.big);
        body.u16(link).u16(0).u32(snap);
        for (code, value) in options {
            let padding = value.len().next_multiple_of(4) - value.len();
            body.u16(*code)
                .u16(value.len() as u16)
                .raw(value)
                .raw(&vec![0; padding]);
        }
        if !options.is_empty() {
            body.u32(0);
        }
        self.block(1, &body.bytes)
    }

    /// Appends an enhanced packet block.
    pub(super) fn enhanced(
        &mut self,
        interface: u32,
        ticks: u64,
        wire_length: u32,
        bytes: &[u8],
    ) -> &mut Self {
        let mut body = Self::new(self.big);
        body.u32(interface)
            .u32((ticks >> 32) as u32)
            .u32(ticks as u32);
        body.u32(bytes.len() as u32).u32(wire_length).raw(bytes);
        self.block(6, &body.bytes)
    }

    /// Appends a simple packet block.
    pub(super) fn simple(&mut self, wire_length: u32, bytes: &[u8]) -> &mut Self {
        let mut body = Self::new(self.big);
        body.u32(wire_length).raw(bytes);
        self.block(3, &body.bytes)
    }
}

/// Everything that a port delivers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReadResult {
    pub(super) packets: Vec<Packet>,
    /// Faults: number of packets before, and message.
    pub(super) faults: Vec<(usize, String)>,
    /// The error that ended the port.
    pub(super) error: Option<String>,
    pub(super) counters: Counters,
}

/// Reads `port` to its end.
pub(super) fn drain(port: &mut dyn Port) -> ReadResult {
    let mut all = ReadResult::default();
    loop {
        match port.receive() {
            Ok(Received::Burst(burst)) => {
                assert!(!burst.frames.is_empty() && burst.frames.len() <= crate::frame::BURST);
                all.packets.extend(burst.frames.iter().map(|frame| Packet {
                    link: burst.link.linktype(),
                    time_ns: frame.time_ns,
                    wire_length: frame.wire_length,
                    bytes: frame.bytes.to_vec(),
                }));
            }
            Ok(Received::Idle) => {}
            Ok(Received::Fault(message)) => all.faults.push((all.packets.len(), message)),
            Ok(Received::End) => break,
            Err(error) => {
                all.error = Some(error.to_string());
                break;
            }
        }
    }
    all.counters = Counters {
        position: 0,
        ..port.counters()
    };
    assert_eq!(all.counters.frames, all.packets.len() as u64);
    all
}

/// Reads a capture in memory.
pub(super) fn read(bytes: &[u8]) -> ReadResult {
    drain(&mut CaptureFile::from_reader(
        "x",
        Box::new(io::Cursor::new(bytes.to_vec())),
    ))
}

/// Reads a capture in chunks of these sizes, round-robin; size 0 is a pause.
pub(super) fn read_in_chunks(bytes: &[u8], sizes: &[usize]) -> ReadResult {
    let reader = ChunkReader {
        bytes: bytes.to_vec(),
        at: 0,
        sizes: sizes.to_vec(),
        turn: 0,
    };
    drain(&mut CaptureFile::from_reader("x", Box::new(reader)))
}

struct ChunkReader {
    bytes: Vec<u8>,
    at: usize,
    sizes: Vec<usize>,
    turn: usize,
}

impl Read for ChunkReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes[self.turn % self.sizes.len()];
        self.turn += 1;
        if size == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let rest = &self.bytes[self.at..];
        let count = size.min(rest.len()).min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}
