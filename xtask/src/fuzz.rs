//! `cargo xtask fuzz`: every parser and file reader fed with what a fuzzer makes of real captures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::{pcap_file, workspace};

/// What a target reads, and so what its seeds are.
#[derive(Clone, Copy, PartialEq)]
enum Seeds {
    /// One frame behind what `dissect` is told of it.
    Frames,
    /// Classic capture files.
    Pcap,
    /// The newer ones.
    Pcapng,
    /// What TCP and UDP carry.
    Payloads,
    /// The same, packet after packet as `names` takes them.
    Packets,
}

/// Targets in `fuzz/fuzz_targets`, each with a dictionary of its name.
const TARGETS: [(&str, Seeds); 9] = [
    ("dissect", Seeds::Frames),
    ("pcap", Seeds::Pcap),
    ("pcapng", Seeds::Pcapng),
    ("tls", Seeds::Payloads),
    ("quic", Seeds::Payloads),
    ("dns", Seeds::Payloads),
    ("http", Seeds::Payloads),
    ("rtp", Seeds::Payloads),
    ("names", Seeds::Packets),
];

/// Larger captures slow the fuzzer down more than they teach it.
const SEED_BYTES_MAX: u64 = 20_000;
/// The first frames of each capture are enough of it.
const FRAMES_PER_CAPTURE: usize = 4;
/// Of payloads more are taken: a handshake is never in the first.
const PAYLOADS_PER_CAPTURE: usize = 16;
/// Ethernet's number among the link types.
const ETHERNET: u32 = 1;
const PCAPNG_MAGIC: &[u8] = &[0x0a, 0x0d, 0x0d, 0x0a];

pub(crate) fn run(names: &[String], seconds: u32) -> anyhow::Result<()> {
    for name in names {
        let known = TARGETS.iter().any(|(target, _)| target == name);
        let all: Vec<_> = TARGETS.iter().map(|(target, _)| *target).collect();
        ensure!(known, "no fuzz target {name}: {}", all.join(", "));
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
        let planted = plant(&corpus, seeds)?;
        println!("fuzz: {target}: {planted} seeds, {seconds} s");
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

/// Cargo of the nightly toolchain, free of what this cargo told its child of itself.
fn nightly(arguments: &[&str]) -> Command {
    let mut command = workspace::command("rustup", &["run", "nightly", "cargo"]);
    command.args(arguments);
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

/// Puts seeds into `corpus`; those already there stay. Returns how many there are.
fn plant(corpus: &Path, seeds: Seeds) -> anyhow::Result<usize> {
    fs::create_dir_all(corpus)?;
    let mut captures = Vec::new();
    list(&workspace::root().join("tests/captures"), &mut captures)?;
    match traffic::find()? {
        Some(traffic) => list(&traffic, &mut captures)?,
        None => println!("fuzz: seeds from tests/captures alone; FLOWATCH_TRAFFIC names no others"),
    }
    let mut planted = 0;
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
                    planted += 1;
                }
            }
            Seeds::Payloads => {
                let Some((ETHERNET, records)) = pcap_file::records(&content) else {
                    continue;
                };
                for record in records.iter().take(PAYLOADS_PER_CAPTURE) {
                    if let Some(payload) = payload(record.frame).filter(|bytes| !bytes.is_empty()) {
                        write_seed(corpus, payload)?;
                        planted += 1;
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
                    planted += 1;
                }
            }
            Seeds::Pcap if !is_pcapng => {
                write_seed(corpus, &content)?;
                planted += 1;
            }
            Seeds::Pcapng if is_pcapng => {
                write_seed(corpus, &content)?;
                planted += 1;
            }
            _ => {}
        }
    }
    Ok(planted)
}

fn list(directory: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            list(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Numbers of the link types (<https://www.tcpdump.org/linktypes.html>), in the order in which the
/// target `dissect` counts them: Ethernet, BSD null, PPP, PPP in HDLC framing, raw IP, BSD loop,
/// Linux cooked, IPv4, IPv6, Linux cooked v2.
const DISSECT_LINKS: [u32; 10] = [1, 0, 9, 50, 101, 108, 113, 228, 229, 276];
/// How far `dissect` looks in: to the innermost packet, which covers the ways there.
const DISSECT_INNERMOST: u8 = 2;

/// What the target `dissect` takes: link type, depth, by how much the frame was longer on the wire
/// in two bytes, little end first, and the frame.
fn frame_seed(link: u32, record: &pcap_file::Record<'_>) -> Vec<u8> {
    let known = DISSECT_LINKS.iter().position(|&known| known == link);
    let link = known.unwrap_or(DISSECT_LINKS.len()) as u8;
    let captured = u32::try_from(record.frame.len()).unwrap_or(u32::MAX);
    let beyond = record.wire_bytes.saturating_sub(captured);
    let [low, high] = u16::try_from(beyond).unwrap_or(u16::MAX).to_le_bytes();
    let mut seed = vec![link, DISSECT_INNERMOST, low, high];
    seed.extend_from_slice(record.frame);
    seed
}

/// What TCP or UDP carries in an Ethernet frame of IPv4: good enough for seeds.
fn payload(frame: &[u8]) -> Option<&[u8]> {
    let ip = frame.get(14..)?;
    let transport = ip.get(usize::from(ip.first()? & 15) * 4..)?;
    match ip.get(9)? {
        6 => transport.get(usize::from(transport.get(12)? >> 4) * 4..),
        17 => transport.get(8..),
        _ => None,
    }
}

/// Server's ports of the flows that the target `names` knows; what has none of them is in the last.
const NAMES_PORTS: [u16; 3] = [443, 53, 80];

/// A packet as the target `names` takes it: flow, direction (bit 2) and whether it is UDP (bit 3),
/// the lower half of the sequence number, length, payload.
fn names_packet(frame: &[u8]) -> Option<Vec<u8>> {
    let payload = payload(frame)?;
    let ip = frame.get(14..)?;
    let transport = ip.get(usize::from(ip.first()? & 15) * 4..)?;
    let word = |at: usize| Some(u16::from_be_bytes(*transport.get(at..)?.first_chunk()?));
    let is_udp = *ip.get(9)? == 17;
    let slot = |port| NAMES_PORTS.iter().position(|&known| known == port);
    let (from, to) = (slot(word(0)?), slot(word(2)?));
    let slot = to.or(from).unwrap_or(NAMES_PORTS.len()) as u8;
    let answers = to.is_none() && from.is_some();
    let what = slot | u8::from(answers) << 2 | u8::from(is_udp) << 3;
    let sequence = if is_udp { 0 } else { word(6)? };
    let length = u16::try_from(payload.len()).ok()?;
    let mut packet = vec![what];
    packet.extend(sequence.to_be_bytes());
    packet.extend(length.to_be_bytes());
    packet.extend_from_slice(payload);
    Some(packet)
}

/// A file named after its content, so that equal seeds are one.
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
    fn a_packet_is_told_with_its_flow_and_direction() {
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
    fn a_frame_is_told_with_its_link_type_and_what_was_cut_off() {
        let record = pcap_file::Record {
            time_ns: 0,
            wire_bytes: 0x0203 + 3,
            frame: b"abc",
        };
        assert_eq!(frame_seed(276, &record), [9, 2, 3, 2, b'a', b'b', b'c']);
        assert_eq!(frame_seed(105, &record)[0], 10);
    }
}
