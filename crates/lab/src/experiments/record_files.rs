//! Files that records are written to while a trial runs.

use crate::monitor::Monitor;
use crate::trial::TrialError;
use export::{ExportOptions, Exporter, Rotation, Spec};
use flow::RecordBatch;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Record files in a temporary directory, which is removed on drop.
pub(super) struct RecordFiles {
    directory: PathBuf,
    exporters: Vec<Box<dyn Exporter>>,
    /// The first error of writing.
    error: Option<String>,
}

impl RecordFiles {
    /// Opens outputs for the records of `monitor`, each a format and a file name, as `csv:records.csv`.
    pub(super) fn new(
        monitor: &Monitor,
        outputs: &[&str],
        rotation: Option<Rotation>,
    ) -> Result<Self, TrialError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("flowatch-lab-{}-{number}", std::process::id());
        let mut files = Self {
            directory: std::env::temp_dir().join(name),
            exporters: Vec::new(),
            error: None,
        };
        std::fs::create_dir_all(&files.directory).map_err(TrialError::missing)?;
        let schema = monitor.options.meter.schema();
        let options = ExportOptions {
            rotation,
            ..ExportOptions::default()
        };
        for output in outputs {
            let (format, name) = output.split_once(':').unwrap_or((output, "records"));
            let path = files.directory.join(name);
            let spec: Spec = format!("{format}:{}", path.display())
                .parse()
                .map_err(TrialError::missing)?;
            let exporter = export::open(&spec, &schema, &options).map_err(TrialError::missing)?;
            files.exporters.push(exporter);
        }
        Ok(files)
    }

    /// Writes a batch to all outputs; [`RecordFiles::finish`] returns the first error.
    pub(super) fn write(&mut self, batch: &RecordBatch) {
        for exporter in &mut self.exporters {
            if let Err(error) = exporter.write(batch) {
                self.error.get_or_insert_with(|| error.to_string());
            }
        }
    }

    /// Completes the files; returns the records of the first output and the number of all files.
    pub(super) fn finish(mut self) -> Result<(u64, usize), TrialError> {
        for exporter in &mut self.exporters {
            exporter.finish().map_err(TrialError::missing)?;
        }
        if let Some(error) = self.error.take() {
            return Err(TrialError::missing(error));
        }
        let records = self.exporters.first().map_or(0, |first| first.written());
        Ok((records, count_files(&self.directory)))
    }
}

/// Counts the files in a directory and its subdirectories.
fn count_files(directory: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return 1;
    };
    entries
        .flatten()
        .map(|entry| count_files(&entry.path()))
        .sum()
}

impl Drop for RecordFiles {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
