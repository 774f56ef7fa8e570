//! Benchmark traffic of 64-byte frames (60 captured bytes, without the frame check sequence) at the
//! rate of 10 Gigabit Ethernet, in 2^16 UDP flows, uniform or by Zipf's law with exponent 1.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::pcap_file;
use hw::random::Random;

/// The distribution of packets over flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Popularity {
    Uniform,
    /// Flow i, counted from 1, has a weight of 1/i.
    Zipf,
}

const FLOWS: usize = 1 << 16;
const FRAME_BYTES: usize = 60;
/// 64 bytes, preamble and inter-frame gap at 10 Gbit/s: 84 * 0.8 ns, in tenths of a nanosecond.
const TENTHS_OF_NS_PER_FRAME: u64 = 672;
const START_S: u64 = 1_700_000_000;
const SEED: u64 = 1;

/// Writes `packets` packets to `path`.
pub(crate) fn write(path: &Path, packets: usize, popularity: Popularity) -> anyhow::Result<()> {
    let mut random = Random::from_state(SEED);
    let frames: Vec<_> = (0..FLOWS).map(|flow| frame(flow, &mut random)).collect();
    let alias = match popularity {
        Popularity::Uniform => AliasTable::new(&vec![1.0; FLOWS]),
        Popularity::Zipf => {
            let weights: Vec<_> = (1..=FLOWS).map(|rank| 1.0 / rank as f64).collect();
            AliasTable::new(&weights)
        }
    };
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    file.write_all(&pcap_file::file_header())?;
    for index in 0..packets as u64 {
        let time_us = START_S * 1_000_000 + index * TENTHS_OF_NS_PER_FRAME / 10_000;
        let length = FRAME_BYTES as u32;
        file.write_all(&pcap_file::record_header(time_us, length, length))?;
        file.write_all(&frames[alias.draw(&mut random)])?;
    }
    file.into_inner()?.sync_all()?;
    Ok(())
}

/// A UDP frame of flow number `flow`, which is in the source address.
fn frame(flow: usize, random: &mut Random) -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    let ip = &mut frame[14..];
    let length = ip.len() as u16;
    ip[..10].copy_from_slice(&[0x45, 0, 0, length as u8, 0, 0, 0x40, 0, 64, 17]);
    ip[12..16].copy_from_slice(&(0x0a00_0000 + flow as u32).to_be_bytes());
    let choice = random.bits();
    ip[16..20].copy_from_slice(&(0xac10_0000 | choice as u32 & 0xf_ffff).to_be_bytes());
    let source = 1024 + (choice >> 32) as u16 % 60_000;
    ip[20..22].copy_from_slice(&source.to_be_bytes());
    ip[22..24].copy_from_slice(&443u16.to_be_bytes());
    ip[24..26].copy_from_slice(&(length - 20).to_be_bytes());
    let header = checksum(&ip[..20], 0);
    ip[10..12].copy_from_slice(&header.to_be_bytes());
    // Pseudo-header: addresses, protocol, length (RFC 768).
    let datagram = checksum(&ip[12..], 17 + u32::from(length - 20));
    ip[26..28].copy_from_slice(&datagram.to_be_bytes());
    frame
}

/// The Internet checksum (RFC 1071) of `bytes`, of even length, and `more`; never zero, which means
/// "no checksum" in UDP.
fn checksum(bytes: &[u8], more: u32) -> u16 {
    let mut sum = more;
    for pair in bytes.chunks_exact(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair[1]);
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    match !(sum as u16) {
        0 => 0xffff,
        sum => sum,
    }
}

/// Draws from a discrete distribution with one lookup: Walker's alias table, built as in Vose (1991,
/// "A linear algorithm for generating random numbers with a given distribution").
struct AliasTable {
    /// For each index: the probability of the index itself, and the index drawn otherwise.
    columns: Vec<(f64, usize)>,
}

impl AliasTable {
    fn new(weights: &[f64]) -> Self {
        let mean = weights.iter().sum::<f64>() / weights.len() as f64;
        let mut columns: Vec<_> = weights
            .iter()
            .map(|weight| weight / mean)
            .zip(0..)
            .collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..columns.len()).partition(|&index| columns[index].0 < 1.0);
        while let (Some(&low), Some(&high)) = (small.last(), large.last()) {
            small.pop();
            columns[low].1 = high;
            columns[high].0 -= 1.0 - columns[low].0;
            if columns[high].0 < 1.0 {
                large.pop();
                small.push(high);
            }
        }
        // The remaining columns are full, apart from rounding errors.
        for index in small.into_iter().chain(large) {
            columns[index].0 = 1.0;
        }
        Self { columns }
    }

    fn draw(&self, random: &mut Random) -> usize {
        let index = random.below(self.columns.len() as u64) as usize;
        let (own, other) = self.columns[index];
        if random.unit() < own { index } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_zipfs_law() {
        let weights: Vec<_> = (1..=1000).map(|rank| 1.0 / f64::from(rank)).collect();
        let table = AliasTable::new(&weights);
        let mut random = Random::from_state(7);
        let mut counts = vec![0; 1000];
        for _ in 0..1_000_000 {
            counts[table.draw(&mut random)] += 1;
        }
        // The 1000th harmonic number is 7.48547 (OEIS A001008/A002805).
        for rank in [1, 2, 10, 100] {
            let expected = 1e6 / (f64::from(rank) * 7.48547);
            let found = f64::from(counts[rank as usize - 1]);
            assert!(
                (found - expected).abs() < 5.0 * expected.sqrt(),
                "{rank}: {found}"
            );
        }
    }

    #[test]
    fn frames_have_valid_checksums_and_differ() {
        let mut random = Random::from_state(1);
        let frames: Vec<_> = (0..1000).map(|flow| frame(flow, &mut random)).collect();
        for frame in &frames {
            // The sum over data with a valid checksum is zero, which `checksum` returns as all ones.
            assert_eq!(checksum(&frame[14..34], 0), 0xffff);
            assert_eq!(checksum(&frame[26..], 17 + 26), 0xffff);
        }
        assert_eq!(frames[258][26..30], [10, 0, 1, 2]);
    }
}
