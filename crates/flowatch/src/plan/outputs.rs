//! The outputs of records, and how the flags about them combine.

use super::engine::machine_memory;
use super::error::PlanError;
use super::source::Source;
use crate::arguments::WatchArguments;
use crate::arguments::flows::FlowKeyArgument;
use crate::collector::CollectorOptions;
use crate::file_identity;
use export::{AnonymiseError, Anonymiser, ExistingFile, ExportOptions, Format, Spec, Target};
use flow::MeterOptions;
use port::Input;
use std::path::Path;

/// Memory for records to sort, if that of the machine is unknown.
const SORT_BYTES_MAX: u64 = 1 << 30;

/// Where records go, and what happens to them before.
#[derive(Debug)]
pub(crate) struct Outputs {
    pub(crate) specs: Vec<Spec>,
    /// Options for all of them.
    pub(crate) export: ExportOptions,
    /// Options for the thread that writes to them.
    pub(crate) collector: CollectorOptions,
}

/// Checks the flags about outputs: returns the outputs and the anonymiser. Call it before any other
/// file is read: an output that would overwrite the file is a better message than what is wrong in it.
pub(super) fn check(
    arguments: &WatchArguments,
    source: &Source,
) -> Result<(Vec<Spec>, Option<Anonymiser>), PlanError> {
    let flags = &arguments.outputs;
    let specs = specs(&flags.targets)?;
    if (flags.overwrite || flags.append) && specs.is_empty() {
        return Err(
            "--overwrite and --append need an output: add one, such as -o csv:flows.csv".into(),
        );
    }
    if flags.rotate.is_some() && specs.is_empty() {
        return Err("--rotate needs an output file: add one, such as -o csv:flows.csv".into());
    }
    if flags.sort && source.is_live() {
        return Err(
            "--sort with -i: the records of a link would have to be held until it ends; sort the finished file \
             instead, or sort the records of a capture (-r)"
                .into(),
        );
    }
    let anonymiser = anonymiser(arguments)?;
    check_files(source, &specs, arguments)?;
    Ok((specs, anonymiser))
}

/// Returns the options of checked outputs, for the records of `meter`.
pub(super) fn outputs(
    (specs, anonymiser): (Vec<Spec>, Option<Anonymiser>),
    arguments: &WatchArguments,
    meter: &MeterOptions,
    live: bool,
) -> Outputs {
    let flags = &arguments.outputs;
    Outputs {
        specs,
        export: ExportOptions {
            community_id: flags.community_id,
            rotation: flags.rotate,
            anonymised: anonymiser.as_ref().is_some_and(Anonymiser::is_crypto_pan),
            waits: !live,
            existing: existing(flags.overwrite, flags.append, live),
            ..ExportOptions::default()
        },
        collector: CollectorOptions {
            values_per_record: meter.schema().statistics.len(),
            sort: flags.sort,
            sort_bytes_max: machine_memory().map_or(SORT_BYTES_MAX, |memory| memory / 2),
            top: arguments.reports.top as usize,
            anonymiser: anonymiser.map(|it| it.for_flows(meter.flow).with_seed(meter.seed)),
            wait_for_slow_outputs: !live,
        },
    }
}

/// Returns what happens to existing files. A link's records go on after a restart; reading a capture
/// again would count its flows twice.
const fn existing(overwrite: bool, append: bool, live: bool) -> ExistingFile {
    match (overwrite, append || live) {
        (true, _) => ExistingFile::Overwrite,
        (false, true) => ExistingFile::Append,
        (false, false) => ExistingFile::Refuse,
    }
}

/// Opens the anonymiser, if one is requested.
fn anonymiser(arguments: &WatchArguments) -> Result<Option<Anonymiser>, PlanError> {
    let Some(spec) = &arguments.outputs.anonymise else {
        return Ok(None);
    };
    if arguments.flows.flow == Some(FlowKeyArgument::Rss) {
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

/// Parses the outputs, and rejects two with the same target.
fn specs(texts: &[String]) -> Result<Vec<Spec>, String> {
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
        .outputs
        .anonymise
        .as_deref()
        .and_then(Anonymiser::key_file);
    let applications = arguments.flows.applications.as_deref();
    let read: Vec<file_identity::NamedFile<'_>> = captures
        .chain(key.map(|path| ("--anonymise", path)))
        .chain(applications.map(|path| ("--applications", path)))
        .collect();
    file_identity::check_distinct(&written, &read)
}
