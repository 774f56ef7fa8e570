//! What the outputs of all formats have in common.

use crate::error::ExportError;
use crate::net::{NetCounters, Notices};
use flow::RecordBatch;

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

    /// Closes the current file and begins another, because someone asks for it who has moved the file
    /// (SIGHUP of a service). A single file that is still under its name continues. Also flushes.
    ///
    /// # Errors
    /// As for [`write`](Exporter::write).
    fn reopen(&mut self) -> Result<(), ExportError> {
        self.flush()
    }

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
