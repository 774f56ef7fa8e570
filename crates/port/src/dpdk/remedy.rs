//! From what DPDK says when something fails to one line for a person, with what to do about it.

use std::fs;
use std::io;
use std::path::Path;

use super::device_arguments;
use super::name::{DeviceName, Kind};
use crate::frame::PortError;

/// Drivers of the kernel that leave a card to DPDK.
const FOR_DPDK: [&str; 4] = ["vfio-pci", "uio_pci_generic", "igb_uio", "uio_hv_generic"];

/// Cards that DPDK shares with the kernel's own driver.
const SHARED: [&str; 4] = ["mlx5_core", "mlx4_core", "mana", "hv_netvsc"];

/// Virtual devices that are made of the kernel's interfaces, which needs rights.
const FOR_ROOT: [&str; 3] = ["net_af_packet", "net_af_xdp", "net_tap"];

const PAGES: &str = "reserve some (echo 512 | sudo tee /proc/sys/vm/nr_hugepages: 1 GiB), or go without: \
                     -- --no-huge -m 512";

/// What the EAL says last of a wrong argument, whatever it was: the line before says what.
const EMPTY: [&str; 2] = ["Invalid 'command line' arguments", "Error - exiting"];

/// Why the EAL did not start: by what it printed, its error number (negative), and the arguments that
/// the user gave.
pub(super) fn of_start(said: &str, error: i32, given: &[String]) -> PortError {
    let said_any = |parts: &[&str]| parts.iter().any(|part| said.contains(part));
    if let Some(line) = line_with(
        said,
        &[
            "unrecognized option",
            "invalid option",
            "requires an argument",
        ],
    ) {
        // `flowatch: unrecognized option '--foo'`.
        let what = line.split_once(": ").map_or(line, |(_, what)| what);
        return PortError::Failed(format!(
            "DPDK: {what} (what follows -- are EAL arguments; -- --help lists them)"
        ));
    }
    let wrong = [
        "is not compatible",
        "Invalid",
        "invalid",
        "unavailable",
        "Error creating",
    ];
    if let Some(line) = line_with(said, &wrong)
        && !line.contains("Permission denied")
    {
        let is_ours = line.contains("--legacy-mem")
            && !given.iter().any(|argument| argument.contains("--legacy"));
        let why = if is_ours {
            " (--no-huge means --legacy-mem)"
        } else {
            ""
        };
        return PortError::Failed(format!("DPDK: {}{why}", bare(line)));
    }
    if said_any(&["Is another primary process running"]) {
        return PortError::Failed(
            "DPDK: another primary process has this file prefix; give another: -- --file-prefix NAME".into(),
        );
    }
    if said.contains("Not enough memory available") {
        let line = line_with(said, &["Not enough memory available"]).unwrap_or_default();
        return PortError::Failed(format!(
            "DPDK: {}; ask for less (-- -m MIB), or {PAGES}",
            bare(line)
        ));
    }
    let hugetlbfs = given
        .iter()
        .skip_while(|argument| !argument.starts_with("--huge-dir"));
    if said.contains("no mounted hugetlbfs")
        && let Some(directory) = hugetlbfs
            .flat_map(|argument| argument.split('='))
            .find(|part| !part.starts_with("--"))
    {
        return PortError::Failed(format!(
            "DPDK: --huge-dir {directory}: no hugetlbfs is mounted there; leave it out, and flowatch needs none"
        ));
    }
    if said.contains("no mounted hugetlbfs") && said.contains("Cannot get hugepage information") {
        return PortError::Failed(
            "DPDK: huge pages are reserved, but no hugetlbfs is mounted: sudo mkdir -p /dev/hugepages && \
             sudo mount -t hugetlbfs none /dev/hugepages; or go without the file system: -- --in-memory"
                .into(),
        );
    }
    let permission =
        said_any(&["Permission denied", "Operation not permitted"]) || -error == libc::EPERM;
    if permission && !said_any(&["hugepages reported"]) {
        let line = line_with(said, &["Permission denied", "Operation not permitted"]);
        return PortError::Permission(format!(
            "DPDK: {}; run as root (without cards and huge pages: as anybody, with -- --no-huge -m 512)",
            line.map_or("permission denied", bare)
        ));
    }
    if said_any(&[
        "Cannot get hugepage information",
        "No free",
        "Cannot init memory",
        "couldn't allocate memory",
    ]) {
        return PortError::Failed(format!("DPDK: no huge pages are free: {PAGES}"));
    }
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    PortError::Failed(format!(
        "DPDK does not start: {}",
        last.map_or_else(|| error_text(error), |line| bare(line).to_owned())
    ))
}

