//! Rule: the files of a crate import each other without a cycle, so that each can be read, tested
//! and moved after those that it uses. Test code is exempt.
//!
//! A file imports another if it names an item that the other defines, in a `use` or in a path;
//! re-exports are followed to the definition. A module that imports from its child, while the
//! child uses what the parent defines, is a cycle of two.

mod imports;
mod modules;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use self::imports::Imports;
use self::modules::Modules;
use super::finding::Finding;
use super::rust_file::{RustFile, is_crate_root, is_test_path};

/// Finds the shortest cycle of each set of files that import each other.
pub(super) fn check(files: &HashMap<PathBuf, RustFile>) -> Vec<Finding> {
    let mut imports = Imports::new();
    let mut roots: Vec<&RustFile> = files
        .values()
        .filter(|file| is_crate_root(&file.path) && !is_test_path(&file.path))
        .collect();
    roots.sort_unstable_by_key(|file| &file.path);
    for root in roots {
        imports::collect(&Modules::of_crate(root, files), &mut imports);
    }
    circles(&imports)
        .iter()
        .filter_map(|circle| {
            Some(finding(
                circle,
                &shortest_cycle(circle, &imports)?,
                &imports,
            ))
        })
        .collect()
}

/// The files that each file reaches by its imports, itself only by a cycle.
fn reached<'a>(from: &'a Path, imports: &Imports<'a>) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(file) = waiting.pop() {
        for &next in imports.get(file).into_iter().flat_map(|to| to.keys()) {
            if reached.insert(next) {
                waiting.push(next);
            }
        }
    }
    reached
}

/// The largest sets of files that all reach each other.
fn circles<'a>(imports: &Imports<'a>) -> Vec<BTreeSet<&'a Path>> {
    let reached: HashMap<&Path, BTreeSet<&Path>> = imports
        .keys()
        .map(|&file| (file, reached(file, imports)))
        .collect();
    let mut circles: Vec<BTreeSet<&Path>> = Vec::new();
    for &file in imports.keys() {
        let is_in_one = circles.iter().any(|circle| circle.contains(file));
        if !is_in_one && reached[file].contains(file) {
            let mutual = |other: &&Path| reached.get(other).is_some_and(|to| to.contains(file));
            circles.push(reached[file].iter().copied().filter(mutual).collect());
        }
    }
    circles
}

fn shortest_cycle<'a>(circle: &BTreeSet<&'a Path>, imports: &Imports<'a>) -> Option<Vec<&'a Path>> {
    circle
        .iter()
        .filter_map(|start| shortest_cycle_through(start, imports))
        .min_by_key(Vec::len)
}

/// The files of a shortest cycle, which begins with `start`.
fn shortest_cycle_through<'a>(start: &'a Path, imports: &Imports<'a>) -> Option<Vec<&'a Path>> {
    let mut importer: HashMap<&Path, &Path> = HashMap::new();
    let mut waiting = VecDeque::from([start]);
    while let Some(file) = waiting.pop_front() {
        for &next in imports.get(file).into_iter().flat_map(|to| to.keys()) {
            if next == start {
                let mut cycle = vec![file];
                while let Some(&before) = importer.get(cycle[cycle.len() - 1]) {
                    cycle.push(before);
                }
                cycle.reverse();
                return Some(cycle);
            }
            importer.entry(next).or_insert_with(|| {
                waiting.push_back(next);
                file
            });
        }
    }
    None
}

