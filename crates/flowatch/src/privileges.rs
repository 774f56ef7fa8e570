//! Gives up rights during the start of a run.

use crate::messages::warn_all;
use crate::plan::Plan;
use port::PortError;
use sandbox::{Status, UserError};

/// Changes the user, if the plan has one.
///
/// # Errors
/// If it is not permitted.
pub(crate) fn change_user(plan: &Plan) -> Result<(), PortError> {
    let Some(user) = &plan.privileges.user else {
        return Ok(());
    };
    let privileges = &plan.privileges;
    user.become_user(privileges.needs.real_time, &privileges.exemptions)
        .map_err(|error| {
            let message = error.to_string();
            match error {
                UserError::Permission { .. } => PortError::Permission(message),
                _ => PortError::Failed(message),
            }
        })
}

/// Gives up what the run does without, after its ports and outputs are open. Warns of what the kernel
/// does not offer.
pub(crate) fn give_up(plan: &Plan) -> Status {
    let mut status = sandbox::apply(&plan.privileges.needs, &plan.privileges.exemptions);
    status.user = plan
        .privileges
        .user
        .as_ref()
        .map(|user| user.name().to_owned());
    if !plan.reports.quiet {
        warn_all(status.warnings());
    }
    status
}
