//! What a file that is no capture looks like, so that the message helps.

/// A kind of file that is told by how it starts.
struct Kind {
    starts: &'static [u8],
    /// Completes "it is ...".
    what: &'static str,
}

const KINDS: &[Kind] = &[
    Kind {
        starts: &[0xfd, b'7', b'z', b'X', b'Z'],
        what: "compressed with xz; unpack it: xz -dk FILE",
    },
    Kind {
        starts: b"BZh",
        what: "compressed with bzip2; unpack it: bzip2 -dk FILE",
    },
    Kind {
        starts: &[0x04, 0x22, 0x4d, 0x18],
        what: "compressed with lz4; unpack it: lz4 -dk FILE",
    },
    Kind {
        starts: &[0x1f, 0x9d],
        what: "compressed with compress; unpack it: gzip -dk FILE",
    },
    Kind {
        starts: b"PK\x03\x04",
        what: "a ZIP archive; unpack it: unzip FILE",
    },
    Kind {
        starts: b"snoop\0\0\0",
        what: "a snoop capture; convert it: editcap -F pcap FILE OUT.pcap",
    },
    Kind {
        starts: b"GMBU",
        what: "a Network Monitor capture; convert it: editcap -F pcap FILE OUT.pcap",
    },
    Kind {
        starts: b"RTSS",
        what: "a Network Monitor capture; convert it: editcap -F pcap FILE OUT.pcap",
    },
    Kind {
        starts: b"TRSNIFF data",
        what: "a Sniffer capture; convert it: editcap -F pcap FILE OUT.pcap",
    },
    Kind {
        starts: b"XCP\0",
        what: "a NetXray capture; convert it: editcap -F pcap FILE OUT.pcap",
    },
    Kind {
        starts: b"PAR1",
        what: "a Parquet file",
    },
    Kind {
        starts: &[0x7f, b'E', b'L', b'F'],
        what: "a program",
    },
];

/// Bytes shown of a file that nothing is known about.
const SHOWN_BYTES: usize = 8;
/// Bytes looked at to tell text.
const TEXT_BYTES: usize = 256;
/// Characters of a text that are shown.
const SHOWN_CHARACTERS: usize = 24;

/// Describes a file that starts with `bytes`, as the end of a sentence.
pub(super) fn describe(bytes: &[u8]) -> String {
    if let Some(kind) = KINDS.iter().find(|kind| bytes.starts_with(kind.starts)) {
        return format!("it is {}", kind.what);
    }
    if let Some(line) = text(bytes) {
        return format!("it looks like text: {line:?}");
    }
    let shown: Vec<String> = bytes
        .iter()
        .take(SHOWN_BYTES)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("it starts with the bytes {}", shown.join(" "))
}

/// The start of the first line, if `bytes` are text.
fn text(bytes: &[u8]) -> Option<String> {
    let bytes = &bytes[..bytes.len().min(TEXT_BYTES)];
    let valid = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // A character may have been cut at the end.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let printable = |character: char| !character.is_control() || "\t\r\n".contains(character);
    if valid.is_empty() || !valid.chars().all(printable) {
        return None;
    }
    let line = valid.lines().next().unwrap_or_default();
    Some(line.chars().take(SHOWN_CHARACTERS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_mistakes_are_named() {
        assert_eq!(
            describe(b"{\"packets\": 1}\n"),
            "it looks like text: \"{\\\"packets\\\": 1}\""
        );
        assert!(describe(&[0xfd, b'7', b'z', b'X', b'Z', 0]).contains("xz -dk"));
        assert_eq!(describe(&[1, 2, 3]), "it starts with the bytes 01 02 03");
    }
}
