//! Error messages for failures of DPDK, one line each: a hint in the cases that users meet most, the
//! end of DPDK's own log in all others.

use std::fs;
use std::io;
use std::path::Path;

use super::device_arguments;
use super::name::{DeviceName, Kind};
use crate::frame::PortError;

/// Kernel drivers through which DPDK reaches a card: those that leave it to DPDK alone, and those that
/// share it.
const DRIVERS: [&str; 8] = [
    "vfio-pci",
    "uio_pci_generic",
    "igb_uio",
    "uio_hv_generic",
    "mlx5_core",
    "mlx4_core",
    "mana",
    "hv_netvsc",
];

/// Virtual devices on top of kernel interfaces: without root they fail, some of them without a word
/// in the log.
const NEED_ROOT: [&str; 3] = ["net_af_packet", "net_af_xdp", "net_tap"];

/// The most lines of the log in a message; `-v` shows all of them.
const LINES_MAX: usize = 4;

/// The failures that users meet most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorHint {
    HugePages,
    Permission,
    Argument,
    Driver,
    MemifServer,
}

/// Logged last for any argument that is known but invalid.
const INVALID_ARGUMENTS: &str = "Invalid 'command line' arguments";

/// What DPDK 22.11 logs in each case. The first sign that is found decides: without huge pages DPDK may
/// log a lack of permission too, and without permission a wrong argument.
const SIGNS: [(&str, ErrorHint); 13] = [
    ("Not enough memory available", ErrorHint::HugePages),
    ("no mounted hugetlbfs", ErrorHint::HugePages),
    ("hugepages reported", ErrorHint::HugePages),
    ("Cannot get hugepage information", ErrorHint::HugePages),
    ("Permission denied", ErrorHint::Permission),
    ("Operation not permitted", ErrorHint::Permission),
    ("unrecognized option", ErrorHint::Argument),
    ("invalid option", ErrorHint::Argument),
    ("requires an argument", ErrorHint::Argument),
    (INVALID_ARGUMENTS, ErrorHint::Argument),
    ("no driver found", ErrorHint::Driver),
    ("failed to parse device", ErrorHint::Driver),
    ("Failed to connect socket", ErrorHint::MemifServer),
];

impl ErrorHint {
    /// The hint that the log calls for, and the line that does.
    fn find(log: &str) -> Option<(Self, &str)> {
        SIGNS.iter().find_map(|(sign, hint)| {
            let line = log.lines().find(|line| line.contains(sign))?;
            Some((*hint, line.trim()))
        })
    }

    const fn text(self) -> &'static str {
        match self {
            Self::HugePages => {
                "reserve huge pages (echo 512 | sudo tee /proc/sys/vm/nr_hugepages: 1 GiB), ask for less (-- -m MIB), \
                 or go without: -- --no-huge -m 512; `flowatch doctor` shows what is reserved and mounted"
            }
            Self::Permission => {
                "run as root; devices such as net_null0 and net_memif0 need no rights with -- --no-huge -m 512"
            }
            Self::Argument => "what follows -- are EAL arguments; -- --help lists them",
            Self::Driver => {
                "no driver has this name; a virtual device is called net_null0, net_memif0, net_pcap0, \
                 net_af_packet0, net_af_xdp0, net_ring0, net_tap0 or the like, and a card by its PCI address \
                 (0000:3b:00.0)"
            }
            Self::MemifServer => {
                "start the side with role=server first, or name its socket (socket=PATH)"
            }
        }
    }
}

/// Why the EAL did not start: by its log and its error number (negative).
pub(super) fn of_start(log: &str, error: i32) -> PortError {
    // The number means little beside a log: it is EACCES without huge pages, too.
    explain("DPDK does not start", log, &error_text(error))
}

/// Why there is no such device: by DPDK's log and its error number (negative).
pub(super) fn of_device(device: &DeviceName, log: &str, error: i32) -> PortError {
    match device.kind() {
        Kind::Pci => of_card(device, log, error, Path::new("/")),
        Kind::Port(number) => PortError::Failed(format!(
            "{device}: DPDK has no port {number}; name the device, or make it by EAL arguments (-- --vdev=net_null0)"
        )),
        Kind::Virtual => match device_arguments::fault(device) {
            Some(fault) => PortError::Failed(format!("{device}: {fault}")),
            None => failed(device, "be made", log, error),
        },
    }
}

