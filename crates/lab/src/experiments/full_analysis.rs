//! Full analysis of real traffic: its monitor, and a capture as a wire of DPDKStat's mean frame.

use super::recorded;
use crate::monitor::Monitor;
use crate::traffic::wire_of_replay;
use crate::trial::TrialError;
use crate::virtual_clock::Wire;
use flow::statistic::Estimator;
use flow::{FlowDefinition, Timeouts};
use generator::{FCS_BYTES, Recording, Replay};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The mean frame of the paper, in bytes.
pub(super) const PAPER_BYTES: f64 = 716.0;

/// The longest frame, in bytes.
pub(super) const LONGEST: usize = 1518;

/// The idle timeout. A second of the link has as many packets as an hour of the capture's networks, so
/// the timeout is short: thousands of records are written within a trial.
pub(super) const IDLE: Duration = Duration::from_millis(20);

/// A monitor with full analysis of both directions.
///
/// # Errors
/// Never: these statistics exist.
pub fn full_monitor(flows_max: usize) -> Result<Monitor, TrialError> {
    let mut monitor = Monitor::counting(flows_max)
        .with_flow(FlowDefinition::Bidirectional)
        .with_statistics("full", Estimator::LogLinear)
        .map_err(TrialError::missing)?;
    monitor.options.meter.timeouts = Timeouts {
        idle: Some(IDLE),
        ..Timeouts::NONE
    };
    Ok(monitor)
}

/// Replays a recording in enough copies; with `padded` its frames have the paper's mean.
pub(super) fn replay(
    mut recording: Recording,
    padded: bool,
    packets: usize,
) -> Result<Replay, TrialError> {
    if padded {
        let mean = PAPER_BYTES - FCS_BYTES as f64;
        recording = recording
            .with_longer_payloads(mean, LONGEST - FCS_BYTES)
            .map_err(TrialError::missing)?;
    }
    recorded::replay(recording, packets).map(|(replay, _)| replay)
}

/// A wire of `packets` packets of a capture and of copies of it with other addresses; with `padded` its
/// frames have the paper's mean.
///
/// # Errors
/// When the capture cannot be read or is empty.
pub fn real_wire(path: &Path, padded: bool, packets: usize) -> Result<Arc<Wire>, TrialError> {
    let mut replay = replay(recorded::load(path)?, padded, packets)?;
    wire_of_replay(&mut replay, packets)
}
