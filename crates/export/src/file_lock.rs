//! Locks on output files: two processes that write to one file would destroy each other's records.

use crate::error::ExportError;
use std::fs::{self, File, TryLockError};
use std::path::Path;

/// Locks `file`, opened at `path`, until it is closed. Pipes and devices are not locked, nor are files on
/// file systems without locks.
///
/// # Errors
/// [`ExportError::InUse`] if another process holds the lock.
pub(crate) fn lock(file: &File, path: &Path) -> Result<(), ExportError> {
    let found = file.metadata();
    if !found.is_ok_and(|found| found.is_file() || found.is_dir()) {
        return Ok(());
    }
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(ExportError::InUse {
            target: path.display().to_string(),
            holder: holder(file),
        }),
        _ => Ok(()),
    }
}

/// Returns the name and number of the process that holds the lock, if the kernel shows it.
fn holder(file: &File) -> String {
    let process = inode(file).and_then(|inode| {
        let locks = fs::read_to_string("/proc/locks").ok()?;
        let lock = locks.lines().map(|line| line.split_whitespace());
        lock.filter_map(|mut fields| {
            let (kind, process) = (fields.nth(1)?, fields.nth(2)?);
            let named = fields.next()?.rsplit(':').next()?;
            (kind == "FLOCK" && named == inode).then(|| process.to_owned())
        })
        .next()
    });
    let Some(process) = process else {
        return "another process".to_owned();
    };
    match fs::read_to_string(format!("/proc/{process}/comm")) {
        Ok(name) => format!("{} (process {process})", name.trim()),
        Err(_) => format!("process {process}"),
    }
}

#[cfg(unix)]
fn inode(file: &File) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    Some(file.metadata().ok()?.ino().to_string())
}

#[cfg(not(unix))]
fn inode(_: &File) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_writer_is_refused_and_the_first_one_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flows.csv");
        let open = || File::options().append(true).create(true).open(&path);
        let first = open().unwrap();
        lock(&first, &path).unwrap();
        let error = lock(&open().unwrap(), &path).unwrap_err().to_string();
        let own = format!("(process {})", std::process::id());
        assert!(
            error.contains("flows.csv") && error.contains(&own),
            "{error}"
        );
        drop(first);
        lock(&open().unwrap(), &path).unwrap();
        // A device is not locked.
        let null = File::options().write(true).open("/dev/null").unwrap();
        lock(&null, Path::new("/dev/null")).unwrap();
    }
}
