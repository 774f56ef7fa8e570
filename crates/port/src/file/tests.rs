//! Whole inputs: compression, chunked reads, errors at opening, sequences, and random inputs.

use super::sample::{Packet, Writer, drain, read, read_in_chunks};
use super::{CaptureFile, CaptureFiles, Input};
use crate::frame::PortError;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

/// Creates an empty directory for a test.
fn directory(test: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("flowatch-port-{}-{test}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a temporary directory");
    path
}

/// A pcap file of `packets` packets of varying lengths, the longest longer than a block.
fn capture(packets: u32) -> Vec<u8> {
    let mut file = Writer::new(false);
    file.pcap_header(0xa1b2_c3d4, 4, 1);
    for number in 0..packets {
        let length = match number % 1000 {
            999 => 300_000,
            _ => number as usize * 37 % 1600,
        };
        file.pcap_record(
            number,
            number,
            length as u32 + 4,
            &vec![number as u8; length],
        );
    }
    file.bytes
}

/// A pcap file of packets that hardly compress, so that its compressed form has several blocks.
fn incompressible_capture() -> Vec<u8> {
    let mut file = Writer::new(false);
    file.pcap_header(0xa1b2_c3d4, 4, 1);
    let mut state = 1u32;
    for number in 0..800 {
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .take(900)
        .collect();
        file.pcap_record(number, number, 900, &bytes);
    }
    file.bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory does not fail");
    encoder.finish().expect("memory does not fail")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("memory does not fail")
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    liblzma::encode_all(bytes, 0).expect("memory does not fail")
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).expect("memory does not fail");
    encoder.finish().expect("memory does not fail")
}

/// Blocks that refer to earlier ones, with all checksums.
fn lz4(bytes: &[u8]) -> Vec<u8> {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    let info = FrameInfo::new()
        .block_mode(BlockMode::Linked)
        .block_size(BlockSize::Max64KB)
        .block_checksums(true)
        .content_checksum(true);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(bytes).expect("memory does not fail");
    encoder.finish().expect("memory does not fail")
}

/// Compresses bytes.
type Pack = fn(&[u8]) -> Vec<u8>;

/// All compressions, with their names.
const PACKERS: [(Pack, &str); 5] = [
    (gzip, "gzip"),
    (zstd, "zstd"),
    (xz, "xz"),
    (bzip2, "bzip2"),
    (lz4, "lz4"),
];

#[test]
fn records_longer_than_a_block_are_read_once() {
    let file = capture(3000);
    let all = read(&file);
    assert_eq!(all.packets.len(), 3000);
    assert_eq!(all.faults, []);
    for (number, packet) in all.packets.iter().enumerate() {
        assert_eq!(packet.time_ns, number as i64 * 1_000_001_000);
        assert_eq!(packet.bytes.len() + 4, packet.wire_length as usize);
        assert!(packet.bytes.iter().all(|byte| *byte == number as u8));
    }
    for sizes in [
        &[1000][..],
        &[65_536],
        &[262_144, 0, 1, 7],
        &[1 << 20],
        &[200_000, 3],
    ] {
        assert_eq!(read_in_chunks(&file, sizes), all, "{sizes:?}");
    }
}

#[test]
fn compression_is_detected_and_may_have_several_members() {
    let file = capture(1500);
    let all = read(&file);
    let (first, second) = file.split_at(100_001);
    for (pack, kind) in PACKERS {
        assert_eq!(read(&pack(&file)), all, "{kind}");
        let members = [pack(first), pack(&[]), pack(second)].concat();
        assert_eq!(read(&members), all, "{kind}");
        assert_eq!(read_in_chunks(&members, &[1, 0, 5000]), all, "{kind}");
    }
}

#[test]
fn zero_padding_after_gzip_xz_and_bzip2_streams_is_ignored() {
    let file = capture(1500);
    let (first, second) = file.split_at(100_001);
    let zeroes = vec![0; 200_000];
    for pack in [gzip, xz, bzip2 as Pack] {
        let padded = [&pack(first)[..], &zeroes, &pack(second), &zeroes[..512]].concat();
        assert_eq!(read(&padded), read(&file));
        assert_eq!(read_in_chunks(&padded, &[1, 0, 5000]), read(&file));
        let garbage = [&padded[..], b"what is this"].concat();
        assert_eq!(read(&garbage).counters.faults, 1);
    }
}

