//! Checks the arguments of common virtual devices, whose drivers report errors poorly or not at all.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::name::{DeviceName, Kind};

/// The kernel's list of interfaces.
const INTERFACES: &str = "/sys/class/net";

/// State of the socket file of a memif server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketFile {
    /// No such file.
    Free,
    /// Left behind by a process that has ended.
    Stale,
    /// A process listens on it.
    InUse,
    /// The file is not a socket.
    NotASocket,
}

/// Removes a stale socket file of a memif server, since the driver does not start if the file exists.
pub(super) fn remove_stale_socket(device: &DeviceName) {
    if let Some(path) = server_socket(device)
        && inspect_socket(path) == SocketFile::Stale
    {
        // If this fails, the driver fails and its error is reported.
        let _ = fs::remove_file(path);
    }
}

/// Returns what is wrong with the arguments of a device that could not be created, if known.
pub(super) fn fault(device: &DeviceName) -> Option<String> {
    if device.kind() != Kind::Virtual {
        return None;
    }
    match driver_name(device) {
        "net_af_packet" | "net_af_xdp" => match argument(device, "iface") {
            None => Some("missing argument: an interface (iface=eth0)".into()),
            Some(interface) => missing_interface(interface),
        },
        "net_pcap" => pcap_fault(device),
        "net_memif" => memif_fault(device),
        name if !name.starts_with("net_") && interface_exists(device.name()) => Some(format!(
            "this is a kernel interface: use -i {name}, or through DPDK -i dpdk:net_af_packet0,iface={name}",
            name = device.name()
        )),
        _ => None,
    }
}

fn pcap_fault(device: &DeviceName) -> Option<String> {
    let sources = [
        "rx_pcap",
        "tx_pcap",
        "rx_iface",
        "rx_iface_in",
        "tx_iface",
        "iface",
    ];
    if sources.iter().all(|key| argument(device, key).is_none()) {
        return Some(
            "missing argument: a capture file or an interface (rx_pcap=FILE, tx_pcap=FILE, rx_iface=eth0, \
             tx_iface=eth0 or iface=eth0)"
                .into(),
        );
    }
    for key in ["rx_iface", "rx_iface_in", "tx_iface", "iface"] {
        if let Some(fault) = argument(device, key).and_then(missing_interface) {
            return Some(fault);
        }
    }
    if let Some(path) = argument(device, "rx_pcap")
        && let Err(error) = fs::File::open(path)
    {
        return Some(format!("rx_pcap={path}: {error}"));
    }
    let path = argument(device, "tx_pcap")?;
    let directory = Path::new(path).parent()?;
    let exists = directory.as_os_str().is_empty() || directory.is_dir();
    (!exists).then(|| format!("tx_pcap={path}: no such directory: {}", directory.display()))
}

fn memif_fault(device: &DeviceName) -> Option<String> {
    if let Some(role) = argument(device, "role")
        && !["client", "server", "master", "slave"].contains(&role)
    {
        return Some(format!("role={role}: must be role=server or role=client"));
    }
    let path = server_socket(device)?;
    match inspect_socket(path) {
        SocketFile::InUse => Some(format!("another process listens on {path}")),
        SocketFile::NotASocket => Some(format!("{path} exists and is not a socket")),
        SocketFile::Free | SocketFile::Stale => None,
    }
}

/// The socket file of a memif server. (An abstract socket has none.)
fn server_socket(device: &DeviceName) -> Option<&str> {
    let is_server = driver_name(device) == "net_memif"
        && matches!(argument(device, "role"), Some("server" | "master"))
        && argument(device, "socket-abstract") == Some("no");
    if is_server {
        argument(device, "socket")
    } else {
        None
    }
}

fn inspect_socket(path: &str) -> SocketFile {
    match fs::symlink_metadata(path) {
        Err(_) => return SocketFile::Free,
        Ok(file) if !file.file_type().is_socket() => return SocketFile::NotASocket,
        Ok(_) => {}
    }
    // A stream socket cannot connect to memif's seqpacket socket, so the server does not notice.
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => SocketFile::Stale,
        _ => SocketFile::InUse,
    }
}

/// The driver: `net_memif` for `net_memif0`.
fn driver_name(device: &DeviceName) -> &str {
    device
        .name()
        .trim_end_matches(|end: char| end.is_ascii_digit())
}

/// Returns the value of an argument.
fn argument<'a>(device: &'a DeviceName, key: &str) -> Option<&'a str> {
    let mut arguments = device.arguments().split(',');
    arguments.find_map(|argument| argument.strip_prefix(key)?.strip_prefix('='))
}

fn interface_exists(name: &str) -> bool {
    !name.contains('/') && Path::new(INTERFACES).join(name).exists()
}

fn missing_interface(interface: &str) -> Option<String> {
    (!interface_exists(interface)).then(|| format!("no such interface: {interface}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn fault_of(device: &str) -> String {
        fault(&DeviceName::parse(device).unwrap()).unwrap_or_default()
    }

    #[test]
    fn invalid_arguments_are_explained() {
        for (device, part) in [
            ("net_af_packet0", "missing argument: an interface"),
            ("net_af_packet0,iface=nosuch", "no such interface: nosuch"),
            ("net_af_xdp1,iface=nosuch", "no such interface: nosuch"),
            ("net_pcap0", "rx_pcap=FILE"),
            (
                "net_pcap0,rx_pcap=/nonexistent",
                "rx_pcap=/nonexistent: No such file",
            ),
            ("net_pcap0,rx_iface=nosuch", "no such interface: nosuch"),
            (
                "net_pcap0,tx_pcap=/nonexistent/x",
                "no such directory: /nonexistent",
            ),
            ("net_memif0,role=boss", "role=server or role=client"),
            ("lo", "-i lo, or through DPDK"),
        ] {
            assert!(
                fault_of(device).contains(part),
                "{device}: {}",
                fault_of(device)
            );
        }
        for device in [
            "net_null0,foo=bar",
            "net_af_packet0,iface=lo",
            "net_memif0,role=client",
            "3b:00.0",
        ] {
            assert_eq!(fault_of(device), "", "{device}");
        }
    }

    #[test]
    fn only_stale_sockets_are_removed() {
        let directory = std::env::temp_dir().join(format!("flowatch-memif-{}", std::process::id()));
        // May be left over from a process with the same ID.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("memif");
        let text = format!(
            "net_memif0,role=server,socket={},socket-abstract=no",
            path.display()
        );
        let device = DeviceName::parse(&text).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        remove_stale_socket(&device);
        assert!(path.exists());
        assert!(fault_of(&text).contains("another process listens"));
        // The file remains after its server has ended.
        drop(listener);
        assert_eq!(fault_of(&text), "");
        remove_stale_socket(&DeviceName::parse(&text.replace("server", "client")).unwrap());
        assert!(path.exists());
        remove_stale_socket(&device);
        assert!(!path.exists());
        fs::write(&path, "mine").unwrap();
        remove_stale_socket(&device);
        assert!(path.exists());
        assert!(fault_of(&text).contains("not a socket"));
        fs::remove_dir_all(&directory).unwrap();
    }
}
