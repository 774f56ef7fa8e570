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
mod threads;
mod words;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use syn::Item;

use self::finding::Finding;
use self::rust_file::RustFile;
use self::words::Banned;
use crate::workspace;

/// The rules that are switched on one by one. Each of them becomes an error as soon as its switch
/// here is `true`; until then `cargo xtask tidy --report` lists what it finds.
const ENFORCED: [(Rule, bool); 4] = [
    (Rule::Words, true),
    (Rule::Cycles, true),
    (Rule::Functions, true),
    (Rule::Inline, false),
];

#[derive(Clone, Copy, Debug)]
enum Rule {
    /// No word that docs/glossary.md bans.
    Words,
    /// No import cycle between the files of a crate.
    Cycles,
    /// No function of more than 100 lines.
    Functions,
    /// No `inline(always)` without a reason.
    Inline,
}

/// No file of the repository is larger, so that a clone stays small.
const FILE_BYTES_MAX: u64 = 300 << 10;

/// Checks the tree, or only lists what the rules of [`ENFORCED`] find.
pub(crate) fn run(report: bool) -> anyhow::Result<()> {
    let root = workspace::root();
    let files = files(&root)?;
    let mut found = Vec::new();
    let tree = Tree::read(&root, &files, &mut found)?;
    if report {
        return print_report(&tree);
    }
    tree.check(&root, &mut found);
    for (rule, enforced) in ENFORCED {
        if enforced {
            found.extend(tree.check_rule(rule)?);
        }
    }
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

/// Lists the findings of each rule, then counts them by rule and crate.
fn print_report(tree: &Tree) -> anyhow::Result<()> {
    let mut table = String::new();
    for (rule, enforced) in ENFORCED {
        let found = tree.check_rule(rule)?;
        let mut by_crate: BTreeMap<String, usize> = BTreeMap::new();
        for finding in &found {
            println!("{rule:?}: {finding}");
            *by_crate.entry(crate_of(&finding.file)).or_default() += 1;
        }
        let counts: Vec<String> = by_crate
            .iter()
            .map(|(crate_, count)| format!("{crate_} {count}"))
            .collect();
        let state = if enforced { "enforced" } else { "not enforced" };
        table += &format!("{rule:?} ({state}): {}", found.len());
        table += &format!(" = {}\n", counts.join(" + "));
    }
    print!("{table}");
    Ok(())
}

/// The crate of a file, or the directory at the root that it is in.
fn crate_of(file: &Path) -> String {
    let mut parts = file.iter().map(|part| part.to_string_lossy());
    match (parts.next(), parts.next()) {
        (Some(first), Some(second)) if first == "crates" => second.into_owned(),
        (Some(first), Some(_)) => first.into_owned(),
        _ => "root".to_owned(),
    }
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

    /// The rules that always hold.
    fn check(&self, root: &Path, found: &mut Vec<Finding>) {
        for (file, text) in &self.texts {
            found.extend(text::check_name(file));
            found.extend(text::check(file, text));
            match file.extension().and_then(|extension| extension.to_str()) {
                Some("rs") => found.extend(text::check_length(file, text)),
                Some("md") => found.extend(markdown::check(root, file, text)),
                Some("toml") if file.ends_with("Cargo.toml") => {
                    found.extend(dependencies::check(file, text));
                }
                _ => {}
            }
            if let Some(rust) = self.rust.get(file) {
                found.extend(ignored::check(rust));
                found.extend(safety::check(rust));
                let is_program =
                    file.starts_with("crates") && file.iter().any(|part| part == "src");
                if is_program && !self.tests.contains(file) {
                    found.extend(threads::check(rust));
                }
            }
        }
    }

    fn check_rule(&self, rule: Rule) -> anyhow::Result<Vec<Finding>> {
        let rust = self
            .texts
            .iter()
            .filter_map(|(file, _)| self.rust.get(file));
        Ok(match rule {
            Rule::Words => {
                let glossary = self
                    .texts
                    .iter()
                    .find(|(file, _)| file == Path::new(words::GLOSSARY))
                    .with_context(|| format!("no {}", words::GLOSSARY))?;
                let banned = Banned::read(&glossary.1)?;
                self.texts
                    .iter()
                    .filter(|(file, _)| words::applies(file))
                    .flat_map(|(file, text)| words::check(&banned, file, text, self.rust.get(file)))
                    .collect()
            }
            Rule::Cycles => cycles::check(&self.rust),
            Rule::Functions => rust
                .filter(|file| !self.tests.contains(&file.path))
                .flat_map(functions::check)
                .collect(),
            Rule::Inline => rust.flat_map(inline::check).collect(),
        })
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