/// Why there is no such device: by what DPDK logged, and its error number (negative).
pub(super) fn of_device(device: &DeviceName, said: &str, error: i32) -> PortError {
    match device.kind() {
        Kind::Pci => of_card(device, said, error, Path::new("/")),
        Kind::Port(number) => PortError::Failed(format!(
            "{device}: DPDK has no port {number}; name the device, or make it by EAL arguments (-- --vdev=net_null0)"
        )),
        Kind::Virtual => {
            if let Some(fault) = device_arguments::fault(device) {
                return PortError::Failed(format!("{device}: {fault}"));
            }
            let is_unknown = ["no driver found", "failed to parse device"];
            if is_unknown.iter().any(|part| said.contains(part)) {
                return PortError::Failed(format!(
                    "{device}: no driver has this name; a virtual device is called net_null0, net_memif0, \
                     net_pcap0, net_af_packet0, net_af_xdp0, net_ring0, net_tap0 or the like, and a card by its \
                     PCI address (0000:3b:00.0)"
                ));
            }
            if reason(said).is_none() && -error != libc::EACCES {
                // Drivers return -1 for any fault, which as an error number would be a missing right.
                let arguments = match device.arguments() {
                    "" => "it has none".to_owned(),
                    arguments => format!("they are '{arguments}'"),
                };
                return PortError::Failed(format!(
                    "{device}: its driver does not make it, and does not say why; see to its arguments ({arguments})"
                ));
            }
            failed(device, "be made", said, error)
        }
    }
}

/// The line of the log that says why something failed.
fn reason(said: &str) -> Option<&str> {
    let lines = said.lines().filter(|line| {
        // That a probe has failed is known.
        !["vdev_probe()", "probe failed", "Driver cannot attach", "Failed to attach"]
            .iter()
            .any(|part| line.contains(part))
            // A driver of 22.11 says this of every memif when there are no other processes.
            && !line.contains("register mp action")
    });
    let signs = [
        "rror", "ail", "annot", "ouldn't", "ould not", "nvalid", "nable", "nknown", "not ",
    ];
    lines
        .rev()
        .find(|line| signs.iter().any(|sign| line.contains(sign)))
        .map(bare)
}

/// What could not be done with a device that is there.
pub(super) fn failed(device: &DeviceName, what: &str, said: &str, error: i32) -> PortError {
    // The kernel's answer, in the log; drivers of virtual devices return -1 (EPERM) for any fault.
    let kernel_refuses = [
        "Operation not permitted",
        "Permission denied",
        "permission to",
    ]
    .iter()
    .any(|part| said.contains(part));
    // Some of them say no word of why.
    let wants_root = !is_root() && FOR_ROOT.iter().any(|name| device.name().starts_with(name));
    let means_nothing = device.kind() != Kind::Pci && -error == libc::EPERM;
    let why = match reason(said) {
        None => error_text(error),
        Some(line) if means_nothing => line.to_owned(),
        Some(line) => format!("{line} ({})", error_text(error)),
    };
    if let Some((_, socket)) = why.split_once("Failed to connect socket: ") {
        // The error number that comes with it says nothing of the kind.
        let socket = socket
            .split(" (")
            .next()
            .unwrap_or(socket)
            .trim_end_matches('.');
        return PortError::Failed(format!(
            "{device} cannot {what}: nobody serves {socket}; start the side with role=server first, or name its \
             socket (socket=PATH)"
        ));
    }
    let message = format!("{device} cannot {what}: {why}");
    let is_missing = kernel_refuses
        || wants_root
        || (!means_nothing && [libc::EPERM, libc::EACCES].contains(&-error));
    if is_missing {
        PortError::Permission(format!("{message}; run as root"))
    } else {
        PortError::Failed(message)
    }
}

/// Why a card cannot be used; what the system says of it lies below `root`.
fn of_card(device: &DeviceName, said: &str, error: i32, root: &Path) -> PortError {
    let address = device.name();
    let place = root.join("sys/bus/pci/devices").join(address);
    if !place.exists() {
        return PortError::Failed(format!(
            "{device}: there is no such card; `flowatch doctor` lists those that there are"
        ));
    }
    let driver = fs::read_link(place.join("driver")).ok();
    let driver = driver
        .as_deref()
        .and_then(Path::file_name)
        .map(|name| name.to_string_lossy().into_owned());
    let bind = format!("sudo modprobe vfio-pci && sudo dpdk-devbind.py --bind=vfio-pci {address}");
    match driver.as_deref() {
        None => PortError::Failed(format!("{device}: no driver has this card; {bind}")),
        Some(name) if FOR_DPDK.contains(&name) => {
            let iommu = fs::read_dir(root.join("sys/kernel/iommu_groups"))
                .is_ok_and(|mut groups| groups.next().is_some());
            if name == "vfio-pci" && !iommu {
                return PortError::Failed(format!(
                    "{device}: bound to vfio-pci, but this machine's IOMMU is off: switch it on (kernel command \
                     line: intel_iommu=on or amd_iommu=on), or go without its protection: echo 1 | sudo tee \
                     /sys/module/vfio/parameters/enable_unsafe_noiommu_mode"
                ));
            }
            if said.contains("Permission denied") || -error == libc::EACCES {
                return PortError::Permission(format!(
                    "{device}: no permission to open it under /dev/vfio; run as root"
                ));
            }
            failed(device, "be used", said, error)
        }
        Some(name) if SHARED.contains(&name) => failed(device, "be used", said, error),
        Some(name) => {
            let interface = fs::read_dir(place.join("net"))
                .ok()
                .and_then(|mut names| names.next()?.ok())
                .map(|entry| format!(" as {}", entry.file_name().to_string_lossy()));
            let interface = interface.unwrap_or_default();
            PortError::Failed(format!(
                "{device}: the kernel has this card{interface} (driver {name}); give it to DPDK: {bind}"
            ))
        }
    }
}

