//! What devices of DPDK (`-i dpdk:…`) need: the build, memory, rights over cards, and cards.

use super::finding::Finding;
use super::system::System;

/// Drivers of the kernel that leave a card to DPDK.
const FOR_DPDK: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

/// Drivers that DPDK shares a card with.
const SHARED: [&str; 3] = ["mlx5_core", "mlx4_core", "mana"];

/// The PCI class of network controllers, its first byte.
const NETWORK_CLASS: &str = "0x02";

/// Where Debian and its kin keep DPDK's drivers, below a directory for each architecture.
const LIBRARIES: &str = "usr/lib";

pub(super) fn findings(system: &System) -> Vec<Finding> {
    if !cfg!(feature = "dpdk") {
        return vec![
            Finding::note("DPDK", "not in this build")
                .with("./setup --dpdk && cargo build --release -p flowatch --features dpdk"),
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
            format!("{version}; no drivers beside the library, so there is no device to open"),
        )
        .with("sudo apt-get install dpdk"),
        Some(count) => Finding::ok("DPDK", format!("{version}, {count} drivers of devices")),
        None => Finding::ok("DPDK", version),
    }
}

/// Drivers of network devices that DPDK finds when it starts, where they lie in Debian's place.
fn drivers(system: &System) -> Option<usize> {
    let places = system
        .names(LIBRARIES)
        .into_iter()
        .flat_map(|architecture| {
            let base = format!("{LIBRARIES}/{architecture}/dpdk");
            let versions = system.names(&base).into_iter();
            versions
                .filter(|name| name.starts_with("pmds-"))
                .map(move |name| format!("{base}/{name}"))
        });
    places
        .map(|place| {
            let names = system.names(&place);
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
            "none are reserved: devices of DPDK need them, or -- --no-huge, which is slower",
        )
        .with("echo 512 | sudo tee /proc/sys/vm/nr_hugepages")
    } else if !any_free {
        Finding::missing(
            "huge pages",
            format!(
                "{}: another program has them all; end it, reserve more, or use -- --no-huge, which is slower",
                reserved.join("; ")
            ),
        )
        .with("sudo grep -l 'HugetlbPages:.*[1-9]' /proc/[0-9]*/status")
    } else {
        Finding::ok("huge pages", reserved.join("; "))
    }
}

/// The file system of huge pages, which only some EAL arguments need.
fn mount(system: &System) -> Option<Finding> {
    let mounts = system.read("proc/mounts")?;
    let mounted = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, place, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "hugetlbfs").then(|| place.to_owned())
    });
    Some(match mounted {
        Some(place) => Finding::ok("hugetlbfs", format!("mounted on {place}")),
        None => Finding::ok(
            "hugetlbfs",
            "not mounted, and not needed without -- --file-prefix or --huge-dir",
        ),
    })
}

/// What stands between a card and the memory of others.
fn iommu(system: &System) -> Finding {
    let groups = system.names("sys/kernel/iommu_groups").len();
    let unsafe_mode = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
    if groups > 0 {
        Finding::ok(
            "IOMMU",
            format!("on ({groups} groups): vfio-pci can give cards to DPDK"),
        )
    } else if system.read(unsafe_mode).is_some_and(|mode| mode == "Y") {
        Finding::note(
            "IOMMU",
            "off, and vfio goes without its protection, as it was told to",
        )
    } else {
        Finding::note(
            "IOMMU",
            "off: a card needs it (kernel command line: intel_iommu=on or amd_iommu=on), virtual devices do not",
        )
    }
}

