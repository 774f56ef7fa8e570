//! `cargo xtask setup`: runs the shell script `setup`, which also works without a Rust toolchain.

use std::ffi::OsString;

use crate::workspace;

pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let mut command = workspace::command("./setup", &[]);
    command.args(arguments);
    workspace::run(command)
}
