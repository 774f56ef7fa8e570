//! What happens to a file that exists before the run: it is refused, continued or replaced, and never
//! erased unless that was asked for.

use crate::error::ExportError;
use crate::options::ExistingFile;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// The longest incomplete last line that is cut off. The file of another program is not touched.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Checks whether the file at `path`, if it exists and is not empty, may be opened, and leaves it
/// unchanged. `start` is how a file begins that can be continued, unless none can. Returns how many
/// bytes a file has that will be continued.
///
/// # Errors
/// The file may neither be continued nor replaced.
pub(crate) fn check(
    path: &Path,
    existing: ExistingFile,
    start: Option<&[u8]>,
) -> Result<Option<u64>, ExportError> {
    let is_used = fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0);
    if !is_used {
        return Ok(None);
    }
    match existing {
        ExistingFile::Overwrite => Ok(None),
        ExistingFile::Refuse => Err(ExportError::Exists {
            target: path.display().to_string(),
        }),
        ExistingFile::Append => match start {
            Some(start) => continued_bytes(path, start).map(Some),
            None => Err(ExportError::CannotContinue {
                target: path.display().to_string(),
            }),
        },
    }
}

/// Empties the open file, or cuts off an incomplete last line: that of a run that was killed would
/// spoil the first new one.
///
/// # Errors
/// As for [`check`]: another program may have created the file since then.
pub(super) fn prepare(
    path: &Path,
    file: &File,
    existing: ExistingFile,
    start: &[u8],
) -> Result<(), ExportError> {
    if existing == ExistingFile::Overwrite {
        return file.set_len(0).map_err(|error| io_error(path, error));
    }
    // A format without a start cannot be continued.
    let start = Some(start).filter(|start| !start.is_empty());
    match check(path, existing, start)? {
        Some(length) => file.set_len(length).map_err(|error| io_error(path, error)),
        None => Ok(()),
    }
}

/// Returns the length of the whole lines in a file that begins with `start`.
fn continued_bytes(path: &Path, start: &[u8]) -> Result<u64, ExportError> {
    let other = || ExportError::OtherContents {
        target: path.display().to_string(),
    };
    let found = (|| {
        let mut file = File::open(path)?;
        let mut begin = Vec::new();
        Read::by_ref(&mut file)
            .take(start.len() as u64)
            .read_to_end(&mut begin)?;
        let length = file.metadata()?.len();
        let from = length.saturating_sub(LINE_BYTES_MAX);
        file.seek(SeekFrom::Start(from))?;
        let mut tail = Vec::new();
        file.take(LINE_BYTES_MAX).read_to_end(&mut tail)?;
        let end = tail.iter().rposition(|&byte| byte == b'\n');
        // A file without a whole line is empty, unless it is another program's.
        let length = end.map(|at| from + at as u64 + 1);
        Ok((begin == start, length.or((from == 0).then_some(0))))
    })();
    match found.map_err(|error| io_error(path, error))? {
        (true, Some(length)) => Ok(length),
        _ => Err(other()),
    }
}

fn io_error(path: &Path, error: io::Error) -> ExportError {
    ExportError::from_io(&path.display().to_string(), error)
}
