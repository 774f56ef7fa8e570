//! A wrong command line, said in one line.

use crate::arguments::Arguments;
use crate::watch::{EXIT_FAILED, complain};
use clap::Parser;
use clap::error::ErrorKind;

/// The arguments of this process. What is wrong with them is said in one line, which ends it; so does
/// a call for help, which has more lines.
pub(crate) fn arguments() -> Arguments {
    Arguments::try_parse().unwrap_or_else(|error| {
        if !error.use_stderr()
            || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        {
            error.exit();
        }
        complain(&one_line(&error));
        std::process::exit(i32::from(EXIT_FAILED));
    })
}

/// What an error says without the usage behind it.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let said = text
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let mut line = String::new();
    for part in said {
        let part = part.strip_prefix("error: ").unwrap_or(part);
        let between = if part.starts_with("tip: ") { "; " } else { " " };
        if !line.is_empty() {
            line.push_str(between);
        }
        line.push_str(part);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_wrong_is_said_in_one_line() {
        for (command, expected) in [
            (
                "flowatch watch --batch 0",
                "invalid value '0' for '--batch <N>'",
            ),
            ("flowatch watch --modle x", "tip: "),
            ("flowatch lab run", "required arguments were not provided: "),
            ("flowatch watch -i", "a value is required for '--interface"),
            ("flowatch wach", "unrecognized subcommand 'wach'; tip: "),
        ] {
            let error = Arguments::try_parse_from(command.split(' ')).err();
            let line = error.map(|error| one_line(&error)).unwrap_or_default();
            assert!(line.contains(expected), "{command}: {line}");
            for other in ["\n", "error: ", "Usage", "--help"] {
                assert!(!line.contains(other), "{command}: {line}");
            }
        }
    }
}
