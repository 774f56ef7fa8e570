//! Describes files that are not captures, for the error message.

/// A file type with a known magic number.
struct Kind {
    magic: &'static [u8],
    /// Completes "it is …".
    description: &'static str,
}

const KINDS: &[Kind] = &[
    Kind {
        magic: &[0x1f, 0x9d],
        description: "compressed with compress; decompress it: gzip -dk FILE",
    },
    Kind {
        magic: b"PK\x03\x04",
        description: "a ZIP archive; extract it: unzip FILE",
    },
    Kind {
        magic: b"snoop\0\0\0",
        description: "a snoop capture; convert it: editcap -F pcap FILE OUT.pcap",
    },
    Kind {
        magic: b"GMBU",
        description: "a Network Monitor capture; convert it: editcap -F pcap FILE OUT.pcap",
    },
    Kind {
        magic: b"RTSS",
        description: "a Network Monitor capture; convert it: editcap -F pcap FILE OUT.pcap",
    },
    Kind {
        magic: b"TRSNIFF data",
        description: "a Sniffer capture; convert it: editcap -F pcap FILE OUT.pcap",
    },
    Kind {
        magic: b"XCP\0",
        description: "a NetXray capture; convert it: editcap -F pcap FILE OUT.pcap",
    },
    Kind {
        magic: b"PAR1",
        description: "a Parquet file",
    },
    Kind {
        magic: &[0x7f, b'E', b'L', b'F'],
        description: "an executable",
    },
];

/// Bytes of an unknown file to show.
const SHOWN_BYTES: usize = 8;
/// Bytes inspected to recognize text.
const TEXT_BYTES: usize = 256;
/// Characters of a text to show.
const SHOWN_CHARS: usize = 24;

/// Describes a file that starts with `bytes`, as a clause.
pub(super) fn describe(bytes: &[u8]) -> String {
    if let Some(kind) = KINDS.iter().find(|kind| bytes.starts_with(kind.magic)) {
        return format!("it is {}", kind.description);
    }
    if let Some(line) = first_text_line(bytes) {
        return format!("it looks like text: {line:?}");
    }
    let shown: Vec<String> = bytes
        .iter()
        .take(SHOWN_BYTES)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("it starts with the bytes {}", shown.join(" "))
}

/// Returns the beginning of the first line if `bytes` are text.
fn first_text_line(bytes: &[u8]) -> Option<String> {
    let bytes = &bytes[..bytes.len().min(TEXT_BYTES)];
    let valid = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // The last character may be truncated.
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
    Some(line.chars().take(SHOWN_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_common_file_types() {
        assert_eq!(
            describe(b"{\"packets\": 1}\n"),
            "it looks like text: \"{\\\"packets\\\": 1}\""
        );
        assert!(describe(&[0x1f, 0x9d, 0x90]).contains("gzip -dk"));
        assert_eq!(describe(&[1, 2, 3]), "it starts with the bytes 01 02 03");
    }
}
