//! What DPDK devices (`-i dpdk:…`) need: the build, memory, an IOMMU, and network cards.

use super::finding::Finding;
use super::system::System;

/// Kernel drivers that hand a card over to DPDK.
const DPDK_DRIVERS: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

/// Kernel drivers that share a card with DPDK.
const SHARED_DRIVERS: [&str; 3] = ["mlx5_core", "mlx4_core", "mana"];

/// First byte of the PCI class of network controllers.
const NETWORK_CLASS: &str = "0x02";

/// Where Debian-based systems keep DPDK's drivers, in a directory per architecture.
const LIBRARIES: &str = "usr/lib";

pub(crate) fn findings(system: &System) -> Vec<Finding> {
    if !cfg!(feature = "dpdk") {
        return vec![
            Finding::note("DPDK", "not in this build").with_command(
                "./setup --dpdk && cargo build --release -p flowatch --features dpdk",
            ),
        ];
    }
    let mut findings = vec![version(system), huge_pages(system)];
    findings.extend(mount(system));
    findings.push(iommu(system));
    findings.extend(cards(system));
    findings
}

fn version(system: &System) -> Finding {
    #[cfg(feature = "dpdk")]
    let version = port::dpdk::version();
    #[cfg(not(feature = "dpdk"))]
    let version = String::new();
    match drivers(system) {
        Some(0) => Finding::missing(
            "DPDK",
            format!("{version}; no drivers are installed, so no device can be opened"),
        )
        .with_command("sudo apt-get install dpdk"),
        Some(count) => Finding::ok("DPDK", format!("{version}, {count} device drivers")),
        None => Finding::ok("DPDK", version),
    }
}

/// Counts the network drivers that DPDK loads when it starts, if they are in Debian's directory.
fn drivers(system: &System) -> Option<usize> {
    let directories = system
        .names(LIBRARIES)
        .into_iter()
        .flat_map(|architecture| {
            let base = format!("{LIBRARIES}/{architecture}/dpdk");
            let versions = system.names(&base).into_iter();
            versions
                .filter(|name| name.starts_with("pmds-"))
                .map(move |name| format!("{base}/{name}"))
        });
    directories
        .map(|directory| {
            let names = system.names(&directory);
            let is_driver =
                |name: &&String| name.starts_with("librte_net_") && name.ends_with(".so");
            names.iter().filter(is_driver).count()
        })
        .reduce(usize::max)
}

fn huge_pages(system: &System) -> Finding {
    let sizes = system.names("sys/kernel/mm/hugepages");
    let mut reserved = Vec::new();
    let mut any_free = false;
    for size in &sizes {
        let number = |file: &str| {
            system
                .number(&format!("sys/kernel/mm/hugepages/{size}/{file}"))
                .unwrap_or(0)
        };
        let (all, free) = (number("nr_hugepages"), number("free_hugepages"));
        any_free |= free > 0;
        if all > 0 {
            let size = size.trim_start_matches("hugepages-");
            reserved.push(format!("{all} of {size} reserved, {free} free"));
        }
    }
    if reserved.is_empty() {
        Finding::missing(
            "huge pages",
            "none are reserved: DPDK devices need them, unless -- --no-huge is used, which is slower",
        )
        .with_command("echo 512 | sudo tee /proc/sys/vm/nr_hugepages")
    } else if !any_free {
        Finding::missing(
            "huge pages",
            format!(
                "{}: other programs use all of them; end one, reserve more, or use -- --no-huge, which is slower",
                reserved.join("; ")
            ),
        )
        .with_command("sudo grep -l 'HugetlbPages:.*[1-9]' /proc/[0-9]*/status")
    } else {
        Finding::ok("huge pages", reserved.join("; "))
    }
}

/// The huge page file system, which only some EAL arguments need.
fn mount(system: &System) -> Option<Finding> {
    let mounts = system.read("proc/mounts")?;
    let mounted = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, path, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "hugetlbfs").then(|| path.to_owned())
    });
    Some(match mounted {
        Some(path) => Finding::ok("hugetlbfs", format!("mounted on {path}")),
        None => Finding::ok(
            "hugetlbfs",
            "not mounted; only -- --file-prefix and --huge-dir need it",
        ),
    })
}

/// The IOMMU, which protects memory from DMA by the card.
fn iommu(system: &System) -> Finding {
    let groups = system.names("sys/kernel/iommu_groups").len();
    let unsafe_mode = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
    if groups > 0 {
        Finding::ok(
            "IOMMU",
            format!("on ({groups} groups): vfio-pci can hand cards over to DPDK"),
        )
    } else if system.read(unsafe_mode).is_some_and(|mode| mode == "Y") {
        Finding::note(
            "IOMMU",
            "off, and vfio is configured to work without it, unprotected",
        )
    } else {
        Finding::note(
            "IOMMU",
            "off: cards need it (kernel command line: intel_iommu=on or amd_iommu=on), virtual devices do not",
        )
    }
}

/// The network cards on the PCI bus, and the drivers they are bound to.
fn cards(system: &System) -> Vec<Finding> {
    let bus = "sys/bus/pci/devices";
    let addresses = system.names(bus).into_iter().filter(|address| {
        let class = system.read(&format!("{bus}/{address}/class"));
        class.is_some_and(|class| class.starts_with(NETWORK_CLASS))
    });
    let cards: Vec<_> = addresses
        .map(|address| {
            let path = format!("{bus}/{address}");
            let mut interfaces = system.names(&format!("{path}/net"));
            // A virtio card has its interfaces below a nested device.
            for device in system.names(&path) {
                if device.starts_with("virtio") {
                    interfaces.extend(system.names(&format!("{path}/{device}/net")));
                }
            }
            card(
                &address,
                system.link(&format!("{bus}/{address}/driver")),
                &interfaces,
            )
        })
        .collect();
    if cards.is_empty() {
        return vec![Finding::ok(
            "cards",
            "no network card on the PCI bus; virtual devices (dpdk:net_memif0, …) need none",
        )];
    }
    cards
}

