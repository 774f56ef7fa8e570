//! How things look: few colours, all of the terminal's own choice, and none where nobody wants
//! any; plain characters where the locale has no others.

use ratatui::style::{Color, Modifier, Style};
use std::env;

/// Styles and characters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    colour: bool,
    unicode: bool,
}

impl Palette {
    /// With colours or without, with characters beyond ASCII or without.
    pub(crate) fn new(colour: bool, unicode: bool) -> Self {
        Self { colour, unicode }
    }

    /// As NO_COLOR (no-color.org: set and not empty) and the locale want it.
    pub(crate) fn from_environment() -> Self {
        Self::new(wants_colour(), has_unicode())
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    /// What matters least: labels, rules.
    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// What matters most.
    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The program's name, keys.
    pub(super) fn accent(self) -> Style {
        self.coloured(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// Bars.
    pub(super) fn bar(self) -> Style {
        self.coloured(Color::Cyan)
    }

    /// Loss.
    pub(super) fn alarm(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// What a person should not overlook: that the picture stands still.
    pub(super) fn notice(self) -> Style {
        self.coloured(Color::Yellow)
            .add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }

    /// Headings of columns.
    pub(super) fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// A column of a chart that is `eighths` of a line high, at most 8.
    pub(super) fn column(self, eighths: usize) -> char {
        const UNICODE: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        const ASCII: [char; 9] = [' ', '.', '.', ':', ':', '|', '|', '#', '#'];
        (if self.unicode { UNICODE } else { ASCII })[eighths.min(8)]
    }

    /// A bar that is `eighths` of a character wide, at most 8.
    pub(super) fn part(self, eighths: usize) -> char {
        const UNICODE: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
        const ASCII: [char; 9] = [' ', ' ', ' ', ' ', '-', '-', '-', '=', '='];
        (if self.unicode { UNICODE } else { ASCII })[eighths.min(8)]
    }

    /// The line that divides the screen.
    pub(super) fn rule(self) -> char {
        if self.unicode { '─' } else { '-' }
    }

    /// In place of what was left out.
    pub(super) fn ellipsis(self) -> char {
        if self.unicode { '…' } else { '~' }
    }

    /// Behind the heading that the list is sorted by.
    pub(super) fn sorted(self) -> char {
        if self.unicode { '▾' } else { 'v' }
    }

    /// Text in characters that the terminal can show.
    pub(super) fn text(self, text: &str) -> String {
        if self.unicode {
            text.to_owned()
        } else {
            text.replace('µ', "u")
        }
    }
}

/// Whether colours are welcome.
pub(crate) fn wants_colour() -> bool {
    env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether the locale's characters are UTF-8: the first of these that is set decides (locale(7)).
pub(crate) fn has_unicode() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()))
        .unwrap_or_default()
        .to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}
