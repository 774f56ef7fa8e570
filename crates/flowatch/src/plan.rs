//! Turns the flags of `watch` into a plan: checks how they combine and applies defaults. Opens
//! nothing but small files that flags name, and the files of a directory, to find its captures.

mod applications;
mod engine;
mod error;
mod filter;
mod source;

pub(crate) use error::PlanError;
pub(crate) use source::Source;

use crate::arguments::{
    DecapsulateArgument, FlowArgument, ModelArgument, SummaryArgument, Timeout, WatchArguments,
};
use crate::file_identity;
use crate::inputs;
use crate::interfaces;
use crate::sources::{self, LiveOptions};
use ::engine::merge::MergeOptions;
use ::engine::{Acquisition, Level, MeasurementSpec, Model, check_cores};
use applications::applications;
use export::{AnonymiseError, Anonymiser, Format, Rotation, Spec, Target};
use flow::statistic::{Selection, SelectionError};
use flow::{FlowDefinition, GarbageSchedule, MeterOptions, TableKind, Timeouts};
use hw::schedule::Schedule;
use port::Input;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;
use wire::Decapsulate;

/// Default capacity of a monitor's ring, in packets: that of the papers' receive rings.
const RING_DEFAULT: u64 = 4096;

/// Default size of a kernel receive ring.
const RING_MEMORY_MIB_DEFAULT: u32 = 64;

/// The fewest bytes that a packet of a flow takes in a capture file: a pcap record header and an
/// IPv4 header.
const FILE_BYTES_PER_PACKET: u64 = 16 + 20;

/// Maximum capacity of a ring, in packets; more is a typing error.
const RING_MAX: u64 = 1 << 26;

/// Maximum number of flows in a table, whose slots have 32-bit indices.
const FLOWS_MAX: u64 = 64_000_000;

/// The longest time that an ended flow stays in the table.
const GARBAGE_PERIOD_MAX: Duration = Duration::from_secs(10);

/// The checked options of a `watch` run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) source: Source,
    /// Notices about the sources.
    pub(crate) notices: Vec<String>,
    pub(crate) filter: Option<String>,
    pub(crate) count: Option<u64>,
    pub(crate) duration: Option<Duration>,
    /// How to open interfaces.
    pub(crate) live: LiveOptions,
    pub(crate) model: Model,
    pub(crate) level: Level,
    /// Measurements besides the one of `level`.
    pub(crate) extra_measurements: Vec<MeasurementSpec>,
    /// Scheduling policies of the threads.
    pub(crate) schedules: Vec<Schedule>,
    /// Acquisition on separate threads, if wanted.
    pub(crate) acquisition: Option<Acquisition>,
    /// Whether gaps count the packets of all queues of a link.
    pub(crate) link_gaps: bool,
    /// Receiving threads per interface, or for the files.
    pub(crate) queues: usize,
    pub(crate) monitors: usize,
    pub(crate) ring: usize,
    pub(crate) cores: Vec<usize>,
    pub(crate) meter: MeterOptions,
    pub(crate) decapsulate: Decapsulate,
    pub(crate) outputs: Vec<Spec>,
    pub(crate) rotation: Option<Rotation>,
    pub(crate) anonymiser: Option<Anonymiser>,
    pub(crate) sort: bool,
    pub(crate) community_id: bool,
    pub(crate) summary: SummaryArgument,
    pub(crate) top: usize,
    pub(crate) interval: Option<Duration>,
    /// Whether `--interval` was given.
    pub(crate) interval_given: bool,
    pub(crate) numeric: bool,
    pub(crate) verbose: bool,
    pub(crate) quiet: bool,
    pub(crate) fail_on_loss: bool,
}

