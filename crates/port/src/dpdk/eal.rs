//! DPDK's environment abstraction layer: started once a process, here.

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::captured::captured;
use super::name::{DeviceName, Kind};
use super::{error_hint, shim};
use crate::frame::PortError;

/// EAL arguments with which a user says himself how processes and memory are kept apart; without
/// one of them nothing is left on the file system, and several processes may run at a time.
const KEEPING: [&str; 7] = [
    "--in-memory",
    "--file-prefix",
    "--proc-type",
    "--huge-dir",
    "--huge-unlink",
    "--no-shconf",
    "--legacy-mem",
];

/// Those that choose among the cards.
const CHOOSING: [&str; 5] = ["-a", "--allow", "-b", "--block", "--no-pci"];

/// Those that choose cores.
const CORES: [&str; 5] = ["-c", "-l", "--lcores", "-s", "--corelist"];

/// Says whether a process is the first of its group, or joins another.
const PROCESS_TYPE: &str = "--proc-type";

/// Room for the log at once.
const LOG_ROOM: usize = 64 << 10;

/// What DPDK has said, and nobody has asked for.
static SAID: Mutex<String> = Mutex::new(String::new());

/// The layer, running as long as somebody holds it.
#[derive(Clone, Debug)]
pub struct Eal(Arc<Running>);

#[derive(Debug)]
struct Running {
    arguments: Vec<String>,
}

/// The process's one layer, once it was to start: DPDK does not start a second time.
///
/// It ends wherever its last holder goes, which may be in [`Eal::start`]: its end asks for no lock.
static LAYER: Mutex<Option<Weak<Running>>> = Mutex::new(None);

impl Eal {
    /// Starts the layer for `devices` with the EAL arguments of the user, or gives the one that was
    /// started with them before.
    ///
    /// # Errors
    /// When DPDK does not start (no huge pages, no permission, a wrong argument);
    /// when it would join another process; when it has been started otherwise, or ended, in this process.
    pub fn start(devices: &[DeviceName], given: &[String]) -> Result<Self, PortError> {
        refuse_joining(given)?;
        let arguments = arguments(devices, given);
        let mut layer = LAYER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(started) = &*layer {
            let Some(running) = started.upgrade() else {
                return Err(PortError::Failed(
                    "DPDK has ended in this process, and does not start a second time".into(),
                ));
            };
            return if running.arguments == arguments {
                Ok(Self(running))
            } else {
                Err(PortError::Failed(format!(
                    "DPDK was started in this process already, by: {}",
                    running.arguments.join(" ")
                )))
            };
        }
        *layer = Some(Weak::new());
        initialise(&arguments)?;
        let running = Arc::new(Running { arguments });
        *layer = Some(Arc::downgrade(&running));
        Ok(Self(running))
    }

    /// The EAL arguments that it was started with.
    #[must_use]
    pub fn arguments(&self) -> &[String] {
        &self.0.arguments
    }
}

/// What DPDK and its drivers have said since the last time that this was asked.
#[must_use]
pub fn take_log() -> String {
    keep(&latest());
    std::mem::take(&mut *SAID.lock().unwrap_or_else(PoisonError::into_inner))
}

/// What DPDK and its drivers have logged since the last time; it is kept for [`take_log`].
pub(super) fn news() -> String {
    let news = latest();
    keep(&news);
    news
}

/// Keeps for [`take_log`] what was said elsewhere than in the log.
pub(super) fn keep(text: &str) {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    said.push_str(text);
    // Of too much, the latest.
    if said.len() > LOG_ROOM {
        let from = said.len() - LOG_ROOM;
        let from = (from..said.len()).find(|at| said.is_char_boundary(*at));
        said.drain(..from.unwrap_or(0));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: ports, pools and rings hold the layer, so none is left.
        unsafe { shim::flowatch_dpdk_end() };
    }
}

/// The version of DPDK, as `DPDK 22.11.1`.
#[must_use]
pub fn version() -> String {
    // SAFETY: a string with its end that lives as long as the program.
    let version = unsafe { CStr::from_ptr(shim::flowatch_dpdk_version()) };
    version.to_string_lossy().into_owned()
}

/// Calls `rte_eal_init`, on a thread of its own: it binds the thread that calls it to a core.
fn initialise(arguments: &[String]) -> Result<(), PortError> {
    let arguments: Vec<CString> = std::iter::once("flowatch")
        .chain(arguments.iter().map(String::as_str))
        .map(CString::new)
        .collect::<Result<_, _>>()
        .map_err(|_| PortError::Failed("an EAL argument holds a zero byte".into()))?;
    // Whoever asks for help wants to read it.
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
        // SAFETY: `count` strings with their ends, then a null; DPDK moves the pointers about and
        // leaves the strings as they are.
        unsafe { shim::flowatch_dpdk_start(count, pointers.as_mut_ptr()) }
    };
    let start = move || {
        if quiet {
            captured(start)
        } else {
            (start(), String::new())
        }
    };
    let thread = std::thread::Builder::new().name("eal".into()).spawn(start);
    let outcome = thread.map(std::thread::JoinHandle::join);
    let Ok(Ok((result, printed))) = outcome else {
        return Err(PortError::Failed("cannot start a thread for DPDK".into()));
    };
    keep(&printed);
    let said = printed + &news();
    if result == 0 {
        return Ok(());
    }
    Err(error_hint::of_start(&said, result))
}

