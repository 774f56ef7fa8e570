//! Which file a name stands for, however it is spelt, so that nothing is written over that is read,
//! or written by another.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Standard output.
const DASH: &str = "-";

/// Other names of it.
const NAMES_OF_STANDARD_OUTPUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Symbolic links that are followed to a file that is not there: more are a circle.
const LINKS_MAX: usize = 40;

/// A file: by device and inode if it is there, else by its name in the directory where it will be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    There(u64, u64),
    ToCome(u64, u64, OsString),
}

/// A path as the rest of the program knows it: standard output is `-`, by whatever name.
pub(crate) fn named(path: &Path) -> PathBuf {
    if is_standard_output(path) {
        DASH.into()
    } else {
        path.to_owned()
    }
}

/// Whether a path is a name of standard output.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path == Path::new(DASH)
        || NAMES_OF_STANDARD_OUTPUT
            .iter()
            .any(|name| path == Path::new(name))
}

/// A file with the flag that names it.
pub(crate) type Named<'a> = (&'a str, &'a Path);

/// Refuses files to write that are one, or that are read.
///
/// # Errors
/// One line that says which.
pub(crate) fn check(written: &[Named<'_>], read: &[Named<'_>]) -> Result<(), String> {
    let mut known: Vec<(Named<'_>, Identity)> = Vec::new();
    // What is said goes there, whoever names it or not.
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
                format!("{flag}: {path} is written to by {other} too; name another file")
            });
        }
        let reads = |(_, read): &&Named<'_>| identity(read, 0).as_ref() == Some(&written);
        if let Some((reader, read)) = read.iter().find(reads) {
            return Err(format!(
                "{flag}: {} is read ({reader}): writing would destroy it",
                read.display()
            ));
        }
        known.push(((flag, path), written));
    }
    Ok(())
}

/// What a name stands for; nothing for devices, on which nothing is written over.
fn identity(path: &Path, links: usize) -> Option<Identity> {
    if is_standard_output(path) {
        return there(&standard_output().ok()?);
    }
    match fs::metadata(path) {
        Ok(found) => there(&found),
        Err(error) if error.kind() == ErrorKind::NotFound => to_come(path, links),
        Err(_) => None,
    }
}

fn there(found: &Metadata) -> Option<Identity> {
    let kind = found.file_type();
    let is_device = kind.is_char_device() || kind.is_block_device();
    (!is_device).then(|| Identity::There(found.dev(), found.ino()))
}

fn to_come(path: &Path, links: usize) -> Option<Identity> {
    let directory = match path.parent()? {
        nothing if nothing == Path::new("") => Path::new("."),
        parent => parent,
    };
    if let Ok(link) = fs::read_link(path) {
        let end = directory.join(link);
        return (links < LINKS_MAX).then(|| identity(&end, links + 1))?;
    }
    let found = fs::metadata(directory).ok()?;
    let name = path.file_name()?.to_owned();
    Some(Identity::ToCome(found.dev(), found.ino(), name))
}

fn standard_output() -> io::Result<Metadata> {
    let descriptor = io::stdout().as_fd().try_clone_to_owned()?;
    File::from(descriptor).metadata()
}
