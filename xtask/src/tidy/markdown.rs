//! Rule for Markdown: a link to a file of the repository, and the path of a Rust file in code, name an
//! existing file.

use std::path::Path;

use super::finding::Finding;

/// Pages that speak of files as they were.
const HISTORY: &str = "docs/history";

pub(super) fn check(root: &Path, file: &Path, content: &str) -> Vec<Finding> {
    let mut found = check_links(root, file, content);
    if !file.starts_with(HISTORY) {
        found.extend(check_paths(root, file, content));
    }
    found
}

/// Checks the paths of Rust files in code spans: from the root, or from `crates`.
fn check_paths(root: &Path, file: &Path, content: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in content.lines().enumerate() {
        for span in line.split('`').skip(1).step_by(2) {
            // In a recipe, capitals stand for a name, and braces for several.
            let is_path = format!("/{span}").contains("/src/")
                && span.ends_with(".rs")
                && !span.contains([' ', '*', '{'])
                && !span.contains(|c: char| c.is_ascii_uppercase());
            let exists = || root.join(span).exists() || root.join("crates").join(span).exists();
            if is_path && !exists() {
                let message = format!("names the file `{span}`, which does not exist");
                found.push(Finding::new(file, index + 1, message));
            }
        }
    }
    found
}

fn check_links(root: &Path, file: &Path, content: &str) -> Vec<Finding> {
    let directory = file.parent().unwrap_or(Path::new(""));
    links(content)
        .into_iter()
        .filter_map(|(line, target)| {
            let path = target.split('#').next().unwrap_or(target);
            let elsewhere = path.is_empty() || path.contains(':');
            let full = match path.strip_prefix('/') {
                Some(from_root) => root.join(from_root),
                None => root.join(directory).join(path),
            };
            (!elsewhere && !full.exists()).then(|| {
                Finding::new(
                    file,
                    line,
                    format!("link to `{target}`, which does not exist"),
                )
            })
        })
        .collect()
}

/// Targets of `[text](target)` and `[name]: target` outside code, with their lines.
fn links(content: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (index, line) in content.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        let mut rest = line;
        while let Some(at) = rest.find("](") {
            let in_span = rest[..at].matches('`').count() % 2 == 1;
            rest = &rest[at + 2..];
            let target = rest.split([')', ' ']).next().unwrap_or(rest);
            if !in_span {
                found.push((index + 1, target));
            }
        }
        if let Some((name, target)) = line.split_once("]: ")
            && name.starts_with('[')
        {
            found.push((index + 1, target.split(' ').next().unwrap_or(target)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_missing_files_are_found_and_urls_ignored() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = "[a](Cargo.toml) [b](missing.md#x) [c](https://a.example/x) [d](#here)\n\
            ```\n[e](gone.md)\n```\n[f]: /gone.md\n[g](src/main.rs)\n";
        let found = check(root, Path::new("README.md"), text);
        let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 5]);
        assert!(
            check_links(
                root,
                Path::new("src/a.md"),
                "[a](main.rs) [b](../Cargo.toml)"
            )
            .is_empty()
        );
    }

    #[test]
    fn paths_of_missing_rust_files_are_found_outside_history() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text =
            "`src/main.rs`, `src/gone.rs`\n`src/NAME.rs` `src/{a,b}.rs` `gone.rs` src/gone.rs\n";
        let found = check(root, Path::new("docs/a.md"), text);
        let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1]);
        assert!(check(root, Path::new("docs/history/a.md"), text).is_empty());
    }
}
