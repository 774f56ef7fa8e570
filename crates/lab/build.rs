//! Stores the commit of the sources in the build, for the results.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../../crates");
    if let Some(directory) = git(&["rev-parse", "--absolute-git-dir"]) {
        // Every commit appends a line to it.
        println!("cargo::rerun-if-changed={directory}/logs/HEAD");
    }
    let commit = git(&["describe", "--always", "--dirty"]).unwrap_or_default();
    println!("cargo::rustc-env=FLOWATCH_COMMIT={commit}");
}

/// Runs git; returns its output if it succeeds and prints something.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output
        .status
        .success()
        .then(|| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}
