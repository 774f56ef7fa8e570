//! Parses the command line, and reports errors in one line.

use crate::arguments::{Arguments, Command};
use crate::messages::warn;
use crate::watch::EXIT_FAILED;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};
use std::ffi::OsString;

/// Parses the arguments of this process. On an error, prints it in one line and exits; `--help` and
/// `--version` print their text and exit.
pub(crate) fn parse_or_exit() -> Arguments {
    parse(std::env::args_os().collect()).unwrap_or_else(|error| {
        if !error.use_stderr()
            || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        {
            error.exit();
        }
        warn(&one_line(&error));
        std::process::exit(i32::from(EXIT_FAILED));
    })
}

/// Parses a command line. A negative number after an option is taken as its value, valid or not;
/// clap would report an unknown option.
fn parse(line: Vec<OsString>) -> Result<Arguments, clap::Error> {
    let parsed = parse_exactly(&line);
    match parsed {
        Err(error) if error.kind() == ErrorKind::UnknownArgument => {
            let joined = join_negative_values(&line);
            if joined == line {
                return Err(error);
            }
            parse_exactly(&joined)
        }
        parsed => parsed,
    }
}

/// Parses a command line. Unlike clap's derived parser, keeps the values of each `-r` apart.
fn parse_exactly(line: &[OsString]) -> Result<Arguments, clap::Error> {
    let mut command = Arguments::command();
    let matches = command.try_get_matches_from_mut(line)?;
    let parsed = Arguments::from_arg_matches(&matches);
    let mut arguments = parsed.map_err(|error| error.format(&mut command))?;
    if let Command::Watch(watch) = &mut arguments.command
        && let Some((_, matches)) = matches.subcommand()
        && let Some(groups) = matches.get_occurrences::<OsString>("files")
    {
        watch.file_groups = groups.map(|group| group.cloned().collect()).collect();
    }
    Ok(arguments)
}

/// Joins options with negative numbers that follow them: `--top=-1`, `-c-1`.
fn join_negative_values(line: &[OsString]) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::with_capacity(line.len());
    let mut has_options = true;
    for argument in line {
        let is_negative = argument.to_str().is_some_and(|text| {
            let number = text.strip_prefix('-').unwrap_or_default();
            number.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        });
        match joined.last_mut() {
            Some(option) if has_options && is_negative && takes_value(option) => {
                if option.as_encoded_bytes().starts_with(b"--") {
                    option.push("=");
                }
                option.push(argument);
            }
            _ => joined.push(argument.clone()),
        }
        has_options &= argument != "--";
    }
    joined
}

/// Whether an argument is an option, of any subcommand, whose value is the next argument.
fn takes_value(argument: &OsString) -> bool {
    fn any(command: &clap::Command, argument: &str) -> bool {
        let is_it = |option: &clap::Arg| {
            let long = argument.strip_prefix("--");
            let longs = option.get_long_and_visible_aliases().unwrap_or_default();
            let short = option.get_short().map(|short| format!("-{short}"));
            let is_named = long.is_some_and(|long| longs.contains(&long))
                || short.as_deref() == Some(argument);
            is_named && option.get_action().takes_values()
        };
        command.get_arguments().any(is_it)
            || command.get_subcommands().any(|inner| any(inner, argument))
    }
    argument
        .to_str()
        .is_some_and(|argument| any(&Arguments::command(), argument))
}

/// Returns the error message in one line, without the usage.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let messages = text
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let mut line = String::new();
    for part in messages {
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
    fn arguments_after_two_hyphens_are_not_joined() {
        let line = ["flowatch", "watch", "-i", "x", "--", "--top", "-1"].map(OsString::from);
        assert_eq!(join_negative_values(&line), line);
    }

    #[test]
    fn errors_are_one_line() {
        for (command, expected) in [
            (
                "flowatch watch --batch 0",
                "invalid value '0' for '--batch <N>'",
            ),
            ("flowatch watch --modle x", "tip: "),
            ("flowatch lab run", "required arguments were not provided: "),
            ("flowatch watch -i", "a value is required for '--interface"),
            (
                "flowatch watch --idle-timeout -1s -r x",
                "invalid value '-1s' for '--idle-timeout <TIME>': expected number at 0; write a time such as 15s",
            ),
            (
                "flowatch watch -r x -c -1",
                "invalid value '-1' for '--count <N>': must be a number of at least 1",
            ),
            (
                "flowatch gen --burst -.5",
                "invalid value '-.5' for '--burst <N>'",
            ),
            (
                "flowatch lab run x --seed -1",
                "invalid value '-1' for '--seed <N>'",
            ),
            // Not a value of the preceding option.
            ("flowatch watch -q -1", "unexpected argument '-1' found"),
            (
                "flowatch watch --top 1 -1",
                "unexpected argument '-1' found",
            ),
            ("flowatch wach", "unrecognized subcommand 'wach'; tip: "),
        ] {
            let error = parse(command.split(' ').map(OsString::from).collect()).err();
            let line = error.map(|error| one_line(&error)).unwrap_or_default();
            assert!(line.contains(expected), "{command}: {line}");
            for other in ["\n", "error: ", "Usage", "--help"] {
                assert!(!line.contains(other), "{command}: {line}");
            }
        }
    }
}