#[test]
fn truncated_or_corrupt_compressed_file_delivers_the_packets_before() {
    let file = incompressible_capture();
    let whole = read(&file).packets;
    for (pack, kind) in PACKERS {
        let packed = pack(&file);
        // Every length near the end: also between two blocks, and within the final checksums.
        for length in (packed.len() - 20..packed.len()).chain([packed.len() * 3 / 4]) {
            let cut = read(&packed[..length]);
            assert!(
                !cut.packets.is_empty() && whole.starts_with(&cut.packets),
                "{kind}"
            );
            assert_eq!(cut.counters.faults, 1, "{kind} {length}");
            let (after, message) = &cut.faults[0];
            assert_eq!(*after, cut.packets.len());
            assert!(
                message.contains(&format!("the {kind} data are truncated")),
                "{message}"
            );
            assert_eq!(
                read_in_chunks(&packed[..length], &[1, 0, 7000]),
                cut,
                "{kind}"
            );
        }

        let mut damaged = packed.clone();
        damaged[packed.len() / 2..packed.len() / 2 + 64].fill(0xff);
        let all = read(&damaged);
        assert_eq!(all.counters.faults, 1, "{:?}", all.faults);
        if kind != "gzip" {
            assert_eq!(read_in_chunks(&damaged, &[1, 0, 7000]), all, "{kind}");
        }

        let all = read(&[pack(&file), b"what is this".to_vec()].concat());
        assert_eq!(all.packets, whole, "{kind}");
        assert!(
            all.faults[0]
                .1
                .contains(&format!("{kind} data are corrupt")),
            "{:?}",
            all.faults
        );
    }
}

