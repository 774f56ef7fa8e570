//! `cargo xtask tidy`: the rules of this repository that no compiler or linter checks.

mod cycles;
mod dependencies;
mod finding;
mod functions;
mod ignored;
mod inline;
mod markdown;
mod rust_file;
mod safety;
mod text;
mod words;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use syn::Item;

use self::finding::Finding;
use self::rust_file::RustFile;
use self::words::Banned;
use crate::workspace;

/// No file of the repository is larger, so that a clone stays small.
const FILE_BYTES_MAX: u64 = 300 << 10;

/// Checks the tree and prints what it finds.
pub(crate) fn run() -> anyhow::Result<()> {
    let root = workspace::root();
    let files = files(&root)?;
    let mut found = Vec::new();
    let tree = Tree::read(&root, &files, &mut found)?;
    tree.check(&root, &mut found)?;
    for finding in &found {
        println!("{finding}");
    }
    let errors = found.iter().filter(|finding| !finding.warning).count();
    println!(
        "tidy: {} files, {errors} errors, {} warnings",
        files.len(),
        found.len() - errors
    );
    ensure!(errors == 0, "the tree is not tidy");
    Ok(())
}

/// The text files of the repository.
struct Tree {
    texts: Vec<(PathBuf, String)>,
    rust: HashMap<PathBuf, RustFile>,
    /// Rust files that are compiled for tests only.
    tests: HashSet<PathBuf>,
}

impl Tree {
    /// Reads `files`; those that are too large or no Rust are reported to `found`.
    fn read(root: &Path, files: &[PathBuf], found: &mut Vec<Finding>) -> anyhow::Result<Self> {
        let mut tree = Self {
            texts: Vec::new(),
            rust: HashMap::new(),
            tests: HashSet::new(),
        };
        for file in files {
            let path = root.join(file);
            let bytes = fs::metadata(&path)
                .with_context(|| path.display().to_string())?
                .len();
            if bytes > FILE_BYTES_MAX {
                let message = format!("{bytes} bytes; {FILE_BYTES_MAX} is the maximum");
                found.push(Finding::new(file, 0, message));
                continue;
            }
            let content = fs::read(&path).with_context(|| path.display().to_string())?;
            // Binary files have no lines to check.
            let Ok(text) = String::from_utf8(content) else {
                found.extend(text::check_name(file));
                continue;
            };
            if file.extension().is_some_and(|extension| extension == "rs") {
                match RustFile::parse(file, &text) {
                    Ok(parsed) => {
                        tree.rust.insert(file.clone(), parsed);
                    }
                    Err(error) => {
                        let line = error.span().start().line;
                        found.push(Finding::new(file, line, error.to_string()));
                    }
                }
            }
            tree.texts.push((file.clone(), text));
        }
        tree.tests = test_files(&tree.rust);
        Ok(tree)
    }

    fn check(&self, root: &Path, found: &mut Vec<Finding>) -> anyhow::Result<()> {
        let banned = self.banned_words()?;
        for (file, text) in &self.texts {
            let rust = self.rust.get(file);
            found.extend(text::check_name(file));
            found.extend(text::check(file, text));
            if words::applies(file) {
                found.extend(words::check(&banned, file, text, rust));
            }
            match file.extension().and_then(|extension| extension.to_str()) {
                Some("rs") => found.extend(text::check_length(file, text)),
                Some("md") => found.extend(markdown::check(root, file, text)),
                Some("toml") if file.ends_with("Cargo.toml") => {
                    found.extend(dependencies::check(file, text));
                }
                _ => {}
            }
            if let Some(rust) = rust {
                found.extend(ignored::check(rust));
                found.extend(inline::check(rust));
                found.extend(safety::check(rust));
                if !self.tests.contains(file) {
                    found.extend(functions::check(rust));
                }
            }
        }
        found.extend(cycles::check(&self.rust));
        Ok(())
    }

    /// The words that the glossary bans.
    fn banned_words(&self) -> anyhow::Result<Banned> {
        let glossary = self
            .texts
            .iter()
            .find(|(file, _)| file == Path::new(words::GLOSSARY))
            .with_context(|| format!("no {}", words::GLOSSARY))?;
        Banned::read(&glossary.1)
    }
}

/// The files that are test code by their paths, or because only test code declares them as modules.
fn test_files(files: &HashMap<PathBuf, RustFile>) -> HashSet<PathBuf> {
    let mut tests: HashSet<PathBuf> = files
        .keys()
        .filter(|path| rust_file::is_test_path(path))
        .cloned()
        .collect();
    let mut waiting: Vec<PathBuf> = tests.iter().cloned().collect();
    let mut declared = |file: &RustFile, only_tests: bool| {
        let modules = file.syntax.items.iter().filter_map(|item| match item {
            Item::Mod(module) if module.content.is_none() => Some(module),
            _ => None,
        });
        modules
            .filter(|module| !only_tests || rust_file::is_test(&module.attrs))
            .flat_map(|module| rust_file::module_files(&file.path, &[], module))
            .filter(|path| files.contains_key(path) && tests.insert(path.clone()))
            .collect::<Vec<_>>()
    };
    for file in files.values() {
        waiting.extend(declared(file, true));
    }
    while let Some(path) = waiting.pop() {
        waiting.extend(declared(&files[&path], false));
    }
    tests
}

/// Every file that git tracks or would add, relative to `root`.
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
        let listed = String::from_utf8(listed).context("a file name is not UTF-8")?;
        files.extend(listed.split_terminator('\0').map(PathBuf::from));
    } else {
        walk(root, Path::new(""), &mut files)?;
    }
    // git also lists files that were deleted since the last commit.
    files.retain(|file| root.join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

/// Lists the files without git, as in an unpacked archive.
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
