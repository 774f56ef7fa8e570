//! The final summary as text.

use crate::acquisition_summary::acquisition;
use crate::collector::{total_bytes, total_packets};
use crate::device_text::devices;
use crate::finished_run::FinishedRun;
use crate::join_summary::JoinTotals;
use crate::measurement_summary::measurements;
use crate::net_summary;
use crate::protocol_name::protocol_name;
use crate::summary::{collision_prevention, malformed, no_flow};
use crate::top_flows;
use crate::units;
use engine::{Level, QueueReport};
use export::printable;
use flow::{FlowDefinition, Record};
use hw::schedule::Schedule;
use std::fmt::Write;
use std::time::Duration;

/// From this number of packets on, the time of start and end is a small part of a run.
const PER_PACKET_MIN: u64 = 100_000;

/// Renders the text summary of a run.
pub(crate) struct SummaryText<'a> {
    pub(crate) run: &'a FinishedRun<'a>,
}

impl SummaryText<'_> {
    /// Returns the text, with every line terminated.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.totals(&mut text);
        text += &self.run.end.text();
        let _ = self.books(&mut text);
        let _ = measurements(&mut text, self.run.report);
        let _ = acquisition(&mut text, self.run.report);
        let _ = self.outputs(&mut text);
        let _ = self.top(&mut text);
        let _ = writeln!(text, "\nSandbox: {}", self.run.sandboxed);
        if self.run.plan.reports.verbose {
            let _ = self.details(&mut text);
        }
        printable::lines(&text).into_owned()
    }

    fn totals(&self, text: &mut String) -> std::fmt::Result {
        let (books, flows) = (&self.run.report.books, &self.run.report.flows);
        write!(
            text,
            "{} packets, {} in {} flows",
            units::count(books.received.packets),
            units::bytes(books.received.bytes),
            units::count(flows.records - self.run.collected.merged),
        )?;
        if let Some(time) = books.traffic_time() {
            write!(text, " within {}", units::duration(time))?;
            if !time.is_zero() {
                let rate = books.processed.packets as f64 / time.as_secs_f64();
                write!(text, " ({})", units::rate_packets(rate))?;
            }
        }
        writeln!(text)?;
        self.run_time(text)
    }

    /// Writes the time that the program took, as opposed to that of the traffic.
    fn run_time(&self, text: &mut String) -> std::fmt::Result {
        let (elapsed, packets) = (
            self.run.report.elapsed,
            self.run.report.books.processed.packets,
        );
        write!(
            text,
            "flowatch ran for {}, with {} of CPU time",
            units::duration(elapsed),
            units::duration(self.run.cpu)
        )?;
        // A run on a link waits most of the time, and a short one mostly starts and ends.
        if !self.run.plan.is_live() && packets >= PER_PACKET_MIN {
            let rate = packets as f64 / elapsed.as_secs_f64().max(1e-9);
            let per_packet = self.run.cpu.as_nanos() as f64 / packets as f64;
            write!(
                text,
                " ({per_packet:.0} ns per packet, {})",
                units::rate_packets(rate)
            )?;
        }
        writeln!(text)
    }

    fn books(&self, text: &mut String) -> std::fmt::Result {
        let books = &self.run.report.books;
        writeln!(
            text,
            "\nBooks: packet accounting ({})",
            if self.run.report.is_balanced() {
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
        if books.unattributed.packets > 0 || !self.run.plan.engine.meter.table.is_exact() {
            line(
                text,
                "  unattributed",
                books.unattributed.packets,
                "(the table had no free slot)",
            )?;
        }
        losses_and_faults(text, books)?;
        if self.run.report.flows.evicted > 0 {
            line(
                text,
                "flows evicted",
                self.run.report.flows.evicted,
                "(more flows than --max-flows, or too many with the same hash)",
            )?;
        }
        self.names(text)?;
        if self.run.collected.merged > 0 {
            line(
                text,
                "records merged",
                self.run.collected.merged,
                "(parts of one flow from different queues)",
            )?;
        }
        if self.run.collected.released_early > 0 {
            line(
                text,
                "records not joined",
                self.run.collected.released_early,
                "(too many were held: another part of their flow may have a record of its own)",
            )?;
        }
        self.join(text)?;
        self.collisions(text)?;
        self.hashes(text)?;
        self.gaps(text)?;
        if !self.run.plan.engine.meter.table.is_exact() {
            writeln!(
                text,
                "  Flows are identified by a 32-bit hash only (--table {}): two may have been merged.",
                self.run.plan.engine.meter.table.name()
            )?;
        }
        Ok(())
    }

    /// Says which names in DNS responses were lost, or not asked for.
    fn names(&self, text: &mut String) -> std::fmt::Result {
        let flows = &self.run.report.flows;
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

    /// Says what did not fit the order of joined inputs.
    fn join(&self, text: &mut String) -> std::fmt::Result {
        let join = JoinTotals::new(self.run.plan, self.run.report);
        for (label, count, note) in [
            (
                "late for the join",
                join.late,
                "(later than the window of --join: not in time order)",
            ),
            (
                "out of order in an input",
                join.out_of_order,
                "(--join keeps the order within an input)",
            ),
        ] {
            if count > 0 {
                line(text, label, count, note)?;
            }
        }
        if !join.is_balanced {
            writeln!(
                text,
                "  The joined inputs do not add up to these packets: please report this."
            )?;
        }
        Ok(())
    }

    /// Warns if flows collided while the table had room, and says what prevents it.
    fn collisions(&self, text: &mut String) -> std::fmt::Result {
        let collisions = self.run.report.flows.collisions;
        let Some(prevention) = collision_prevention(collisions, &self.run.plan.engine.meter) else {
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
            self.run.plan.engine.meter.hash
        )
    }

    /// Says which packets gaps count, if there are several queues.
    fn gaps(&self, text: &mut String) -> std::fmt::Result {
        let columns = self.run.plan.engine.meter.schema().statistics;
        let has_gaps = columns.iter().any(|column| column.name.starts_with("gap"));
        if !has_gaps || !self.run.plan.is_live() || self.run.plan.receivers() == 1 {
            return Ok(());
        }
        if self.run.plan.engine.link_packet_counter.is_some() {
            writeln!(
                text,
                "  Gaps count the packets of all {} queues, in the order in which they were read (--gap link).",
                self.run.plan.receivers()
            )
        } else {
            writeln!(
                text,
                "  Gaps count only the packets of the flow's own queue, one of {} (--gap link counts all).",
                self.run.plan.receivers()
            )
        }
    }

    /// Says which hashes came from the device, and what the devices counted.
    fn hashes(&self, text: &mut String) -> std::fmt::Result {
        let books = &self.run.report.books;
        if self.run.plan.engine.meter.flow == FlowDefinition::Rss
            && self.run.plan.engine.level == Level::Flow
        {
            writeln!(
                text,
                "  Flows are identified by a 32-bit hash only (--flow rss): {} packets hashed by the device, {} in\n  \
                 software ({}). The headers of packets hashed by the device are not read: malformed and\n  \
                 truncated packets and fragments among them are not counted.",
                units::count(books.hashed_by_device),
                units::count(books.hashed_in_software),
                self.run.plan.engine.meter.hash,
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
        devices(text, &self.run.report.queues)
    }

    fn outputs(&self, text: &mut String) -> std::fmt::Result {
        for output in &self.run.collected.outputs {
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
        if self.run.records_lost > 0 {
            writeln!(
                text,
                "\n{} records LOST: the outputs were too slow",
                units::count(self.run.records_lost)
            )?;
        }
        Ok(())
    }

    fn top(&self, text: &mut String) -> std::fmt::Result {
        if self.run.collected.top.is_empty() {
            return Ok(());
        }
        let row = |record: &Record| {
            let [hash, source, destination, protocol] = self.flow(record);
            let lasted =
                Duration::from_nanos((record.end_ns - record.start_ns).max(0).cast_unsigned());
            [
                hash,
                source,
                destination,
                top_flows::vlan_text(&record.key),
                protocol,
                units::count(total_packets(record)),
                units::bytes(total_bytes(record)),
                units::duration(lasted),
            ]
        };
        let rows: Vec<top_flows::Row> = self.run.collected.top.iter().map(row).collect();
        let columns = top_flows::terminal_width(self.run.plan.records_on_standard_output());
        write!(
            text,
            "\nLargest flows\n{}",
            top_flows::render(&rows, columns)
        )
    }

    /// Returns hash, source, destination and protocol; empty where the flow key has none.
    fn flow(&self, record: &Record) -> [String; 4] {
        let key = &record.key;
        let none = String::new;
        if let Some(hash) = key.hash() {
            return [format!("{hash:#010x}"), none(), none(), none()];
        }
        let endpoint = |address: std::net::IpAddr, port: u16| match (key.protocol, address) {
            (6 | 17 | 132, std::net::IpAddr::V6(address)) => format!("[{address}]:{port}"),
            (6 | 17 | 132, address) => format!("{address}:{port}"),
            (_, address) => address.to_string(),
        };
        let source = endpoint(key.source_address(), key.source_port);
        let destination = endpoint(key.destination_address(), key.destination_port);
        let protocol = if self.run.plan.reports.numeric {
            key.protocol.to_string()
        } else {
            protocol_name(key.protocol).map_or_else(|| key.protocol.to_string(), str::to_owned)
        };
        match self.run.plan.engine.meter.flow {
            FlowDefinition::FiveTuple | FlowDefinition::Bidirectional => {
                [none(), source, destination, protocol]
            }
            FlowDefinition::Source | FlowDefinition::Rss => [none(), source, none(), none()],
            FlowDefinition::Destination => [none(), none(), destination, none()],
            FlowDefinition::SourceDestination => [none(), source, destination, none()],
        }
    }

    fn details(&self, text: &mut String) -> std::fmt::Result {
        let mut kinds = malformed(&self.run.report.books).peekable();
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
        for queue in &self.run.report.queues {
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
        let mut inputs = self
            .run
            .report
            .queues
            .iter()
            .flat_map(|queue| &queue.inputs)
            .peekable();
        if inputs.peek().is_some() {
            writeln!(text, "\nJoined inputs")?;
        }
        for input in inputs {
            writeln!(
                text,
                "  {:<28} {:>14} received  {:>12} dropped  {:>12} late  {:>12} out of order",
                printable::message(&input.name),
                units::count(input.received + input.dropped),
                units::count(input.dropped),
                units::count(input.late),
                units::count(input.out_of_order),
            )?;
        }
        writeln!(
            text,
            "\nFlow tables: at most {}",
            units::bytes(self.run.report.memory_bytes as u64)
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
