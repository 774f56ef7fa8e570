//! `--applications`: the table of applications, with the user's lines in it.

use super::refusal::Refusal;
use crate::arguments::WatchArguments;
use app::Applications;
use flow::statistic::Selection;
use port::missing_right;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

/// The most bytes of a table of applications: more is another file.
const BYTES_MAX: u64 = 64 << 20;

/// The table, if there is one.
pub(super) fn applications(
    arguments: &WatchArguments,
    statistics: &Selection,
) -> Result<Option<Arc<Applications>>, Refusal> {
    let Some(path) = &arguments.applications else {
        return Ok(None);
    };
    if !statistics
        .analysis
        .is_some_and(analysis::Level::has_applications)
    {
        return Err("--applications needs --statistics app or full".into());
    }
    let fault = |error: &dyn Display| format!("--applications {}: {error}", path.display());
    let text = read(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => fault(&"no such file; check the path").into(),
        ErrorKind::PermissionDenied => Refusal::MissingRight(fault(&missing_right(path))),
        _ => fault(&error).into(),
    })?;
    let mut table = Applications::default();
    table.extend(&text).map_err(|error| fault(&error))?;
    Ok(Some(Arc::new(table)))
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(BYTES_MAX)
        .read_to_string(&mut text)?;
    Ok(text)
}
