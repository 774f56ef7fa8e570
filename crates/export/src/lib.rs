//! Writes flow records to files and streams; one module per format.
//!
//! [`open`] creates the [`Exporter`] of a [`Spec`]; a writer thread feeds it [`RecordBatch`]es.
//! [`column::COLUMNS`] defines the columns for all formats.

mod address_text;
pub mod anonymise;
pub mod column;
pub mod compat;
mod csv;
mod directory;
mod error;
mod json;
mod lines;
pub mod net;
mod output;
mod parquet;
pub mod rotation;
pub mod target;
pub mod text;
pub mod time_text;

pub use anonymise::{AnonymiseError, Anonymiser};
pub use column::SCHEMA_VERSION;
pub use error::ExportError;
pub use net::{NetCounters, NetLoss, Notices};
pub use output::Compression;
pub use rotation::Rotation;
pub use target::{Format, Spec, SpecError, Target};

use compat::{rrd::Rrd, tstat::Tstat};
use flow::{RecordBatch, Schema};
use lines::{LineExporter, LineFormat};
use net::{Endpoint, LineEncoder};
use std::collections::HashSet;
use std::path::Path;

/// An open output for records.
///
/// Every record ends up in [`written`](Exporter::written), [`lost`](Exporter::lost) or
/// [`left_out`](Exporter::left_out), at the latest after [`finish`](Exporter::finish).
pub trait Exporter: Send {
    /// Takes records. They are buffered, and written when there are enough of them.
    ///
    /// # Errors
    /// Returns the first error. The whole batch is accepted nevertheless: those records that
    /// could not be written are in [`lost`](Exporter::lost), and later calls try again, since space
    /// may become available. After [`ExportError::BrokenPipe`] further calls are pointless.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError>;

    /// Writes buffered records for waiting readers; to be called after some time without records.
    /// Parquet still waits for a complete row group.
    ///
    /// # Errors
    /// As for [`write`](Exporter::write).
    fn flush(&mut self) -> Result<(), ExportError>;

    /// Writes buffered records and completes the output (in Parquet, with the footer). No further
    /// call is allowed.
    ///
    /// # Errors
    /// As for [`write`](Exporter::write); what could not be written now is lost.
    fn finish(&mut self) -> Result<(), ExportError>;

    /// Number of records that readers can get: for line formats, those that the system accepted;
    /// for Parquet, those in complete files.
    fn written(&self) -> u64;

    /// Number of records that were accepted but will never be written.
    fn lost(&self) -> u64;

    /// Number of records that the format does not support (Tstat logs only TCP and UDP): neither
    /// written nor lost.
    fn left_out(&self) -> u64 {
        0
    }

    /// Counters of the connection of a network output.
    fn net_counters(&self) -> Option<NetCounters> {
        None
    }

    /// Messages of a network output about its connection. They come while other calls are running.
    fn notices(&self) -> Option<Notices> {
        None
    }
}

/// Options for all outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    /// Whether to write a Community ID for keys with ports. This costs a SHA-1 per record.
    pub community_id: bool,
    /// The seed of the Community ID; must be the same in all tools whose records are joined.
    pub community_id_seed: u16,
    /// Records per Parquet row group: the unit that readers read, and that is buffered in memory
    /// before it is written.
    pub row_group_records: usize,
    /// Records per file in a directory of Parquet files, rounded up to whole row groups. A file can
    /// be read only when it is complete.
    pub file_records: u64,
    /// When to start a new file, if at all.
    pub rotation: Option<Rotation>,
    /// Whether addresses are anonymised with Crypto-PAn, for formats that record this.
    pub anonymised: bool,
    /// Whether records wait for the receiver of a network output, as when a file is read, or are lost
    /// if its queue is full, as on a live link.
    pub waits: bool,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            community_id: false,
            community_id_seed: 0,
            row_group_records: 64 * 1024,
            file_records: 8 * 1024 * 1024,
            rotation: None,
            anonymised: false,
            waits: true,
        }
    }
}

