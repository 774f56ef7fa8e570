//! Tests of outputs: anonymised addresses, receivers over a network, rotated files, full disks, removed
//! directories, slow and stuck readers, files that exist, text that attacks its reader, Tstat logs and round-robin databases.

mod anonymisation;
mod existing_files;
mod hostile_text;
mod network;
mod output_faults;
mod rotation;
mod stuck_outputs;
mod tstat_and_rrd;

use crate::captures;
use crate::command::watch;
use std::path::Path;
use std::process::Command;

fn example(flags: &str) -> Command {
    let mut command = watch(flags);
    command.arg("-r").arg(captures::example());
    command
}

fn output(program: &str, arguments: &[&str], file: &Path) -> String {
    let output = Command::new(program)
        .args(arguments)
        .arg(file)
        .output()
        .unwrap_or_else(|error| panic!("this test needs {program}: {error}; run ./setup"));
    assert!(
        output.status.success(),
        "{program} {file:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}
