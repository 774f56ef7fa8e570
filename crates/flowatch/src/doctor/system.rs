//! Access to /proc and /sys.

use std::fs;
use std::path::{Path, PathBuf};

/// A directory that contains `proc` and `sys`.
pub(crate) struct System {
    root: PathBuf,
}

impl System {
    pub(crate) fn host() -> Self {
        Self::at("/")
    }

    /// Uses another root directory, for tests.
    pub(crate) fn at(root: impl AsRef<Path>) -> Self {
        Self {
            root: root.as_ref().to_owned(),
        }
    }

    /// Returns a file's contents without surrounding white space; `None` if it cannot be read.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.root.join(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Returns the number in a file that contains nothing else.
    pub(crate) fn number(&self, path: &str) -> Option<i64> {
        self.read(path)?.parse().ok()
    }

    /// Returns the names in a directory, sorted.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path))
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Returns the last component of a symbolic link's target.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.root.join(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }
}

/// A temporary directory with made-up files, removed on drop.
#[cfg(test)]
pub(crate) mod fake {
    use super::System;
    use std::fs;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    pub(in crate::doctor) struct FakeSystem {
        root: PathBuf,
    }

    impl FakeSystem {
        pub(in crate::doctor) fn new(files: &[(&str, &str)]) -> Self {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("flowatch-doctor-{}-{number}", std::process::id());
            let tree = Self {
                root: std::env::temp_dir().join(name),
            };
            for (path, text) in files {
                let path = tree.root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            tree
        }

        #[cfg(unix)]
        pub(in crate::doctor) fn with_link(self, path: &str, target: &str) -> Self {
            let path = self.root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(target, path).unwrap();
            self
        }

        pub(in crate::doctor) fn system(&self) -> System {
            System::at(&self.root)
        }
    }

    impl Drop for FakeSystem {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}
