//! Rotated files.

use super::{example, output};
use crate::captures;
use crate::command::{run, watch};
use std::fs;
use std::path::PathBuf;

#[test]
fn rotation_needs_a_file() {
    for (outputs, words) in [
        ("", "--rotate needs an output file"),
        ("-o csv", "standard output cannot be rotated"),
    ] {
        let mut command = watch(&format!("--rotate 1h {outputs} -r"));
        let outcome = run(command.arg(captures::example()));
        assert_eq!(outcome.code, Some(2));
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    }
}

#[test]
fn rotated_files_contain_the_same_records() {
    let plain = run(&mut example("-q --summary none --sort -o csv")).quiet_success();
    let plain = String::from_utf8(plain).unwrap();
    for end in ["csv", "csv.gz", "csv.zst"] {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join(format!("flows.{end}"));
        let flags = format!(
            "-q --summary none --sort --rotate 10s -o csv:{}",
            target.display()
        );
        run(&mut example(&flags)).quiet_success();
        let entries = fs::read_dir(directory.path()).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.len() > 1, "{files:?}");
        let mut lines = Vec::new();
        for file in &files {
            let name = file.file_name().unwrap().to_str().unwrap();
            assert!(
                name.starts_with("flows-2013") && name.ends_with(end),
                "{name}"
            );
            let text = match end {
                "csv.gz" => output("gzip", &["-dc"], file),
                "csv.zst" => output("zstd", &["-dcq"], file),
                _ => fs::read_to_string(file).unwrap(),
            };
            lines.extend(text.lines().skip(1).map(str::to_owned));
        }
        let expected: Vec<&str> = plain.lines().skip(1).collect();
        assert_eq!(lines, expected);
    }
}
