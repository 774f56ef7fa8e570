//! Turns the flags of `watch` into a plan: checks how they combine and applies defaults. Opens
//! nothing but small files that flags name, and the files of a directory, to find its captures.
//!
//! The part of a plan that one topic decides is made in one file. Flags that need no check stay as
//! they were parsed.

mod applications;
mod engine;
mod error;
mod filter;
mod join;
mod meter;
mod outputs;
mod privileges;
mod source;

pub(crate) use error::PlanError;
pub(crate) use outputs::Outputs;
pub(crate) use privileges::Privileges;
pub(crate) use source::Source;

use crate::arguments::WatchArguments;
use crate::arguments::input::{DpdkArguments, InputArguments};
use crate::arguments::reports::ReportArguments;
use crate::sources::{self, LiveOptions};
use ::engine::Options;
use ::engine::merge::MergeOptions;
use std::time::Duration;

/// The checked options of a `watch` run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) source: Source,
    /// Notices about the sources.
    pub(crate) notices: Vec<String>,
    pub(crate) filter: Option<String>,
    /// Receiving threads per interface, or for the files.
    pub(crate) queues: usize,
    /// Whether all inputs are joined in time order: how long packets of interfaces wait for each other.
    pub(crate) join: Option<Duration>,
    pub(crate) input: InputArguments,
    pub(crate) dpdk: DpdkArguments,
    /// The options of the engine, with those of its meters.
    pub(crate) engine: Options,
    pub(crate) outputs: Outputs,
    pub(crate) reports: ReportArguments,
    /// What the run gives up once its inputs and outputs are open.
    pub(crate) privileges: Privileges,
}

impl Plan {
    /// Checks the flags and applies defaults.
    ///
    /// # Errors
    /// If a flag is invalid, flags contradict each other, or a file cannot be read.
    pub(crate) fn new(arguments: WatchArguments) -> Result<Self, PlanError> {
        let (files, filter) = source::files_and_filter(&arguments)?;
        let (source, notices) = source::source(&arguments, &files, &filter)?;
        sources::check(&arguments.interfaces, &arguments)?;
        let checked = outputs::check(&arguments, &source)?;
        let join = join::join(&arguments, &source)?;
        let engine = engine::options(&arguments, &source)?;
        let queues = usize::from(arguments.engine.queues);
        let privileges =
            privileges::privileges(&arguments.privileges, &source, &checked.0, &engine, &filter)?;
        Ok(Self {
            privileges,
            outputs: outputs::outputs(checked, &arguments, &engine.meter, source.is_live()),
            engine,
            filter: filter::expression(&filter, &source)?,
            queues,
            join,
            input: arguments.input,
            dpdk: arguments.dpdk,
            reports: arguments.reports,
            source,
            notices,
        })
    }

    /// Returns the number of ports: queues of all interfaces, or one for the files.
    pub(crate) fn receivers(&self) -> usize {
        self.source.receivers(self.queues, self.join.is_some())
    }

    /// Returns how to open interfaces.
    pub(crate) fn live_options(&self) -> LiveOptions<'_> {
        LiveOptions {
            queues: self.queues,
            input: &self.input,
            dpdk: &self.dpdk,
            engine: &self.engine,
            verbose: self.reports.verbose,
        }
    }

    /// Returns how to merge records of one flow from several queues of an interface, if any of the
    /// `workers` workers share a link.
    pub(crate) fn merge(&self, workers: usize) -> Option<MergeOptions> {
        let Source::Live(interfaces) = &self.source else {
            return None;
        };
        // The analyses of two parts of a flow cannot be combined into that of the whole.
        if self.engine.meter.statistics.analysis.is_some() {
            return None;
        }
        if self.join.is_some() {
            // All workers measure one link.
            let several = self.receivers() > 1;
            return several.then(|| engine::merge(&self.engine.meter, vec![0; workers]));
        }
        let receivers = engine::links(interfaces, self.queues, self.receivers());
        let shared = |(at, link)| receivers[..at].contains(link);
        let several = receivers.iter().enumerate().any(shared);
        let links = engine::links(interfaces, self.queues, workers);
        several.then(|| engine::merge(&self.engine.meter, links))
    }

    /// Whether packets come from interfaces.
    pub(crate) fn is_live(&self) -> bool {
        self.source.is_live()
    }

    /// Whether records go to standard output.
    pub(crate) fn records_on_standard_output(&self) -> bool {
        let mut specs = self.outputs.specs.iter();
        specs.any(|spec| spec.target.is_stdout())
    }
}
