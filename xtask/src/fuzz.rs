//! `cargo xtask fuzz`: fuzzes every parser and file reader, starting from real captures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::{pcap_file, workspace};

/// The input of a target, and so the kind of its seeds.
#[derive(Clone, Copy, PartialEq)]
enum Seeds {
    /// One frame after the parameters of `dissect`.
    Frames,
    /// Classic pcap files.
    Pcap,
    /// pcapng files.
    Pcapng,
    /// Payloads of TCP and UDP.
    Payloads,
    /// Sequences of payloads in the format of the target `names`.
    Packets,
    /// Payloads of one flow, each after its direction and length.
    Conversation,
    /// None: the target makes valid inputs, which it changes as the bytes say.
    None,
}

/// Targets in `fuzz/fuzz_targets`; each has a dictionary of the same name.
const TARGETS: [(&str, Seeds); 12] = [
    ("dissect", Seeds::Frames),
    ("pcap", Seeds::Pcap),
    ("pcapng", Seeds::Pcapng),
    ("tls", Seeds::Payloads),
    ("quic", Seeds::Payloads),
    ("dns", Seeds::Payloads),
    ("http", Seeds::Payloads),
    ("rtp", Seeds::Payloads),
    ("dtls", Seeds::Conversation),
    ("ssh", Seeds::Conversation),
    ("names", Seeds::Packets),
    ("sketch_state", Seeds::None),
];

/// Larger captures slow the fuzzer down and reach little new code.
const SEED_BYTES_MAX: u64 = 20_000;
/// The first frames represent a capture well enough.
const FRAMES_PER_CAPTURE: usize = 4;
/// More than of frames, because a handshake is never in the first packets.
const PAYLOADS_PER_CAPTURE: usize = 16;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;
const PCAPNG_MAGIC: &[u8] = &[0x0a, 0x0d, 0x0d, 0x0a];

pub(crate) fn run(names: &[String], seconds: u32) -> anyhow::Result<()> {
    for name in names {
        let known = TARGETS.iter().any(|(target, _)| target == name);
        let all: Vec<_> = TARGETS.iter().map(|(target, _)| *target).collect();
        ensure!(known, "unknown fuzz target {name}: {}", all.join(", "));
    }
    let version = nightly(&["fuzz", "--version"]).output();
    ensure!(
        version.is_ok_and(|output| output.status.success()),
        "fuzzing needs cargo-fuzz and a nightly toolchain: ./setup --fuzz installs them"
    );
    for (target, seeds) in TARGETS {
        if !names.is_empty() && !names.iter().any(|name| name == target) {
            continue;
        }
        let corpus = workspace::root().join("fuzz/corpus").join(target);
        let written = write_seeds(&corpus, seeds)?;
        println!("fuzz: {target}: {written} seeds, {seconds} s");
        let dictionary = format!("-dict=fuzz/{target}.dict");
        workspace::run(nightly(&["fuzz", "build", target]))?;
        let time = format!("-max_total_time={seconds}");
        workspace::run(nightly(&[
            "fuzz",
            "run",
            target,
            "--",
            &time,
            &dictionary,
            "-timeout=10",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
        ]))
        .with_context(|| format!("{target}: the input that failed is below fuzz/artifacts"))?;
    }
    Ok(())
}

