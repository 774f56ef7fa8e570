//! The acquisition part of the summary, as text and JSON.

use crate::units;
use engine::{AcquisitionReport, Report};
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;

/// The quantiles of a queue's occupancy to report.
const QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 1.0];

/// One port's acquisition.
#[derive(Debug, Serialize)]
pub(crate) struct SummaryAcquisition {
    port: String,
    rounds: u64,
    /// Periods that started late.
    late: u64,
    blocks: usize,
    blocks_used_most: usize,
    times_interpolated: bool,
    /// Upper bound of the error of any frame's timestamp.
    time_error_max_nanoseconds: u64,
    time_error_mean_nanoseconds: u64,
    occupancy: SummaryOccupancy,
}

#[derive(Debug, Serialize)]
struct SummaryOccupancy {
    /// `port`: the occupancy that the port reports; `round`: the frames of each round.
    source: &'static str,
    samples: u64,
    /// Median, 99th and 99.9th percentile, maximum.
    quantiles: Option<[usize; 4]>,
    lognormal: Option<SummaryLognormal>,
}

#[derive(Debug, Serialize)]
struct SummaryLognormal {
    mu: f64,
    sigma: f64,
    zero_share: f64,
    /// Kolmogorov-Smirnov distance of the fit from the samples.
    distance: f64,
    queue: usize,
    overflow_probability: f64,
}

fn quantiles(acquired: &AcquisitionReport) -> Option<[usize; 4]> {
    let mut found = [0; 4];
    for (value, quantile) in found.iter_mut().zip(QUANTILES) {
        *value = acquired.occupancy.quantile(quantile)?;
    }
    Some(found)
}

fn time_error_mean_ns(acquired: &AcquisitionReport) -> u64 {
    let frames = u128::from(acquired.time_error_frames.max(1));
    u64::try_from(acquired.time_error_sum_ns / frames).unwrap_or(u64::MAX)
}

impl SummaryAcquisition {
    /// Summarises the acquisition of one port.
    pub(crate) fn new(acquired: &AcquisitionReport) -> Self {
        let occupancy = &acquired.occupancy;
        Self {
            port: acquired.name.clone(),
            rounds: acquired.rounds,
            late: acquired.late,
            blocks: acquired.blocks,
            blocks_used_most: acquired.blocks_used_max,
            times_interpolated: acquired.interpolated,
            time_error_max_nanoseconds: u64::try_from(acquired.time_error_max.as_nanos())
                .unwrap_or(u64::MAX),
            time_error_mean_nanoseconds: time_error_mean_ns(acquired),
            occupancy: SummaryOccupancy {
                source: source(acquired),
                samples: occupancy.samples(),
                quantiles: quantiles(acquired),
                lognormal: occupancy.lognormal().map(|fit| SummaryLognormal {
                    mu: fit.mu,
                    sigma: fit.sigma,
                    zero_share: fit.zero_share,
                    distance: fit.ks_distance,
                    queue: acquired.queue_size,
                    overflow_probability: fit.probability_above(acquired.queue_size),
                }),
            },
        }
    }
}

fn source(acquired: &AcquisitionReport) -> &'static str {
    if acquired.occupancy_from_port {
        "port"
    } else {
        "round"
    }
}

/// Appends a paragraph on acquisition, if it was separate from processing.
pub(crate) fn acquisition(text: &mut String, report: &Report) -> std::fmt::Result {
    if report.acquisition.is_empty() {
        return Ok(());
    }
    writeln!(text, "\nAcquisition")?;
    for acquired in &report.acquisition {
        write!(
            text,
            "  {}: {} rounds with packets",
            acquired.name,
            units::count(acquired.rounds)
        )?;
        if acquired.late > 0 {
            write!(text, ", {} periods late", units::count(acquired.late))?;
        }
        writeln!(
            text,
            "; at most {} of {} buffer blocks in use",
            acquired.blocks_used_max, acquired.blocks
        )?;
        if acquired.interpolated {
            writeln!(
                text,
                "    timestamps interpolated within each batch: error less than {}, on average at most {}",
                units::duration(acquired.time_error_max),
                units::duration(Duration::from_nanos(time_error_mean_ns(acquired))),
            )?;
        }
        let Some([median, p99, p999, maximum]) = quantiles(acquired) else {
            continue;
        };
        writeln!(
            text,
            "    occupancy of the receive queue ({}): median {median}, 99 % {p99}, 99.9 % {p999}, maximum {maximum}",
            if acquired.occupancy_from_port {
                "as reported by the port"
            } else {
                "packets per round"
            },
        )?;
        if let Some(fit) = acquired.occupancy.lognormal() {
            writeln!(
                text,
                "    lognormal fit: mu {:.3}, sigma {:.3}, distance {:.3}; P(more than {}) = {:.1e}",
                fit.mu,
                fit.sigma,
                fit.ks_distance,
                acquired.queue_size,
                fit.probability_above(acquired.queue_size),
            )?;
        }
    }
    Ok(())
}
