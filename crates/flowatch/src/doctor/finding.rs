//! A line of the report.

use std::io::{self, Write};

/// Characters before the text: two spaces, the state, the subject, a space.
const INDENT: usize = 2 + 8 + 16;
/// Narrower text than this is not wrapped any more.
const TEXT_LEAST: usize = 24;

/// How good or bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// As it should be.
    Ok,
    /// Worth knowing; flowatch works without a change.
    Note,
    /// Something that flowatch needs, or needs to be fast.
    Missing,
}

/// What was found of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) state: State,
    pub(super) subject: String,
    pub(super) text: String,
    /// The command that changes it.
    pub(super) command: Option<String>,
}

impl Finding {
    pub(super) fn new(state: State, subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            state,
            subject: subject.into(),
            text: text.into(),
            command: None,
        }
    }

    pub(super) fn ok(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(State::Ok, subject, text)
    }

    pub(super) fn note(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(State::Note, subject, text)
    }

    pub(super) fn missing(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(State::Missing, subject, text)
    }

    /// Adds the command that changes it.
    pub(super) fn with(self, command: impl Into<String>) -> Self {
        Self {
            command: Some(command.into()),
            ..self
        }
    }

    /// Writes it, wrapped to `width` characters a line; commands stay on one, to be copied.
    pub(super) fn print(
        &self,
        width: usize,
        colour: bool,
        output: &mut impl Write,
    ) -> io::Result<()> {
        let (word, code) = match self.state {
            State::Ok => ("ok", "32"),
            State::Note => ("note", "33"),
            State::Missing => ("missing", "1;31"),
        };
        let word = format!("{word:<8}");
        let word = if colour {
            format!("\u{1b}[{code}m{word}\u{1b}[0m")
        } else {
            word
        };
        let mut before = format!("  {word}{:<15} ", self.subject);
        for line in wrap(&self.text, width.saturating_sub(INDENT).max(TEXT_LEAST)) {
            writeln!(output, "{before}{line}")?;
            before = " ".repeat(INDENT);
        }
        if let Some(command) = &self.command {
            writeln!(output, "{}$ {command}", " ".repeat(INDENT))?;
        }
        Ok(())
    }
}

/// Lines of at most `width` characters, but for words that are longer. Runs of spaces within a line
/// stay: they align columns.
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
    fn text_is_wrapped_under_itself_and_commands_are_not() {
        let finding = Finding::missing(
            "packet socket",
            "no permission to open a packet socket here",
        )
        .with("sudo setcap cap_net_raw,cap_net_admin+ep /usr/local/bin/flowatch");
        assert_eq!(
            printed(&finding, 60, false),
            "  missing packet socket   no permission to open a packet\n\
             \u{20}                         socket here\n\
             \u{20}                         $ sudo setcap cap_net_raw,cap_net_admin+ep /usr/local/bin/flowatch\n"
        );
    }

    #[test]
    fn colours_only_where_they_are_wanted() {
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
    fn columns_within_a_line_stay() {
        assert_eq!(wrap("up   veth    1 queue", 80), ["up   veth    1 queue"]);
        assert_eq!(wrap("", 80), [""]);
    }
}