impl Plan {
    /// Checks the flags and applies defaults.
    ///
    /// # Errors
    /// If a flag is invalid, flags contradict each other, or a file cannot be read.
    pub(crate) fn new(arguments: WatchArguments) -> Result<Self, PlanError> {
        let (files, filter) = files_and_filter(&arguments)?;
        let (source, notices) = source(&arguments, &files, &filter)?;
        sources::check(&arguments.interfaces, &arguments)?;
        let live = matches!(source, Source::Live(_));
        let model = match arguments.model {
            ModelArgument::RunToCompletion => Model::RunToCompletion,
            ModelArgument::Pipeline => Model::Pipeline,
            ModelArgument::Cooperative => Model::Cooperative,
        };
        let queues = usize::from(arguments.queues);
        check_model(&arguments, model)?;
        check_readers(&arguments, &source, model)?;
        let outputs = outputs(&arguments.outputs)?;
        if arguments.rotate.is_some() && outputs.is_empty() {
            return Err("--rotate needs an output file: add one, such as -o csv:flows.csv".into());
        }
        let anonymiser = anonymiser(&arguments)?;
        check_files(&source, &outputs, &arguments)?;
        let cores = arguments
            .cores
            .as_ref()
            .map(|cores| cores.0.clone())
            .unwrap_or_default();
        check_cores(&cores).map_err(|error| error.to_string())?;
        let meter = meter(&arguments, &source)?;
        let (flow, seed) = (meter.flow, meter.seed);
        community_id(&arguments, flow)?;
        let level = engine::level(&arguments)?;
        let receivers = receivers(&source, queues);
        let monitors = arguments.monitors.map_or(1, usize::from);
        let acquisition = engine::acquisition(&arguments, &meter.statistics, receivers)?;
        if live && level == Level::Flow {
            let tables = match model {
                Model::RunToCompletion => receivers,
                _ => receivers * monitors,
            };
            engine::check_table_memory(&meter, tables)?;
        }
        Ok(Self {
            filter: filter::expression(&filter, &source)?,
            count: arguments.count,
            duration: arguments.duration,
            live: live_options(&arguments, queues, acquisition, flow),
            model,
            level,
            extra_measurements: engine::extra_measurements(&arguments),
            schedules: engine::schedules(&arguments),
            acquisition,
            link_gaps: engine::link_gaps(&arguments, &meter.statistics)?,
            queues,
            monitors,
            ring: ring(arguments.ring)?,
            cores,
            meter,
            decapsulate: match arguments.decapsulate {
                None => Decapsulate::No,
                Some(DecapsulateArgument::Link) => Decapsulate::Link,
                Some(DecapsulateArgument::Innermost) => Decapsulate::Innermost,
            },
            outputs,
            rotation: arguments.rotate,
            anonymiser: anonymiser.map(|it| it.for_flows(flow).with_seed(seed)),
            sort: arguments.sort,
            community_id: arguments.community_id,
            summary: arguments.summary,
            top: arguments.top as usize,
            interval_given: arguments.interval.is_some(),
            interval: arguments
                .interval
                .or_else(|| live.then_some(Duration::from_secs(1))),
            numeric: arguments.numeric,
            verbose: arguments.verbose,
            quiet: arguments.quiet,
            fail_on_loss: arguments.fail_on_loss,
            source,
            notices,
        })
    }

    /// Returns the number of receiving threads of all interfaces.
    pub(crate) fn receivers(&self) -> usize {
        receivers(&self.source, self.queues)
    }

    /// Returns how to merge records of one flow from several queues of an interface, if any of the
    /// `workers` workers share a link.
    pub(crate) fn merge(&self, workers: usize) -> Option<MergeOptions> {
        let Source::Live(interfaces) = &self.source else {
            return None;
        };
        // The analyses of two parts of a flow cannot be combined into that of the whole.
        if self.meter.statistics.analysis.is_some() {
            return None;
        }
        let receivers = engine::links(interfaces, self.queues, self.receivers());
        let shared = |(at, link)| receivers[..at].contains(link);
        let several = receivers.iter().enumerate().any(shared);
        let links = engine::links(interfaces, self.queues, workers);
        several.then(|| engine::merge(&self.meter, links))
    }

