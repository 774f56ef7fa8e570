//! Starts DPDK's environment abstraction layer (EAL), once per process.

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::name::{DeviceName, Kind};
use super::output_capture::capture_output;
use super::{error_hint, shim};
use crate::frame::PortError;

/// EAL options that configure isolation of processes and memory. If the user gives none of them, the
/// defaults leave nothing on the file system and let several processes run at a time.
const PROCESS_OPTIONS: [&str; 7] = [
    "--in-memory",
    "--file-prefix",
    "--proc-type",
    "--huge-dir",
    "--huge-unlink",
    "--no-shconf",
    "--legacy-mem",
];

/// EAL options that select PCI devices.
const DEVICE_OPTIONS: [&str; 5] = ["-a", "--allow", "-b", "--block", "--no-pci"];

/// EAL options that select cores.
const CORE_OPTIONS: [&str; 5] = ["-c", "-l", "--lcores", "-s", "--corelist"];

/// EAL option for the process type: primary, secondary or auto.
const PROCESS_TYPE: &str = "--proc-type";

/// Maximum bytes of log kept.
const LOG_BYTES: usize = 64 << 10;

/// Log output of DPDK that [`take_log`] has not returned yet.
static UNREAD_LOG: Mutex<String> = Mutex::new(String::new());

/// A handle of the running EAL. The EAL ends when the last handle is dropped.
#[derive(Clone, Debug)]
pub struct Eal(Arc<Running>);

#[derive(Debug)]
struct Running {
    arguments: Vec<String>,
}

/// The EAL of the process, if a start was attempted: DPDK cannot start a second time.
///
/// The last handle may be dropped while [`Eal::start`] holds this lock; so ending the EAL takes no
/// lock.
static EAL: Mutex<Option<Weak<Running>>> = Mutex::new(None);

impl Eal {
    /// Starts the EAL for `devices` with the user's EAL arguments, or returns the one that was started
    /// with the same arguments.
    ///
    /// # Errors
    /// If DPDK does not start (no huge pages, no permission, an invalid argument), with a hint; if it
    /// would be a secondary process; if it was started with other arguments or has ended in this
    /// process.
    pub fn start(devices: &[DeviceName], given: &[String]) -> Result<Self, PortError> {
        refuse_secondary_process(given)?;
        let arguments = complete_arguments(devices, given);
        let mut eal = EAL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(started) = &*eal {
            let Some(running) = started.upgrade() else {
                return Err(PortError::Failed(
                    "DPDK has ended in this process and cannot start a second time".into(),
                ));
            };
            return if running.arguments == arguments {
                Ok(Self(running))
            } else {
                Err(PortError::Failed(format!(
                    "DPDK was started in this process already, with: {}",
                    running.arguments.join(" ")
                )))
            };
        }
        *eal = Some(Weak::new());
        initialize(&arguments)?;
        let running = Arc::new(Running { arguments });
        *eal = Some(Arc::downgrade(&running));
        Ok(Self(running))
    }

    /// The EAL arguments it was started with.
    #[must_use]
    pub fn arguments(&self) -> &[String] {
        &self.0.arguments
    }
}

/// Takes the output of DPDK and its drivers since the last call.
#[must_use]
pub fn take_log() -> String {
    keep_log(&drain_log());
    std::mem::take(&mut *UNREAD_LOG.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Returns the log of DPDK and its drivers since the last call, and keeps it for [`take_log`].
pub(super) fn new_log() -> String {
    let log = drain_log();
    keep_log(&log);
    log
}

/// Keeps output other than the log for [`take_log`].
pub(super) fn keep_log(text: &str) {
    let mut log = UNREAD_LOG.lock().unwrap_or_else(PoisonError::into_inner);
    log.push_str(text);
    // Discard the oldest part.
    if log.len() > LOG_BYTES {
        let from = log.len() - LOG_BYTES;
        let from = (from..log.len()).find(|at| log.is_char_boundary(*at));
        log.drain(..from.unwrap_or(0));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: ports, pools and rings hold a handle, so none is left.
        unsafe { shim::flowatch_dpdk_end() };
    }
}

/// The version of DPDK, as `DPDK 22.11.1`.
#[must_use]
pub fn version() -> String {
    // SAFETY: a static NUL-terminated string.
    let version = unsafe { CStr::from_ptr(shim::flowatch_dpdk_version()) };
    version.to_string_lossy().into_owned()
}

/// Calls `rte_eal_init` on a separate thread, since it pins the calling thread to a core.
fn initialize(arguments: &[String]) -> Result<(), PortError> {
    let arguments: Vec<CString> = std::iter::once("flowatch")
        .chain(arguments.iter().map(String::as_str))
        .map(CString::new)
        .collect::<Result<_, _>>()
        .map_err(|_| PortError::Failed("an EAL argument contains a NUL byte".into()))?;
    // Do not capture the output of --help.
    let quiet = !arguments
        .iter()
        .any(|argument| [&b"-h"[..], b"--help"].contains(&argument.as_bytes()));
    let start = move || {
        let mut pointers: Vec<*mut c_char> = arguments
            .iter()
            .map(|argument| argument.as_ptr().cast_mut())
            .collect();
        let count = pointers.len() as c_int;
        pointers.push(std::ptr::null_mut());
        // SAFETY: `count` NUL-terminated strings and a null pointer; DPDK permutes the pointers and
        // does not change the strings.
        unsafe { shim::flowatch_dpdk_start(count, pointers.as_mut_ptr()) }
    };
    let start = move || {
        if quiet {
            capture_output(start)
        } else {
            (start(), String::new())
        }
    };
    let thread =
        hw::threads::spawn("eal", start).map_err(|error| PortError::Failed(error.to_string()))?;
    let Ok((result, printed)) = thread.join() else {
        return Err(PortError::Failed("the start of DPDK panicked".into()));
    };
    keep_log(&printed);
    let output = printed + &new_log();
    if result == 0 {
        return Ok(());
    }
    Err(error_hint::of_start(&output, result))
}

/// Rejects arguments for a secondary process, which has no memory or devices of its own and waits for a
/// primary process forever, ignoring signals.
fn refuse_secondary_process(given: &[String]) -> Result<(), PortError> {
    let mut arguments = given.iter();
    while let Some(argument) = arguments.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument.as_str(), None),
        };
        // getopt_long accepts abbreviated options.
        if name.len() <= "--pr".len() || !PROCESS_TYPE.starts_with(name) {
            continue;
        }
        let kind = value.or_else(|| arguments.next().map(String::as_str));
        if let Some(kind @ ("secondary" | "auto")) = kind {
            return Err(PortError::Failed(format!(
                "DPDK: {PROCESS_TYPE} {kind}: flowatch opens its own devices, which a secondary process cannot; remove \
                 this option (other processes can join flowatch by --file-prefix NAME)"
            )));
        }
    }
    Ok(())
}

