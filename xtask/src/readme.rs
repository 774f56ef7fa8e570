//! Runs the first command of the README, so that it keeps working.

use std::fs;

use anyhow::{Context, ensure};

use crate::workspace;

pub(crate) fn run() -> anyhow::Result<()> {
    let path = workspace::root().join("README.md");
    let text = fs::read_to_string(&path).context("README.md")?;
    let script = first_shell_block(&text).context("README.md has no ```sh block")?;
    let lines = runnable_lines(&script);
    ensure!(
        !lines.is_empty(),
        "the first ```sh block of README.md has no command to run"
    );
    println!("{lines}");
    workspace::run(workspace::command(
        "bash",
        &["-euo", "pipefail", "-c", &lines],
    ))
}

/// The text between the first line "```sh" and its closing fence.
fn first_shell_block(text: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| line.trim() != "```sh");
    lines.next()?;
    let block: Vec<&str> = lines.take_while(|line| line.trim() != "```").collect();
    Some(block.join("\n"))
}

/// The block without the lines that fetch this repository, and without those that run the checks this
/// one is part of.
fn runnable_lines(block: &str) -> String {
    let elsewhere = ["git clone", "cd ", "cargo xtask ci", ".ci/run"];
    block
        .lines()
        .map(|line| line.trim_start().trim_start_matches("$ "))
        .filter(|line| !elsewhere.iter().any(|start| line.starts_with(start)))
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_shell_block_is_found_among_others() {
        let text = "# a\n```rust\nx\n```\n```sh\none\ntwo\n```\n```sh\nthree\n```\n";
        assert_eq!(first_shell_block(text).as_deref(), Some("one\ntwo"));
        assert_eq!(first_shell_block("```text\n```\n"), None);
    }

    #[test]
    fn lines_that_fetch_the_repository_or_recurse_are_left_out() {
        let block = "git clone x\ncd x\n# say\n$ ./setup\ncargo run -- a\ncargo xtask ci\n";
        assert_eq!(runnable_lines(block), "./setup\ncargo run -- a");
    }
}