    /// Whether packets come from interfaces.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.source, Source::Live(_))
    }

    /// Whether records go to standard output.
    pub(crate) fn records_on_standard_output(&self) -> bool {
        self.outputs.iter().any(|spec| spec.target.is_stdout())
    }
}

/// Returns the files that `-r` names, not expanded yet, and the words of the filter.
fn files_and_filter(arguments: &WatchArguments) -> Result<(Vec<OsString>, Vec<String>), String> {
    let (files, after_files) = inputs::split_filter(&arguments.file_groups)?;
    let words = &arguments.filter;
    if !words.is_empty() && !after_files.is_empty() {
        return Err(format!(
            "'{}' and '{}' are both filters: give one filter, in quotes, before or after the files",
            words.join(" "),
            after_files.join(" ")
        ));
    }
    let filter = if words.is_empty() {
        after_files
    } else {
        words.clone()
    };
    Ok((files, filter))
}

/// Returns what to read, and notices for the user.
fn source(
    arguments: &WatchArguments,
    files: &[OsString],
    filter: &[String],
) -> Result<(Source, Vec<String>), PlanError> {
    match (arguments.interfaces.is_empty(), files.is_empty()) {
        (true, true) => Err(match filter::first_file(filter) {
            Some(file) => format!("nothing to watch: to read the file {file}, use -r {file}").into(),
            None => "nothing to watch: give an interface (-i eth0) or a capture (-r FILE, -r - for standard input)"
                .into(),
        }),
        (false, false) => Err("-i and -r together: use interfaces or files, not both".into()),
        (false, true) => {
            interfaces::check_distinct(&arguments.interfaces)?;
            Ok((Source::Live(arguments.interfaces.clone()), Vec::new()))
        }
        (true, false) => {
            let found = inputs::find(files)?;
            let standard = |input: &&Input| matches!(input, Input::StandardInput);
            if found.inputs.iter().filter(standard).count() > 1 {
                return Err("standard input (-r -) can be read once only".into());
            }
            Ok((Source::Files(found.inputs), found.notices))
        }
    }
}

/// Rejects flags that the threading model does not use.
fn check_model(arguments: &WatchArguments, model: Model) -> Result<(), String> {
    if model == Model::RunToCompletion {
        for (flag, given) in [
            ("--monitors", arguments.monitors.is_some()),
            ("--ring", arguments.ring.is_some()),
        ] {
            if given {
                return Err(format!(
                    "{flag} needs --model pipeline or cooperative: run to completion has no separate monitors"
                ));
            }
        }
    }
    Ok(())
}

/// Rejects several readers of files that one thread must read.
fn check_readers(arguments: &WatchArguments, source: &Source, model: Model) -> Result<(), String> {
    let Source::Files(inputs) = source else {
        return Ok(());
    };
    if arguments.queues == 1 {
        return Ok(());
    }
    if model != Model::RunToCompletion {
        return Err(
            "--queues with files needs run to completion; the other models read files with one \
                    receiver: use --monitors"
                .into(),
        );
    }
    if inputs.iter().any(is_read_once) {
        return Err(
            "standard input and pipes can be read by one thread only: use --model pipeline with \
                    --monitors"
                .into(),
        );
    }
    Ok(())
}

/// Returns how to open interfaces.
fn live_options(
    arguments: &WatchArguments,
    queues: usize,
    acquisition: Option<Acquisition>,
    flow: FlowDefinition,
) -> LiveOptions {
    LiveOptions {
        queues,
        promiscuous: arguments.promiscuous,
        ring_memory_mib: arguments.ring_memory.unwrap_or(RING_MEMORY_MIB_DEFAULT),
        poll: acquisition.map(|acquisition| acquisition.mode),
        dpdk: arguments.dpdk.clone(),
        eal: arguments.eal.clone(),
        flow,
        verbose: arguments.verbose,
    }
}

