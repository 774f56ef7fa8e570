//! Writes flow records to files and streams; one module per format.
//!
//! [`open`] creates the [`Exporter`] of a [`Spec`]; a writer thread feeds it
//! [`RecordBatch`](flow::RecordBatch)es.
//! [`column::COLUMNS`] defines the columns for all formats.

pub mod activity;
mod address_text;
pub mod anonymise;
pub mod column;
pub mod compat;
mod csv;
mod directory;
mod error;
mod exporter;
mod file_lock;
mod json;
mod lines;
pub mod net;
mod options;
mod output;
mod parquet;
pub mod printable;
pub mod rotation;
mod storage;
pub mod target;
pub mod text;
pub mod time_text;

pub use anonymise::{AnonymiseError, Anonymiser};
pub use column::SCHEMA_VERSION;
pub use error::ExportError;
pub use exporter::Exporter;
pub use net::{NetCounters, NetLoss, Notices};
pub use options::{ExistingFile, ExportOptions};
pub use output::Compression;
pub use rotation::Rotation;
pub use storage::write_file;
pub use target::{Format, Spec, SpecError, Target};

use compat::{rrd::Rrd, tstat::Tstat};
use flow::Schema;
use lines::{LineExporter, LineFormat};
use net::{Endpoint, LineEncoder};
use std::collections::HashSet;
use std::path::Path;

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
    let destination = lines::Destination::new(&spec.target, options.rotation, options.existing)?;
    Ok(Box::new(LineExporter::open(format, destination)?))
}

/// Checks whether [`open`] would succeed, as far as possible, without truncating an existing file:
/// if one of several outputs fails, none is truncated. Returns how many bytes a file has that will be
/// continued.
///
/// # Errors
/// As for [`open`].
pub fn check(
    spec: &Spec,
    schema: &Schema,
    options: &ExportOptions,
) -> Result<Option<u64>, ExportError> {
    reject_duplicate_columns(schema, options)?;
    let ExportOptions {
        rotation, existing, ..
    } = *options;
    // A receiver may appear later.
    if receiver(spec, options)?.is_some() {
        return Ok(None);
    }
    let lines =
        |start: &[u8]| lines::Destination::new(&spec.target, rotation, existing)?.check(start);
    match spec.format {
        Format::Json => lines(json::Json::new(schema, options).file_start()),
        Format::Csv => lines(csv::Csv::new(schema, options).file_start()),
        Format::Parquet => {
            parquet::check(&spec.target, rotation.is_some(), existing).map(|()| None)
        }
        // These create no file before the first record.
        Format::Tstat | Format::Rrd => open(spec, schema, options).map(|_| None),
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
