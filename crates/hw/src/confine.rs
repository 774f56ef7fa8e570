//! Gives up rights of the whole process: capabilities, new privileges, and a Landlock ruleset.
//!
//! The kernel keeps these per thread, and only the thread itself can give them up. So each thread gets a
//! signal, whose handler makes the system calls. This is how libc changes the user of a process, and it
//! covers threads that other libraries started (DPDK).

use std::collections::HashSet;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a thread may take to run its handler. One that blocks signals never does.
const THREAD_TIMEOUT: Duration = Duration::from_secs(1);

/// Time between looks at a thread.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// The highest number that a capability can have in a set of 64.
const CAPABILITIES_MAX: u32 = 64;

/// `_LINUX_CAPABILITY_VERSION_3` of the kernel: sets of 64 bits.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// `LANDLOCK_CREATE_RULESET_VERSION` of the kernel.
const LANDLOCK_VERSION: libc::c_uint = 1;

/// What to give up.
#[derive(Debug, Default)]
pub struct Confinement {
    /// Gain no rights by executing a program (`PR_SET_NO_NEW_PRIVS`).
    pub no_new_privs: bool,
    /// Empty the bounding set: no program that is executed gets a capability. It needs `CAP_SETPCAP`, so
    /// do it before a change of the user.
    pub bounding_set: bool,
    /// The capabilities to keep, as a set of bits; the others leave every set of the thread but the
    /// bounding set. `None` keeps all.
    pub capabilities: Option<u64>,
    /// The Landlock ruleset to enforce. It needs `no_new_privs`.
    pub landlock: Option<OwnedFd>,
}

/// What became of a [`Confinement`].
#[derive(Debug, Default)]
pub struct ConfinementReport {
    /// Threads that are confined.
    pub threads: u32,
    /// Threads that did not answer, and so keep their rights: they block signals.
    pub unreached: Vec<i32>,
    /// The first error of a thread that could not set `no_new_privs`.
    pub no_new_privs: Option<io::Error>,
    /// The first error of a thread that could not drop its capabilities.
    pub capabilities: Option<io::Error>,
    /// The first error of a thread that could not enforce the ruleset.
    pub landlock: Option<io::Error>,
    /// Whether a thread could not empty its bounding set: this needs `CAP_SETPCAP`.
    pub keeps_bounding_set: bool,
}

/// What the handler does, and its errors (0: none). Statics, since a handler has no argument.
static ACTIVE: AtomicBool = AtomicBool::new(false);
static NO_NEW_PRIVS: AtomicBool = AtomicBool::new(false);
static DROPS_BOUNDING_SET: AtomicBool = AtomicBool::new(false);
static DROPS_CAPABILITIES: AtomicBool = AtomicBool::new(false);
static KEPT_CAPABILITIES: AtomicU64 = AtomicU64::new(0);
static RULESET: AtomicI32 = AtomicI32::new(-1);
static CONFINED: AtomicU32 = AtomicU32::new(0);
static NO_NEW_PRIVS_ERROR: AtomicI32 = AtomicI32::new(0);
static CAPABILITIES_ERROR: AtomicI32 = AtomicI32::new(0);
static LANDLOCK_ERROR: AtomicI32 = AtomicI32::new(0);
static KEEPS_BOUNDING_SET: AtomicBool = AtomicBool::new(false);

/// The statics serve one call at a time.
static CALL: Mutex<()> = Mutex::new(());

