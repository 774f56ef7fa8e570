//! The summary of a sending `gen` run, as text and JSON.

use crate::units;
use generator::{Histogram, SendReport};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Goes up when a field changes its meaning or is removed.
const SCHEMA_VERSION: u32 = 1;

/// The summary as a JSON object.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    schema_version: u32,
    version: &'static str,
    sink: String,
    content: String,
    seed: Option<u64>,
    intended: u64,
    offered: u64,
    sent: u64,
    /// Bytes of the frames that were sent, without frame check sequences.
    bytes: u64,
    refused: u64,
    skipped: u64,
    unsent: u64,
    /// Packets intended but not sent.
    shortfall: u64,
    link_full: u64,
    /// Whether the run ended because the link was down.
    link_lost: bool,
    seconds: f64,
    packets_per_second: f64,
    /// At layer 1: including preamble, frame check sequence and inter-frame gap.
    bits_per_second: f64,
    intended_packets_per_second: Option<f64>,
    when_late: String,
    when_full: &'static str,
    lateness: Option<Percentiles>,
    worst_10ms: Option<WorstInterval>,
    packets_by_kind: BTreeMap<String, u64>,
    cpu_seconds: f64,
}

/// Percentiles of a time, in nanoseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Percentiles {
    min_ns: u64,
    mean_ns: f64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    p99_9_ns: u64,
    max_ns: u64,
}

impl Percentiles {
    pub(crate) fn of(histogram: &Histogram) -> Self {
        Self {
            min_ns: histogram.min(),
            mean_ns: histogram.mean(),
            p50_ns: histogram.percentile(50.0),
            p90_ns: histogram.percentile(90.0),
            p99_ns: histogram.percentile(99.0),
            p99_9_ns: histogram.percentile(99.9),
            max_ns: histogram.max(),
        }
    }

    /// Formats them as `median 1.2 µs, 90 % …`.
    pub(crate) fn text(&self) -> String {
        let time = |ns: u64| units::seconds(ns as f64 / 1e9);
        format!(
            "median {}, 90 % {}, 99 % {}, 99.9 % {}, maximum {}",
            time(self.p50_ns),
            time(self.p90_ns),
            time(self.p99_ns),
            time(self.p99_9_ns),
            time(self.max_ns)
        )
    }
}

#[derive(Debug, Serialize)]
struct WorstInterval {
    start_seconds: f64,
    intended: f64,
    sent: u64,
}

/// The report of a run and what else its summary contains.
pub(crate) struct SummaryInput<'a> {
    pub(crate) report: &'a SendReport,
    pub(crate) sink: &'a str,
    pub(crate) content: String,
    pub(crate) seed: Option<u64>,
    pub(crate) classes: &'a [String],
    pub(crate) when_late: String,
    pub(crate) when_full: &'static str,
    pub(crate) rate: Option<String>,
    pub(crate) intended_pps: Option<f64>,
    pub(crate) is_virtual: bool,
    pub(crate) cpu_seconds: f64,
}

/// Bytes per frame on the wire in addition to the frame without its check sequence.
const OVERHEAD: u64 = (generator::FCS_BYTES + generator::WIRE_OVERHEAD) as u64;

impl SummaryInput<'_> {
    fn seconds(&self) -> f64 {
        self.report.elapsed_ns as f64 / 1e9
    }

    /// Returns packets and layer 1 bits per second.
    fn rates(&self) -> (f64, f64) {
        let seconds = self.seconds().max(1e-9);
        let wire = self.report.bytes + self.report.sent * OVERHEAD;
        (
            self.report.sent as f64 / seconds,
            wire as f64 * 8.0 / seconds,
        )
    }

    /// Returns the JSON object.
    pub(crate) fn summary(&self) -> Summary {
        let report = self.report;
        let (packets_per_second, bits_per_second) = self.rates();
        Summary {
            schema_version: SCHEMA_VERSION,
            version: env!("CARGO_PKG_VERSION"),
            sink: self.sink.to_owned(),
            content: self.content.clone(),
            seed: self.seed,
            intended: report.intended,
            offered: report.offered,
            sent: report.sent,
            bytes: report.bytes,
            refused: report.refused,
            skipped: report.skipped,
            unsent: report.unsent,
            shortfall: report.intended - report.sent.min(report.intended),
            link_full: report.link_full,
            link_lost: report.link_lost,
            seconds: self.seconds(),
            packets_per_second,
            bits_per_second,
            intended_packets_per_second: self.intended_pps,
            when_late: self.when_late.clone(),
            when_full: self.when_full,
            lateness: report.lateness.as_ref().map(Percentiles::of),
            worst_10ms: report.worst_window.map(|worst| WorstInterval {
                start_seconds: worst.start_ns as f64 / 1e9,
                intended: worst.intended,
                sent: worst.sent,
            }),
            packets_by_kind: self
                .classes
                .iter()
                .cloned()
                .zip(report.by_class.iter().copied())
                .collect(),
            cpu_seconds: self.cpu_seconds,
        }
    }

    /// Returns the text, with every line terminated.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let report = self.report;
        let (packets, bits) = self.rates();
        writeln!(
            text,
            "{} packets of {} to {}, {} ({}, {} at layer 1{})",
            units::count(report.sent),
            self.content,
            self.sink,
            units::seconds(self.seconds()),
            units::rate_packets(packets),
            units::rate_bits(bits),
            if self.is_virtual {
                ", by the capture's timestamps"
            } else {
                ""
            }
        )?;
        let line = |text: &mut String, name: &str, packets: u64, note: &str| {
            let space = if note.is_empty() { "" } else { "  " };
            writeln!(
                text,
                "  {name:<28}{:>16}{space}{note}",
                units::count(packets)
            )
        };
        let rate = self.rate.as_deref().unwrap_or_default();
        line(text, "intended", report.intended, rate)?;
        line(text, "offered to the link", report.offered, "")?;
        line(text, "sent", report.sent, "")?;
        for (name, &count) in self.classes.iter().zip(&report.by_class) {
            if self.classes.len() > 1 {
                let share = units::share(count, report.sent);
                line(text, &format!("  {name}"), count, &format!("({share})"))?;
            }
        }
        let shares = [
            ("refused by the link", report.refused),
            ("skipped, too late", report.skipped),
            ("not sent before the end", report.unsent),
        ];
        for (name, count) in shares.into_iter().filter(|(_, count)| *count > 0) {
            let share = units::share(count, report.intended);
            line(text, name, count, &format!("({share})"))?;
        }
        if report.link_full > 0 {
            let note = format!("(when full: {})", self.when_full);
            line(text, "times the link was full", report.link_full, &note)?;
        }
        if let Some(lateness) = report
            .lateness
            .as_ref()
            .filter(|lateness| lateness.count() > 0)
        {
            writeln!(
                text,
                "  late by                     {} (when late: {})",
                Percentiles::of(lateness).text(),
                self.when_late
            )?;
        }
        if let Some(worst) = report.worst_window {
            writeln!(
                text,
                "  worst 10 ms                 {} of {:.0} packets, {} after the start",
                units::count(worst.sent),
                worst.intended,
                units::seconds(worst.start_ns as f64 / 1e9)
            )?;
        }
        Ok(())
    }
}
