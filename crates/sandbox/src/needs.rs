//! What a run still does after its inputs and outputs are open.

use std::path::{Path, PathBuf};

/// What a run still needs.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// Files that are read. Later ones of their directories may be, too.
    pub reads: Vec<PathBuf>,
    /// Files and directories that are written, and created anew: by rotation, and after they were moved
    /// or removed.
    pub writes: Vec<PathBuf>,
    /// TCP ports that are connected to.
    pub tcp_ports: Vec<u16>,
    /// Whether there are network outputs: they connect again, and look up names.
    pub network: bool,
    /// Whether threads get a real-time policy when they start.
    pub real_time: bool,
    /// Whether DPDK runs: its drivers load libraries, and use sockets and shared memory.
    pub dpdk: bool,
}

impl Needs {
    /// Whether libraries may be loaded: for name services, and for drivers of DPDK.
    pub(crate) const fn loads_libraries(&self) -> bool {
        self.network || self.dpdk
    }

    /// Returns the directories that are read, and files whose directory is the root.
    pub(crate) fn read_directories(&self) -> Vec<PathBuf> {
        distinct(self.reads.iter().flat_map(|path| directories(path)))
    }

    /// Returns the directories in which files are created, and files that are not regular.
    pub(crate) fn written_directories(&self) -> Vec<PathBuf> {
        distinct(self.writes.iter().flat_map(|path| directories(path)))
    }
}

/// Returns the directory that holds `path`, that of the file that a symbolic link names, and `path`
/// itself if it is a directory. A device or pipe, or a file in the root or in `/dev`, stands for itself
/// only: its directory has much else.
fn directories(path: &Path) -> Vec<PathBuf> {
    let existing = path.canonicalize().ok();
    if let Some(existing) = &existing {
        let is_special = !existing.is_file() && !existing.is_dir();
        if is_special || existing.parent().is_none_or(is_system) {
            return vec![existing.clone()];
        }
    }
    let parent = match path.parent() {
        Some(parent) if parent == Path::new("") => Path::new("."),
        Some(parent) => parent,
        None => path,
    };
    let named = parent.canonicalize().ok();
    let target = existing
        .as_ref()
        .and_then(|path| path.parent())
        .map(Path::to_owned);
    let itself = existing.filter(|path| path.is_dir());
    [named, target, itself]
        .into_iter()
        .flatten()
        .filter(|directory| !is_system(directory))
        .collect()
}

fn is_system(directory: &Path) -> bool {
    ["/", "/dev", "/proc"]
        .iter()
        .any(|name| directory == Path::new(name))
}

fn distinct(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stand_for_their_directories_and_devices_for_themselves() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("out")).unwrap();
        std::fs::create_dir(root.join("in")).unwrap();
        std::fs::write(root.join("in/a"), "").unwrap();
        std::os::unix::fs::symlink(root.join("in/a"), root.join("link")).unwrap();
        let of = |path: &Path| distinct(directories(path).into_iter());
        assert_eq!(of(&root.join("new")), std::slice::from_ref(&root));
        assert_eq!(of(&root.join("in/a")), [root.join("in")]);
        assert_eq!(of(&root.join("link")), [root.clone(), root.join("in")]);
        assert_eq!(of(&root.join("out")), [root.clone(), root.join("out")]);
        assert_eq!(of(Path::new("/dev/null")), [PathBuf::from("/dev/null")]);
        assert_eq!(of(Path::new("/new")), [PathBuf::new(); 0]);
    }
}
