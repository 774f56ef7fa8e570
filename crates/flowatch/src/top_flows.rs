//! The table of the largest flows, fitted to the width of the terminal.

use ratatui::crossterm::terminal;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use wire::FlowKey;

/// The width without a terminal.
const WIDTH_DEFAULT: usize = 80;

/// Spaces in front of each column.
const GAP: usize = 2;

/// Addresses are not shortened below this width.
const ADDRESS_MIN: usize = 12;

/// Replaces the omitted part of a shortened address.
const ELLIPSIS: char = '…';

/// Number of columns.
const COLUMNS: usize = 8;

/// A flow: hash, source, destination, VLAN tags, protocol, packets, bytes, duration. Fields that the key
/// lacks are empty.
pub(crate) type Row = [String; COLUMNS];

/// Indices of the addresses in a row.
const ADDRESS_COLUMNS: [usize; 2] = [1, 2];

/// Indices of the columns that are aligned to the left.
const LEFT_COLUMNS: [usize; 3] = [0, 1, 2];

const HEADINGS: [&str; COLUMNS] = [
    "hash",
    "source",
    "destination",
    "vlan",
    "proto",
    "packets",
    "bytes",
    "duration",
];

/// Columns to leave out if the table is too wide, in this order.
const OPTIONAL_COLUMNS: [usize; 3] = [7, 4, 5];

/// Returns the ids of the VLAN tags of a flow key, outer first.
pub(crate) fn vlan_tags(key: &FlowKey) -> impl Iterator<Item = u16> {
    let tags = key.vlan.into_iter().filter(|&tag| tag != 0);
    tags.map(|tag| tag & !FlowKey::VLAN_PRESENT)
}

/// Returns the VLAN tags of a flow key as text: `100/200`, empty without tags.
pub(crate) fn vlan_text(key: &FlowKey) -> String {
    let tags: Vec<String> = vlan_tags(key).map(|tag| tag.to_string()).collect();
    tags.join("/")
}

/// Returns the width of the terminal that the summary is printed on.
pub(crate) fn terminal_width(to_standard_error: bool) -> usize {
    let is_terminal = if to_standard_error {
        io::stderr().is_terminal()
    } else {
        io::stdout().is_terminal()
    };
    if !is_terminal {
        return WIDTH_DEFAULT;
    }
    match terminal::size() {
        Ok((columns @ 1.., _)) => usize::from(columns),
        _ => WIDTH_DEFAULT,
    }
}

/// Renders the table, shortened to at most `columns` characters per line if possible.
pub(crate) fn render(rows: &[Row], columns: usize) -> String {
    let mut widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        match cells.max() {
            None | Some(0) => 0,
            Some(longest) => longest.max(HEADINGS[column].len()),
        }
    });
    let total_width = |widths: &[usize; COLUMNS]| {
        let kept = widths.iter().filter(|width| **width > 0);
        kept.map(|width| width + GAP).sum::<usize>()
    };
    // Addresses are shortened only when no more columns can be left out.
    for column in OPTIONAL_COLUMNS {
        if total_width(&widths) > columns {
            widths[column] = 0;
        }
    }
    for _ in 0..total_width(&widths).saturating_sub(columns) {
        let [source, destination] = ADDRESS_COLUMNS;
        let longer = if widths[source] > widths[destination] {
            source
        } else {
            destination
        };
        if widths[longer] > ADDRESS_MIN {
            widths[longer] -= 1;
        }
    }
    let mut text = String::new();
    let headings = HEADINGS.map(str::to_owned);
    for row in std::iter::once(&headings).chain(rows) {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            if width == 0 {
                continue;
            }
            let cell = shortened(cell, width);
            // Writing to a string does not fail.
            let _ = if LEFT_COLUMNS.contains(&column) {
                write!(line, "  {cell:<width$}")
            } else {
                write!(line, "  {cell:>width$}")
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Shortens a cell by leaving out its middle: the ends show the network and the port.
fn shortened(cell: &str, width: usize) -> String {
    let length = cell.chars().count();
    if length <= width {
        return cell.to_owned();
    }
    let tail = width.saturating_sub(1) / 2;
    let head = width.saturating_sub(1) - tail;
    let mut text: String = cell.chars().take(head).collect();
    text.push(ELLIPSIS);
    text.extend(cell.chars().skip(length - tail));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row from source, destination, protocol, packets, bytes, duration.
    fn row([source, destination, protocol, packets, bytes, duration]: [&str; 6]) -> Row {
        [
            "",
            source,
            destination,
            "",
            protocol,
            packets,
            bytes,
            duration,
        ]
        .map(str::to_owned)
    }

    #[track_caller]
    fn fits(text: &str, columns: usize) {
        for line in text.lines() {
            assert!(line.chars().count() <= columns, "{line:?}");
        }
    }

    #[test]
    fn ordinary_flows_fit_all_columns_in_eighty_characters() {
        let rows = [row([
            "192.168.100.100:49152",
            "192.168.100.200:443",
            "tcp",
            "1,234",
            "12.3 MB",
            "12.3 s",
        ])];
        let text = render(&rows, 80);
        fits(&text, 80);
        assert!(text.contains("duration") && text.contains("12.3 s"));
    }

    #[test]
    fn columns_are_left_out_before_addresses_are_shortened() {
        let address = "[2001:db8:1234:5678:9abc:def0:1234:5678]:50000";
        let rows = [
            row([address, address, "tcp", "1,234,567", "12.3 GB", "1h 02m"]),
            row(["::1", "::2", "udp", "1", "99 B", "0 s"]),
        ];
        let text = render(&rows, 80);
        fits(&text, 80);
        assert!(text.contains("12.3 GB") && text.contains("…") && text.contains("5678]:50000"));
        assert!(!text.contains("duration") && !text.contains("packets"));
        let wide = render(&rows, 200);
        assert!(wide.contains(address) && wide.contains("1h 02m"));
        // Narrower than possible: as short as it gets.
        assert!(render(&rows, 10).contains("12.3 GB"));
    }

    #[test]
    fn empty_columns_are_left_out() {
        let mut hashed = row(["", "", "", "5", "300 B", "1 s"]);
        hashed[0] = "0x0000abcd".into();
        assert_eq!(
            render(&[hashed], 80),
            "  hash        packets  bytes  duration\n  0x0000abcd        5  300 B       1 s\n"
        );
        let mut tagged = row(["", "10.0.0.1", "", "5", "300 B", "1 s"]);
        tagged[3] = "100/200".into();
        assert_eq!(
            render(&[tagged], 80),
            "  destination     vlan  packets  bytes  duration\n  10.0.0.1     100/200        5  300 B       1 s\n"
        );
    }
}
