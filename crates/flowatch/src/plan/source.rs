//! What a run of `watch` reads.

use super::error::PlanError;
use crate::arguments::WatchArguments;
use crate::inputs;
use crate::interfaces;
use port::Input;
use std::ffi::OsString;
use std::path::Path;

/// What to read.
#[derive(Debug)]
pub(crate) enum Source {
    /// Capture files, in order.
    Files(Vec<Input>),
    /// Interfaces.
    Live(Vec<String>),
}

impl Source {
    /// Whether packets come from interfaces.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self, Self::Live(_))
    }

    /// Returns the number of ports to open, with `queues` per interface.
    pub(super) fn receivers(&self, queues: usize) -> usize {
        match self {
            Self::Files(_) => 1,
            Self::Live(interfaces) => interfaces.len() * queues,
        }
    }
}

/// Returns the files that `-r` names, not expanded yet, and the words of the filter.
pub(super) fn files_and_filter(
    arguments: &WatchArguments,
) -> Result<(Vec<OsString>, Vec<String>), String> {
    let (files, after_files) = inputs::split_filter(&arguments.file_groups)?;
    let words = &arguments.filter;
    if !words.is_empty() && !after_files.is_empty() {
        return Err(format!(
            "'{}' and '{}' are both filters: give one filter, in quotes, before or after the files",
            words.join(" "),
            after_files.join(" ")
        ));
    }
    let filter = if words.is_empty() {
        after_files
    } else {
        words.clone()
    };
    Ok((files, filter))
}

/// Returns what to read, and notices for the user.
pub(super) fn source(
    arguments: &WatchArguments,
    files: &[OsString],
    filter: &[String],
) -> Result<(Source, Vec<String>), PlanError> {
    match (arguments.interfaces.is_empty(), files.is_empty()) {
        (true, true) => Err(match first_file(filter) {
            Some(file) => format!("nothing to watch: to read the file {file}, use -r {file}").into(),
            None => "nothing to watch: give an interface (-i eth0) or a capture (-r FILE, -r - for standard input)"
                .into(),
        }),
        (false, false) => Err("-i and -r together: use interfaces or files, not both".into()),
        (false, true) => {
            interfaces::check_distinct(&arguments.interfaces)?;
            Ok((Source::Live(arguments.interfaces.clone()), Vec::new()))
        }
        (true, false) => {
            let found = inputs::find(files)?;
            let standard = |input: &&Input| matches!(input, Input::StandardInput);
            if found.inputs.iter().filter(standard).count() > 1 {
                return Err("standard input (-r -) can be read once only".into());
            }
            Ok((Source::Files(found.inputs), found.notices))
        }
    }
}

/// Returns the first word that is the name of an existing file.
pub(super) fn first_file(words: &[String]) -> Option<&str> {
    let mut words = words.iter().map(String::as_str);
    words.find(|word| Path::new(word).is_file())
}