/// Applies `confinement` to all threads of this process; threads that they start inherit it. It cannot
/// be undone.
///
/// # Errors
/// If the threads cannot be listed or no signal handler can be installed; then the calling thread alone
/// is confined. What a thread could not give up is in the report.
pub fn all_threads(confinement: Confinement) -> io::Result<ConfinementReport> {
    let _call = CALL
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    NO_NEW_PRIVS.store(confinement.no_new_privs, Ordering::SeqCst);
    DROPS_BOUNDING_SET.store(confinement.bounding_set, Ordering::SeqCst);
    let kept = confinement.capabilities;
    DROPS_CAPABILITIES.store(kept.is_some(), Ordering::SeqCst);
    KEPT_CAPABILITIES.store(kept.unwrap_or(0), Ordering::SeqCst);
    // Stays open: a thread that blocks signals may run its handler much later.
    RULESET.store(
        confinement.landlock.map_or(-1, IntoRawFd::into_raw_fd),
        Ordering::SeqCst,
    );
    for error in [&NO_NEW_PRIVS_ERROR, &CAPABILITIES_ERROR, &LANDLOCK_ERROR] {
        error.store(0, Ordering::SeqCst);
    }
    KEEPS_BOUNDING_SET.store(false, Ordering::SeqCst);
    CONFINED.store(0, Ordering::SeqCst);
    confine_this_thread();
    ACTIVE.store(true, Ordering::SeqCst);
    let unreached = reach_other_threads();
    ACTIVE.store(false, Ordering::SeqCst);
    let error = |code: &AtomicI32| match code.load(Ordering::SeqCst) {
        0 => None,
        code => Some(io::Error::from_raw_os_error(code)),
    };
    Ok(ConfinementReport {
        threads: CONFINED.load(Ordering::SeqCst),
        unreached: unreached?,
        no_new_privs: error(&NO_NEW_PRIVS_ERROR),
        capabilities: error(&CAPABILITIES_ERROR),
        landlock: error(&LANDLOCK_ERROR),
        keeps_bounding_set: KEEPS_BOUNDING_SET.load(Ordering::SeqCst),
    })
}

/// Signals every other thread in turn and waits for it. Returns those that did not answer.
fn reach_other_threads() -> io::Result<Vec<i32>> {
    // SAFETY: no arguments.
    let (process, this) = unsafe { (libc::getpid(), libc::gettid()) };
    let mut done = HashSet::from([this]);
    if threads()?.iter().all(|thread| done.contains(thread)) {
        return Ok(Vec::new());
    }
    let mut handler = Handler::install()?;
    let mut unreached = Vec::new();
    // A thread that was not confined yet may have started another meanwhile.
    loop {
        let new: Vec<i32> = threads()?
            .into_iter()
            .filter(|thread| done.insert(*thread))
            .collect();
        if new.is_empty() {
            return Ok(unreached);
        }
        for thread in new {
            let before = CONFINED.load(Ordering::SeqCst);
            // SAFETY: no memory is passed; a thread that has ended gives ESRCH.
            let sent = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, handler.signal) };
            let deadline = Instant::now() + THREAD_TIMEOUT;
            while sent == 0 && CONFINED.load(Ordering::SeqCst) == before && exists(thread) {
                if Instant::now() >= deadline {
                    break;
                }
                std::thread::sleep(POLL_INTERVAL);
            }
            if CONFINED.load(Ordering::SeqCst) == before && exists(thread) {
                handler.is_pending = true;
                unreached.push(thread);
            }
        }
    }
}

fn threads() -> io::Result<Vec<i32>> {
    let names = std::fs::read_dir("/proc/self/task")?;
    let numbers = names.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(numbers.collect())
}

fn exists(thread: i32) -> bool {
    std::fs::exists(format!("/proc/self/task/{thread}")).unwrap_or(false)
}

/// The installed signal handler, until dropped.
struct Handler {
    signal: libc::c_int,
    previous: libc::sigaction,
    /// Whether a thread still has the signal pending.
    is_pending: bool,
}

impl Handler {
    /// Installs the handler for a real-time signal that has the default action: for one that no one uses.
    fn install() -> io::Result<Self> {
        for signal in libc::SIGRTMIN()..=libc::SIGRTMAX() {
            let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: reads the action of the signal into memory of its type.
            let read = unsafe { libc::sigaction(signal, ptr::null(), previous.as_mut_ptr()) };
            // SAFETY: zeroes are a valid action, and the kernel wrote one on success.
            let previous = unsafe { previous.assume_init() };
            if read != 0 || previous.sa_sigaction != libc::SIG_DFL {
                continue;
            }
            // SAFETY: zeroes are a valid action: no flags, an empty mask.
            let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
            // Reads and writes of the thread continue afterwards.
            action.sa_flags = libc::SA_RESTART;
            // SAFETY: a valid action, whose handler makes only system calls.
            if unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } == 0 {
                return Ok(Self {
                    signal,
                    previous,
                    is_pending: false,
                });
            }
        }
        Err(io::Error::other("all real-time signals are in use"))
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        if self.is_pending {
            // The default action would end the process.
            self.previous.sa_sigaction = libc::SIG_IGN;
        }
        // SAFETY: a valid action.
        unsafe { libc::sigaction(self.signal, &raw const self.previous, ptr::null_mut()) };
    }
}