/// Opens the output of `spec` for records of `schema`.
///
/// # Errors
/// The target cannot be created, or two columns have the same name.
pub fn open(
    spec: &Spec,
    schema: &Schema,
    options: &ExportOptions,
) -> Result<Box<dyn Exporter>, ExportError> {
    reject_duplicate_columns(schema, options)?;
    Ok(match spec.format {
        Format::Json => open_lines(json::Json::new(schema, options), spec, options)?,
        Format::Csv => open_lines(csv::Csv::new(schema, options), spec, options)?,
        Format::Parquet => Box::new(parquet::Parquet::open(&spec.target, schema, options)?),
        Format::Tstat => Box::new(Tstat::open(
            &spec.target,
            spec.compression,
            schema,
            options,
        )?),
        Format::Rrd => Box::new(Rrd::open(&spec.target, spec.step_s, schema)?),
    })
}

/// Opens the output of a line format.
fn open_lines<F: LineFormat + 'static>(
    format: F,
    spec: &Spec,
    options: &ExportOptions,
) -> Result<Box<dyn Exporter>, ExportError> {
    if let Some(endpoint) = receiver(spec, options)? {
        let encoder = |framing| LineEncoder::new(format, framing);
        return Ok(Box::new(net::open(endpoint, options.waits, encoder)?));
    }
    let destination = lines::Destination::new(&spec.target, options.rotation)?;
    Ok(Box::new(LineExporter::open(format, destination)?))
}

/// Checks whether [`open`] would succeed, as far as possible, without truncating an existing file:
/// if one of several outputs fails, none is truncated.
///
/// # Errors
/// As for [`open`].
pub fn check(spec: &Spec, schema: &Schema, options: &ExportOptions) -> Result<(), ExportError> {
    reject_duplicate_columns(schema, options)?;
    let rotation = options.rotation;
    // A receiver may appear later.
    if receiver(spec, options)?.is_some() {
        return Ok(());
    }
    match spec.format {
        Format::Json | Format::Csv => lines::Destination::new(&spec.target, rotation)?.check(),
        Format::Parquet => parquet::check(&spec.target, rotation.is_some()),
        // These create no file before the first record.
        Format::Tstat | Format::Rrd => open(spec, schema, options).map(drop),
    }
}

/// Returns the receiver of a network output.
///
/// # Errors
/// Options of files are set, or the format writes files only.
fn receiver<'a>(
    spec: &'a Spec,
    options: &ExportOptions,
) -> Result<Option<&'a Endpoint>, ExportError> {
    let Some(endpoint) = spec.target.endpoint() else {
        return Ok(None);
    };
    if !matches!(spec.format, Format::Json | Format::Csv) {
        return Err(ExportError::NeedsFile {
            format: spec.format.name(),
        });
    }
    if options.rotation.is_some() {
        return Err(ExportError::CannotRotate {
            target: endpoint.to_string(),
        });
    }
    Ok(Some(endpoint))
}

/// Checks whether a file can be created or overwritten, and leaves it unchanged. `-` is standard
/// output and always passes.
///
/// # Errors
/// The file cannot be created or written.
pub fn check_file(path: &Path) -> Result<(), ExportError> {
    if path == Path::new("-") {
        return Ok(());
    }
    output::check_writable(path)
}

/// Rejects two columns with the same name: readers would pick either.
fn reject_duplicate_columns(schema: &Schema, options: &ExportOptions) -> Result<(), ExportError> {
    let columns = column::columns(schema, options);
    let statistics = schema.statistics.iter().map(|column| column.name.as_str());
    let measures = column::measure::measures(schema);
    let measured = measures.iter().map(column::measure::Measure::name);
    let mut seen = HashSet::new();
    let names = columns.iter().map(|column| column.name);
    for name in names.chain(statistics).chain(measured) {
        if !seen.insert(name) {
            return Err(ExportError::DuplicateColumn {
                name: name.to_owned(),
            });
        }
    }
    Ok(())
}

/// Returns the statistics of the record in `row`; each record has `width` of them.
#[inline(always)]
fn statistics(batch: &RecordBatch, row: usize, width: usize) -> &[f64] {
    let values = batch.values.get(row * width..(row + 1) * width);
    debug_assert!(values.is_some(), "a batch has {width} values per record");
    values.unwrap_or_default()
}