/// What could not be done with a device that is there.
pub(super) fn failed(device: &DeviceName, what: &str, log: &str, error: i32) -> PortError {
    let what = format!("{device} cannot {what}");
    let (is_card, error) = (device.kind() == Kind::Pci, error.abs());
    // Drivers of virtual devices return -1 for any fault, which as an error number would be EPERM.
    let is_permission = error == libc::EACCES
        || (is_card && error == libc::EPERM)
        || (!is_root() && NEED_ROOT.iter().any(|name| device.name().starts_with(name)));
    if is_permission && ErrorHint::find(log).is_none() {
        let line = last_lines(log);
        let line = if line.is_empty() {
            "no permission"
        } else {
            &line
        };
        return permission(&what, line);
    }
    if error == libc::EPERM && !is_card {
        return explain(&what, log, "its driver does not say why");
    }
    explain(&what, log, &error_text(error))
}

/// Why a card cannot be used; `root` is the directory above `sys`.
fn of_card(device: &DeviceName, log: &str, error: i32, root: &Path) -> PortError {
    let address = device.name();
    let card = root.join("sys/bus/pci/devices").join(address);
    if !card.exists() {
        return PortError::Failed(format!(
            "{device}: there is no such card; `flowatch doctor` lists those that there are"
        ));
    }
    let driver = fs::read_link(card.join("driver")).ok();
    let driver = driver.as_deref().and_then(Path::file_name);
    let driver = driver.map(|name| name.to_string_lossy());
    match driver.as_deref() {
        Some(name) if DRIVERS.contains(&name) => failed(device, "be used", log, error),
        driver => PortError::Failed(format!(
            "{device}: not bound to DPDK (driver: {}); sudo modprobe vfio-pci && sudo dpdk-devbind.py \
             --bind=vfio-pci {address}",
            driver.unwrap_or("none")
        )),
    }
}

/// The message for a failure: with a hint where there is one, else with the log, or `reason` where
/// nothing was logged.
fn explain(what: &str, log: &str, reason: &str) -> PortError {
    match ErrorHint::find(log) {
        Some((ErrorHint::Permission, line)) => permission(what, line),
        // Which argument is invalid is in a line before this one.
        Some((hint, line)) if line.contains(INVALID_ARGUMENTS) => {
            PortError::Failed(format!("{what}: {}; {}", last_lines(log), hint.text()))
        }
        Some((hint, line)) => PortError::Failed(format!("{what}: {line}; {}", hint.text())),
        None if log.trim().is_empty() => PortError::Failed(format!("{what}: {reason}")),
        None => PortError::Failed(format!("{what}; DPDK's log: {}", last_lines(log))),
    }
}

fn permission(what: &str, line: &str) -> PortError {
    PortError::Permission(format!("{what}: {line}; {}", ErrorHint::Permission.text()))
}

/// The end of the log in one line.
fn last_lines(log: &str) -> String {
    let lines: Vec<_> = log.lines().map(str::trim).collect();
    let lines: Vec<_> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].join(" | ")
}

