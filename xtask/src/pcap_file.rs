//! Reads classic pcap files into memory, and writes their headers, for benchmark traffic and fuzzing
//! seeds. It shares no code with the crate `port`, whose readers those seeds test.

/// Bytes of the file header; <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/>.
pub(crate) const FILE_HEADER: usize = 24;
/// Bytes of a record header.
pub(crate) const RECORD_HEADER: usize = 16;
const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// LINKTYPE_ETHERNET.
pub(crate) const ETHERNET: u32 = 1;

/// One captured frame.
#[derive(Debug, PartialEq)]
pub(crate) struct Record<'a> {
    /// Time in nanoseconds since 1970.
    pub(crate) time_ns: u64,
    /// Length on the wire in bytes.
    pub(crate) wire_bytes: u32,
    pub(crate) frame: &'a [u8],
}

/// The link type and the complete frames of a capture; `None` if it is no pcap file.
pub(crate) fn records(file: &[u8]) -> Option<(u32, Vec<Record<'_>>)> {
    let little = |at: usize| Some(u32::from_le_bytes(*file.get(at..)?.first_chunk()?));
    let (magic, swapped) = match little(0)? {
        magic @ (MAGIC_MICROSECONDS | MAGIC_NANOSECONDS) => (magic, false),
        magic => (magic.swap_bytes(), true),
    };
    let ns_per_tick = match magic {
        MAGIC_MICROSECONDS => 1000,
        MAGIC_NANOSECONDS => 1,
        _ => return None,
    };
    let word = |at| little(at).map(|word| if swapped { word.swap_bytes() } else { word });
    let link = word(20)?;
    let mut records = Vec::new();
    let mut at = FILE_HEADER;
    while let (Some(seconds), Some(ticks), Some(captured), Some(wire_bytes)) =
        (word(at), word(at + 4), word(at + 8), word(at + 12))
    {
        let start = at + RECORD_HEADER;
        let end = start + captured as usize;
        let Some(frame) = file.get(start..end) else {
            break;
        };
        records.push(Record {
            time_ns: u64::from(seconds) * 1_000_000_000 + u64::from(ticks) * ns_per_tick,
            wire_bytes,
            frame,
        });
        at = end;
    }
    Some((link, records))
}

/// The file header of an Ethernet capture with times in microseconds.
pub(crate) fn file_header() -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    header[..4].copy_from_slice(&MAGIC_MICROSECONDS.to_le_bytes());
    header[4..6].copy_from_slice(&2u16.to_le_bytes());
    header[6..8].copy_from_slice(&4u16.to_le_bytes());
    header[16..20].copy_from_slice(&262_144u32.to_le_bytes());
    header[20..24].copy_from_slice(&ETHERNET.to_le_bytes());
    header
}

/// The header of one record; times past 2106 wrap, as the format does.
pub(crate) fn record_header(time_us: u64, captured: u32, wire_bytes: u32) -> [u8; RECORD_HEADER] {
    let mut header = [0; RECORD_HEADER];
    let words = [
        (time_us / 1_000_000) as u32,
        (time_us % 1_000_000) as u32,
        captured,
        wire_bytes,
    ];
    for (word, bytes) in words.iter().zip(header.chunks_exact_mut(4)) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_file_is_read_back_in_both_byte_orders() {
        let mut file = file_header().to_vec();
        file.extend(record_header(1_361_916_156_044_429, 3, 60));
        file.extend(b"abc");
        let expected = [Record {
            time_ns: 1_361_916_156_044_429_000,
            wire_bytes: 60,
            frame: b"abc",
        }];
        let (link, found) = records(&file).unwrap();
        assert_eq!((link, found.as_slice()), (ETHERNET, expected.as_slice()));

        let mut big = file.clone();
        for at in [0, 16, 20, 24, 28, 32, 36] {
            big[at..at + 4].reverse();
        }
        let (link, found) = records(&big).unwrap();
        assert_eq!((link, found.as_slice()), (ETHERNET, expected.as_slice()));
    }

    #[test]
    fn reading_ends_at_a_truncated_record() {
        let mut file = file_header().to_vec();
        file.extend(record_header(0, 4, 4));
        file.extend(b"abc");
        assert_eq!(records(&file).unwrap().1.len(), 0);
        assert!(records(b"not a capture at all, but long").is_none());
    }
}
