//! Outputs of an analyser from the outside: addresses that are not told, files that rotate, disks
//! that fill, directories that vanish, readers that are slow, Tstat's logs and round-robin series.

mod anonymised;
mod places;
mod rotated;
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
