//! Whether to join the inputs (`--join`).

use super::source::Source;
use crate::arguments::WatchArguments;
use crate::sources;
use std::time::Duration;

/// The default window: an interface delivers a packet within two block timeouts of 10 ms.
const WINDOW_DEFAULT: Duration = Duration::from_millis(30);

/// Returns the window within which to join the inputs, if they are to be joined. (For files, it has no
/// meaning.)
pub(super) fn join(
    arguments: &WatchArguments,
    source: &Source,
) -> Result<Option<Duration>, String> {
    let Some(window) = arguments.input.join else {
        return Ok(None);
    };
    match source {
        Source::Files(_) if window.is_some() => Err(
            "--join=WINDOW is for interfaces: files are merged over their whole length, use --join"
                .into(),
        ),
        Source::Files(_) => Ok(Some(WINDOW_DEFAULT)),
        Source::Live(names) if names.len() < 2 => {
            Err("--join needs at least two inputs, each with its own -i".into())
        }
        Source::Live(names) => {
            let queues = arguments.engine.queues;
            // The kernel's hash puts both directions of a conversation into the same queue of every
            // interface. That of another device may not.
            let by_device = names
                .iter()
                .find(|name| !sources::kind(name).has_same_hash_on_all());
            match by_device {
                Some(name) if queues > 1 => Err(format!(
                    "--join with --queues {queues}: {name} distributes packets by a hash of its own, so that the \
                     directions of a flow may be in different queues: use --model pipeline with --monitors"
                )),
                _ => Ok(Some(window.unwrap_or(WINDOW_DEFAULT))),
            }
        }
    }
}
