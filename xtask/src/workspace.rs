//! Paths of the workspace, and running programs in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask.parent().map_or(xtask.clone(), Path::to_path_buf)
}

/// The target directory of cargo.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |set| root().join(set))
}

/// A command that starts at the root of the workspace.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// Cargo of the toolchain that runs this program.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    command(&cargo, arguments)
}

/// The command line, without quoting.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut line = program
        .file_name()
        .unwrap_or(command.get_program())
        .to_string_lossy()
        .into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

/// Runs `command` and shows its output.
pub(crate) fn run(mut command: Command) -> anyhow::Result<()> {
    let line = shown(&command);
    let status = command
        .status()
        .with_context(|| format!("cannot run {line}"))?;
    ensure!(status.success(), "{line}: {status}");
    Ok(())
}

/// Runs `command` and returns its standard output; its standard error is shown.
pub(crate) fn output(mut command: Command) -> anyhow::Result<Vec<u8>> {
    let line = shown(&command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {line}"))?;
    ensure!(output.status.success(), "{line}: {}", output.status);
    Ok(output.stdout)
}

/// Whether `program` is in a directory of the PATH.
pub(crate) fn on_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    })
}
