//! Error messages for failures of DPDK, one line each: with a hint in common cases, with the end of
//! DPDK's log in all others.

use std::fs;
use std::io;
use std::path::Path;

use super::device_arguments;
use super::name::{DeviceName, Kind};
use crate::frame::PortError;

/// Kernel drivers with which DPDK can use a NIC: those that leave it to DPDK entirely, and those that
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

/// Virtual devices on kernel interfaces. They fail without root, some of them without a log message.
const NEED_ROOT: [&str; 3] = ["net_af_packet", "net_af_xdp", "net_tap"];

/// Maximum number of log lines in a message; `-v` shows the whole log.
const LINES_MAX: usize = 4;

/// Common causes of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorHint {
    HugePages,
    Permission,
    Argument,
    Driver,
    MemifServer,
}

/// The last log line for any known option with an invalid argument.
const INVALID_ARGUMENTS: &str = "Invalid 'command line' arguments";

/// Log messages of DPDK 22.11 for each cause. The first one found decides: without huge pages DPDK may
/// also log a missing permission, and without permission an invalid argument.
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
    /// Returns the hint for a log, and the log line that indicates it.
    fn find(log: &str) -> Option<(Self, &str)> {
        SIGNS.iter().find_map(|(sign, hint)| {
            let line = log.lines().find(|line| line.contains(sign))?;
            Some((*hint, line.trim()))
        })
    }

    const fn text(self) -> &'static str {
        match self {
            Self::HugePages => {
                "reserve huge pages (echo 512 | sudo tee /proc/sys/vm/nr_hugepages: 1 GiB), request less memory \
                 (-- -m MIB), or run without huge pages (-- --no-huge -m 512); `flowatch doctor` shows what is reserved and \
                 mounted"
            }
            Self::Permission => {
                "run as root; devices such as net_null0 and net_memif0 need no root with -- --no-huge -m 512"
            }
            Self::Argument => "the arguments after -- are EAL arguments; -- --help lists them",
            Self::Driver => {
                "no driver has this name; names of virtual devices are net_null0, net_memif0, net_pcap0, \
                 net_af_packet0, net_af_xdp0, net_ring0, net_tap0 and so on, that of a NIC is its PCI address \
                 (0000:3b:00.0)"
            }
            Self::MemifServer => {
                "start the side with role=server first, or specify its socket (socket=PATH)"
            }
        }
    }
}

/// Returns the error for a failed start of the EAL, from its log and negative error number.
pub(super) fn of_start(log: &str, error: i32) -> PortError {
    // The log is more reliable than the number, which is EACCES without huge pages, too.
    explain("DPDK does not start", log, &error_text(error))
}

/// Returns the error for a device that was not found or created, from DPDK's log and negative error
/// number.
pub(super) fn of_device(device: &DeviceName, log: &str, error: i32) -> PortError {
    match device.kind() {
        Kind::Pci => of_card(device, log, error, Path::new("/")),
        Kind::Port(number) => PortError::Failed(format!(
            "{device}: DPDK has no port {number}; specify the device, or create it by EAL arguments (-- --vdev=net_null0)"
        )),
        Kind::Virtual => match device_arguments::fault(device) {
            Some(fault) => PortError::Failed(format!("{device}: {fault}")),
            None => failed(device, "be created", log, error),
        },
    }
}

/// Returns the error for a failed `action` on a device.
pub(super) fn failed(device: &DeviceName, action: &str, log: &str, error: i32) -> PortError {
    let failure = format!("{device} cannot {action}");
    let (is_card, error) = (device.kind() == Kind::Pci, error.abs());
    // Drivers of virtual devices return -1 for any failure, which as an error number would be EPERM.
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
        return permission(&failure, line);
    }
    if error == libc::EPERM && !is_card {
        return explain(&failure, log, "its driver reports no reason");
    }
    explain(&failure, log, &error_text(error))
}

/// Returns the error for a NIC that cannot be used; `root` is the parent directory of `sys`.
fn of_card(device: &DeviceName, log: &str, error: i32, root: &Path) -> PortError {
    let address = device.name();
    let card = root.join("sys/bus/pci/devices").join(address);
    if !card.exists() {
        return PortError::Failed(format!(
            "{device}: no such card; `flowatch doctor` lists the available ones"
        ));
    }
    let driver = fs::read_link(card.join("driver")).ok();
    let driver = driver.as_deref().and_then(Path::file_name);
    let driver = driver.map(|name| name.to_string_lossy());
    match driver.as_deref() {
        Some(name) if DRIVERS.contains(&name) => failed(device, "be used", log, error),
        driver => PortError::Failed(format!(
            "{device}: not bound to a DPDK driver (driver: {}); sudo modprobe vfio-pci && sudo dpdk-devbind.py \
             --bind=vfio-pci {address}",
            driver.unwrap_or("none")
        )),
    }
}

/// Returns the error for a failure: with a hint if there is one, else with the log, or with `reason` if
/// nothing was logged.
fn explain(failure: &str, log: &str, reason: &str) -> PortError {
    match ErrorHint::find(log) {
        Some((ErrorHint::Permission, line)) => permission(failure, line),
        // A previous line says which argument is invalid.
        Some((hint, line)) if line.contains(INVALID_ARGUMENTS) => {
            PortError::Failed(format!("{failure}: {}; {}", last_lines(log), hint.text()))
        }
        Some((hint, line)) => PortError::Failed(format!("{failure}: {line}; {}", hint.text())),
        None if log.trim().is_empty() => PortError::Failed(format!("{failure}: {reason}")),
        None => PortError::Failed(format!("{failure}; DPDK's log: {}", last_lines(log))),
    }
}

fn permission(failure: &str, line: &str) -> PortError {
    PortError::Permission(format!(
        "{failure}: {line}; {}",
        ErrorHint::Permission.text()
    ))
}

/// Joins the last lines of the log into one.
fn last_lines(log: &str) -> String {
    let lines: Vec<_> = log.lines().map(str::trim).collect();
    let lines: Vec<_> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].join(" | ")
}

fn is_root() -> bool {
    // SAFETY: returns an integer and cannot fail.
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

    /// Logs of DPDK 22.11 for failed starts, and the error numbers.
    #[test]
    fn failed_start_has_a_hint_or_the_log() {
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
                "request less memory",
            ),
            (
                "flowatch: unrecognized option '--foo'\nUsage: flowatch [options]\nEAL: Detected CPU lcores: 2\n\
                 EAL: Invalid 'command line' arguments.\n",
                libc::EINVAL,
                "unrecognized option '--foo'; the arguments after --",
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

    /// Logs of DPDK 22.11 for devices that were not created; the error number is -1.
    #[test]
    fn failed_virtual_device_has_a_hint_or_the_log() {
        for (device, log, part) in [
            (
                "net_null0,foo=bar",
                "vdev_probe(): failed to initialize net_null0 device\nEAL: Bus (vdev) probe failed.\n",
                "cannot be created; DPDK's log: vdev_probe(): failed to initialize net_null0 device | EAL: Bus",
            ),
            ("net_null0", "", "reports no reason"),
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
    fn unbound_nic_has_the_command_that_binds_it() {
        let root = std::env::temp_dir().join(format!("flowatch-card-{}", std::process::id()));
        // May be left over from a process with the same ID.
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