fn finding(circle: &BTreeSet<&Path>, cycle: &[&Path], imports: &Imports<'_>) -> Finding {
    let next = cycle.iter().skip(1).chain(&cycle[..1]);
    let steps: Vec<_> = cycle
        .iter()
        .zip(next)
        .map(|(from, to)| (from, to, &imports[from][to]))
        .collect();
    let mut message = format!("an import cycle, of {} files:", circle.len());
    for (from, to, import) in &steps {
        let (from, to) = (from.display(), to.display());
        let _ = write!(
            message,
            "\n    {from}:{}: `{}` is defined in {to}",
            import.line, import.path
        );
    }
    let others: Vec<String> = circle
        .iter()
        .filter(|file| !cycle.contains(file))
        .map(|file| file.display().to_string())
        .collect();
    if !others.is_empty() {
        let _ = write!(message, "\n    and through it {}", others.join(", "));
    }
    Finding::new(cycle[0], steps[0].2.line, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings for a crate of these files below src/.
    fn found(sources: &[(&str, &str)]) -> Vec<String> {
        let files = sources.iter().map(|(name, code)| {
            let path = Path::new("src").join(name);
            let file = RustFile::parse(&path, code).unwrap();
            (path, file)
        });
        let findings = check(&files.collect());
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn two_files_that_use_each_other_are_a_cycle_with_its_lines() {
        let found = found(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B;\npub struct A(B);"),
            ("b.rs", "pub struct B;\n\nfn f(_: super::a::A) {}"),
        ]);
        let expected = "src/a.rs:1: an import cycle, of 2 files:\n    \
            src/a.rs:1: `crate::b::B` is defined in src/b.rs\n    \
            src/b.rs:3: `super::a::A` is defined in src/a.rs";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn imports_in_one_direction_are_no_cycle() {
        let found = found(&[
            ("main.rs", "mod a; mod b; fn main() { a::run(); b::run() }"),
            ("a.rs", "use crate::b;\npub fn run() { b::run() }"),
            ("b.rs", "pub fn run() {}"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_parent_that_imports_from_a_child_that_uses_it_is_a_cycle() {
        let child = ("a/b.rs", "use super::Shared;\npub fn f(_: Shared) {}");
        let parent = "mod b;\npub struct Shared;\nfn g() { b::f(Shared) }";
        assert_eq!(
            found(&[("lib.rs", "mod a;"), ("a.rs", parent), child]).len(),
            1
        );
        let declares_only = "pub mod b;\npub struct Shared;";
        assert!(found(&[("lib.rs", "mod a;"), ("a/mod.rs", declares_only), child]).is_empty());
    }

    #[test]
    fn a_re_export_counts_as_the_file_that_defines_the_item() {
        let a = ("a.rs", "use crate::B;\npub struct A(B);");
        let lib = ("lib.rs", "mod a; mod b;\npub use a::A; pub use b::B;");
        let user = "use crate::A;\npub struct B(Box<A>);";
        let cycle = found(&[lib, a, ("b.rs", user)]);
        assert_eq!(cycle.len(), 1);
        assert!(cycle[0].contains("`crate::B` is defined in src/b.rs"));
        assert!(found(&[lib, a, ("b.rs", "pub struct B;")]).is_empty());
    }

    #[test]
    fn a_re_export_alone_is_no_use() {
        let a = ("a.rs", "use crate::Shared;\npub struct A(Shared);");
        let re_exports = "mod a;\npub use a::A;\npub struct Shared;";
        assert!(found(&[("lib.rs", re_exports), a]).is_empty());
        let uses = "mod a;\npub use a::A;\npub struct Shared;\nfn f(_: A) {}";
        assert_eq!(found(&[("lib.rs", uses), a]).len(), 1);
    }

    #[test]
    fn paths_in_macros_and_globs_count() {
        let a = ("a.rs", "use crate::b::*;\npub fn f() {}");
        let lib = ("lib.rs", "mod a; mod b;");
        let b = "pub fn g() { assert_eq!(vec![crate::a::f()], []) }";
        assert_eq!(found(&[lib, a, ("b.rs", b)]).len(), 1);
    }

    #[test]
    fn test_code_is_exempt() {
        let lib = ("lib.rs", "mod a;\npub struct Shared;\npub use a::A;");
        let parent = "mod b;\nmod tests;\n#[cfg(test)]\nmod checks;\n\
            pub struct A;\n#[cfg(test)]\nfn f() { b::g() }\n\
            enum E { #[cfg(test)] One(b::B), Two }";
        let child = ("a/b.rs", "use super::A;\npub fn g() {}\npub struct B(A);");
        let tests = ("a/tests.rs", "use super::b::g;");
        let checks = ("a/checks.rs", "use super::b::g;");
        let found = found(&[lib, ("a.rs", parent), child, tests, checks]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn the_shortest_cycle_of_a_circle_is_shown_and_the_others_named() {
        let found = found(&[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::c::C; pub struct B;"),
            ("c.rs", "use crate::{a::A, d::D}; pub struct C;"),
            ("d.rs", "use crate::c::C; pub struct D;"),
        ]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("src/c.rs:1: an import cycle, of 4 files:"));
        assert!(found[0].ends_with("and through it src/a.rs, src/b.rs"));
    }

    #[test]
    fn inline_modules_belong_to_their_file() {
        let lib = "mod a;\nmod inner { pub mod deep { use super::super::a::A; pub struct Deep; } }";
        let a = "use crate::inner::deep::Deep;\npub struct A;";
        assert_eq!(found(&[("lib.rs", lib), ("a.rs", a)]).len(), 1);
    }

    #[test]
    fn names_of_other_crates_are_no_imports() {
        let found = found(&[
            (
                "lib.rs",
                "mod io;\npub struct Shared;\nfn f() { ::io::g(); std::io::h() }",
            ),
            (
                "io.rs",
                "use crate::Shared;\nuse std::fs;\nfn f() { fs::read(\"\") }",
            ),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }
}