/// Returns the options of the meter: flow definition, table, statistics.
fn meter(arguments: &WatchArguments, source: &Source) -> Result<MeterOptions, PlanError> {
    let timeouts = timeouts(arguments);
    let seed = arguments.seed.map_or_else(random_seed, Ok)?;
    let statistics = Selection::parse(
        &arguments.statistics,
        arguments
            .estimator
            .parse()
            .map_err(|error: SelectionError| error.to_string())?,
    )
    .map_err(|error| error.to_string())?;
    Ok(MeterOptions {
        flow: match flow_definition(arguments.flow, &statistics, &arguments.table)? {
            FlowArgument::FiveTuple => FlowDefinition::FiveTuple,
            FlowArgument::Bidirectional => FlowDefinition::Bidirectional,
            FlowArgument::Src => FlowDefinition::Source,
            FlowArgument::Dst => FlowDefinition::Destination,
            FlowArgument::SrcDst => FlowDefinition::SourceDestination,
            FlowArgument::Rss => FlowDefinition::Rss,
        },
        vlan: arguments.vlan,
        table: arguments.table.parse::<TableKind>()?,
        hash: engine::hash(arguments)?,
        seed,
        flows_max: flows_max(arguments.max_flows, source)?,
        timeouts,
        garbage: arguments
            .garbage
            .unwrap_or_else(|| default_garbage(&timeouts)),
        applications: applications(arguments, &statistics)?,
        statistics,
        populate: matches!(source, Source::Live(_)),
        ..MeterOptions::default()
    })
}

/// Returns the flow definition. An analysis needs both directions of a flow in one entry, and a
/// table that never merges two flows.
fn flow_definition(
    requested: Option<FlowArgument>,
    statistics: &Selection,
    table: &str,
) -> Result<FlowArgument, String> {
    let Some(level) = statistics.analysis else {
        return Ok(requested.unwrap_or(FlowArgument::FiveTuple));
    };
    let level = level.name();
    if table != TableKind::Bucket.name() {
        return Err(format!(
            "--statistics {level} needs --table bucket: {table} identifies flows by their hash only and may merge \
             two"
        ));
    }
    match requested {
        None | Some(FlowArgument::Bidirectional) => Ok(FlowArgument::Bidirectional),
        Some(_) => Err(format!(
            "--statistics {level} needs both directions of a flow: leave --flow out, or use --flow bidirectional"
        )),
    }
}

/// Rejects `--community-id` for flow definitions that have none.
fn community_id(arguments: &WatchArguments, flow: FlowDefinition) -> Result<(), String> {
    match flow {
        FlowDefinition::Source | FlowDefinition::Destination | FlowDefinition::SourceDestination
            if arguments.community_id =>
        {
            Err("--community-id with --flow src, dst or src-dst: a Community ID needs the 5-tuple; use --flow \
                 5tuple or bidirectional"
                .into())
        }
        _ => Ok(()),
    }
}

/// Whether an input can be read only once. Missing files and directories are reported when they are
/// opened.
fn is_read_once(input: &Input) -> bool {
    match input {
        Input::Path(path) => {
            std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
        }
        Input::StandardInput => true,
    }
}

fn anonymiser(arguments: &WatchArguments) -> Result<Option<Anonymiser>, PlanError> {
    let Some(spec) = &arguments.anonymise else {
        return Ok(None);
    };
    if arguments.flow == Some(FlowArgument::Rss) {
        return Err(
            "--anonymise with --flow rss: the device's hash reveals the addresses, because its key is well known; use \
             another --flow"
                .into(),
        );
    }
    let anonymiser = Anonymiser::open(spec).map_err(|error| {
        let message = format!("--anonymise: {error}");
        match error {
            AnonymiseError::Permission { .. } => PlanError::Permission(message),
            _ => PlanError::Failed(message),
        }
    })?;
    Ok(Some(anonymiser))
}