fn is_root() -> bool {
    // SAFETY: asks for a number, and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn error_text(error: i32) -> String {
    io::Error::from_raw_os_error(error.abs()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(error: &PortError) -> String {
        let text = error.to_string();
        assert!(!text.contains('\n'), "{text}");
        text
    }

    /// What DPDK 22.11 logged when it was started so, and the error number that came with it.
    #[test]
    fn a_start_that_fails_comes_with_a_hint_or_the_log() {
        for (log, error, part) in [
            (
                "EAL: Detected CPU lcores: 2\nEAL: No free 2048 kB hugepages reported on node 0\n\
                 EAL: FATAL: Cannot get hugepage information.\nEAL: Cannot get hugepage information.\n",
                libc::EACCES,
                "node 0; reserve huge pages",
            ),
            (
                "EAL: 512 hugepages of size 2097152 reserved, but no mounted hugetlbfs found for that size\n\
                 EAL: FATAL: Cannot get hugepage information.\n",
                libc::EACCES,
                "no mounted hugetlbfs found for that size; ",
            ),
            (
                "EAL: Not enough memory available! Requested: 4096MB, available: 1024MB\n\
                 EAL: FATAL: Cannot init memory\n",
                libc::ENOMEM,
                "ask for less",
            ),
            (
                "flowatch: unrecognized option '--foo'\nUsage: flowatch [options]\nEAL: Detected CPU lcores: 2\n\
                 EAL: Invalid 'command line' arguments.\n",
                libc::EINVAL,
                "unrecognized option '--foo'; what follows -- are",
            ),
            (
                "EAL: lcore 7 unavailable\nEAL: invalid core list, please check specified cores are part of 0-1\n\
                 EAL: FATAL: Invalid 'command line' arguments.\nEAL: Invalid 'command line' arguments.\n",
                libc::EINVAL,
                "EAL: lcore 7 unavailable | EAL: invalid core list",
            ),
            (
                "EAL: Cannot create lock on '/var/run/dpdk/rte/config'. Is another primary process running?\n",
                libc::EACCES,
                "DPDK does not start; DPDK's log: EAL: Cannot create lock on",
            ),
            ("", libc::EINVAL, "DPDK does not start: Invalid argument"),
        ] {
            let error = of_start(log, -error);
            assert!(matches!(error, PortError::Failed(_)), "{error}");
            assert!(text(&error).contains(part), "{error}");
        }
        let log =
            "EAL: Cannot open '/var/run/dpdk/x/config' for rte_mem_config: Permission denied\n";
        let error = of_start(log, -libc::EACCES);
        assert!(matches!(error, PortError::Permission(_)), "{error}");
        assert!(text(&error).contains("Permission denied; run as root"));
    }

    /// What DPDK 22.11 logged of devices that it did not make; its error number is -1.
    #[test]
    fn a_virtual_device_that_fails_comes_with_a_hint_or_the_log() {
        for (device, log, part) in [
            (
                "net_null0,foo=bar",
                "vdev_probe(): failed to initialize net_null0 device\nEAL: Bus (vdev) probe failed.\n",
                "cannot be made; DPDK's log: vdev_probe(): failed to initialize net_null0 device | EAL: Bus",
            ),
            ("net_null0", "", "does not say why"),
            (
                "net_nothing0",
                "vdev_probe_all_drivers(): no driver found for net_nothing0\n",
                "no driver has this name",
            ),
            (
                "net_memif0,role=client",
                "memif_connect_client(): Failed to connect socket: /run/memif.sock.\n",
                "/run/memif.sock.; start the side with role=server",
            ),
        ] {
            let device = DeviceName::parse(device).unwrap();
            let error = of_device(&device, log, -libc::EPERM);
            assert!(matches!(error, PortError::Failed(_)), "{error}");
            assert!(text(&error).contains(part), "{error}");
        }
        let device = DeviceName::parse("net_tap0").unwrap();
        let log = "eth_dev_tap_create(): Unable to create TAP interface: Operation not permitted\n";
        let error = of_device(&device, log, -libc::EPERM);
        assert!(matches!(error, PortError::Permission(_)), "{error}");
    }

    #[test]
    fn a_card_that_is_not_bound_comes_with_the_command_that_binds_it() {
        let root = std::env::temp_dir().join(format!("flowatch-card-{}", std::process::id()));
        // Another process had the same number, and was killed.
        let _ = fs::remove_dir_all(&root);
        let card = root.join("sys/bus/pci/devices/0000:3b:00.0");
        let device = DeviceName::parse("3b:00.0").unwrap();
        let error = |error: i32| of_card(&device, "", -error, &root);
        let bind = |driver: Option<&str>| {
            let _ = fs::remove_dir_all(&card);
            fs::create_dir_all(&card).unwrap();
            if let Some(driver) = driver {
                let driver = format!("/drivers/{driver}");
                std::os::unix::fs::symlink(driver, card.join("driver")).unwrap();
            }
        };
        assert!(text(&error(libc::ENODEV)).contains("no such card"));
        bind(None);
        assert!(text(&error(libc::ENODEV)).contains("(driver: none)"));
        bind(Some("ixgbe"));
        let message = text(&error(libc::ENODEV));
        assert!(message.contains("(driver: ixgbe)"), "{message}");
        assert!(
            message.contains("--bind=vfio-pci 0000:3b:00.0"),
            "{message}"
        );
        bind(Some("mlx5_core"));
        assert!(text(&error(libc::ENODEV)).contains("No such device"));
        bind(Some("vfio-pci"));
        let error = error(libc::EACCES);
        assert!(matches!(error, PortError::Permission(_)), "{error}");
        fs::remove_dir_all(&root).unwrap();
    }
}
