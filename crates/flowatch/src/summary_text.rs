//! The final summary as text.

use crate::acquisition_summary::acquisition;
use crate::collector::{CollectorReport, total_bytes, total_packets};
use crate::device_text::devices;
use crate::measurement_summary::measurements;
use crate::net_summary;
use crate::plan::Plan;
use crate::protocol_name::protocol_name;
use crate::run_end::RunEnd;
use crate::summary::{collision_prevention, malformed, no_flow};
use crate::top_flows;
use crate::units;
use engine::{Level, QueueReport, Report};
use export::printable;
use flow::{FlowDefinition, Record};
use hw::schedule::Schedule;
use std::fmt::Write;
use std::time::Duration;

/// Renders the text summary of a run.
pub(crate) struct SummaryText<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) report: &'a Report,
    pub(crate) collected: &'a CollectorReport,
    pub(crate) end: &'a RunEnd,
    pub(crate) records_lost: u64,
    pub(crate) cpu: Duration,
}

impl SummaryText<'_> {
    /// Returns the text, with every line terminated.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.totals(&mut text);
        text += &self.end.text();
        let _ = self.books(&mut text);
        let _ = measurements(&mut text, self.report);
        let _ = acquisition(&mut text, self.report);
        let _ = self.outputs(&mut text);
        let _ = self.top(&mut text);
        if self.plan.reports.verbose {
            let _ = self.details(&mut text);
        }
        printable::lines(&text).into_owned()
    }

    fn totals(&self, text: &mut String) -> std::fmt::Result {
        let (books, flows) = (&self.report.books, &self.report.flows);
        let elapsed = self.report.elapsed;
        let packets = books.processed.packets;
        write!(
            text,
            "{} packets, {} in {} flows, {}",
            units::count(books.received.packets),
            units::bytes(books.received.bytes),
            units::count(flows.records - self.collected.merged),
            units::duration(elapsed),
        )?;
        if packets > 0 {
            let rate = packets as f64 / elapsed.as_secs_f64().max(1e-9);
            let per_packet = self.cpu.as_nanos() as f64 / packets as f64;
            let rate = units::rate_packets(rate);
            write!(text, " ({rate}, {per_packet:.0} ns of CPU time per packet)")?;
        }
        writeln!(text)
    }

    fn books(&self, text: &mut String) -> std::fmt::Result {
        let books = &self.report.books;
        writeln!(
            text,
            "\nBooks: packet accounting ({})",
            if self.report.is_balanced() {
                "balanced"
            } else {
                "NOT BALANCED: please report this"
            }
        )?;
        line(text, "received", books.received.packets, "")?;
        line(text, "processed", books.processed.packets, "")?;
        line(text, "  in flows", books.in_flows.packets, "")?;
        for (name, count) in no_flow(books) {
            let note = match name {
                "mpls" | "pppoe" => "(use --decapsulate to look inside)",
                _ => "",
            };
            line(
                text,
                &format!("  no flow: {}", name.replace('_', " ")),
                count.packets,
                note,
            )?;
        }
        if books.counted_only.packets > 0 {
            line(
                text,
                "  counted only",
                books.counted_only.packets,
                "(--level packet: headers are not read)",
            )?;
        }
        if books.unattributed.packets > 0 || !self.plan.engine.meter.table.is_exact() {
            line(
                text,
                "  unattributed",
                books.unattributed.packets,
                "(the table had no free slot)",
            )?;
        }
        losses_and_faults(text, books)?;
        if self.report.flows.evicted > 0 {
            line(
                text,
                "flows evicted",
                self.report.flows.evicted,
                "(more flows than --max-flows, or too many with the same hash)",
            )?;
        }
        self.names(text)?;
        if self.collected.merged > 0 {
            line(
                text,
                "records merged",
                self.collected.merged,
                "(parts of one flow from different queues)",
            )?;
        }
        if self.collected.released_early > 0 {
            line(
                text,
                "records not joined",
                self.collected.released_early,
                "(too many were held: another part of their flow may have a record of its own)",
            )?;
        }
        self.collisions(text)?;
        self.hashes(text)?;
        self.gaps(text)?;
        if !self.plan.engine.meter.table.is_exact() {
            writeln!(
                text,
                "  Flows are identified by a 32-bit hash only (--table {}): two may have been merged.",
                self.plan.engine.meter.table.name()
            )?;
        }
        Ok(())
    }

    /// Says which names in DNS responses were lost, or not asked for.
    fn names(&self, text: &mut String) -> std::fmt::Result {
        let flows = &self.report.flows;
        for (label, count, note) in [
            (
                "DNS unasked",
                flows.names.unasked,
                "(responses whose query was not seen: resolvedNameSource is response)",
            ),
            (
                "names pushed out",
                flows.names.evicted,
                "(more resolved names than the cache holds)",
            ),
            (
                "names left out",
                flows.names.left_out,
                "(too long, or unasked where asked ones fill the cache)",
            ),
            (
                "DNS dropped",
                flows.answers_dropped,
                "(responses that did not reach all threads)",
            ),
            (
                "QUIC not read",
                flows.names.quic_cuts,
                "(Initial packets beyond the limits of work: namesCut has 32)",
            ),
        ] {
            if count > 0 {
                line(text, label, count, note)?;
            }
        }
        Ok(())
    }

    /// Warns if flows collided while the table had room, and says what prevents it.
    fn collisions(&self, text: &mut String) -> std::fmt::Result {
        let collisions = self.report.flows.collisions;
        let Some(prevention) = collision_prevention(collisions, &self.plan.engine.meter) else {
            return Ok(());
        };
        line(
            text,
            "hash collisions",
            collisions.overflowed,
            "(flows that did not fit their bucket of a nearly empty table)",
        )?;
        line(
            text,
            "  evicted",
            collisions.evicted,
            "(although the table was not full: their records are split)",
        )?;
        writeln!(
            text,
            "  Someone may have chosen the keys of these flows to collide under --hash {}: use {prevention}.",
            self.plan.engine.meter.hash
        )
    }

    /// Says which packets gaps count, if there are several queues.
    fn gaps(&self, text: &mut String) -> std::fmt::Result {
        let columns = self.plan.engine.meter.schema().statistics;
        let has_gaps = columns.iter().any(|column| column.name.starts_with("gap"));
        if !has_gaps || !self.plan.is_live() || self.plan.receivers() == 1 {
            return Ok(());
        }
        if self.plan.engine.link_packet_counter.is_some() {
            writeln!(
                text,
                "  Gaps count the packets of all {} queues, in the order in which they were read (--gap link).",
                self.plan.receivers()
            )
        } else {
            writeln!(
                text,
                "  Gaps count only the packets of the flow's own queue, one of {} (--gap link counts all).",
                self.plan.receivers()
            )
        }
    }

    /// Says which hashes came from the device, and what the devices counted.
    fn hashes(&self, text: &mut String) -> std::fmt::Result {
        let books = &self.report.books;
        if self.plan.engine.meter.flow == FlowDefinition::Rss
            && self.plan.engine.level == Level::Flow
        {
            writeln!(
                text,
                "  Flows are identified by a 32-bit hash only (--flow rss): {} packets hashed by the device, {} in\n  \
                 software ({}). The headers of packets hashed by the device are not read: malformed and\n  \
                 truncated packets and fragments among them are not counted.",
                units::count(books.hashed_by_device),
                units::count(books.hashed_in_software),
                self.plan.engine.meter.hash,
            )?;
        }
        if books.hashes_reused > 0 {
            writeln!(
                text,
                "  The flow table used the device's hash for {} packets.",
                units::count(books.hashes_reused)
            )?;
        }
        if books.hashes_mismatched > 0 {
            writeln!(
                text,
                "  The device's hash was not the one announced ({} mismatches): it was not used from then on,\n  \
                 and flows that began earlier may have two records.",
                units::count(books.hashes_mismatched)
            )?;
        }
        devices(text, &self.report.queues)
    }

    fn outputs(&self, text: &mut String) -> std::fmt::Result {
        for output in &self.collected.outputs {
            write!(
                text,
                "\n{} records written to {}",
                units::count(output.written),
                printable::message(&output.name)
            )?;
            if output.lost > 0 {
                write!(text, ", {} LOST", units::count(output.lost))?;
            }
            if output.too_slow > 0 {
                write!(
                    text,
                    " ({} because it was too slow)",
                    units::count(output.too_slow)
                )?;
            }
            if output.stuck > 0 {
                write!(
                    text,
                    " ({} because it was stuck)",
                    units::count(output.stuck)
                )?;
            }
            if output.left_out > 0 {
                write!(
                    text,
                    ", {} left out (neither TCP nor UDP)",
                    units::count(output.left_out)
                )?;
            }
            if let Some(counters) = &output.net {
                net_summary::write_text(text, counters)?;
            }
            writeln!(text)?;
        }
        if self.records_lost > 0 {
            writeln!(
                text,
                "\n{} records LOST: the outputs were too slow",
                units::count(self.records_lost)
            )?;
        }
        Ok(())
    }

    fn top(&self, text: &mut String) -> std::fmt::Result {
        if self.collected.top.is_empty() {
            return Ok(());
        }
        let row = |record: &Record| {
            let [source, destination, protocol] = self.flow(record);
            let lasted =
                Duration::from_nanos((record.end_ns - record.start_ns).max(0).cast_unsigned());
            [
                source,
                destination,
                protocol,
                units::count(total_packets(record)),
                units::bytes(total_bytes(record)),
                units::duration(lasted),
            ]
        };
        let rows: Vec<top_flows::Row> = self.collected.top.iter().map(row).collect();
        let columns = top_flows::terminal_width(self.plan.records_on_standard_output());
        write!(
            text,
            "\nLargest flows\n{}",
            top_flows::render(&rows, columns)
        )
    }

    /// Returns source, destination and protocol; empty where the flow key has none.
    fn flow(&self, record: &Record) -> [String; 3] {
        let key = &record.key;
        if let Some(hash) = key.hash() {
            return [format!("{hash:#010x}"), String::new(), String::new()];
        }
        let endpoint = |address: std::net::IpAddr, port: u16| match (key.protocol, address) {
            (6 | 17 | 132, std::net::IpAddr::V6(address)) => format!("[{address}]:{port}"),
            (6 | 17 | 132, address) => format!("{address}:{port}"),
            (_, address) => address.to_string(),
        };
        let source = endpoint(key.source_address(), key.source_port);
        let destination = endpoint(key.destination_address(), key.destination_port);
        let protocol = if self.plan.reports.numeric {
            key.protocol.to_string()
        } else {
            protocol_name(key.protocol).map_or_else(|| key.protocol.to_string(), str::to_owned)
        };
        match self.plan.engine.meter.flow {
            FlowDefinition::FiveTuple | FlowDefinition::Bidirectional => {
                [source, destination, protocol]
            }
            FlowDefinition::Source | FlowDefinition::Rss => [source, String::new(), String::new()],
            FlowDefinition::Destination => [destination, String::new(), String::new()],
            FlowDefinition::SourceDestination => [source, destination, String::new()],
        }
    }

    fn details(&self, text: &mut String) -> std::fmt::Result {
        let mut kinds = malformed(&self.report.books).peekable();
        if kinds.peek().is_some() {
            writeln!(text, "\nMalformed packets")?;
        }
        for (name, count) in kinds {
            writeln!(
                text,
                "  {:<36}{:>12}",
                name.replace('_', " "),
                units::count(count)
            )?;
        }
        writeln!(text, "\nQueues")?;
        for queue in &self.report.queues {
            let core = queue
                .core
                .map_or_else(|| "any".to_owned(), |core| core.to_string());
            writeln!(
                text,
                "  {:<28} core {core:>3}  {}{:>14} received  {:>12} dropped  {:>12} records  {:>9} CPU",
                queue.name,
                schedule(queue),
                units::count(queue.books.received.packets),
                units::count(queue.books.lost()),
                units::count(queue.flows.records),
                units::duration(queue.cpu),
            )?;
            if let Some(rss) = queue.rss {
                writeln!(text, "  {:<28} RSS {}", "", rss.name())?;
            }
        }
        writeln!(
            text,
            "\nFlow tables: at most {}",
            units::bytes(self.report.memory_bytes as u64)
        )
    }
}

