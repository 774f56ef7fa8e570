//! The capture files that `-r` names: files, directories and patterns, and the filter expression that
//! may follow them.

use port::{CaptureFile, Input, PortError, permission_hint};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why the files cannot be listed: a one-line message.
#[derive(Debug)]
pub(crate) enum InputError {
    /// A permission is missing.
    Permission(String),
    /// Any other reason.
    Failed(String),
}

/// Characters that make an argument a pattern, unless a file has that name.
const PATTERN_CHARACTERS: [char; 3] = ['*', '?', '['];

/// Extensions of names that are taken for a missing file, not for a filter.
const EXTENSIONS: [&str; 9] = [
    "pcap", "pcapng", "cap", "dmp", "gz", "zst", "xz", "bz2", "lz4",
];

/// As in a shell: `*` matches neither a slash nor a name's leading dot.
const MATCHING: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// Splits the arguments of each `-r` into files and the words of a filter expression.
///
/// The first argument of a `-r` is a file; so is each following one that exists or is a pattern that
/// matches. From the first other argument on, they are the filter, if they are a valid one.
///
/// # Errors
/// A one-line message, if an argument can be both or neither.
pub(crate) fn split_filter(
    flags: &[Vec<OsString>],
) -> Result<(Vec<OsString>, Vec<String>), String> {
    let (mut files, mut filter) = (Vec::new(), Vec::new());
    for arguments in flags {
        let mut at = 0;
        while let Some(argument) = arguments.get(at) {
            let rest = &arguments[at..];
            if at > 0 && !is_input(argument) {
                if is_filter(rest) || !is_missing_file(argument) {
                    check_files_come_first(rest)?;
                    filter.extend(rest.iter().map(|word| word.to_string_lossy().into_owned()));
                    break;
                }
            } else if at > 0 && could_be_word(argument) && is_filter(rest) {
                let name = argument.display();
                return Err(format!(
                    "'{name}' is a file and also begins a filter: for the file write ./{name}; put the filter before -r"
                ));
            }
            files.push(argument.clone());
            at += 1;
        }
    }
    Ok((files, filter))
}

/// Rejects a file after words that are neither files nor a filter.
fn check_files_come_first(rest: &[OsString]) -> Result<(), String> {
    match rest.iter().skip(1).find(|argument| is_input(argument)) {
        Some(file) if !is_filter(rest) => Err(format!(
            "'{}' is no file, and not a filter either, because the file {} follows it: check the name, or give the \
             filter after all files",
            rest[0].display(),
            file.display()
        )),
        _ => Ok(()),
    }
}

fn is_input(argument: &OsStr) -> bool {
    argument == "-"
        || Path::new(argument).exists()
        || matching(argument).is_ok_and(|found| found.is_some())
}

/// Whether words are a valid filter expression.
fn is_filter(words: &[OsString]) -> bool {
    let words: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
    words.is_some_and(|words| port::filter::validate(&words.join(" ")).is_ok())
}

/// Whether an argument may be the first word of a filter. Spares compiling a long list of files.
fn could_be_word(argument: &OsStr) -> bool {
    let is_name_only = |text: &str| !text.contains(['.', '/']) && text != "-";
    argument.to_str().is_some_and(is_name_only)
}

/// Whether an argument that is not a file looks like the name of one.
fn is_missing_file(argument: &OsStr) -> bool {
    let path = Path::new(argument);
    let has_extension = path.extension().is_some_and(|extension| {
        EXTENSIONS
            .iter()
            .any(|known| extension.eq_ignore_ascii_case(known))
    });
    has_extension || (path.is_absolute() && !argument.to_string_lossy().contains(' '))
}

/// The capture files that arguments name.
#[derive(Debug, Default)]
pub(crate) struct FoundInputs {
    pub(crate) inputs: Vec<Input>,
    /// Notices for the user.
    pub(crate) notices: Vec<String>,
}

/// Replaces directories and patterns by the files that they contain or match.
///
/// # Errors
/// If a pattern matches no file, or a directory contains no capture file or cannot be read.
pub(crate) fn find(arguments: &[OsString]) -> Result<FoundInputs, InputError> {
    let mut found = FoundInputs::default();
    for argument in arguments {
        match matching(argument)? {
            Some(paths) => {
                for path in paths {
                    found.add(path)?;
                }
            }
            None if is_pattern(argument) => {
                return Err(InputError::Failed(format!(
                    "-r '{}': no file matches this pattern",
                    argument.display()
                )));
            }
            None if argument == "-" => found.inputs.push(Input::StandardInput),
            None => found.add(argument.into())?,
        }
    }
    Ok(found)
}

