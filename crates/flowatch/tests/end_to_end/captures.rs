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

/// The directory of the captures that are not shipped.
pub(crate) fn traffic() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traffic");
    let directory = std::env::var_os("FLOWATCH_TRAFFIC").map_or_else(beside, PathBuf::from);
    assert!(
        directory.join("MANIFEST.tsv").is_file(),
        "no captures in {}: set FLOWATCH_TRAFFIC to the directory that holds MANIFEST.tsv",
        directory.display()
    );
    directory
}

/// The mix, compressed as it is shared.
pub(crate) fn mix_zst() -> PathBuf {
    traffic().join("mix-200k.pcap.zst")
}

/// The mix, uncompressed; kept among the build's files from one run of the tests to the next.
pub(crate) fn mix() -> &'static Path {
    static MIX: OnceLock<PathBuf> = OnceLock::new();
    MIX.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let path = directory.join("mix-200k.pcap");
        if fs::metadata(&path).is_ok_and(|found| found.len() == MIX_BYTES) {
            return path;
        }
        // Another process may be at it too: whoever is done last puts the same file there.
        let unfinished = directory.join(format!("mix-200k.{}", std::process::id()));
        let status = Command::new("zstd")
            .args(["-dcq"])
            .arg(mix_zst())
            .stdout(File::create(&unfinished).unwrap())
            .stdin(Stdio::null())
            .status()
            .expect("this test needs zstd: run ./setup");
        assert!(status.success(), "zstd");
        fs::rename(&unfinished, &path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), MIX_BYTES);
        path
    })
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