fn card(address: &str, driver: Option<String>, interfaces: &[String]) -> Finding {
    let bind = format!("sudo modprobe vfio-pci && sudo dpdk-devbind.py --bind=vfio-pci {address}");
    match driver.as_deref() {
        Some(driver) if DPDK_DRIVERS.contains(&driver) => {
            Finding::ok("card", format!("{address} ({driver}): -i dpdk:{address}"))
        }
        Some(driver) if SHARED_DRIVERS.contains(&driver) => Finding::ok(
            "card",
            format!("{address} ({driver}, shared by the kernel and DPDK): -i dpdk:{address}"),
        ),
        Some(driver) => {
            let name = match interfaces {
                [] => String::new(),
                names => format!(" as {}", names.join(", ")),
            };
            Finding::note(
                "card",
                format!(
                    "{address}: used by the kernel{name} (driver {driver}); to hand it over to DPDK:"
                ),
            )
            .with_command(bind)
        }
        None => Finding::note(
            "card",
            format!("{address}: not bound to a driver; to hand it over to DPDK:"),
        )
        .with_command(bind),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::super::system::fake::FakeSystem;
    use super::*;

    #[test]
    fn counts_huge_pages_of_every_size() {
        let none = huge_pages(&System::at("/nonexistent"));
        assert_eq!(none.status, Status::Missing);
        assert!(none.command.unwrap().contains("nr_hugepages"));
        let base = "sys/kernel/mm/hugepages";
        let pages = FakeSystem::new(&[
            (&format!("{base}/hugepages-2048kB/nr_hugepages"), "512\n"),
            (&format!("{base}/hugepages-2048kB/free_hugepages"), "12\n"),
            (&format!("{base}/hugepages-1048576kB/nr_hugepages"), "0\n"),
        ]);
        assert_eq!(
            huge_pages(&pages.system()).text,
            "512 of 2048kB reserved, 12 free"
        );
        let taken = FakeSystem::new(&[
            (&format!("{base}/hugepages-2048kB/nr_hugepages"), "512\n"),
            (&format!("{base}/hugepages-2048kB/free_hugepages"), "0\n"),
        ]);
        let taken = huge_pages(&taken.system());
        assert_eq!(taken.status, Status::Missing);
        assert!(taken.text.contains("other programs"), "{}", taken.text);
    }

    #[test]
    fn finds_the_mount_point_of_hugetlbfs() {
        let mounts = |text| mount(&FakeSystem::new(&[("proc/mounts", text)]).system()).unwrap();
        let mounted = mounts("proc /proc proc rw 0 0\nnone /mnt/huge hugetlbfs rw 0 0\n");
        assert_eq!(mounted.text, "mounted on /mnt/huge");
        assert!(
            mounts("proc /proc proc rw 0 0\n")
                .text
                .starts_with("not mounted")
        );
    }

    #[test]
    fn iommu_is_on_off_or_bypassed() {
        assert_eq!(iommu(&System::at("/nonexistent")).status, Status::Note);
        let on = FakeSystem::new(&[("sys/kernel/iommu_groups/0/type", "DMA\n")]);
        assert_eq!(iommu(&on.system()).status, Status::Ok);
        let unsafe_mode = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
        let without = FakeSystem::new(&[(unsafe_mode, "Y\n")]);
        assert!(iommu(&without.system()).text.contains("without it"));
    }

    #[test]
    fn cards_are_listed_with_their_drivers() {
        let bus = "sys/bus/pci/devices";
        let tree = FakeSystem::new(&[
            (&format!("{bus}/0000:00:01.0/class"), "0x060400\n"),
            (&format!("{bus}/0000:3b:00.0/class"), "0x020000\n"),
            (&format!("{bus}/0000:3b:00.1/class"), "0x020000\n"),
            (&format!("{bus}/0000:3b:00.1/net/eth7/mtu"), "1500\n"),
            (&format!("{bus}/0000:5e:00.0/class"), "0x020700\n"),
        ])
        .with_link(&format!("{bus}/0000:3b:00.0/driver"), "/drivers/vfio-pci")
        .with_link(&format!("{bus}/0000:3b:00.1/driver"), "/drivers/ixgbe");
        let found = cards(&tree.system());
        let texts: Vec<&str> = found.iter().map(|finding| &finding.text[..]).collect();
        assert_eq!(texts[0], "0000:3b:00.0 (vfio-pci): -i dpdk:0000:3b:00.0");
        assert!(texts[1].contains("as eth7 (driver ixgbe)"), "{}", texts[1]);
        assert!(texts[2].contains("not bound to a driver"), "{}", texts[2]);
        assert!(found[1].command.as_ref().unwrap().ends_with("0000:3b:00.1"));
        assert_eq!(cards(&System::at("/nonexistent")).len(), 1);
    }

    #[test]
    fn counts_drivers() {
        let base = "usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0";
        let tree = FakeSystem::new(&[
            (&format!("{base}/librte_net_memif.so"), ""),
            (&format!("{base}/librte_net_null.so"), ""),
            (&format!("{base}/librte_bus_pci.so"), ""),
        ]);
        assert_eq!(drivers(&tree.system()), Some(2));
        assert_eq!(drivers(&System::at("/nonexistent")), None);
        assert_eq!(version(&tree.system()).status, Status::Ok);
    }
}