#[test]
fn open_errors_are_one_line_with_the_path() {
    let directory = directory("open");
    let header = &capture(0)[..];
    let files: [(&str, &[u8], &str); 8] = [
        ("empty.pcap", b"", "the input is empty"),
        (
            "empty.gz",
            &gzip(b""),
            "the input is empty after decompression (gzip)",
        ),
        ("short.pcap", &header[..23], "truncated in its file header"),
        (
            "notes.txt",
            b"what to buy\n",
            "not a pcap or pcapng file: it looks like text: \"what to buy\"",
        ),
        (
            "notes.zst",
            &zstd(b"what to buy\n"),
            "(after zstd decompression): it looks like text",
        ),
        ("bytes", &[1, 2, 3], "it starts with the bytes 01 02 03"),
        ("capture.xz", b"\xfd7zXZ\0\0", "xz data are corrupt"),
        (
            "broken.gz",
            &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xff, 0xff, 0xff],
            "gzip data are corrupt",
        ),
    ];
    for (name, bytes, part) in files {
        let path = directory.join(name);
        fs::write(&path, bytes).expect("a file");
        let input = Input::Path(path.clone());
        let Err(PortError::Failed(message)) = CaptureFile::open(&input).map(|_| ()) else {
            panic!("{name} was opened");
        };
        assert!(
            message.starts_with(&format!("{}: ", path.display())),
            "{message}"
        );
        assert!(
            message.contains(part) && !message.contains('\n'),
            "{message}"
        );
    }
    for (path, part) in [
        (directory.join("missing"), "no such file"),
        (directory.clone(), "is a directory"),
    ] {
        let error = CaptureFile::open(&Input::Path(path))
            .map(|_| ())
            .expect_err("not a file");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn capture_without_packets_is_valid() {
    let all = read(&capture(0));
    assert_eq!((all.packets, all.faults, all.error), (vec![], vec![], None));
}

#[test]
fn fault_ends_only_its_file_of_a_sequence() {
    let directory = directory("sequence");
    let file = capture(5);
    let write = |name: &str, bytes: &[u8]| {
        let path = directory.join(name);
        fs::write(&path, bytes).expect("a file");
        Input::Path(path)
    };
    let inputs = [
        write("a", &file),
        write("b", &file[..file.len() - 1]),
        write("c", &gzip(&file)),
    ];
    let mut port = CaptureFiles::open(&inputs).expect("captures");
    let all = drain(&mut port);
    let seconds: Vec<i64> = all
        .packets
        .iter()
        .map(|packet| packet.time_ns / 1_000_000_000)
        .collect();
    assert_eq!(seconds, [0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1, 2, 3, 4]);
    assert_eq!(all.faults.len(), 1);
    assert_eq!(all.faults[0].0, 9);
    assert_eq!(all.counters.faults, 1);
    let counters = crate::Port::counters(&mut port);
    assert_eq!(counters.position, counters.size);
    assert!(counters.size > 0);

    let missing = Input::Path(directory.join("missing"));
    let error = CaptureFiles::open(&[inputs[0].clone(), missing.clone()]).map(|_| ());
    assert!(
        error
            .expect_err("a missing file")
            .to_string()
            .contains("no such file")
    );
    let some = [missing.clone(), inputs[0].clone(), inputs[2].clone()];
    let all = drain(&mut CaptureFiles::open_available(&some).expect("two of them exist"));
    assert_eq!((all.packets.len(), all.counters.faults), (10, 1));
    let (after, message) = &all.faults[0];
    assert!(*after == 0 && message.contains("no such file"), "{message}");
    assert!(CaptureFiles::open_available(&[missing]).is_err());
    let twice = [Input::StandardInput, Input::StandardInput];
    assert!(CaptureFiles::open(&twice).is_err());
    assert!(CaptureFiles::open(&[]).is_err());
}

#[test]
fn file_removed_during_the_run_is_a_fault() {
    let directory = directory("gone");
    let paths = ["a", "b", "c"].map(|name| directory.join(name));
    for path in &paths {
        fs::write(path, capture(2)).expect("a file");
    }
    let inputs = paths.clone().map(Input::Path);
    let mut port = CaptureFiles::open(&inputs).expect("captures");
    fs::remove_file(&paths[1]).expect("the file exists");
    let all = drain(&mut port);
    assert_eq!((all.packets.len(), all.counters.faults), (4, 1));
    assert_eq!(all.faults[0].0, 2);
}

#[test]
fn named_pipe_is_read_while_it_is_written() {
    let directory = directory("pipe");
    let path = directory.join("pipe");
    let status = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(status.is_ok_and(|status| status.success()), "mkfifo");
    let file = capture(400);
    let writer = std::thread::spawn({
        let (path, file) = (path.clone(), file.clone());
        move || {
            let mut pipe = fs::OpenOptions::new()
                .write(true)
                .open(path)
                .expect("a pipe");
            for part in file.chunks(50_000) {
                std::thread::sleep(std::time::Duration::from_millis(5));
                pipe.write_all(part).expect("a reader");
            }
        }
    });
    let mut port = CaptureFiles::open(&[Input::Path(path)]).expect("a pipe");
    let all = drain(&mut port);
    writer.join().expect("the writer ends");
    assert_eq!(all.packets, read(&file).packets);
}

/// A pcap file of random packets.
fn pcap_file() -> impl Strategy<Value = (Vec<u8>, Vec<Packet>)> {
    let packet = (
        any::<u32>(),
        0u32..1_000_000,
        any::<u16>(),
        prop::collection::vec(any::<u8>(), 0..200),
    );
    let packets = prop::collection::vec(packet, 0..600);
    (any::<bool>(), any::<bool>(), packets).prop_map(|(big, nanoseconds, packets)| {
        let (magic, unit) = if nanoseconds {
            (0xa1b2_3c4d, 1)
        } else {
            (0xa1b2_c3d4, 1000)
        };
        let mut file = Writer::new(big);
        file.pcap_header(magic, 4, 1);
        let mut expected = Vec::new();
        for (seconds, fraction, more, bytes) in packets {
            let wire_length = bytes.len() as u32 + u32::from(more);
            file.pcap_record(seconds, fraction, wire_length, &bytes);
            expected.push(Packet {
                link: 1,
                time_ns: i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * unit,
                wire_length,
                bytes,
            });
        }
        (file.bytes, expected)
    })
}

/// Random pcapng blocks, most of them valid.
fn pcapng_file() -> impl Strategy<Value = Vec<u8>> {
    let body = prop::collection::vec(any::<u8>(), 0..80);
    let block = (0u8..24, 0u32..4, any::<u64>(), any::<u32>(), body);
    (any::<bool>(), prop::collection::vec(block, 0..60)).prop_map(|(big, blocks)| {
        let mut file = Writer::new(big);
        file.section().interface(1, 40, &[(9, &[9])]);
        for (kind, interface, ticks, number, body) in blocks {
            match kind {
                0..8 => file.enhanced(interface, ticks, number % 2000, &body),
                8..12 => file.simple(body.len() as u32, &body),
                12..15 => file.interface(number as u16 % 3, number % 100, &[(9, &[ticks as u8])]),
                15 => file.section(),
                16 => file.block(6, &body),
                17 => file.block(1, &body),
                18 => file.block(2, &body),
                19 => file.block(3, &body),
                20 if number % 4 == 0 => file.raw(&body),
                _ => file.block(number, &body),
            };
        }
        file.bytes
    })
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    // The last size is not 0, so that the input ends.
    (prop::collection::vec(0usize..300, 0..8), 1usize..5000)
        .prop_map(|(sizes, last)| sizes.into_iter().chain([last]).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn pcap_reads_do_not_depend_on_chunk_sizes(
        (file, expected) in pcap_file(),
        sizes in sizes(),
    ) {
        let all = read(&file);
        prop_assert_eq!(&all.packets, &expected);
        prop_assert!(all.faults.is_empty());
        prop_assert_eq!(read_in_chunks(&file, &sizes), all);
    }

    #[test]
    fn pcapng_reads_do_not_depend_on_chunk_sizes(file in pcapng_file(), sizes in sizes()) {
        let all = read(&file);
        prop_assert!(all.error.is_none());
        prop_assert_eq!(read_in_chunks(&file, &sizes), all);
    }

    #[test]
    fn truncated_pcap_delivers_its_first_packets(
        (file, expected) in pcap_file(),
        cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(file.len() + 1);
        let all = read(&file[..cut]);
        prop_assert!(expected.starts_with(&all.packets));
        prop_assert!(all.counters.faults <= 1);
    }

    #[test]
    fn random_bytes_are_read_to_the_end(
        start in prop::sample::select(vec![
            &b""[..], b"\xd4\xc3\xb2\xa1\x02\0\x04\0", b"\xa1\xb2\x3c\x4d\0\x02\0\x04",
            b"\x34\xcd\xb2\xa1\x02\0\x04\0", b"\n\r\r\n\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0",
            b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd",
        ]),
        rest in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..600),
        sizes in sizes(),
    ) {
        let file = [start, &rest].concat();
        let all = read(&file);
        let chunked = read_in_chunks(&file, &sizes);
        if matches!(file[..], [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..]) {
            // How much a decompressor delivers before corrupt data depends on the chunks.
            let (short, long) = if chunked.packets.len() < all.packets.len() {
                (&chunked.packets, &all.packets)
            } else {
                (&all.packets, &chunked.packets)
            };
            prop_assert!(long.starts_with(short));
        } else {
            prop_assert_eq!(chunked, all);
        }
    }
}

/// Raw zstd blocks (RFC 8878 section 3.1.1), then one of the reserved type.
#[test]
fn zstd_blocks_before_a_corrupt_one_are_read() {
    const WINDOW_OF_A_MIB: u8 = 10 << 3;
    const RESERVED: u8 = 3 << 1;
    let file = capture(20);
    let mut packed = vec![0x28, 0xb5, 0x2f, 0xfd, 0, WINDOW_OF_A_MIB];
    for block in file.chunks(5000) {
        packed.extend_from_slice(&(block.len() as u32 * 8).to_le_bytes()[..3]);
        packed.extend_from_slice(block);
    }
    packed.extend_from_slice(&[RESERVED, 1, 0, 0]);
    let found = read(&packed);
    assert_eq!(found.packets, read(&file).packets);
    assert_eq!(found.faults.len(), 1, "{:?}", found.faults);
    assert_eq!(read_in_chunks(&packed, &[1, 0, 3000]), found);
}