impl FoundInputs {
    /// Adds a file, or the captures in a directory.
    fn add(&mut self, path: PathBuf) -> Result<(), InputError> {
        if path.is_dir() {
            self.add_directory(&path)
        } else {
            self.inputs.push(Input::Path(path));
            Ok(())
        }
    }

    /// Adds the capture files in a directory, sorted by name. Subdirectories are left out.
    fn add_directory(&mut self, directory: &Path) -> Result<(), InputError> {
        let mut files = files_in(directory).map_err(|error| directory_error(directory, &error))?;
        files.sort();
        let count = files.len();
        let mut others = Vec::new();
        let before = self.inputs.len();
        for path in files {
            let input = Input::Path(path);
            match CaptureFile::open(&input) {
                // Reading it reports the missing permission.
                Ok(_) | Err(PortError::Permission(_)) => self.inputs.push(input),
                Err(error) => others.push(error),
            }
        }
        let name = directory.display();
        let Some(first) = others.first() else {
            return match count {
                0 => Err(InputError::Failed(format!(
                    "-r {name}: this directory contains no files"
                ))),
                _ => Ok(()),
            };
        };
        if self.inputs.len() == before {
            return Err(InputError::Failed(format!(
                "-r {name}: none of the {count} files in this directory is a capture; the first: {first}"
            )));
        }
        self.notices.push(format!(
            "{name}: {} of {count} files in this directory are not captures and are skipped; the first: {first}",
            others.len()
        ));
        Ok(())
    }
}

/// Returns the regular files in a directory.
fn files_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        // Without permission to enter the directory, nothing is known of its files.
        let is_file = match path.metadata() {
            Ok(metadata) => metadata.is_file(),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            Err(_) => false,
        };
        if is_file {
            files.push(path);
        }
    }
    Ok(files)
}

fn directory_error(directory: &Path, error: &io::Error) -> InputError {
    let name = directory.display();
    if error.kind() != io::ErrorKind::PermissionDenied {
        return InputError::Failed(format!("-r {name}: cannot list this directory: {error}"));
    }
    // A directory is entered to open its files, and read to list them.
    let hint = match fs::read_dir(directory) {
        Ok(_) => format!(
            "no permission to enter the directory; run as its owner, or: sudo chmod a+x '{name}'"
        ),
        Err(_) => permission_hint(directory).replace("read the file", "list the directory"),
    };
    InputError::Permission(format!("{name}: {hint}"))
}

fn is_pattern(argument: &OsStr) -> bool {
    let text = argument.to_str();
    text.is_some_and(|text| text.contains(PATTERN_CHARACTERS)) && !Path::new(argument).exists()
}