/// Refuses to be a secondary process: it would have neither memory nor devices of its own, and waits
/// for a primary one for ever, deaf to signals.
fn refuse_joining(given: &[String]) -> Result<(), PortError> {
    let mut arguments = given.iter();
    while let Some(argument) = arguments.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument.as_str(), None),
        };
        // Shortened, as getopt_long takes it.
        if name.len() <= "--pr".len() || !PROCESS_TYPE.starts_with(name) {
            continue;
        }
        let kind = value.or_else(|| arguments.next().map(String::as_str));
        if let Some(kind @ ("secondary" | "auto")) = kind {
            return Err(PortError::Failed(format!(
                "DPDK: {PROCESS_TYPE} {kind}: flowatch opens its own devices, which a secondary process cannot; leave \
                 it out (other processes join flowatch by --file-prefix NAME)"
            )));
        }
    }
    Ok(())
}

/// What is new in the log.
fn latest() -> String {
    let mut bytes = vec![0u8; LOG_ROOM];
    // SAFETY: there is room for as many bytes as is said.
    let length = unsafe { shim::flowatch_dpdk_take_log(bytes.as_mut_ptr().cast(), bytes.len()) };
    bytes.truncate(length);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The whole of the EAL arguments: those of the user, and before them what makes the layer leave
/// alone what it was not asked for.
fn arguments(devices: &[DeviceName], given: &[String]) -> Vec<String> {
    let has = |names: &[&str]| given.iter().any(|argument| is_one_of(argument, names));
    let mut all = Vec::new();
    if !has(&CORES)
        && let Some(first) = hw::cores::allowed().first()
    {
        // A thread of DPDK for each core would only sleep.
        all.extend(["-l".to_owned(), first.to_string()]);
    }
    if !has(&KEEPING) {
        // DPDK takes the two together for a contradiction.
        let apart = if has(&["--no-huge"]) {
            "--no-shconf"
        } else {
            "--in-memory"
        };
        all.push(apart.into());
    }
    if !has(&CHOOSING) {
        let cards = devices
            .iter()
            .filter(|device| device.kind() == Kind::Pci)
            .collect::<Vec<_>>();
        if cards.is_empty() {
            all.push("--no-pci".into());
        }
        for card in cards {
            all.extend(["-a".to_owned(), card.whole()]);
        }
    }
    all.extend_from_slice(given);
    all
}

/// Whether an argument is one of these, with its value behind it or in the next argument.
fn is_one_of(argument: &str, names: &[&str]) -> bool {
    names.iter().any(|name| match argument.strip_prefix(name) {
        Some("") => true,
        // `-l0,1`, but not `--legacy-mem` for `--l`.
        Some(rest) => rest.starts_with('=') || (name.len() == 2 && !name.starts_with("--")),
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(devices: &[&str], given: &[&str]) -> String {
        let devices: Vec<_> = devices
            .iter()
            .map(|device| DeviceName::parse(device).unwrap())
            .collect();
        let given: Vec<_> = given.iter().map(ToString::to_string).collect();
        let first = hw::cores::allowed()[0];
        arguments(&devices, &given)
            .join(" ")
            .replace(&format!("-l {first}"), "CORE")
    }

    #[test]
    fn the_layer_touches_only_what_it_is_asked_for() {
        assert_eq!(whole(&["net_null0"], &[]), "CORE --in-memory --no-pci");
        assert_eq!(
            whole(&["3b:00.0,x=1", "net_null0"], &["-m", "256"]),
            "CORE --in-memory -a 0000:3b:00.0,x=1 -m 256"
        );
    }

    #[test]
    fn no_process_joins_another() {
        let refused = |given: &[&str]| {
            let given: Vec<_> = given.iter().map(ToString::to_string).collect();
            refuse_joining(&given).err().map(|error| error.to_string())
        };
        for given in [
            &["--proc-type", "secondary"][..],
            &["-m", "64", "--proc-type=secondary"],
            &["--proc", "auto"],
        ] {
            let message = refused(given).unwrap_or_default();
            assert!(message.contains("leave it out"), "{given:?}: {message}");
        }
        for given in [
            &["--proc-type", "primary"][..],
            &["--proc-type"],
            &["--file-prefix", "secondary"],
        ] {
            assert_eq!(refused(given), None, "{given:?}");
        }
    }

    #[test]
    fn what_the_user_says_goes_before_the_defaults() {
        assert_eq!(
            whole(&["3b:00.0"], &["-l0,1", "--file-prefix=x", "-a", "3b:00.1"]),
            "-l0,1 --file-prefix=x -a 3b:00.1"
        );
        assert_eq!(
            whole(&[], &["--no-huge"]),
            "CORE --no-shconf --no-pci --no-huge"
        );
        assert_eq!(whole(&[], &["--legacy-mem"]), "CORE --no-pci --legacy-mem");
    }
}
