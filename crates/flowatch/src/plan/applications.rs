//! `--applications`: reads the user's application classes.

use super::error::PlanError;
use app::Applications;
use flow::statistic::Selection;
use port::permission_hint;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

/// Maximum number of bytes read from the file; a table of applications is smaller.
const BYTES_MAX: u64 = 64 << 20;

/// Returns the table of applications in the file that the flag names, if it is given.
pub(super) fn applications(
    path: Option<&Path>,
    statistics: &Selection,
) -> Result<Option<Arc<Applications>>, PlanError> {
    let Some(path) = path else {
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
        ErrorKind::PermissionDenied => PlanError::Permission(fault(&permission_hint(path))),
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
