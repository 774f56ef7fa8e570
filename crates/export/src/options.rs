//! The options of outputs.

use crate::rotation::Rotation;

/// What happens to a file that exists already and is not empty. Pipes and devices are always opened,
/// and files with a number or time in their names get new names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExistingFile {
    /// The output is refused.
    #[default]
    Refuse,
    /// Lines are appended, if it begins as the file of this run would.
    Append,
    /// It is replaced.
    Overwrite,
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
    /// What happens to an existing file.
    pub existing: ExistingFile,
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
            existing: ExistingFile::default(),
        }
    }
}