/// Returns the sorted paths that a pattern matches; `None` if there are none, or if it is no pattern.
fn matching(argument: &OsStr) -> Result<Option<Vec<PathBuf>>, InputError> {
    let Some(pattern) = argument.to_str().filter(|_| is_pattern(argument)) else {
        return Ok(None);
    };
    let paths = glob::glob_with(pattern, MATCHING).map_err(|error| {
        InputError::Failed(format!(
            "-r '{pattern}': not a pattern of file names: {error}"
        ))
    })?;
    let paths: Vec<PathBuf> = paths
        .collect::<Result<_, _>>()
        .map_err(|error| directory_error(error.path(), error.error()))?;
    Ok(Some(paths).filter(|paths| !paths.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with captures `a.pcap`, `b.pcap` and `tcp`, a text `notes`, and a subdirectory.
    fn directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let mut empty_capture = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
        empty_capture.extend_from_slice(&[0; 8]);
        empty_capture.extend_from_slice(&[0, 0, 1, 0, 1, 0, 0, 0]);
        for name in ["b.pcap", "a.pcap", "tcp", ".hidden"] {
            fs::write(directory.path().join(name), &empty_capture).unwrap();
        }
        fs::write(directory.path().join("notes"), "to do\n").unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        directory
    }

    fn names(directory: &Path, names: &[&str]) -> Vec<OsString> {
        names
            .iter()
            .map(|name| match name.strip_prefix("./") {
                Some(name) => directory.join(name).into(),
                None => name.into(),
            })
            .collect()
    }

    #[test]
    fn files_come_first_and_the_rest_is_the_filter() {
        let directory = directory();
        let split = |arguments: &[&[&str]]| {
            let flags: Vec<_> = arguments
                .iter()
                .map(|arguments| names(directory.path(), arguments))
                .collect();
            split_filter(&flags)
        };
        for (arguments, files, filter) in [
            (&[&["./a.pcap"][..]][..], &["./a.pcap"][..], ""),
            (&[&["./a.pcap", "./b.pcap"]], &["./a.pcap", "./b.pcap"], ""),
            (
                &[&["./a.pcap", "./b.pcap", "tcp port 443"]],
                &["./a.pcap", "./b.pcap"],
                "tcp port 443",
            ),
            (
                &[&["./a.pcap", "tcp", "port", "443"]],
                &["./a.pcap"],
                "tcp port 443",
            ),
            (&[&["-", "./*.pcap", "udp"]], &["-", "./*.pcap"], "udp"),
            // The first argument of each flag is a file, whatever it looks like.
            (&[&["none"], &["tcp"]], &["none", "tcp"], ""),
            (
                &[&["./a.pcap", "tcp"], &["./b.pcap"]],
                &["./a.pcap", "./b.pcap"],
                "tcp",
            ),
            // A missing file between others, or at the end.
            (
                &[&["./a.pcap", "none.pcap", "./b.pcap", "udp"]],
                &["./a.pcap", "none.pcap", "./b.pcap"],
                "udp",
            ),
            (
                &[&["./a.pcap", "none.pcap.gz"]],
                &["./a.pcap", "none.pcap.gz"],
                "",
            ),
            (
                &[&["./a.pcap", "tcp[13] & 2 != 0"]],
                &["./a.pcap"],
                "tcp[13] & 2 != 0",
            ),
            // An invalid filter, which the check of the filter reports.
            (&[&["./a.pcap", "tcp", "prt"]], &["./a.pcap"], "tcp prt"),
        ] {
            let (found, words) = split(arguments).unwrap();
            assert_eq!(found, names(directory.path(), files), "{arguments:?}");
            assert_eq!(words.join(" "), filter, "{arguments:?}");
        }
        let message = split(&[&["./a.pcap", "prt", "./b.pcap"]]).unwrap_err();
        assert!(message.contains("'prt' is no file"), "{message}");
    }

    #[test]
    fn directories_and_patterns_are_replaced_by_their_captures() {
        let directory = directory();
        let found = find(&names(directory.path(), &["./", "-", "./?.pcap"])).unwrap();
        let expected = names(
            directory.path(),
            &[
                "./.hidden",
                "./a.pcap",
                "./b.pcap",
                "./tcp",
                "-",
                "./a.pcap",
                "./b.pcap",
            ],
        );
        let expected: Vec<_> = expected
            .iter()
            .map(|name| Input::from_argument(name))
            .collect();
        assert_eq!(found.inputs, expected);
        assert_eq!(found.notices.len(), 1);
        let notice = &found.notices[0];
        assert!(
            notice.contains("1 of 5 files") && notice.contains("notes: "),
            "{notice}"
        );

        for (name, part) in [
            ("./sub", "contains no files"),
            ("./x*.pcap", "no file matches this pattern"),
            ("./[", "not a pattern"),
        ] {
            let Err(InputError::Failed(message)) = find(&names(directory.path(), &[name])) else {
                panic!("{name} was found");
            };
            assert!(message.contains(part), "{message}");
        }
        fs::write(directory.path().join("sub/notes"), "to do\n").unwrap();
        let error = find(&names(directory.path(), &["./sub"])).unwrap_err();
        assert!(
            format!("{error:?}").contains("none of the 1 files"),
            "{error:?}"
        );
    }

    #[test]
    fn file_whose_name_is_a_pattern_is_a_file() {
        let directory = directory();
        let path = directory.path().join("a[1].pcap");
        fs::write(&path, "").unwrap();
        let found = find(&[path.clone().into()]).unwrap();
        assert_eq!(found.inputs, [Input::Path(path)]);
    }
}