/// Returns the scheduling policy of a thread, if it is not the default.
fn schedule(queue: &QueueReport) -> String {
    match queue.schedule {
        Schedule::Other => String::new(),
        Schedule::Fifo(_) => format!("{}  ", queue.schedule),
        Schedule::Deadline { .. } => format!(
            "{} ({} overruns)  ",
            queue.schedule,
            units::count(queue.overruns)
        ),
    }
}

/// Writes a line of the books: name, packets and a note.
pub(crate) fn line(text: &mut String, name: &str, packets: u64, note: &str) -> std::fmt::Result {
    writeln!(
        text,
        "  {name:<28}{:>16}{}{note}",
        units::count(packets),
        if note.is_empty() { "" } else { "  " }
    )
}

/// Writes the packets that were dropped, by reason, and those with something remarkable.
pub(crate) fn losses_and_faults(text: &mut String, books: &engine::Books) -> std::fmt::Result {
    for reason in engine::Loss::ALL {
        let count = books.dropped[reason as usize].packets;
        if count > 0 {
            let share = units::share(count, books.received.packets);
            line(
                text,
                &format!("dropped: {}", reason.description()),
                count,
                &format!("({share})"),
            )?;
        }
    }
    let other_counts = [
        ("filtered", books.filtered.packets),
        ("malformed", books.malformed.iter().sum()),
        ("truncated by the snaplen", books.truncated),
        ("invalid snaplens", books.snaplens.invalid),
        ("longer than the snaplen", books.snaplens.exceeded),
        ("fragments", books.fragments),
        ("clock steps back", books.clock_steps_back),
        ("clock steps forward", books.clock_steps_forward),
        ("read errors", books.faults),
    ];
    for (name, count) in other_counts.into_iter().filter(|(_, count)| *count > 0) {
        line(text, name, count, "")?;
    }
    Ok(())
}
