//! Rules for manifests: a crate depends only on crates of lower layers, and every crate except
//! two takes the lints of the workspace, which forbid unsafe code.

use std::path::Path;

use super::finding::Finding;

/// The crates from the lowest layer to the highest; each may depend on those before it.
const LAYERS: [&str; 13] = [
    "hw", "sandbox", "sketch", "wire", "port", "app", "analysis", "flow", "engine", "gen",
    "export", "lab", "flowatch",
];

/// Crates with lints of their own, because they hold unsafe code.
const OWN_LINTS: [&str; 2] = ["hw", "port"];

pub(super) fn check(file: &Path, content: &str) -> Vec<Finding> {
    if file == Path::new("Cargo.toml") {
        return check_workspace(file, content);
    }
    let mut found = Vec::new();
    let mut parts = file.iter().filter_map(|part| part.to_str());
    let (first, second) = (parts.next(), parts.next());
    if first == Some("crates")
        && let Some(crate_) = second
    {
        found.extend(check_layers(file, crate_, content));
    }
    // The fuzz package is outside the workspace, and the entry point of libFuzzer is unsafe.
    let own_lints = first == Some("fuzz") || second.is_some_and(|name| OWN_LINTS.contains(&name));
    let workspace_lints =
        entries(content).any(|entry| entry.table == "lints" && entry.is("workspace", "true"));
    if !own_lints && !workspace_lints {
        let message = "does not take the lints of the workspace: [lints] workspace = true";
        found.push(Finding::new(file, 0, message));
    }
    found
}

fn check_workspace(file: &Path, content: &str) -> Vec<Finding> {
    let forbidden = entries(content).any(|entry| {
        entry.table == "workspace.lints.rust" && entry.is("unsafe_code", "\"forbid\"")
    });
    let missing = "[workspace.lints.rust] does not forbid unsafe_code";
    if forbidden {
        Vec::new()
    } else {
        vec![Finding::new(file, 0, missing)]
    }
}

fn check_layers(file: &Path, crate_: &str, content: &str) -> Vec<Finding> {
    let Some(layer) = layer(crate_) else {
        let message = format!("crate {crate_} is missing in the list of layers");
        return vec![Finding::new(file, 0, message)];
    };
    entries(content)
        .filter_map(|entry| {
            let name = entry.dependency()?;
            (self::layer(name)? >= layer).then(|| {
                let message = format!("{crate_} depends on {name}, which is not in a lower layer");
                Finding::new(file, entry.line, message)
            })
        })
        .collect()
}

fn layer(name: &str) -> Option<usize> {
    let name = name.strip_prefix("flowatch-").unwrap_or(name);
    LAYERS.iter().position(|layer| *layer == name)
}

/// A `key = value` of a manifest, or the header of a table.
struct Entry<'a> {
    line: usize,
    table: &'a str,
    key: &'a str,
    value: &'a str,
}

impl<'a> Entry<'a> {
    fn is(&self, key: &str, value: &str) -> bool {
        self.key == key && self.value == value
    }

    /// The name of the dependency that this line declares.
    fn dependency(&self) -> Option<&'a str> {
        if let Some(at) = self.table.rfind("dependencies.") {
            // `[dependencies.name]`: the header declares it.
            return self
                .key
                .is_empty()
                .then(|| &self.table[at + "dependencies.".len()..]);
        }
        let name = self.key.split('.').next()?.trim_matches('"');
        (self.table.ends_with("dependencies") && !name.is_empty()).then_some(name)
    }
}

/// The lines of a manifest with their tables. This reads enough of TOML for manifests: the further
/// lines of a value over several lines have no key, and no rule needs them.
fn entries(content: &str) -> impl Iterator<Item = Entry<'_>> {
    let mut table = "";
    content
        .lines()
        .enumerate()
        .filter_map(move |(index, line)| {
            let line = line.split(" #").next().unwrap_or(line).trim();
            let (key, value) = if let Some(head) = line.strip_prefix('[') {
                table = head.trim_matches(['[', ']']).trim();
                ("", "")
            } else {
                line.split_once('=')?
            };
            Some(Entry {
                line: index + 1,
                table,
                key: key.trim(),
                value: value.trim(),
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINTS: &str = "[lints]\nworkspace = true\n";

    fn lines(file: &str, content: &str) -> Vec<usize> {
        let found = check(Path::new(file), content);
        found.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn dependencies_point_down() {
        let down = format!("{LINTS}[dependencies]\nhw.workspace = true\nlibc = \"0.2\"\n");
        assert!(lines("crates/wire/Cargo.toml", &down).is_empty());
        let up = format!("{LINTS}[dev-dependencies]\nflow.workspace = true\n");
        assert_eq!(lines("crates/wire/Cargo.toml", &up), [4]);
        let own_table = format!("{LINTS}[dependencies.flowatch-engine]\npath = \"../engine\"\n");
        assert_eq!(lines("crates/flow/Cargo.toml", &own_table), [3]);
        let target =
            format!("{LINTS}[target.'cfg(unix)'.dependencies]\nport = {{ path = \"x\" }}\n");
        assert_eq!(lines("crates/port/Cargo.toml", &target), [4]);
        assert_eq!(lines("crates/extra/Cargo.toml", LINTS), [0]);
    }

    #[test]
    fn every_crate_but_two_takes_the_workspace_lints() {
        assert_eq!(lines("crates/wire/Cargo.toml", "[package]\n"), [0]);
        assert_eq!(lines("xtask/Cargo.toml", "[package]\n"), [0]);
        assert!(lines("crates/hw/Cargo.toml", "[package]\n").is_empty());
        assert_eq!(lines("Cargo.toml", "[workspace]\n"), [0]);
        let forbid = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n";
        assert!(lines("Cargo.toml", forbid).is_empty());
    }
}
