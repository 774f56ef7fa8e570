//! The shared captures, and as much of a reader of pcap and pcapng as these tests need. It is kept
//! apart from the `port` crate, so that neither can hide a fault of the other.

use std::io::Read;

use wire::LinkType;

/// One record of a capture.
pub(crate) struct Record {
    pub(crate) link: LinkType,
    pub(crate) bytes: Vec<u8>,
    pub(crate) wire_length: u32,
}

/// A line of the manifest.
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// Every capture that capinfos could read.
pub(crate) fn listed() -> Vec<Listed> {
    std::fs::read_to_string(traffic::directory().join("MANIFEST.tsv"))
        .unwrap()
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split('\t');
            Some(Listed {
                name: fields.next()?.to_owned(),
                packets: fields.nth(2)?.parse().ok()?,
                bytes: fields.next()?.parse().ok()?,
            })
        })
        .collect()
}

/// The records of a capture, up to its end or to where it is damaged.
pub(crate) fn read(name: &str) -> Vec<Record> {
    let path = traffic::directory().join(name);
    let raw = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let raw = if name.ends_with(".zst") {
        let mut bytes = Vec::new();
        ruzstd::decoding::StreamingDecoder::new(&raw[..])
            .unwrap()
            .read_to_end(&mut bytes)
            .unwrap();
        bytes
    } else {
        raw
    };
    let mut records = Vec::new();
    match raw.first_chunk::<4>() {
        Some(&[0x0a, 0x0d, 0x0d, 0x0a]) => pcapng(&raw, &mut records),
        Some(&magic) => pcap(magic, &raw, &mut records),
        None => None,
    };
    records
}

fn word(bytes: &[u8], at: usize, big_endian: bool) -> Option<u32> {
    let bytes = *bytes.get(at..)?.first_chunk::<4>()?;
    Some(if big_endian {
        u32::from_be_bytes(bytes)
    } else {
        u32::from_le_bytes(bytes)
    })
}

fn half(bytes: &[u8], at: usize, big_endian: bool) -> Option<u16> {
    let bytes = *bytes.get(at..)?.first_chunk::<2>()?;
    Some(if big_endian {
        u16::from_be_bytes(bytes)
    } else {
        u16::from_le_bytes(bytes)
    })
}

fn pcap(magic: [u8; 4], raw: &[u8], records: &mut Vec<Record>) -> Option<()> {
    let (big_endian, header) = match u32::from_be_bytes(magic) {
        0xa1b2_c3d4 | 0xa1b2_3c4d => (true, 16),
        0xd4c3_b2a1 | 0x4d3c_b2a1 => (false, 16),
        // A record header with eight more bytes, by Kuznetzov's patched libpcap.
        0xa1b2_cd34 => (true, 24),
        0x34cd_b2a1 => (false, 24),
        _ => return None,
    };
    let link = LinkType::from_linktype(word(raw, 20, big_endian)? as u16);
    let mut at = 24;
    loop {
        let captured = word(raw, at + 8, big_endian)? as usize;
        let wire_length = word(raw, at + 12, big_endian)?;
        let bytes = raw.get(at + header..(at + header).checked_add(captured)?)?;
        records.push(Record {
            link,
            bytes: bytes.to_vec(),
            wire_length,
        });
        at += header + captured;
    }
}

fn pcapng(raw: &[u8], records: &mut Vec<Record>) -> Option<()> {
    let mut interfaces: Vec<LinkType> = Vec::new();
    let mut big_endian = false;
    let mut at = 0;
    loop {
        if raw.get(at..at + 4)? == [0x0a, 0x0d, 0x0d, 0x0a] {
            big_endian = raw.get(at + 8..at + 12)? == [0x1a, 0x2b, 0x3c, 0x4d];
            interfaces.clear();
        }
        let length = word(raw, at + 4, big_endian)? as usize;
        let block = raw.get(at..at.checked_add(length)?)?;
        match word(raw, at, big_endian)? {
            1 => interfaces.push(LinkType::from_linktype(half(block, 8, big_endian)?)),
            6 => records.push(Record {
                link: *interfaces.get(word(block, 8, big_endian)? as usize)?,
                bytes: block
                    .get(28..28 + word(block, 20, big_endian)? as usize)?
                    .to_vec(),
                wire_length: word(block, 24, big_endian)?,
            }),
            3 => {
                let wire_length = word(block, 8, big_endian)?;
                let captured = (wire_length as usize).min(length.checked_sub(16)?);
                records.push(Record {
                    link: *interfaces.first()?,
                    bytes: block.get(12..12 + captured)?.to_vec(),
                    wire_length,
                });
            }
            2 => records.push(Record {
                link: *interfaces.get(usize::from(half(block, 8, big_endian)?))?,
                bytes: block
                    .get(28..28 + word(block, 20, big_endian)? as usize)?
                    .to_vec(),
                wire_length: word(block, 24, big_endian)?,
            }),
            _ => {}
        }
        at += length.max(12).next_multiple_of(4);
    }
}
