//! The connection of a network output, in the summaries.

use crate::units;
use export::NetCounters;
use serde::Serialize;
use std::fmt::{self, Write};
use std::time::UNIX_EPOCH;

/// A connection in the JSON summary.
#[derive(Debug, Serialize)]
pub(crate) struct SummaryNet {
    /// Connections that were established.
    connects: u64,
    /// Failed attempts, broken connections, and errors that the network reported.
    failures: u64,
    /// Messages sent.
    messages: u64,
    /// The output's lost records, by reason.
    lost: SummaryNetLoss,
    /// The last failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<SummaryNetError>,
}

#[derive(Debug, Serialize)]
struct SummaryNetLoss {
    queue_full: u64,
    unsent: u64,
    broken: u64,
    too_long: u64,
}

#[derive(Debug, Serialize)]
struct SummaryNetError {
    /// Seconds since the Unix epoch.
    time: f64,
    text: String,
}

impl SummaryNet {
    pub(crate) fn new(counters: &NetCounters) -> Self {
        let lost = &counters.lost;
        Self {
            connects: counters.connects,
            failures: counters.failures,
            messages: counters.messages,
            lost: SummaryNetLoss {
                queue_full: lost.queue_full,
                unsent: lost.unsent,
                broken: lost.broken,
                too_long: lost.too_long,
            },
            last_error: counters.last_error.as_ref().map(|(time, text)| {
                let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
                SummaryNetError {
                    time: since.as_secs_f64(),
                    text: text.clone(),
                }
            }),
        }
    }
}

/// Writes why records were lost, and how often the connection failed.
pub(crate) fn write_text(text: &mut String, counters: &NetCounters) -> fmt::Result {
    let lost = &counters.lost;
    for (count, reason) in [
        (lost.queue_full, "because the queue was full"),
        (lost.unsent, "not sent before the end"),
        (lost.broken, "in broken connections or refused"),
        (lost.too_long, "longer than a datagram"),
    ] {
        if count > 0 {
            write!(text, " ({} {reason})", units::count(count))?;
        }
    }
    if counters.failures > 0 {
        write!(
            text,
            ", {} connections, {} failures",
            units::count(counters.connects),
            units::count(counters.failures)
        )?;
    }
    Ok(())
}