extern "C" fn on_signal(_signal: libc::c_int) {
    if ACTIVE.load(Ordering::SeqCst) {
        // SAFETY: the address of this thread's errno; the interrupted code must find it unchanged.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        let saved = unsafe { *errno };
        confine_this_thread();
        // SAFETY: as above.
        unsafe { *errno = saved };
    }
}

/// Confines the calling thread. Runs in a signal handler: no memory is allocated and no lock taken.
fn confine_this_thread() {
    let note = |error: &AtomicI32| {
        let code = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        let _ = error.compare_exchange(0, code, Ordering::SeqCst, Ordering::SeqCst);
    };
    if NO_NEW_PRIVS.load(Ordering::SeqCst) {
        // SAFETY: no memory is passed.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            note(&NO_NEW_PRIVS_ERROR);
        }
    }
    let ruleset = RULESET.load(Ordering::SeqCst);
    // SAFETY: no memory is passed; a number that is no ruleset is refused.
    if ruleset >= 0 && unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) } != 0 {
        note(&LANDLOCK_ERROR);
    }
    if DROPS_BOUNDING_SET.load(Ordering::SeqCst) && !empty_bounding_set() {
        KEEPS_BOUNDING_SET.store(true, Ordering::SeqCst);
    }
    if DROPS_CAPABILITIES.load(Ordering::SeqCst)
        && drop_capabilities(KEPT_CAPABILITIES.load(Ordering::SeqCst)).is_err()
    {
        note(&CAPABILITIES_ERROR);
    }
    CONFINED.fetch_add(1, Ordering::SeqCst);
}

/// The header of capset(2).
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    thread: libc::c_int,
}

/// One half of the sets of capset(2) and capget(2).
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct CapabilityData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Empties the bounding set of the calling thread. Returns whether it is empty.
fn empty_bounding_set() -> bool {
    let mut is_empty = true;
    for capability in 0..CAPABILITIES_MAX {
        // SAFETY: no memory is passed; a number beyond the kernel's last capability is refused.
        if unsafe { libc::prctl(libc::PR_CAPBSET_READ, capability, 0, 0, 0) } == 1 {
            // SAFETY: as above.
            is_empty &= unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } == 0;
        }
    }
    is_empty
}

/// Drops all capabilities but `kept` from the other sets of the calling thread. The error is in `errno`.
fn drop_capabilities(kept: u64) -> Result<(), ()> {
    // An old kernel has no ambient set, which is an empty one.
    // SAFETY: no memory is passed.
    unsafe {
        libc::prctl(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_CLEAR_ALL,
            0,
            0,
            0,
        )
    };
    let header = CapabilityHeader {
        version: CAPABILITY_VERSION,
        thread: 0,
    };
    let mut sets = [CapabilityData::default(); 2];
    // SAFETY: a header of version 3 and its two halves.
    if unsafe { libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) } != 0 {
        return Err(());
    }
    for (half, set) in sets.iter_mut().enumerate() {
        let kept = (kept >> (32 * half)) as u32;
        set.permitted &= kept;
        // A thread that changed its user has them permitted, but not effective.
        set.effective = set.permitted;
        set.inheritable = 0;
    }
    // SAFETY: as above.
    match unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) } {
        0 => Ok(()),
        _ => Err(()),
    }
}

/// Returns the version of Landlock's interface in the running kernel.
///
/// # Errors
/// If the kernel has no Landlock, or it is disabled.
pub fn landlock_abi() -> io::Result<u32> {
    // SAFETY: asks for the version: no memory is passed.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<libc::c_void>(),
            0usize,
            LANDLOCK_VERSION,
        )
    };
    u32::try_from(version).map_err(|_| io::Error::last_os_error())
}

/// Returns whether the kernel can filter system calls and lets this process do so.
#[must_use]
pub fn can_filter_system_calls() -> bool {
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the address of an action, which the call reads.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            &raw const action,
        )
    };
    answer == 0
}