fn outputs(texts: &[String]) -> Result<Vec<Spec>, String> {
    let mut specs: Vec<Spec> = texts
        .iter()
        .map(|text| text.parse::<Spec>().map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    for spec in &mut specs {
        let in_one_stream = !matches!(spec.format, Format::Tstat | Format::Rrd);
        let path = spec.target.path().filter(|_| in_one_stream);
        if path.is_some_and(file_identity::is_standard_output) {
            spec.target = Target::Stdout;
        }
    }
    for (index, spec) in specs.iter().enumerate() {
        if specs[..index]
            .iter()
            .any(|earlier| earlier.target == spec.target)
        {
            return Err(format!("-o {}: this target is named twice", texts[index]));
        }
    }
    Ok(specs)
}

/// Rejects outputs that would overwrite an input, and two outputs that are the same file.
fn check_files(
    source: &Source,
    outputs: &[Spec],
    arguments: &WatchArguments,
) -> Result<(), String> {
    let written: Vec<file_identity::NamedFile<'_>> = outputs
        .iter()
        .filter_map(|spec| match spec.target.is_stdout() {
            true => Some(Path::new("-")),
            false => spec.target.path(),
        })
        .map(|path| ("-o", path))
        .collect();
    let inputs = match source {
        Source::Files(inputs) => &inputs[..],
        Source::Live(_) => &[],
    };
    let captures = inputs.iter().filter_map(|input| match input {
        Input::Path(path) => Some(("-r", path.as_path())),
        Input::StandardInput => None,
    });
    let key = arguments
        .anonymise
        .as_deref()
        .and_then(Anonymiser::key_file);
    let applications = arguments.applications.as_deref();
    let read: Vec<file_identity::NamedFile<'_>> = captures
        .chain(key.map(|path| ("--anonymise", path)))
        .chain(applications.map(|path| ("--applications", path)))
        .collect();
    file_identity::check_distinct(&written, &read)
}

/// Returns a sweep schedule that keeps pace with the idle timeout.
fn default_garbage(timeouts: &Timeouts) -> GarbageSchedule {
    let period = timeouts
        .idle
        .map_or(GARBAGE_PERIOD_MAX, |idle| idle.min(GARBAGE_PERIOD_MAX));
    GarbageSchedule {
        period,
        ..GarbageSchedule::default()
    }
}

fn timeouts(arguments: &WatchArguments) -> Timeouts {
    if arguments.whole_flows {
        return Timeouts::NONE;
    }
    let Timeout(idle) = arguments.idle_timeout;
    let Timeout(active) = arguments.active_timeout;
    let Timeout(tcp_close) = arguments.tcp_close;
    Timeouts {
        idle,
        active,
        tcp_close,
    }
}

/// Returns the number of receiving threads of all interfaces.
fn receivers(source: &Source, queues: usize) -> usize {
    match source {
        Source::Files(_) => queues,
        Source::Live(interfaces) => interfaces.len() * queues,
    }
}

/// Returns the capacity of a monitor's ring, in packets.
fn ring(given: Option<u64>) -> Result<usize, String> {
    let packets = given.unwrap_or(RING_DEFAULT);
    usize::try_from(packets)
        .ok()
        .filter(|_| packets <= RING_MAX)
        .ok_or_else(|| format!("--ring {packets}: at most {RING_MAX} packets"))
}

/// Returns the capacity of the table in flows. An uncompressed capture file has no more flows than
/// packets, so a small file needs only a small table.
fn flows_max(requested: u64, source: &Source) -> Result<usize, String> {
    let mut bound = requested;
    if let Source::Files(inputs) = source {
        let sizes: Option<u64> = inputs.iter().map(port::uncompressed_size).sum();
        if let Some(size) = sizes {
            bound = bound.min(size / FILE_BYTES_PER_PACKET).max(1);
        }
    }
    if requested > FLOWS_MAX {
        return Err(format!(
            "--max-flows {requested}: at most {FLOWS_MAX} flows per table; each queue (--queues) and monitor (--monitors) has its own table"
        ));
    }
    usize::try_from(bound).map_err(|error| format!("--max-flows {requested}: {error}"))
}

fn random_seed() -> Result<u64, String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| format!("cannot draw a random seed: {error}; use --seed"))?;
    Ok(u64::from_le_bytes(bytes))
}
