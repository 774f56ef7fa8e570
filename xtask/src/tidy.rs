//! `cargo xtask tidy`: rules of the house that compilers do not check.

mod dependencies;
mod markdown;
mod rust_source;
mod text;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::workspace;

/// No file of the repository is larger, so that a clone stays small.
const FILE_BYTES_MAX: u64 = 300 << 10;

/// Something that a rule objects to.
#[derive(Debug, PartialEq)]
struct Finding {
    /// Relative to the root.
    file: PathBuf,
    /// From 1; 0 when the whole file is meant.
    line: usize,
    message: String,
    /// A warning is told, but lets the check pass.
    warning: bool,
}

impl Finding {
    fn new(file: &Path, line: usize, message: impl Into<String>) -> Self {
        Self {
            file: file.to_path_buf(),
            line,
            message: message.into(),
            warning: false,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.warning { "warning: " } else { "" };
        let file = self.file.display();
        match self.line {
            0 => write!(f, "{file}: {kind}{}", self.message),
            line => write!(f, "{file}:{line}: {kind}{}", self.message),
        }
    }
}

pub(crate) fn run() -> anyhow::Result<()> {
    let root = workspace::root();
    let files = files(&root)?;
    let findings = findings(&root, &files)?;
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| !finding.warning).count();
    println!(
        "tidy: {} files, {errors} errors, {} warnings",
        files.len(),
        findings.len() - errors
    );
    if errors > 0 {
        bail!("the tree is not tidy");
    }
    Ok(())
}

fn findings(root: &Path, files: &[PathBuf]) -> anyhow::Result<Vec<Finding>> {
    let mut found = Vec::new();
    for file in files {
        let path = root.join(file);
        found.extend(text::check_name(file));
        let bytes = fs::metadata(&path)
            .with_context(|| path.display().to_string())?
            .len();
        if bytes > FILE_BYTES_MAX {
            let message = format!("{bytes} bytes; {FILE_BYTES_MAX} is the most for a file");
            found.push(Finding::new(file, 0, message));
            continue;
        }
        // What is not text has no lines to check.
        let content = fs::read(&path).with_context(|| path.display().to_string())?;
        let Ok(content) = String::from_utf8(content) else {
            continue;
        };
        found.extend(text::check(file, &content));
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => found.extend(rust_source::check(file, &content)),
            Some("md") => found.extend(markdown::check(root, file, &content)),
            Some("toml") if file.ends_with("Cargo.toml") => {
                found.extend(dependencies::check(file, &content));
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Every file that is committed or about to be, relative to `root`.
fn files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if root.join(".git").exists() {
        let listed = workspace::output(workspace::command(
            "git",
            &[
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ],
        ))?;
        let listed = String::from_utf8(listed).context("a file name that is not UTF-8")?;
        files.extend(listed.split_terminator('\0').map(PathBuf::from));
    } else {
        walk(root, Path::new(""), &mut files)?;
    }
    // A file that git still lists may be deleted already.
    files.retain(|file| root.join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

/// The files of an unpacked archive, which has no list of them.
fn walk(root: &Path, directory: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(root.join(directory))? {
        let entry = entry?;
        let path = directory.join(entry.file_name());
        if !entry.file_type()?.is_dir() {
            files.push(path);
        } else if !["target", "corpus", "artifacts"]
            .contains(&&*entry.file_name().to_string_lossy())
        {
            walk(root, &path, files)?;
        }
    }
    Ok(())
}
