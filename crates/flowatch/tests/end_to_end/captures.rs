//! Captures: those that are shipped, those that are shared, and those that tests make.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// LINKTYPE_ETHERNET.
pub(crate) const ETHERNET: u32 = 1;
/// LINKTYPE_RAW: an IP packet and nothing before it.
pub(crate) const RAW_IP: u32 = 101;

/// Size of the uncompressed mix: a file header, 200,000 record headers and the 72,644,696 captured
/// bytes that the captures' README counts.
const MIX_BYTES: u64 = 24 + 200_000 * 16 + 72_644_696;

/// Flows of the mix by the 5-tuple, as its README counts them.
pub(crate) const MIX_FLOWS: usize = 17_699;

/// Flows of the example by the 5-tuple, as the golden table lists them.
const EXAMPLE_FLOWS: usize = 222;

/// Copies of the example that stand in for the mix: 60,280 packets.
const COPIES: u32 = 110;

/// Between the beginnings of two copies.
const BETWEEN_COPIES_NS: i64 = 10_000_000;

/// A capture of the repository.
pub(crate) fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/captures")
        .join(name)
}

/// The README's capture: 548 packets, 128,478 bytes (capinfos 4.0).
pub(crate) fn example() -> PathBuf {
    shipped("example.pcap")
}

/// The mix, uncompressed; kept among the build's files from one run of the tests to the next.
pub(crate) fn mix() -> &'static Path {
    static MIX: OnceLock<PathBuf> = OnceLock::new();
    MIX.get_or_init(|| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mix-200k.pcap");
        if fs::metadata(&path).is_ok_and(|found| found.len() == MIX_BYTES) {
            return path;
        }
        put(&path, |unfinished| {
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

/// Makes a file. Another process may be at it too: whoever is done last puts the same file there.
fn put(path: &Path, make: impl FnOnce(&Path)) {
    let unfinished = path.with_extension(std::process::id().to_string());
    make(&unfinished);
    fs::rename(&unfinished, path).unwrap();
}

/// A capture of many packets and flows, for tests that count none of them beforehand.
pub(crate) struct Busy {
    pub(crate) path: PathBuf,
    /// Whole flows, by the 5-tuple.
    pub(crate) flows: usize,
}

/// The mix, or where it is not, copies of the example side by side.
pub(crate) fn busy() -> &'static Busy {
    static BUSY: OnceLock<Busy> = OnceLock::new();
    BUSY.get_or_init(|| {
        if traffic::find().unwrap().is_some() {
            return Busy {
                path: mix().to_owned(),
                flows: MIX_FLOWS,
            };
        }
        let frames = copies_of_the_example();
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("copies.pcap");
        put(&path, |unfinished| write(unfinished, ETHERNET, &frames));
        Busy {
            path,
            flows: COPIES as usize * EXAMPLE_FLOWS,
        }
    })
}

/// Copies of the example with addresses of their own, each begun before the one before it ends.
fn copies_of_the_example() -> Vec<Frame> {
    let example = read(&fs::read(example()).unwrap());
    let mut frames = Vec::with_capacity(example.len() * COPIES as usize);
    for copy in 0..COPIES {
        frames.extend(example.iter().cloned().map(|mut frame| {
            traffic::shift(&mut frame.bytes, copy);
            frame.time_ns += i64::from(copy) * BETWEEN_COPIES_NS;
            frame
        }));
    }
    frames.sort_by_key(|frame| frame.time_ns);
    frames
}

/// A frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Nanoseconds since the Unix epoch.
    pub(crate) time_ns: i64,
    pub(crate) wire_length: u32,
    pub(crate) bytes: Vec<u8>,
}

impl Frame {
    /// A frame captured whole.
    pub(crate) fn whole(time_ns: i64, bytes: Vec<u8>) -> Self {
        Self {
            time_ns,
            wire_length: u32::try_from(bytes.len()).unwrap(),
            bytes,
        }
    }
}

/// The frames of a little-endian pcap file of microseconds.
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

/// Writes such a file.
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

/// Addresses, ports and protocol of a packet to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoints {
    pub(crate) source: u32,
    pub(crate) destination: u32,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
}

/// An Ethernet frame of 60 bytes with an IPv4 UDP datagram in it.
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
