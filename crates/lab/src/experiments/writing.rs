//! Records written to files while a trial runs.

use crate::monitor::Monitor;
use crate::trial::TrialError;
use export::{ExportOptions, Exporter, Rotation, Spec};
use flow::RecordBatch;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Outputs in a directory of their own, which goes when it is done with.
pub(super) struct Writing {
    directory: PathBuf,
    exporters: Vec<Box<dyn Exporter>>,
    fault: Option<String>,
}

impl Writing {
    /// Outputs of the records of `monitor`, each a format and a name as in `csv:records.csv`.
    pub(super) fn new(
        monitor: &Monitor,
        outputs: &[&str],
        rotation: Option<Rotation>,
    ) -> Result<Self, TrialError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("flowatch-lab-{}-{number}", std::process::id());
        let mut writing = Self {
            directory: std::env::temp_dir().join(name),
            exporters: Vec::new(),
            fault: None,
        };
        std::fs::create_dir_all(&writing.directory).map_err(TrialError::missing)?;
        let schema = monitor.options.meter.schema();
        let options = ExportOptions {
            rotation,
            ..ExportOptions::default()
        };
        for output in outputs {
            let (format, name) = output.split_once(':').unwrap_or((output, "records"));
            let path = writing.directory.join(name);
            let spec: Spec = format!("{format}:{}", path.display())
                .parse()
                .map_err(TrialError::missing)?;
            let exporter = export::open(&spec, &schema, &options).map_err(TrialError::missing)?;
            writing.exporters.push(exporter);
        }
        Ok(writing)
    }

    /// Writes a batch to all outputs.
    pub(super) fn take(&mut self, batch: &RecordBatch) {
        for exporter in &mut self.exporters {
            if let Err(error) = exporter.write(batch) {
                self.fault.get_or_insert_with(|| error.to_string());
            }
        }
    }

    /// Completes the files: records in the first output, and files of all.
    pub(super) fn finish(mut self) -> Result<(u64, usize), TrialError> {
        for exporter in &mut self.exporters {
            exporter.finish().map_err(TrialError::missing)?;
        }
        if let Some(fault) = self.fault.take() {
            return Err(TrialError::missing(fault));
        }
        let records = self.exporters.first().map_or(0, |first| first.written());
        Ok((records, files(&self.directory)))
    }
}

/// Files in a directory and in those below it.
fn files(directory: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return 1;
    };
    entries.flatten().map(|entry| files(&entry.path())).sum()
}

impl Drop for Writing {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