/// Cargo of the nightly toolchain, without the variables in which this cargo names its own toolchain.
fn nightly(arguments: &[&str]) -> Command {
    let mut command = workspace::command("rustup", &["run", "nightly", "cargo"]);
    command.args(arguments);
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

/// Writes seeds to `corpus` beside the existing files. Returns the number of seeds.
fn write_seeds(corpus: &Path, seeds: Seeds) -> anyhow::Result<usize> {
    fs::create_dir_all(corpus)?;
    let mut captures = Vec::new();
    list_files(&workspace::root().join("tests/captures"), &mut captures)?;
    match traffic::find()? {
        Some(traffic) => list_files(&traffic, &mut captures)?,
        None => println!(
            "fuzz: seeds from tests/captures only; FLOWATCH_TRAFFIC can name a directory of more"
        ),
    }
    let mut written = 0;
    for path in captures {
        if fs::metadata(&path)?.len() > SEED_BYTES_MAX {
            continue;
        }
        let content = fs::read(&path)?;
        let is_pcapng = content.starts_with(PCAPNG_MAGIC);
        match seeds {
            Seeds::Frames => {
                let Some((link, records)) = pcap_file::records(&content) else {
                    continue;
                };
                for record in records.iter().take(FRAMES_PER_CAPTURE) {
                    write_seed(corpus, &frame_seed(link, record))?;
                    written += 1;
                }
            }
            Seeds::Payloads => {
                let Some((ETHERNET, records)) = pcap_file::records(&content) else {
                    continue;
                };
                for record in records.iter().take(PAYLOADS_PER_CAPTURE) {
                    if let Some(payload) = payload(record.frame).filter(|bytes| !bytes.is_empty()) {
                        write_seed(corpus, payload)?;
                        written += 1;
                    }
                }
            }
            Seeds::Packets => {
                let Some((ETHERNET, records)) = pcap_file::records(&content) else {
                    continue;
                };
                let packets: Vec<u8> = records
                    .iter()
                    .take(PAYLOADS_PER_CAPTURE)
                    .filter_map(|record| names_packet(record.frame))
                    .flatten()
                    .collect();
                if !packets.is_empty() {
                    write_seed(corpus, &packets)?;
                    written += 1;
                }
            }
            Seeds::Conversation => {
                let Some((ETHERNET, records)) = pcap_file::records(&content) else {
                    continue;
                };
                let frames = records.iter().map(|record| record.frame);
                let conversation = conversation(frames);
                if !conversation.is_empty() {
                    write_seed(corpus, &conversation)?;
                    written += 1;
                }
            }
            Seeds::Pcap if !is_pcapng => {
                write_seed(corpus, &content)?;
                written += 1;
            }
            Seeds::Pcapng if is_pcapng => {
                write_seed(corpus, &content)?;
                written += 1;
            }
            _ => {}
        }
    }
    Ok(written)
}

fn list_files(directory: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            list_files(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Link types (<https://www.tcpdump.org/linktypes.html>) in the order of their numbers in the target
/// `dissect`: Ethernet, BSD null, PPP, PPP in HDLC framing, raw IP, BSD loop,
/// Linux cooked, IPv4, IPv6, Linux cooked v2.
const DISSECT_LINKS: [u32; 10] = [1, 0, 9, 50, 101, 108, 113, 228, 229, 276];
/// The depth for `dissect` that reaches the innermost packet, and so all headers before it.
const DISSECT_INNERMOST: u8 = 2;

/// An input of the target `dissect`: link type, depth, the number of bytes that the snaplen cut (two
/// bytes, little-endian), and the frame.
fn frame_seed(link: u32, record: &pcap_file::Record<'_>) -> Vec<u8> {
    let known = DISSECT_LINKS.iter().position(|&known| known == link);
    let link = known.unwrap_or(DISSECT_LINKS.len()) as u8;
    let captured = u32::try_from(record.frame.len()).unwrap_or(u32::MAX);
    let missing = record.wire_bytes.saturating_sub(captured);
    let [low, high] = u16::try_from(missing).unwrap_or(u16::MAX).to_le_bytes();
    let mut seed = vec![link, DISSECT_INNERMOST, low, high];
    seed.extend_from_slice(record.frame);
    seed
}

/// The payload of TCP or UDP over IPv4 in an Ethernet frame. Other frames give no seeds.
fn payload(frame: &[u8]) -> Option<&[u8]> {
    let ip = frame.get(14..)?;
    let transport = ip.get(usize::from(ip.first()? & 15) * 4..)?;
    match ip.get(9)? {
        6 => transport.get(usize::from(transport.get(12)? >> 4) * 4..),
        17 => transport.get(8..),
        _ => None,
    }
}

/// An input of the targets `dtls` and `ssh`: the first payloads of a capture, each after two bytes of
/// direction (the highest bit) and length. The sender of the first one is the initiator.
fn conversation<'a>(frames: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let ip_source = |frame: &'a [u8]| frame.get(26..30);
    let mut frames = frames
        .filter_map(|frame| Some((ip_source(frame)?, payload(frame)?)))
        .filter(|(_, payload)| !payload.is_empty() && payload.len() < 1 << 15)
        .peekable();
    let initiator = frames.peek().map(|(source, _)| *source);
    let mut input = Vec::new();
    for (source, payload) in frames.take(PAYLOADS_PER_CAPTURE) {
        let direction = u16::from(Some(source) != initiator) << 15;
        input.extend((direction | payload.len() as u16).to_be_bytes());
        input.extend_from_slice(payload);
    }
    input
}

/// Server ports of the flows in the target `names`; a last flow has all other ports.
const NAMES_PORTS: [u16; 3] = [443, 53, 80];

/// A packet in the format of the target `names`: one byte of flow (bits 0 and 1), direction (bit 2)
/// and UDP (bit 3), then the lower half of the sequence number, the length and the payload.
fn names_packet(frame: &[u8]) -> Option<Vec<u8>> {
    let payload = payload(frame)?;
    let ip = frame.get(14..)?;
    let transport = ip.get(usize::from(ip.first()? & 15) * 4..)?;
    let word = |at: usize| Some(u16::from_be_bytes(*transport.get(at..)?.first_chunk()?));
    let is_udp = *ip.get(9)? == 17;
    let slot = |port| NAMES_PORTS.iter().position(|&known| known == port);
    let (from, to) = (slot(word(0)?), slot(word(2)?));
    let slot = to.or(from).unwrap_or(NAMES_PORTS.len()) as u8;
    let from_server = to.is_none() && from.is_some();
    let flags = slot | u8::from(from_server) << 2 | u8::from(is_udp) << 3;
    let sequence = if is_udp { 0 } else { word(6)? };
    let length = u16::try_from(payload.len()).ok()?;
    let mut packet = vec![flags];
    packet.extend(sequence.to_be_bytes());
    packet.extend(length.to_be_bytes());
    packet.extend_from_slice(payload);
    Some(packet)
}

/// Writes a file named by its content, so that equal seeds are one file.
fn write_seed(corpus: &Path, seed: &[u8]) -> anyhow::Result<()> {
    // FNV-1a, 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>.
    let name = seed.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    fs::write(corpus.join(format!("seed-{name:016x}")), seed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_seed_has_flow_and_direction() {
        let mut frame = vec![0; 14];
        frame.extend([0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 53, 0x9c, 0x40, 0, 10, 0, 0, b'a', b'b']);
        let packet = names_packet(&frame);
        assert_eq!(packet.as_deref(), Some(&[13, 0, 0, 0, 2, b'a', b'b'][..]));
        frame[36..38].copy_from_slice(&[1, 0xbb]);
        frame[34] = 9;
        assert_eq!(names_packet(&frame).map(|packet| packet[0]), Some(8));
        assert_eq!(names_packet(&frame[..30]), None);
    }

    #[test]
    fn a_frame_seed_has_link_type_and_missing_bytes() {
        let record = pcap_file::Record {
            time_ns: 0,
            wire_bytes: 0x0203 + 3,
            frame: b"abc",
        };
        assert_eq!(frame_seed(276, &record), [9, 2, 3, 2, b'a', b'b', b'c']);
        assert_eq!(frame_seed(105, &record)[0], 10);
    }
}
