//! Outputs: file formats and the terminal.

use super::finding::Finding;
use crate::screen;
use ratatui::crossterm::terminal;
use std::io::{self, IsTerminal};

/// Maximum line width, and the width without a terminal.
const WIDTH: usize = 100;
/// The size from which the live screen shows everything.
const FULL: (u16, u16) = (80, 24);

/// The terminal on standard output, if it is one.
#[derive(Clone, Debug)]
pub(super) struct Terminal {
    /// Columns and rows; `None` if standard output is not a terminal.
    size: Option<(u16, u16)>,
    screen: bool,
    colour: bool,
    unicode: bool,
    name: String,
}

impl Terminal {
    pub(super) fn detect() -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self {
            size: is_terminal.then(terminal::size).and_then(Result::ok),
            screen: is_terminal && screen::Screen::is_possible(),
            colour: screen::use_colour(),
            unicode: screen::has_unicode(),
            name: std::env::var("TERM").unwrap_or_default(),
        }
    }

    /// Returns the line width of the report.
    pub(super) fn width(&self) -> usize {
        self.size
            .map_or(WIDTH, |(columns, _)| usize::from(columns).min(WIDTH))
    }

    /// Whether the report uses colours.
    pub(super) fn uses_colour(&self) -> bool {
        self.screen && self.colour
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        vec![
            Finding::ok(
                "captures",
                "pcap and pcapng, plain, gzip or zstd: all built in",
            ),
            Finding::ok("outputs", "json, csv and parquet: all built in"),
            self.finding(),
        ]
    }

    fn finding(&self) -> Finding {
        let Some((columns, rows)) = self.size else {
            return Finding::ok(
                "terminal",
                "standard output is not a terminal: progress is printed as lines instead of the live screen",
            );
        };
        let name = if self.name.is_empty() {
            "TERM not set"
        } else {
            &self.name
        };
        let colour = if self.colour {
            "colours"
        } else {
            "no colours (NO_COLOR)"
        };
        let letters = if self.unicode {
            "UTF-8"
        } else {
            "ASCII: the locale is not UTF-8"
        };
        let text = format!("{name}, {columns}x{rows}, {colour}, {letters}");
        if !self.screen {
            Finding::note(
                "terminal",
                format!("{text}; the live screen does not work on it"),
            )
        } else if columns < FULL.0 || rows < FULL.1 {
            Finding::note(
                "terminal",
                format!("{text}; the live screen needs 80x24 to show everything"),
            )
        } else {
            Finding::ok("terminal", text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::*;

    #[test]
    fn reports_the_terminal() {
        let usual = Terminal {
            size: Some((80, 24)),
            screen: true,
            colour: true,
            unicode: true,
            name: "xterm-256color".into(),
        };
        assert_eq!(
            usual.finding(),
            Finding::ok("terminal", "xterm-256color, 80x24, colours, UTF-8")
        );
        assert_eq!(usual.width(), 80);
        let small = Terminal {
            size: Some((40, 10)),
            ..usual.clone()
        };
        assert_eq!(small.finding().status, Status::Note);
        let dumb = Terminal {
            screen: false,
            name: "dumb".into(),
            ..usual.clone()
        };
        assert!(dumb.finding().text.ends_with("does not work on it"));
        assert!(!dumb.uses_colour());
        let none = Terminal {
            size: None,
            ..usual
        };
        assert_eq!(none.finding().status, Status::Ok);
        assert_eq!(none.width(), 100);
    }
}
