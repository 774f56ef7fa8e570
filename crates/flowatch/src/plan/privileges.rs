//! The user of a run, and what it needs after its inputs and outputs are open.

use super::error::PlanError;
use super::source::Source;
use crate::arguments::privileges::PrivilegeArguments;
use crate::sources;
use ::engine::Options;
use export::{Endpoint, Spec};
use hw::schedule::Schedule;
use port::Input;
use sandbox::{Exemptions, Needs, User};
use std::path::PathBuf;

/// What a run gives up, and what it keeps.
#[derive(Debug)]
pub(crate) struct Privileges {
    /// The user to change to.
    pub(crate) user: Option<User>,
    /// The parts of the sandbox that are off.
    pub(crate) exemptions: Exemptions,
    /// What the run needs.
    pub(crate) needs: Needs,
}

pub(super) fn privileges(
    flags: &PrivilegeArguments,
    source: &Source,
    outputs: &[Spec],
    engine: &Options,
) -> Result<Privileges, PlanError> {
    let user = flags.user.as_deref().map(User::find).transpose();
    Ok(Privileges {
        user: user.map_err(|error| error.to_string())?,
        exemptions: Exemptions::new(flags.no_sandbox.clone())?,
        needs: needs(source, outputs, engine),
    })
}

fn needs(source: &Source, outputs: &[Spec], engine: &Options) -> Needs {
    let mut needs = Needs {
        real_time: engine
            .schedules
            .iter()
            .any(|schedule| *schedule != Schedule::Other),
        ..Needs::default()
    };
    match source {
        Source::Files(inputs) => needs.reads = inputs.iter().filter_map(path).collect(),
        Source::Live(names) => needs.dpdk = sources::use_dpdk(names),
    }
    for spec in outputs {
        match spec.target.endpoint() {
            Some(endpoint) => {
                needs.network = true;
                if let Endpoint::Tcp(address) = endpoint {
                    needs.tcp_ports.push(address.port);
                }
            }
            None => needs.writes.extend(spec.target.path().map(PathBuf::from)),
        }
    }
    needs
}

fn path(input: &Input) -> Option<PathBuf> {
    match input {
        Input::Path(path) => Some(path.clone()),
        Input::StandardInput => None,
    }
}