/// Takes the new log from the shim.
fn drain_log() -> String {
    let mut bytes = vec![0u8; LOG_BYTES];
    // SAFETY: the buffer has the length given.
    let length = unsafe { shim::flowatch_dpdk_take_log(bytes.as_mut_ptr().cast(), bytes.len()) };
    bytes.truncate(length);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the user's EAL arguments after defaults that keep the EAL from using devices, cores and
/// files that were not requested.
fn complete_arguments(devices: &[DeviceName], given: &[String]) -> Vec<String> {
    let has = |names: &[&str]| given.iter().any(|argument| matches_option(argument, names));
    let mut all = Vec::new();
    if !has(&CORE_OPTIONS)
        && let Some(first) = hw::cores::allowed().first()
    {
        // DPDK starts a thread per core, which would only sleep.
        all.extend(["-l".to_owned(), first.to_string()]);
    }
    if !has(&PROCESS_OPTIONS) {
        // --in-memory conflicts with --no-huge.
        let isolation = if has(&["--no-huge"]) {
            "--no-shconf"
        } else {
            "--in-memory"
        };
        all.push(isolation.into());
    }
    if !has(&DEVICE_OPTIONS) {
        let pci_devices = devices
            .iter()
            .filter(|device| device.kind() == Kind::Pci)
            .collect::<Vec<_>>();
        if pci_devices.is_empty() {
            all.push("--no-pci".into());
        }
        for device in pci_devices {
            all.extend(["-a".to_owned(), device.full()]);
        }
    }
    all.extend_from_slice(given);
    all
}

/// Whether an argument is one of these options, with its value attached or in the next argument.
fn matches_option(argument: &str, names: &[&str]) -> bool {
    names.iter().any(|name| match argument.strip_prefix(name) {
        Some("") => true,
        // `-l0,1`, but not `--legacy-mem` for `-l`.
        Some(rest) => rest.starts_with('=') || (name.len() == 2 && !name.starts_with("--")),
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments_of(devices: &[&str], given: &[&str]) -> String {
        let devices: Vec<_> = devices
            .iter()
            .map(|device| DeviceName::parse(device).unwrap())
            .collect();
        let given: Vec<_> = given.iter().map(ToString::to_string).collect();
        let first = hw::cores::allowed()[0];
        complete_arguments(&devices, &given)
            .join(" ")
            .replace(&format!("-l {first}"), "CORE")
    }

    #[test]
    fn eal_uses_only_the_requested_devices() {
        assert_eq!(
            arguments_of(&["net_null0"], &[]),
            "CORE --in-memory --no-pci"
        );
        assert_eq!(
            arguments_of(&["3b:00.0,x=1", "net_null0"], &["-m", "256"]),
            "CORE --in-memory -a 0000:3b:00.0,x=1 -m 256"
        );
    }

    #[test]
    fn secondary_processes_are_rejected() {
        let error_for = |given: &[&str]| {
            let given: Vec<_> = given.iter().map(ToString::to_string).collect();
            refuse_secondary_process(&given)
                .err()
                .map(|error| error.to_string())
        };
        for given in [
            &["--proc-type", "secondary"][..],
            &["-m", "64", "--proc-type=secondary"],
            &["--proc", "auto"],
        ] {
            let message = error_for(given).unwrap_or_default();
            assert!(
                message.contains("remove this option"),
                "{given:?}: {message}"
            );
        }
        for given in [
            &["--proc-type", "primary"][..],
            &["--proc-type"],
            &["--file-prefix", "secondary"],
        ] {
            assert_eq!(error_for(given), None, "{given:?}");
        }
    }

    #[test]
    fn user_arguments_override_the_defaults() {
        assert_eq!(
            arguments_of(&["3b:00.0"], &["-l0,1", "--file-prefix=x", "-a", "3b:00.1"]),
            "-l0,1 --file-prefix=x -a 3b:00.1"
        );
        assert_eq!(
            arguments_of(&[], &["--no-huge"]),
            "CORE --no-shconf --no-pci --no-huge"
        );
        assert_eq!(
            arguments_of(&[], &["--legacy-mem"]),
            "CORE --no-pci --legacy-mem"
        );
    }
}