/// The last line that holds one of the parts.
fn line_with<'a>(text: &'a str, parts: &[&str]) -> Option<&'a str> {
    text.lines()
        .filter(|line| !EMPTY.iter().any(|part| line.contains(part)))
        .rfind(|line| parts.iter().any(|part| line.contains(part)))
        .map(str::trim)
}

/// A line of the log without its component.
fn bare(line: &str) -> &str {
    let line = line.trim();
    let line = line.strip_prefix("EAL: ").unwrap_or(line);
    line.strip_prefix("FATAL: ").unwrap_or(line)
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
    use std::path::PathBuf;

    fn text(error: &PortError) -> String {
        let text = error.to_string();
        assert!(!text.contains('\n'), "{text}");
        text
    }

    /// What DPDK 22.11 printed when it was started so, and the error number that came with it.
    #[test]
    fn a_start_that_fails_comes_with_the_remedy() {
        let cases = [
            (
                "EAL: Detected CPU lcores: 2\nEAL: No free 2048 kB hugepages reported on node 0\n\
                 EAL: FATAL: Cannot get hugepage information.\nEAL: Cannot get hugepage information.\n",
                libc::EACCES,
                "nr_hugepages",
            ),
            (
                "EAL: 512 hugepages of size 2097152 reserved, but no mounted hugetlbfs found for that size\n\
                 EAL: FATAL: Cannot get hugepage information.\n",
                libc::EACCES,
                "mount -t hugetlbfs",
            ),
            (
                "EAL: Not enough memory available! Requested: 4096MB, available: 1024MB\n\
                 EAL: FATAL: Cannot init memory\n",
                libc::ENOMEM,
                "Requested: 4096MB, available: 1024MB; ask for less",
            ),
            (
                "flowatch: unrecognized option '--foo'\nEAL: Detected CPU lcores: 2\n",
                libc::EINVAL,
                "DPDK: unrecognized option '--foo' (",
            ),
            (
                "EAL: Cannot create lock on '/var/run/dpdk/rte/config'. Is another primary process running?\n",
                libc::EACCES,
                "--file-prefix NAME",
            ),
            (
                "EAL: Option --legacy-mem is not compatible with --in-memory\n",
                22,
                "is not compatible with --in-memory (--no-huge means",
            ),
            (
                "EAL: lcore 7 unavailable\nEAL: invalid core list, please check specified cores are part of 0-1\n\
                 EAL: FATAL: Invalid 'command line' arguments.\nEAL: Invalid 'command line' arguments.\n",
                libc::EINVAL,
                "DPDK: invalid core list",
            ),
            (
                "EAL: Error creating '/var/run/dpdk/a/b': No such file or directory\n\
                 EAL: Cannot create runtime directory\nEAL: FATAL: Invalid 'command line' arguments.\n",
                libc::EINVAL,
                "DPDK: Error creating '/var/run/dpdk/a/b': No such file",
            ),
            ("", libc::EINVAL, "DPDK does not start: Invalid argument"),
        ];
        for (said, error, part) in cases {
            let error = of_start(said, -error, &[]);
            assert!(matches!(error, PortError::Failed(_)), "{error}");
            assert!(text(&error).contains(part), "{error}");
        }
        let said =
            "EAL: Cannot open '/var/run/dpdk/x/config' for rte_mem_config: Permission denied\n";
        let error = of_start(said, -libc::EACCES, &[]);
        assert!(matches!(error, PortError::Permission(_)), "{error}");
        assert!(text(&error).contains("run as root"));
    }

    #[test]
    fn a_memif_without_a_server_is_told_what_is_missing() {
        let device = DeviceName::parse("net_memif0,role=client").unwrap();
        let said = "memif_connect_client(): Failed to connect socket: /run/memif.sock.\n";
        let error = failed(&device, "start", said, -libc::EPERM);
        assert!(matches!(error, PortError::Failed(_)), "{error}");
        assert!(
            text(&error).contains("nobody serves /run/memif.sock; start the side with role=server")
        );
    }

    /// What DPDK 22.11 logged of devices that it did not make; its error number is -1.
    #[test]
    fn a_virtual_device_that_is_not_made_is_no_missing_right() {
        let says = |device: &str, said: &str| {
            let device = DeviceName::parse(device).unwrap();
            of_device(&device, said, -libc::EPERM)
        };
        let common =
            "vdev_probe(): failed to initialize net_x device\nEAL: Bus (vdev) probe failed.\n";
        for (device, said, part) in [
            ("net_null0,foo=bar", "", "(they are 'foo=bar')"),
            (
                "net_memif0,role=server,bsize=99999999",
                "rte_pmd_memif_probe(): Failed to register mp action callback: Operation not supported\n\
                 memif_set_bs(): Invalid buffer size: 99999999.\n",
                "cannot be made: memif_set_bs(): Invalid buffer size: 99999999.",
            ),
        ] {
            let error = says(device, &format!("{said}{common}"));
            assert!(matches!(error, PortError::Failed(_)), "{error}");
            assert!(text(&error).contains(part), "{error}");
            assert!(!text(&error).contains("not permitted"), "{error}");
        }
        let said =
            "eth_dev_tap_create(): Unable to create TAP interface: Operation not permitted\n";
        let error = says("net_tap0", said);
        assert!(matches!(error, PortError::Permission(_)), "{error}");
        let error = says(
            "net_nothing0",
            "vdev_probe_all_drivers(): no driver found for net_nothing0\n",
        );
        assert!(text(&error).contains("no driver has this name"), "{error}");
    }

    #[test]
    fn a_directory_without_huge_pages_is_named() {
        let said = "EAL: 512 hugepages of size 2097152 reserved, but no mounted hugetlbfs found for that size\n\
                    EAL: FATAL: Cannot get hugepage information.\n";
        for given in [&["--huge-dir", "/nowhere"][..], &["--huge-dir=/nowhere"]] {
            let given: Vec<_> = given.iter().map(ToString::to_string).collect();
            let error = of_start(said, -libc::EACCES, &given);
            assert!(
                text(&error).contains("--huge-dir /nowhere: no hugetlbfs"),
                "{error}"
            );
        }
    }

    /// A tree with a card that `driver` has, gone with the value.
    struct Machine(PathBuf);

    impl Machine {
        fn new(name: &str, driver: Option<&str>, iommu: bool) -> Self {
            let root =
                std::env::temp_dir().join(format!("flowatch-remedy-{name}-{}", std::process::id()));
            // Another process had the same number, and was killed.
            let _ = fs::remove_dir_all(&root);
            let card = root.join("sys/bus/pci/devices/0000:3b:00.0");
            fs::create_dir_all(card.join("net/eth7")).unwrap();
            if let Some(driver) = driver {
                std::os::unix::fs::symlink(format!("/drivers/{driver}"), card.join("driver"))
                    .unwrap();
            }
            if iommu {
                fs::create_dir_all(root.join("sys/kernel/iommu_groups/0")).unwrap();
            }
            Self(root)
        }

        fn says(&self, said: &str, error: i32) -> PortError {
            let device = DeviceName::parse("3b:00.0").unwrap();
            of_card(&device, said, -error, &self.0)
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_card_that_cannot_be_had_comes_with_the_remedy() {
        let says = |driver, iommu, part: &str| {
            let machine = Machine::new("card", driver, iommu);
            let error = machine.says("", libc::ENODEV);
            assert!(text(&error).contains(part), "{error}");
        };
        says(
            Some("ixgbe"),
            true,
            "the kernel has this card as eth7 (driver ixgbe)",
        );
        says(Some("ixgbe"), true, "--bind=vfio-pci 0000:3b:00.0");
        says(None, true, "no driver has this card");
        says(Some("vfio-pci"), false, "iommu=on");
        says(Some("mlx5_core"), true, "No such device");
        let machine = Machine::new("rights", Some("vfio-pci"), true);
        let error = machine.says(
            "EAL: Cannot open /dev/vfio/12: Permission denied",
            libc::ENODEV,
        );
        assert!(matches!(error, PortError::Permission(_)), "{error}");
        let device = DeviceName::parse("3b:00.0").unwrap();
        let nowhere = of_card(&device, "", -libc::ENODEV, Path::new("/nonexistent"));
        assert!(text(&nowhere).contains("no such card"), "{nowhere}");
    }
}
