//! The flags of `watch` about what it gives up once its inputs and outputs are open.

use clap::Args;
use sandbox::Exemption;

/// The flags about the user and the sandbox. `plan::privileges` checks them.
#[derive(Clone, Debug, Args)]
pub(crate) struct PrivilegeArguments {
    /// Change to this user once the interfaces are open, before any output is created: the outputs
    /// belong to it. Capture files are opened as this user, too. Needs root.
    #[arg(long, value_name = "NAME", help_heading = "Privileges")]
    pub(crate) user: Option<String>,

    /// Keep what a run gives up once its inputs and outputs are open: `capabilities` (all but those it
    /// still needs), `no-new-privs`, `landlock` (files and TCP ports other than its own), `seccomp`
    /// (system calls that no run makes), or `all`. The summary repeats the reason:
    /// `--no-sandbox landlock,seccomp='needed for X'`. May be repeated.
    #[arg(long, value_name = "PARTS[=REASON]", help_heading = "Privileges")]
    pub(crate) no_sandbox: Vec<Exemption>,
}
