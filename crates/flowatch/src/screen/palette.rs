//! Styles and characters: few colours, all from the terminal's own palette, and none if the user
//! wants none; ASCII if the locale is not UTF-8.

use ratatui::style::{Color, Modifier, Style};
use std::env;

/// Styles and characters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    colour: bool,
    unicode: bool,
}

impl Palette {
    /// Creates a palette with or without colours and non-ASCII characters.
    pub(crate) fn new(colour: bool, unicode: bool) -> Self {
        Self { colour, unicode }
    }

    /// Creates the palette for the environment: NO_COLOR (no-color.org) and the locale.
    pub(crate) fn from_environment() -> Self {
        Self::new(use_colour(), has_unicode())
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    /// Style of labels and rules.
    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Style of the most important figures.
    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Style of the program's name and of keys.
    pub(super) fn accent(self) -> Style {
        self.coloured(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// Style of bars.
    pub(super) fn bar(self) -> Style {
        self.coloured(Color::Cyan)
    }

    /// Style of losses.
    pub(super) fn alarm(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Style of notices: paused, stopping.
    pub(super) fn notice(self) -> Style {
        self.coloured(Color::Yellow)
            .add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }

    /// Style of column headings.
    pub(super) fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Returns the character of a column that is `eighths` of a line high, at most 8.
    pub(super) fn column_cell(self, eighths: usize) -> char {
        const UNICODE: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        const ASCII: [char; 9] = [' ', '.', '.', ':', ':', '|', '|', '#', '#'];
        (if self.unicode { UNICODE } else { ASCII })[eighths.min(8)]
    }

    /// Returns the character of a bar that is `eighths` of a character wide, at most 8.
    pub(super) fn bar_cell(self, eighths: usize) -> char {
        const UNICODE: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
        const ASCII: [char; 9] = [' ', ' ', ' ', ' ', '-', '-', '-', '=', '='];
        (if self.unicode { UNICODE } else { ASCII })[eighths.min(8)]
    }

    /// Returns the character of horizontal rules.
    pub(super) fn rule(self) -> char {
        if self.unicode { '─' } else { '-' }
    }

    /// Returns the character that replaces omitted text.
    pub(super) fn ellipsis(self) -> char {
        if self.unicode { '…' } else { '~' }
    }

    /// Returns the mark of the column that the list is sorted by.
    pub(super) fn sort_marker(self) -> char {
        if self.unicode { '▾' } else { 'v' }
    }

    /// Replaces the characters that the terminal cannot show.
    pub(super) fn displayable(self, text: &str) -> String {
        if self.unicode {
            text.to_owned()
        } else {
            text.replace('µ', "u")
        }
    }
}

/// Whether to use colours: NO_COLOR (no-color.org) is not set, or empty.
pub(crate) fn use_colour() -> bool {
    env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether the locale's encoding is UTF-8. The first variable that is set decides (locale(7)).
pub(crate) fn has_unicode() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()))
        .unwrap_or_default()
        .to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}
