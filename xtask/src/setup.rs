//! `cargo xtask setup`: the shell script `setup` does the work, so that it also runs before there
//! is a Rust toolchain.

use std::ffi::OsString;

use crate::workspace;

pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let mut command = workspace::command("./setup", &[]);
    command.args(arguments);
    workspace::run(command)
}
