//! Captures: those in the repository, the shared collection, and those that tests create.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// LINKTYPE_ETHERNET.
pub(crate) const ETHERNET: u32 = 1;
/// LINKTYPE_RAW: IP packets without a link-layer header.
pub(crate) const RAW_IP: u32 = 101;

/// Size of the uncompressed mix: a file header, 200,000 record headers, and 72,644,696 captured bytes
/// according to the captures' README.
const MIX_BYTES: u64 = 24 + 200_000 * 16 + 72_644_696;

/// 5-tuple flows of the mix, according to its README.
pub(crate) const MIX_FLOWS: usize = 17_699;

/// 5-tuple flows of the example, according to the golden table.
const EXAMPLE_FLOWS: usize = 222;

/// Copies of the example that replace the mix if it is missing: 60,280 packets.
const COPIES: u32 = 110;

/// Time between the starts of two copies.
const BETWEEN_COPIES_NS: i64 = 10_000_000;

/// Returns the path of a capture in the repository.
pub(crate) fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/captures")
        .join(name)
}

/// The README's capture: 548 packets, 128,478 bytes (capinfos 4.0).
pub(crate) fn example() -> PathBuf {
    shipped("example.pcap")
}

/// Returns the path of the uncompressed mix, which is kept in the build directory between test runs.
pub(crate) fn mix() -> &'static Path {
    static MIX: OnceLock<PathBuf> = OnceLock::new();
    MIX.get_or_init(|| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mix-200k.pcap");
        if fs::metadata(&path).is_ok_and(|found| found.len() == MIX_BYTES) {
            return path;
        }
        write_atomically(&path, |unfinished| {
            let status = Command::new("zstd")
                .args(["-dcq"])
                .arg(traffic::directory().join("mix-200k.pcap.zst"))
                .stdout(File::create(unfinished).unwrap())
                .stdin(Stdio::null())
                .status()
                .expect("this test needs zstd: run ./setup");
            assert!(status.success(), "zstd");
        });
        assert_eq!(fs::metadata(&path).unwrap().len(), MIX_BYTES);
        path
    })
}

/// Creates a file by renaming a temporary one, because other processes may create it at the same time.
fn write_atomically(path: &Path, make: impl FnOnce(&Path)) {
    let unfinished = path.with_extension(std::process::id().to_string());
    make(&unfinished);
    fs::rename(&unfinished, path).unwrap();
}

/// A capture with many packets and flows.
pub(crate) struct LargeCapture {
    pub(crate) path: PathBuf,
    /// Number of 5-tuple flows without timeouts.
    pub(crate) flows: usize,
}

/// Returns the mix, or overlapping copies of the example if the mix is missing.
pub(crate) fn large() -> &'static LargeCapture {
    static BUSY: OnceLock<LargeCapture> = OnceLock::new();
    BUSY.get_or_init(|| {
        if traffic::find().unwrap().is_some() {
            return LargeCapture {
                path: mix().to_owned(),
                flows: MIX_FLOWS,
            };
        }
        let frames = copies_of_the_example();
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("copies.pcap");
        write_atomically(&path, |unfinished| write(unfinished, ETHERNET, &frames));
        LargeCapture {
            path,
            flows: COPIES as usize * EXAMPLE_FLOWS,
        }
    })
}

/// Returns copies of the example with distinct addresses, each starting before the previous one ends.
fn copies_of_the_example() -> Vec<Frame> {
    let example = read(&fs::read(example()).unwrap());
    let mut frames = Vec::with_capacity(example.len() * COPIES as usize);
    for copy in 0..COPIES {
        frames.extend(example.iter().cloned().map(|mut frame| {
            traffic::shift_addresses(&mut frame.bytes, copy);
            frame.time_ns += i64::from(copy) * BETWEEN_COPIES_NS;
            frame
        }));
    }
    frames.sort_by_key(|frame| frame.time_ns);
    frames
}

/// A captured frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Nanoseconds since the Unix epoch.
    pub(crate) time_ns: i64,
    pub(crate) wire_length: u32,
    pub(crate) bytes: Vec<u8>,
}

impl Frame {
    /// Creates a frame that is not truncated.
    pub(crate) fn whole(time_ns: i64, bytes: Vec<u8>) -> Self {
        Self {
            time_ns,
            wire_length: u32::try_from(bytes.len()).unwrap(),
            bytes,
        }
    }
}

/// Parses a little-endian pcap file with microsecond timestamps.
pub(crate) fn read(bytes: &[u8]) -> Vec<Frame> {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(
        number(0),
        0xa1b2_c3d4,
        "not pcap, microseconds, little-endian"
    );
    let mut frames = Vec::new();
    let mut at = 24;
    while at < bytes.len() {
        let captured = number(at + 8) as usize;
        frames.push(Frame {
            time_ns: i64::from(number(at)) * 1_000_000_000 + i64::from(number(at + 4)) * 1000,
            wire_length: number(at + 12),
            bytes: bytes[at + 16..at + 16 + captured].to_vec(),
        });
        at += 16 + captured;
    }
    frames
}

/// Writes a little-endian pcap file with microsecond timestamps.
pub(crate) fn write<'a>(path: &Path, link: u32, frames: impl IntoIterator<Item = &'a Frame>) {
    let mut file = Vec::new();
    let header: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 1 << 18, link];
    file.extend(header.iter().flat_map(|word| word.to_le_bytes()));
    for frame in frames {
        let seconds = u32::try_from(frame.time_ns / 1_000_000_000).unwrap();
        let microseconds = (frame.time_ns % 1_000_000_000 / 1000) as u32;
        let captured = u32::try_from(frame.bytes.len()).unwrap();
        let record = [seconds, microseconds, captured, frame.wire_length];
        file.extend(record.iter().flat_map(|word| word.to_le_bytes()));
        file.extend(&frame.bytes);
    }
    fs::write(path, file).unwrap();
}

/// Addresses and ports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoints {
    pub(crate) source: u32,
    pub(crate) destination: u32,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
}

/// Returns an Ethernet frame of 60 bytes with an IPv4 UDP datagram.
pub(crate) fn udp(endpoints: Endpoints) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend(endpoints.source.to_be_bytes());
    frame.extend(endpoints.destination.to_be_bytes());
    frame.extend(endpoints.source_port.to_be_bytes());
    frame.extend(endpoints.destination_port.to_be_bytes());
    frame.extend([0, 26, 0, 0]);
    frame.resize(60, 0);
    frame
}
