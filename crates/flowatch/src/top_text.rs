//! The table of the largest flows, no wider than the terminal.

use ratatui::crossterm::terminal;
use std::fmt::Write;
use std::io::{self, IsTerminal};

/// The width where there is no terminal to ask.
const COLUMNS: usize = 80;

/// In front of each column.
const GAP: usize = 2;

/// An address is not made shorter than this.
const ADDRESS_MIN: usize = 12;

/// What stands for what was left out.
const CUT: char = '…';

/// A flow: source, destination, protocol, packets, bytes, duration; what a key does not have is empty.
pub(crate) type Row = [String; 6];

/// Where the addresses stand in a row.
const ADDRESSES: [usize; 2] = [0, 1];

const HEADINGS: [&str; 6] = [
    "source",
    "destination",
    "proto",
    "packets",
    "bytes",
    "duration",
];

/// What goes first where there is no room for it.
const DISPENSABLE: [usize; 3] = [5, 2, 3];

/// The columns that there are for what is said: those of the terminal that it goes to.
pub(crate) fn columns(to_standard_error: bool) -> usize {
    let is_terminal = if to_standard_error {
        io::stderr().is_terminal()
    } else {
        io::stdout().is_terminal()
    };
    if !is_terminal {
        return COLUMNS;
    }
    match terminal::size() {
        Ok((columns @ 1.., _)) => usize::from(columns),
        _ => COLUMNS,
    }
}

/// The table, in at most so many columns as far as it can be shortened.
pub(crate) fn table(rows: &[Row], columns: usize) -> String {
    let mut widths: [usize; 6] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        match cells.max() {
            None | Some(0) => 0,
            Some(longest) => longest.max(HEADINGS[column].len()),
        }
    });
    let wide = |widths: &[usize; 6]| {
        let kept = widths.iter().filter(|width| **width > 0);
        kept.map(|width| width + GAP).sum::<usize>()
    };
    // Addresses are shortened when nothing else is left to go without.
    for column in DISPENSABLE {
        if wide(&widths) > columns {
            widths[column] = 0;
        }
    }
    for _ in 0..wide(&widths).saturating_sub(columns) {
        let [source, destination] = ADDRESSES;
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
            let _ = if ADDRESSES.contains(&column) {
                write!(line, "  {cell:<width$}")
            } else {
                write!(line, "  {cell:>width$}")
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// A cell with its middle left out where it is too long: the ends tell networks and ports.
fn shortened(cell: &str, width: usize) -> String {
    let length = cell.chars().count();
    if length <= width {
        return cell.to_owned();
    }
    let tail = width.saturating_sub(1) / 2;
    let head = width.saturating_sub(1) - tail;
    let mut text: String = cell.chars().take(head).collect();
    text.push(CUT);
    text.extend(cell.chars().skip(length - tail));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: [&str; 6]) -> Row {
        cells.map(str::to_owned)
    }

    #[track_caller]
    fn fits(text: &str, columns: usize) {
        for line in text.lines() {
            assert!(line.chars().count() <= columns, "{line:?}");
        }
    }

    #[test]
    fn ordinary_flows_have_all_columns_in_eighty() {
        let rows = [row([
            "192.168.100.100:49152",
            "192.168.100.200:443",
            "tcp",
            "1,234",
            "12.3 MB",
            "12.3 s",
        ])];
        let text = table(&rows, 80);
        fits(&text, 80);
        assert!(text.contains("duration") && text.contains("12.3 s"));
    }

    #[test]
    fn long_addresses_cost_columns_before_they_are_cut() {
        let address = "[2001:db8:1234:5678:9abc:def0:1234:5678]:50000";
        let rows = [
            row([address, address, "tcp", "1,234,567", "12.3 GB", "1h 02m"]),
            row(["::1", "::2", "udp", "1", "99 B", "0 s"]),
        ];
        let text = table(&rows, 80);
        fits(&text, 80);
        assert!(text.contains("12.3 GB") && text.contains("…") && text.contains("5678]:50000"));
        assert!(!text.contains("duration") && !text.contains("packets"));
        let wide = table(&rows, 200);
        assert!(wide.contains(address) && wide.contains("1h 02m"));
        // Less than the least there is: as short as can be.
        assert!(table(&rows, 10).contains("12.3 GB"));
    }

    #[test]
    fn columns_that_no_flow_has_are_left_out() {
        let rows = [row(["0x0000abcd", "", "", "5", "300 B", "1 s"])];
        assert_eq!(
            table(&rows, 80),
            "  source      packets  bytes  duration\n  0x0000abcd        5  300 B       1 s\n"
        );
    }
}
