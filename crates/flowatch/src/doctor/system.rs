//! The one door to /proc and /sys.

use std::fs;
use std::path::{Path, PathBuf};

/// A tree that holds `proc` and `sys`.
pub(super) struct System {
    root: PathBuf,
}

impl System {
    pub(super) fn of_this_machine() -> Self {
        Self::at("/")
    }

    /// A tree elsewhere.
    pub(super) fn at(root: impl AsRef<Path>) -> Self {
        Self {
            root: root.as_ref().to_owned(),
        }
    }

    /// What a file holds, without the white space around it; `None` where it cannot be read.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.root.join(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A file that holds a number and nothing else.
    pub(super) fn number(&self, path: &str) -> Option<i64> {
        self.read(path)?.parse().ok()
    }

    /// The names in a directory, sorted.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
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

    /// The last part of where a symbolic link points.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.root.join(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }
}

/// A made-up tree that goes with the value.
#[cfg(test)]
pub(super) mod made_up {
    use super::System;
    use std::fs;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    pub(in crate::doctor) struct MadeUp {
        root: PathBuf,
    }

    impl MadeUp {
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

    impl Drop for MadeUp {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}
