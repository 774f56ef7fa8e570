//! A line of the report.

use export::printable;
use std::io::{self, Write};

/// Characters before the text: two spaces, the state, the subject, a space.
const INDENT: usize = 2 + 8 + 16;
/// Text is not wrapped to less than this width.
const TEXT_WIDTH_MIN: usize = 24;

/// The status of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// As it should be.
    Ok,
    /// Worth knowing; flowatch works as it is.
    Note,
    /// Something that flowatch needs to work, or to be fast.
    Missing,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) status: Status,
    pub(crate) subject: String,
    pub(crate) text: String,
    /// The command that fixes it.
    pub(crate) command: Option<String>,
}

impl Finding {
    pub(crate) fn new(status: Status, subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            status,
            subject: subject.into(),
            text: text.into(),
            command: None,
        }
    }

    pub(crate) fn ok(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(Status::Ok, subject, text)
    }

    pub(crate) fn note(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(Status::Note, subject, text)
    }

    pub(crate) fn missing(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(Status::Missing, subject, text)
    }

    /// Adds the command that fixes it.
    pub(crate) fn with_command(self, command: impl Into<String>) -> Self {
        Self {
            command: Some(command.into()),
            ..self
        }
    }

    /// Writes the finding, wrapped to `width` characters per line. A command stays on one line, so that
    /// it can be copied.
    pub(crate) fn print(
        &self,
        width: usize,
        colour: bool,
        output: &mut impl Write,
    ) -> io::Result<()> {
        let (word, code) = match self.status {
            Status::Ok => ("ok", "32"),
            Status::Note => ("note", "33"),
            Status::Missing => ("missing", "1;31"),
        };
        let word = format!("{word:<8}");
        let word = if colour {
            format!("\u{1b}[{code}m{word}\u{1b}[0m")
        } else {
            word
        };
        // Drivers and devices choose their names.
        let mut before = format!("  {word}{:<15} ", printable::message(&self.subject));
        let text = printable::message(&self.text);
        for line in wrap(&text, width.saturating_sub(INDENT).max(TEXT_WIDTH_MIN)) {
            writeln!(output, "{before}{line}")?;
            before = " ".repeat(INDENT);
        }
        if let Some(command) = &self.command {
            let command = printable::message(command);
            writeln!(output, "{}$ {command}", " ".repeat(INDENT))?;
        }
        Ok(())
    }
}

/// Wraps text to lines of at most `width` characters; longer words are not split. Runs of spaces are
/// kept, because they align columns.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            let kept = line.trim_end().len();
            line.truncate(kept);
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(finding: &Finding, width: usize, colour: bool) -> String {
        let mut text = Vec::new();
        finding.print(width, colour, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn wraps_text_with_indent_but_not_commands() {
        let finding = Finding::missing(
            "packet socket",
            "no permission to open a packet socket here",
        )
        .with_command("sudo setcap cap_net_raw,cap_net_admin+ep /usr/local/bin/flowatch");
        assert_eq!(
            printed(&finding, 60, false),
            "  missing packet socket   no permission to open a packet\n\
             \u{20}                         socket here\n\
             \u{20}                         $ sudo setcap cap_net_raw,cap_net_admin+ep /usr/local/bin/flowatch\n"
        );
    }

    #[test]
    fn uses_colours_only_if_enabled() {
        let finding = Finding::ok("a", "b");
        assert_eq!(
            printed(&finding, 80, false),
            "  ok      a               b\n"
        );
        assert_eq!(
            printed(&finding, 80, true),
            "  \u{1b}[32mok      \u{1b}[0ma               b\n"
        );
    }

    #[test]
    fn wrapping_keeps_aligned_columns() {
        assert_eq!(wrap("up   veth    1 queue", 80), ["up   veth    1 queue"]);
        assert_eq!(wrap("", 80), [""]);
    }
}
