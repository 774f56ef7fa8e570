//! Flow records out of the program: one file a format.
//!
//! [`open`] makes the [`Exporter`] of a [`Spec`]; it is fed [`RecordBatch`]es on a writer thread.
//! What the columns are is told once, in [`column::COLUMNS`], for all formats.

mod address_text;
pub mod anonymise;
pub mod column;
mod connection;
mod csv;
mod directory;
mod error;
mod json;
mod lines;
mod output;
mod parquet;
pub mod rotation;
mod rrd;
pub mod target;
pub mod text;
pub mod time_text;
pub mod tstat;

pub use anonymise::{AnonymiseError, Anonymiser};
pub use column::SCHEMA_VERSION;
pub use error::ExportError;
pub use output::Compression;
pub use rotation::Rotation;
pub use target::{Format, Spec, SpecError, Target};

use flow::{RecordBatch, Schema};
use std::collections::HashSet;
use std::path::Path;

/// An open output that takes records.
///
/// Every record that it is given ends up in [`written`](Exporter::written) or in
/// [`lost`](Exporter::lost), at the latest when it is finished.
pub trait Exporter: Send {
    /// Takes records. They are gathered, and go out when there are enough of them.
    ///
    /// # Errors
    /// The first fault that was met. All records of the batch have been taken all the same: those
    /// that could not be written are in [`lost`](Exporter::lost), and the next call goes on, as
    /// there may be room again. After [`ExportError::BrokenPipe`] there is no use in going on.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError>;

    /// Sends out what is gathered, for whoever waits at the other end; to be called when no
    /// records have come for a while. Parquet waits for a whole row group nonetheless.
    ///
    /// # Errors
    /// As for [`write`](Exporter::write).
    fn flush(&mut self) -> Result<(), ExportError>;

    /// Sends out what is gathered and completes the output (the footer of Parquet). Nothing may
    /// be written afterwards.
    ///
    /// # Errors
    /// As for [`write`](Exporter::write); what could not be written now is lost.
    fn finish(&mut self) -> Result<(), ExportError>;

    /// Records that a reader of the output gets: for lines those that the system has taken, for
    /// Parquet those in files that are complete.
    fn written(&self) -> u64;

    /// Records that were taken and will never be written.
    fn lost(&self) -> u64;

    /// Records that the format has no place for (Tstat logs TCP and UDP alone): neither written
    /// nor lost.
    fn left_out(&self) -> u64 {
        0
    }
}

/// What can be chosen about outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    /// Whether to write a Community ID, where the key has ports. It costs a SHA-1 a record.
    pub community_id: bool,
    /// The seed of the Community ID; the same in all tools whose records are to be joined.
    pub community_id_seed: u16,
    /// Records in a row group of Parquet: what readers take at a time, and what is gathered in
    /// memory before it is written.
    pub row_group_records: usize,
    /// Records after which a new file is begun in a directory of Parquet files: a file can be read
    /// only when it is complete. A whole row group goes into one file.
    pub file_records: u64,
    /// When a file ends and another begins, if ever.
    pub rotation: Option<Rotation>,
    /// Whether addresses are those of Crypto-PAn, for formats that say so.
    pub anonymised: bool,
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
        }
    }
}

/// Opens the output of `spec` for records of `schema`.
///
/// # Errors
/// The target cannot be made, or two columns have one name.
pub fn open(
    spec: &Spec,
    schema: &Schema,
    options: &ExportOptions,
) -> Result<Box<dyn Exporter>, ExportError> {
    check_names(schema, options)?;
    Ok(match spec.format {
        Format::Json => {
            let place = lines::Place::new(&spec.target, options.rotation)?;
            Box::new(json::Json::open(place, schema, options)?)
        }
        Format::Csv => {
            let place = lines::Place::new(&spec.target, options.rotation)?;
            Box::new(csv::Csv::open(place, schema, options)?)
        }
        Format::Parquet => Box::new(parquet::Parquet::open(&spec.target, schema, options)?),
        Format::Tstat => Box::new(tstat::Tstat::open(
            &spec.target,
            spec.compression,
            schema,
            options,
        )?),
        Format::Rrd => Box::new(rrd::Rrd::open(&spec.target, spec.step_s, schema)?),
    })
}

/// Finds out what would keep [`open`] from opening an output, as far as that can be known, without
/// emptying a file that is there: of several outputs, none is emptied because of a fault of another.
///
/// # Errors
/// As for [`open`].
pub fn check(spec: &Spec, schema: &Schema, options: &ExportOptions) -> Result<(), ExportError> {
    check_names(schema, options)?;
    let rotation = options.rotation;
    match spec.format {
        Format::Json | Format::Csv => lines::Place::new(&spec.target, rotation)?.check(),
        Format::Parquet => parquet::check(&spec.target, rotation.is_some()),
        // They begin no file before the first record.
        Format::Tstat | Format::Rrd => open(spec, schema, options).map(drop),
    }
}

/// Finds out whether a file can be made new, or written over, and leaves it as it is; `-` is standard
/// output, and can.
///
/// # Errors
/// Why it cannot.
pub fn check_file(path: &Path) -> Result<(), ExportError> {
    if path == Path::new("-") {
        return Ok(());
    }
    output::check_file(path)
}

/// Refuses two columns of one name: readers would take either.
fn check_names(schema: &Schema, options: &ExportOptions) -> Result<(), ExportError> {
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

/// The statistics of the record in `row`, of which each record has `width`.
#[inline(always)]
fn statistics(batch: &RecordBatch, row: usize, width: usize) -> &[f64] {
    let values = batch.values.get(row * width..(row + 1) * width);
    debug_assert!(values.is_some(), "a batch has {width} values a record");
    values.unwrap_or_default()
}
