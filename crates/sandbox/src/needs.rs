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
    /// Whether there are network outputs, which connect again and look up names, or a filter with names,
    /// which is compiled for each link type that occurs.
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
        distinct(self.writes.iter().flat_map(|path| match path.is_dir() {
            true => path.canonicalize().into_iter().collect(),
            false => directories(path),
        }))
    }

    /// Returns the directories in which those of [`written_directories`](Self::written_directories) are
    /// created anew after someone removed them: the directories above them, unless much else is in these.
    /// (The kernel knows a directory by its inode, so that a rule for the removed one does not hold for
    /// its successor.)
    pub(crate) fn directories_above(&self) -> Vec<PathBuf> {
        let written = self.written_directories();
        let above = written.iter().filter(|path| path.is_dir());
        let above = above.filter_map(|path| path.parent());
        distinct(above.filter(|path| !is_shared(path)).map(Path::to_owned))
    }
}

/// Returns the directory that holds `path`, and that of the file that a symbolic link names. A device or pipe, or a file in the root or in `/dev`, stands for itself
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
    [named, target]
        .into_iter()
        .flatten()
        .filter(|directory| !is_system(directory))
        .collect()
}

/// Directories that many programs share, so that no rule may cover them for the sake of one in them.
const SHARED: [&str; 18] = [
    "/",
    "/dev",
    "/etc",
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/srv",
    "/tmp",
    "/usr",
    "/var",
    "/var/lib",
    "/var/log",
    "/var/spool",
    "/var/tmp",
];

/// Whether a directory is one of many programs, or the home directory of a user.
fn is_shared(directory: &Path) -> bool {
    let is_home = directory.parent() == Some(Path::new("/home"))
        || std::env::var_os("HOME").is_some_and(|home| directory == Path::new(&home));
    is_home || SHARED.iter().any(|name| directory == Path::new(name))
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
        let outputs = Needs {
            writes: vec![root.join("out"), root.join("in/new")],
            ..Needs::default()
        };
        assert_eq!(
            outputs.written_directories(),
            [root.join("in"), root.join("out")]
        );
        assert_eq!(outputs.directories_above(), std::slice::from_ref(&root));
        let shared = Needs {
            writes: vec!["/tmp/new".into(), "/dev/null".into()],
            ..Needs::default()
        };
        assert!(shared.directories_above().is_empty());
        assert_eq!(of(Path::new("/dev/null")), [PathBuf::from("/dev/null")]);
        assert!(of(Path::new("/new")).is_empty());
    }
}
