//! Real traffic: a capture that experiments replay.

use crate::trial::TrialError;
use generator::{Recording, Replay, ReplayOptions};
use port::{CaptureFiles, Filtered, Input, PortError};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The environment variable that names a directory with real traffic, [`MIX`].
pub(super) const TRAFFIC: &str = "FLOWATCH_TRAFFIC";
const MIX: &str = "mix-200k.pcap.zst";

/// The small real capture of the source tree, for programs that run there.
const SHIPPED: &str = "tests/captures/example.pcap";

/// The path of the mix of real captures, if the environment names it.
pub(super) fn mix() -> Option<PathBuf> {
    std::env::var_os(TRAFFIC)
        .map(|directory| PathBuf::from(directory).join(MIX))
        .filter(|path| path.is_file())
}

/// The path of the mix, or else of the shipped capture.
pub(super) fn any() -> Option<PathBuf> {
    mix().or_else(|| Some(PathBuf::from(SHIPPED)).filter(|path| path.is_file()))
}

/// Returns a capture's name without its directory.
pub(super) fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().display().to_string()
}

/// Loads the packets of a capture.
pub(super) fn load(path: &Path) -> Result<Recording, TrialError> {
    open(path)
        .and_then(|mut files| Recording::load(&mut files))
        .map_err(TrialError::missing)
}

/// Loads the packets of at most `longest` bytes: in a capture from a host, receive offload has merged
/// some into frames that no link carries.
pub(super) fn load_up_to(path: &Path, longest: usize) -> Result<Recording, TrialError> {
    open(path)
        .and_then(|files| Filtered::new(files, &format!("len <= {longest}")))
        .and_then(|mut files| Recording::load(&mut files))
        .map_err(TrialError::missing)
}

fn open(path: &Path) -> Result<CaptureFiles, PortError> {
    CaptureFiles::open(&[Input::from_argument(OsStr::new(path))])
}

/// Replays at least `packets` packets of a recording, in copies with their own addresses; returns the
/// number of copies too.
pub(super) fn replay(recording: Recording, packets: usize) -> Result<(Replay, u32), TrialError> {
    let copies = packets.div_ceil(recording.len().max(1)) as u32;
    let options = ReplayOptions {
        copies,
        ..ReplayOptions::default()
    };
    Replay::new(recording, &options)
        .map(|replay| (replay, copies))
        .map_err(TrialError::missing)
}
