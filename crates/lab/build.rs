//! Notes the commit of the sources that are built: results name it.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../../crates");
    if let Some(directory) = git(&["rev-parse", "--absolute-git-dir"]) {
        // It grows with each commit.
        println!("cargo::rerun-if-changed={directory}/logs/HEAD");
    }
    let commit = git(&["describe", "--always", "--dirty"]).unwrap_or_default();
    println!("cargo::rustc-env=FLOWATCH_COMMIT={commit}");
}

/// What git says, where there is git and these are its sources.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output
        .status
        .success()
        .then(|| said.trim().to_owned())
        .filter(|said| !said.is_empty())
}