/// Network cards on the PCI bus, and who has them.
fn cards(system: &System) -> Vec<Finding> {
    let bus = "sys/bus/pci/devices";
    let addresses = system.names(bus).into_iter().filter(|address| {
        let class = system.read(&format!("{bus}/{address}/class"));
        class.is_some_and(|class| class.starts_with(NETWORK_CLASS))
    });
    let cards: Vec<_> = addresses
        .map(|address| {
            let place = format!("{bus}/{address}");
            let mut interfaces = system.names(&format!("{place}/net"));
            // A virtio card has a device of its own below that of the bus.
            for device in system.names(&place) {
                if device.starts_with("virtio") {
                    interfaces.extend(system.names(&format!("{place}/{device}/net")));
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
            "no network card on a PCI bus; virtual devices (dpdk:net_memif0, …) need none",
        )];
    }
    cards
}

fn card(address: &str, driver: Option<String>, interfaces: &[String]) -> Finding {
    let bind = format!("sudo modprobe vfio-pci && sudo dpdk-devbind.py --bind=vfio-pci {address}");
    match driver.as_deref() {
        Some(driver) if FOR_DPDK.contains(&driver) => {
            Finding::ok("card", format!("{address} ({driver}): -i dpdk:{address}"))
        }
        Some(driver) if SHARED.contains(&driver) => Finding::ok(
            "card",
            format!("{address} ({driver}, which the kernel and DPDK share): -i dpdk:{address}"),
        ),
        Some(driver) => {
            let name = match interfaces {
                [] => String::new(),
                names => format!(" as {}", names.join(", ")),
            };
            Finding::note(
                "card",
                format!(
                    "{address}: the kernel has it{name} (driver {driver}); to give it to DPDK:"
                ),
            )
            .with(bind)
        }
        None => Finding::note(
            "card",
            format!("{address}: no driver has it; to give it to DPDK:"),
        )
        .with(bind),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::super::system::made_up::MadeUp;
    use super::*;

    #[test]
    fn huge_pages_of_every_size() {
        let none = huge_pages(&System::at("/nonexistent"));
        assert_eq!(none.state, State::Missing);
        assert!(none.command.unwrap().contains("nr_hugepages"));
        let base = "sys/kernel/mm/hugepages";
        let pages = MadeUp::new(&[
            (&format!("{base}/hugepages-2048kB/nr_hugepages"), "512\n"),
            (&format!("{base}/hugepages-2048kB/free_hugepages"), "12\n"),
            (&format!("{base}/hugepages-1048576kB/nr_hugepages"), "0\n"),
        ]);
        assert_eq!(
            huge_pages(&pages.system()).text,
            "512 of 2048kB reserved, 12 free"
        );
        let taken = MadeUp::new(&[
            (&format!("{base}/hugepages-2048kB/nr_hugepages"), "512\n"),
            (&format!("{base}/hugepages-2048kB/free_hugepages"), "0\n"),
        ]);
        let taken = huge_pages(&taken.system());
        assert_eq!(taken.state, State::Missing);
        assert!(taken.text.contains("another program"), "{}", taken.text);
    }

    #[test]
    fn the_file_system_is_found_where_it_is_mounted() {
        let mounts = |text| mount(&MadeUp::new(&[("proc/mounts", text)]).system()).unwrap();
        let mounted = mounts("proc /proc proc rw 0 0\nnone /mnt/huge hugetlbfs rw 0 0\n");
        assert_eq!(mounted.text, "mounted on /mnt/huge");
        assert!(
            mounts("proc /proc proc rw 0 0\n")
                .text
                .starts_with("not mounted")
        );
    }

    #[test]
    fn protection_is_on_off_or_given_up() {
        assert_eq!(iommu(&System::at("/nonexistent")).state, State::Note);
        let on = MadeUp::new(&[("sys/kernel/iommu_groups/0/type", "DMA\n")]);
        assert_eq!(iommu(&on.system()).state, State::Ok);
        let unsafe_mode = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
        let without = MadeUp::new(&[(unsafe_mode, "Y\n")]);
        assert!(iommu(&without.system()).text.contains("as it was told"));
    }

    #[test]
    fn cards_are_told_with_who_has_them() {
        let bus = "sys/bus/pci/devices";
        let tree = MadeUp::new(&[
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
        assert!(texts[2].contains("no driver has it"), "{}", texts[2]);
        assert!(found[1].command.as_ref().unwrap().ends_with("0000:3b:00.1"));
        assert_eq!(cards(&System::at("/nonexistent")).len(), 1);
    }

    #[test]
    fn drivers_are_counted() {
        let base = "usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0";
        let tree = MadeUp::new(&[
            (&format!("{base}/librte_net_memif.so"), ""),
            (&format!("{base}/librte_net_null.so"), ""),
            (&format!("{base}/librte_bus_pci.so"), ""),
        ]);
        assert_eq!(drivers(&tree.system()), Some(2));
        assert_eq!(drivers(&System::at("/nonexistent")), None);
        assert_eq!(version(&tree.system()).state, State::Ok);
    }
}
