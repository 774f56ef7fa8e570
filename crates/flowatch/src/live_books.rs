//! The books of a running `watch`, which SIGUSR1 asks for.

use crate::signals;
use crate::summary::no_flow;
use crate::summary_text::{line, losses_and_faults};
use crate::units;
use engine::{Books, Progress};
use std::time::Duration;

/// How long to wait for the workers, which answer between two bursts.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// Answers requests for the books.
#[derive(Debug, Default)]
pub(crate) struct LiveBooks {
    /// Requests by signal that were passed on.
    requests: u64,
    /// The request that waits for answers, and since when.
    waiting: Option<(u64, Duration)>,
}

impl LiveBooks {
    /// Passes new requests on, and returns the text of the books when all workers have answered.
    /// `elapsed` is the time since the start of the run.
    pub(crate) fn poll(
        &mut self,
        progress: &Progress,
        records_lost: u64,
        elapsed: Duration,
    ) -> Option<String> {
        let requests = signals::books_requests();
        if requests != self.requests {
            self.requests = requests;
            self.waiting = Some((progress.request_books(), elapsed));
        }
        let (request, since) = self.waiting?;
        let (books, missing) = progress.books(request);
        if missing > 0 && elapsed.saturating_sub(since) < ANSWER_TIME {
            return None;
        }
        self.waiting = None;
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = render(&mut text, &books, progress, records_lost, elapsed);
        if missing > 0 {
            text += &format!("  ({missing} threads have not answered: their part is older)\n");
        }
        Some(text)
    }
}

fn render(
    text: &mut String,
    books: &Books,
    progress: &Progress,
    records_lost: u64,
    elapsed: Duration,
) -> std::fmt::Result {
    *text += &format!(
        "Books after {}: the run continues\n",
        units::duration(elapsed)
    );
    line(text, "received", books.received.packets, "")?;
    line(text, "processed", books.processed.packets, "")?;
    let outside = books.without_flow().packets + books.counted_only.packets;
    let in_flows = books.processed.packets.saturating_sub(outside);
    line(text, "  in flows", in_flows, "")?;
    for (name, count) in no_flow(books) {
        let name = format!("  no flow: {}", name.replace('_', " "));
        line(text, &name, count.packets, "")?;
    }
    if books.counted_only.packets > 0 {
        line(text, "  counted only", books.counted_only.packets, "")?;
    }
    losses_and_faults(text, books)?;
    let flows = progress.sum(|queue| &queue.flows);
    line(text, "flows in the table", flows, "")?;
    let records = progress.sum(|queue| &queue.records);
    line(text, "records", records, "")?;
    if records_lost > 0 {
        line(text, "records LOST", records_lost, "")?;
    }
    Ok(())
}
