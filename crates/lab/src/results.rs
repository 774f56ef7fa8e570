//! Result files: an experiment's outcome as JSON, its tables as CSV, its plots as SVG. The report reads the
//! JSON files.

use crate::experiments;
use crate::outcome::Outcome;
use crate::plot;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why results cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// A file cannot be read, or a directory not created.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file is not an outcome of this version.
    #[error("{path} holds no results of this version: {error}; run the experiment again")]
    Content {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        error: serde_json::Error,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] export::ExportError),
    /// A plot cannot be drawn.
    #[error(transparent)]
    Plot(#[from] plot::DrawError),
    /// The directory has no results.
    #[error("{path} has no results: run experiments first (flowatch lab run all --short)")]
    Nothing {
        /// The directory.
        path: PathBuf,
    },
}

/// Writes the files of an outcome to `directory`, which is created if missing; returns their paths.
///
/// # Errors
/// When a file cannot be written, or a plot not drawn.
pub fn write(directory: &Path, outcome: &Outcome) -> Result<Vec<PathBuf>, ResultsError> {
    fs::create_dir_all(directory).map_err(|error| file_error(directory, error))?;
    let mut written = Vec::new();
    let mut write_file = |name: String, content: &str| {
        let path = directory.join(name);
        export::write_file(&path, content.as_bytes())?;
        written.push(path);
        Ok::<(), ResultsError>(())
    };
    let origin = outcome.origin();
    for table in &outcome.tables {
        write_file(
            format!("{}-{}.csv", outcome.name, table.name),
            &table.csv(&origin),
        )?;
    }
    for figure in &outcome.figures {
        write_file(
            format!("{}-{}.svg", outcome.name, figure.name),
            &with_origin(&plot::svg(figure)?, &origin),
        )?;
    }
    let path = directory.join(format!("{}.json", outcome.name));
    let json = serde_json::to_string_pretty(outcome).map_err(|error| ResultsError::Content {
        path: path.clone(),
        error,
    })?;
    write_file(format!("{}.json", outcome.name), &json)?;
    Ok(written)
}

/// Adds the provenance to a plot, as its description.
fn with_origin(svg: &str, origin: &[(String, String)]) -> String {
    let Some((start, rest)) = svg.split_once('>') else {
        return svg.to_owned();
    };
    let lines: Vec<String> = origin
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let text = lines.join("\n");
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    format!("{start}>\n<desc>{text}</desc>{rest}")
}

/// Reads the outcomes in `directory`, in the order of the report.
///
/// # Errors
/// When a file cannot be read, or there is none.
pub fn read(directory: &Path) -> Result<Vec<Outcome>, ResultsError> {
    let mut outcomes = Vec::new();
    for entry in experiments::ALL {
        let path = directory.join(format!("{}.json", entry.name));
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(file_error(&path, error)),
        };
        outcomes.push(
            serde_json::from_str(&text).map_err(|error| ResultsError::Content { path, error })?,
        );
    }
    if outcomes.is_empty() {
        return Err(ResultsError::Nothing {
            path: directory.to_owned(),
        });
    }
    Ok(outcomes)
}

fn file_error(path: &Path, error: io::Error) -> ResultsError {
    ResultsError::File {
        path: path.to_owned(),
        error,
    }
}
