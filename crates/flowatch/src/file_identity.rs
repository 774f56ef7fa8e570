//! Compares files by identity rather than name, so that no output overwrites an input or another
//! output.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The name of standard output.
const DASH: &str = "-";

/// Other names of standard output.
const NAMES_OF_STANDARD_OUTPUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Maximum number of symbolic links followed to a missing file; more are a cycle.
const LINKS_MAX: usize = 40;

/// A file's identity: device and inode if it exists, otherwise those of its directory and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    Existing(u64, u64),
    Future(u64, u64, OsString),
}

/// Returns the path, or `-` if it names standard output.
pub(crate) fn normalize(path: &Path) -> PathBuf {
    if is_standard_output(path) {
        DASH.into()
    } else {
        path.to_owned()
    }
}

/// Whether a path names standard output.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path == Path::new(DASH)
        || NAMES_OF_STANDARD_OUTPUT
            .iter()
            .any(|name| path == Path::new(name))
}

/// A file and the flag that names it.
pub(crate) type NamedFile<'a> = (&'a str, &'a Path);

/// Rejects output files that are the same file, or that are also inputs.
///
/// # Errors
/// A one-line message with the file and the flags.
pub(crate) fn check_distinct(
    written: &[NamedFile<'_>],
    read: &[NamedFile<'_>],
) -> Result<(), String> {
    let mut known: Vec<(NamedFile<'_>, Identity)> = Vec::new();
    // The summary goes to standard output even if no flag names it.
    let mut all = written.to_vec();
    if !written.iter().any(|(_, path)| is_standard_output(path)) {
        all.insert(0, ("standard output", Path::new(DASH)));
    }
    for (flag, path) in all {
        let Some(written) = identity(path, 0) else {
            continue;
        };
        if let Some(((other, _), _)) = known.iter().find(|(_, identity)| *identity == written) {
            let path = path.display();
            return Err(if *other == flag {
                format!("{flag}: {path} is named twice")
            } else {
                format!("{flag}: {path} is also written by {other}; name another file")
            });
        }
        let reads = |(_, read): &&NamedFile<'_>| identity(read, 0).as_ref() == Some(&written);
        if let Some((reader, read)) = read.iter().find(reads) {
            return Err(format!(
                "{flag}: {} is an input ({reader}), and writing would destroy it",
                read.display()
            ));
        }
        known.push(((flag, path), written));
    }
    Ok(())
}

/// Returns the identity of the file at a path; `None` for devices, where writing destroys nothing.
fn identity(path: &Path, links: usize) -> Option<Identity> {
    if is_standard_output(path) {
        return existing(&standard_output().ok()?);
    }
    match fs::metadata(path) {
        Ok(found) => existing(&found),
        Err(error) if error.kind() == ErrorKind::NotFound => future(path, links),
        Err(_) => None,
    }
}

fn existing(found: &Metadata) -> Option<Identity> {
    let kind = found.file_type();
    let is_device = kind.is_char_device() || kind.is_block_device();
    (!is_device).then(|| Identity::Existing(found.dev(), found.ino()))
}

fn future(path: &Path, links: usize) -> Option<Identity> {
    let directory = match path.parent()? {
        nothing if nothing == Path::new("") => Path::new("."),
        parent => parent,
    };
    if let Ok(link) = fs::read_link(path) {
        let target = directory.join(link);
        return (links < LINKS_MAX).then(|| identity(&target, links + 1))?;
    }
    let found = fs::metadata(directory).ok()?;
    let name = path.file_name()?.to_owned();
    Some(Identity::Future(found.dev(), found.ino(), name))
}

fn standard_output() -> io::Result<Metadata> {
    let descriptor = io::stdout().as_fd().try_clone_to_owned()?;
    File::from(descriptor).metadata()
}
