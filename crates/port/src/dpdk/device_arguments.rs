//! The arguments of the virtual devices that people use most: what is wrong with them, which their
//! drivers say badly or not at all (an error number that means nothing).

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::name::{DeviceName, Kind};

/// Where the kernel lists its interfaces.
const INTERFACES: &str = "/sys/class/net";

/// Who is behind the socket of a memif.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Socket {
    /// There is no file of this name.
    Free,
    /// The file of a process that has gone.
    Left,
    /// Another process has it.
    Served,
    /// A file of another kind.
    Other,
}

/// Removes the socket file of a memif's server that has gone without: a driver does not start over
/// it.
pub(super) fn make_way(device: &DeviceName) {
    if let Some(path) = socket_to_serve(device)
        && socket(path) == Socket::Left
    {
        // Should it stay, the driver fails, and that is told.
        let _ = fs::remove_file(path);
    }
}

/// What is wrong with the arguments of a device that could not be made, where that can be told.
pub(super) fn fault(device: &DeviceName) -> Option<String> {
    if device.kind() != Kind::Virtual {
        return None;
    }
    match driver(device) {
        "net_af_packet" | "net_af_xdp" => match value(device, "iface") {
            None => Some("it needs an interface (iface=eth0)".into()),
            Some(interface) => missing(interface),
        },
        "net_pcap" => pcap(device),
        "net_memif" => memif(device),
        name if !name.starts_with("net_") && interface_exists(device.name()) => Some(format!(
            "this is an interface of the kernel: -i {name}, or through DPDK -i dpdk:net_af_packet0,iface={name}",
            name = device.name()
        )),
        _ => None,
    }
}

fn pcap(device: &DeviceName) -> Option<String> {
    let sources = [
        "rx_pcap",
        "tx_pcap",
        "rx_iface",
        "rx_iface_in",
        "tx_iface",
        "iface",
    ];
    if sources.iter().all(|key| value(device, key).is_none()) {
        return Some(
            "it needs a capture or an interface (rx_pcap=FILE, tx_pcap=FILE, rx_iface=eth0, tx_iface=eth0 or \
             iface=eth0)"
                .into(),
        );
    }
    for key in ["rx_iface", "rx_iface_in", "tx_iface", "iface"] {
        if let Some(fault) = value(device, key).and_then(missing) {
            return Some(fault);
        }
    }
    if let Some(path) = value(device, "rx_pcap")
        && let Err(error) = fs::File::open(path)
    {
        return Some(format!("rx_pcap={path}: {error}"));
    }
    let path = value(device, "tx_pcap")?;
    let directory = Path::new(path).parent()?;
    let is_here = directory.as_os_str().is_empty() || directory.is_dir();
    (!is_here).then(|| {
        format!(
            "tx_pcap={path}: there is no directory {}",
            directory.display()
        )
    })
}

fn memif(device: &DeviceName) -> Option<String> {
    if let Some(role) = value(device, "role")
        && !["client", "server", "master", "slave"].contains(&role)
    {
        return Some(format!(
            "role={role}: a memif is role=server or role=client"
        ));
    }
    let path = socket_to_serve(device)?;
    match socket(path) {
        Socket::Served => Some(format!("another process serves {path}")),
        Socket::Other => Some(format!("{path} is there already, and no socket")),
        Socket::Free | Socket::Left => None,
    }
}

/// The socket file of a memif's server. (An abstract socket leaves none.)
fn socket_to_serve(device: &DeviceName) -> Option<&str> {
    let serves = driver(device) == "net_memif"
        && matches!(value(device, "role"), Some("server" | "master"))
        && value(device, "socket-abstract") == Some("no");
    if serves {
        value(device, "socket")
    } else {
        None
    }
}

fn socket(path: &str) -> Socket {
    match fs::symlink_metadata(path) {
        Err(_) => return Socket::Free,
        Ok(file) if !file.file_type().is_socket() => return Socket::Other,
        Ok(_) => {}
    }
    // A socket of another type than a memif's: who serves it does not notice.
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Socket::Left,
        _ => Socket::Served,
    }
}

/// `net_memif` of `net_memif0`.
fn driver(device: &DeviceName) -> &str {
    device
        .name()
        .trim_end_matches(|end: char| end.is_ascii_digit())
}

/// The value of an argument.
fn value<'a>(device: &'a DeviceName, key: &str) -> Option<&'a str> {
    let mut arguments = device.arguments().split(',');
    arguments.find_map(|argument| argument.strip_prefix(key)?.strip_prefix('='))
}

fn interface_exists(name: &str) -> bool {
    !name.contains('/') && Path::new(INTERFACES).join(name).exists()
}

fn missing(interface: &str) -> Option<String> {
    (!interface_exists(interface)).then(|| format!("there is no interface {interface}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn told(device: &str) -> String {
        fault(&DeviceName::parse(device).unwrap()).unwrap_or_default()
    }

    #[test]
    fn what_is_wrong_with_the_arguments_is_told() {
        for (device, part) in [
            ("net_af_packet0", "it needs an interface"),
            (
                "net_af_packet0,iface=nosuch",
                "there is no interface nosuch",
            ),
            ("net_af_xdp1,iface=nosuch", "there is no interface nosuch"),
            ("net_pcap0", "rx_pcap=FILE"),
            (
                "net_pcap0,rx_pcap=/nonexistent",
                "rx_pcap=/nonexistent: No such file",
            ),
            ("net_pcap0,rx_iface=nosuch", "there is no interface nosuch"),
            (
                "net_pcap0,tx_pcap=/nonexistent/x",
                "there is no directory /nonexistent",
            ),
            ("net_memif0,role=boss", "role=server or role=client"),
            ("lo", "-i lo, or through DPDK"),
        ] {
            assert!(told(device).contains(part), "{device}: {}", told(device));
        }
        for device in [
            "net_null0,foo=bar",
            "net_af_packet0,iface=lo",
            "net_memif0,role=client",
            "3b:00.0",
        ] {
            assert_eq!(told(device), "", "{device}");
        }
    }

    #[test]
    fn a_socket_is_removed_only_if_nobody_serves_it() {
        let directory = std::env::temp_dir().join(format!("flowatch-memif-{}", std::process::id()));
        // Another process had the same number, and was killed.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("memif");
        let text = format!(
            "net_memif0,role=server,socket={},socket-abstract=no",
            path.display()
        );
        let device = DeviceName::parse(&text).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        make_way(&device);
        assert!(path.exists());
        assert!(told(&text).contains("another process serves"));
        // The file stays when its server goes.
        drop(listener);
        assert_eq!(told(&text), "");
        make_way(&DeviceName::parse(&text.replace("server", "client")).unwrap());
        assert!(path.exists());
        make_way(&device);
        assert!(!path.exists());
        fs::write(&path, "mine").unwrap();
        make_way(&device);
        assert!(path.exists());
        assert!(told(&text).contains("no socket"));
        fs::remove_dir_all(&directory).unwrap();
    }
}
