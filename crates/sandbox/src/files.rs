//! The Landlock ruleset: which files and TCP ports a run reaches.

use crate::needs::Needs;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, make_bitflags,
};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Port of name servers, which resolvers use if an answer is too long for UDP.
const DNS_PORT: u16 = 53;

/// What every run reads: its own threads, devices and interfaces; libraries, which name services and
/// drivers load late; the time zone.
const SYSTEM_READS: [&str; 12] = [
    "/proc",
    "/sys",
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/dev/urandom",
    "/dev/random",
];

/// What looking up a name reads. `/etc` itself has secrets, so these are files; one that is replaced
/// during the run is out of reach afterwards, unless it is a link into one of the directories.
const RESOLVER_READS: [&str; 13] = [
    "/etc/ethers",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/networks",
    "/run/systemd/resolve",
    "/run/NetworkManager",
    "/run/resolvconf",
    "/run/nscd",
];

/// Where DPDK keeps its devices, huge pages and sockets.
const DPDK_WRITES: [&str; 5] = [
    "/dev/hugepages",
    "/dev/vfio",
    "/dev/shm",
    "/run/dpdk",
    "/var/run/dpdk",
];

fn reading() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{ReadFile | ReadDir})
}

/// Reading, creating, replacing and removing files and directories.
fn writing() -> BitFlags<AccessFs> {
    reading()
        | make_bitflags!(AccessFs::{
            WriteFile | Truncate | MakeReg | MakeDir | RemoveFile | RemoveDir
        })
}

/// The rights that a rule for a file, not a directory, can have.
fn on_file() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | IoctlDev})
}

/// Returns the detail of a ruleset in force.
pub(crate) fn detail() -> String {
    offered().unwrap_or_default()
}

/// Returns the version that the kernel offers, or why it offers none.
pub(crate) fn offered() -> Result<String, String> {
    match hw::confine::landlock_abi() {
        Ok(version) => Ok(format!("ABI {version}")),
        Err(error) => Err(absent(&error)),
    }
}

fn absent(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel does not have it".into(),
        Some(libc::EOPNOTSUPP) => "it is disabled in the kernel (boot with lsm=landlock,…)".into(),
        _ => error.to_string(),
    }
}

/// Creates the ruleset of a run with `needs`.
pub(crate) fn ruleset(needs: &Needs) -> Result<OwnedFd, String> {
    offered()?;
    let created = build(needs).map_err(|error| error.to_string())?;
    created.ok_or_else(|| "the kernel does not have it".into())
}

fn build(needs: &Needs) -> Result<Option<OwnedFd>, RulesetError> {
    // Rights that the kernel does not know are left out (best effort is the default).
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(make_bitflags!(AccessNet::{BindTcp | ConnectTcp}))?;
    // A memif has an abstract socket by default.
    if !needs.dpdk {
        ruleset = ruleset.scope(Scope::AbstractUnixSocket)?;
    }
    let mut ruleset = ruleset.create()?;
    for (path, access) in rules(needs) {
        // What does not exist needs no rule.
        let Ok(file) = PathFd::new(&path) else {
            continue;
        };
        let access = match path.is_dir() {
            true => access,
            false => access & on_file(),
        };
        ruleset = ruleset.add_rule(PathBeneath::new(file, access))?;
    }
    let resolver = needs.network.then_some(DNS_PORT);
    for port in needs.tcp_ports.iter().copied().chain(resolver) {
        ruleset = ruleset.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    Ok(ruleset.into())
}

fn rules(needs: &Needs) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
    let fixed = |paths: &[&str], access| {
        let rules = paths
            .iter()
            .map(|path| (Path::new(path).to_owned(), access));
        rules.collect::<Vec<_>>()
    };
    let terminal = reading() | AccessFs::WriteFile | AccessFs::IoctlDev;
    let mut rules = fixed(&SYSTEM_READS, reading());
    rules.extend(fixed(&["/dev/tty"], terminal));
    rules.extend(fixed(&["/dev/null", "/dev/zero"], writing()));
    rules.extend(std::env::current_exe().map(|program| (program, reading())));
    if needs.network {
        rules.extend(fixed(&RESOLVER_READS, reading()));
    }
    if needs.dpdk {
        rules.extend(fixed(&DPDK_WRITES, writing() | AccessFs::IoctlDev));
        rules.extend(user_runtime().map(|path| (path, writing())));
    }
    let reads = needs.read_directories().into_iter();
    rules.extend(reads.map(|path| (path, reading())));
    let above = needs.directories_above().into_iter();
    rules.extend(above.map(|path| (path, writing())));
    let writes = needs.written_directories().into_iter();
    rules.extend(writes.map(|path| (path, writing())));
    rules
}

/// The directory in which DPDK keeps its files for a user other than root.
fn user_runtime() -> Option<PathBuf> {
    let directory = std::env::var_os("XDG_RUNTIME_DIR")?;
    Some(Path::new(&directory).join("dpdk"))
}
