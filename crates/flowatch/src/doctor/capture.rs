//! Capture methods: tries which work on this machine.

use super::finding::Finding;
use super::interfaces;
use super::system::System;

/// Opens a packet socket with a small ring on the loopback interface, or else on the first one, and
/// closes it.
pub(crate) fn packet_socket(system: &System) -> Finding {
    let interfaces = interfaces::list(system);
    let loopback = interfaces.iter().find(|interface| interface.is_loopback());
    match loopback.or(interfaces.first()).map(|found| found.name()) {
        Some(interface) => finding_for(interface, open(interface)),
        None => Finding::missing("packet socket", "there is no interface to open it on"),
    }
}

/// Result of opening a packet socket.
enum Attempt {
    Opened,
    NoPermission,
    Failed(String),
}

#[cfg(target_os = "linux")]
fn open(interface: &str) -> Attempt {
    use port::af_packet::Options;
    // The interface's name may contain an @, which does not select a queue here.
    let options = Options {
        block_count: 2,
        ignore_outgoing: true,
        ..Options::new(interface)
    };
    match port::AfPacket::open(&options) {
        Ok(_) => Attempt::Opened,
        Err(port::PortError::Permission(_)) => Attempt::NoPermission,
        Err(error) => Attempt::Failed(error.to_string()),
    }
}

#[cfg(not(target_os = "linux"))]
fn open(_: &str) -> Attempt {
    Attempt::Failed("live capture needs Linux; files can be read on any system".into())
}

fn finding_for(interface: &str, attempt: Attempt) -> Finding {
    match attempt {
        Attempt::Opened => Finding::ok(
            "packet socket",
            format!("AF_PACKET with a TPACKET_V3 ring opened on {interface}: -i works"),
        ),
        Attempt::NoPermission => Finding::missing(
            "packet socket",
            "no permission for live capture (-i); run as root, or grant it to the program \
             (again after each update)",
        )
        .with_command(format!(
            "sudo setcap cap_net_raw,cap_net_admin+ep {}",
            binary()
        )),
        Attempt::Failed(message) => Finding::missing("packet socket", message),
    }
}

/// Returns the path of this program, quoted for a shell.
fn binary() -> String {
    let path =
        std::env::current_exe().map_or_else(|_| "PATH".into(), |path| path.display().to_string());
    shell_quoted(&path)
}

fn shell_quoted(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+".contains(c);
    if path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

/// Finds the libpcap that is mapped into this process; it compiles filter expressions.
pub(super) fn libpcap(system: &System) -> Finding {
    let maps = system.read("proc/self/maps").unwrap_or_default();
    let path = maps.lines().find_map(|line| {
        line.contains("/libpcap.so")
            .then(|| line.split_whitespace().last())?
    });
    match path {
        Some(path) => {
            let version = path
                .rsplit_once("libpcap.so.")
                .map_or("", |(_, version)| version);
            Finding::ok(
                "libpcap",
                format!("{version} ({path}), for filter expressions")
                    .trim_start()
                    .to_owned(),
            )
        }
        None => Finding::note(
            "libpcap",
            "not loaded as a shared library: its version is unknown",
        ),
    }
}

/// Capture methods that users may expect, but this build does not have.
pub(super) fn missing_backends() -> [Finding; 1] {
    [Finding::note("AF_XDP", "not in this build")]
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::super::system::fake::FakeSystem;
    use super::*;

    #[test]
    fn missing_permission_comes_with_the_command_that_grants_it() {
        let finding = finding_for("lo", Attempt::NoPermission);
        assert_eq!(finding.status, Status::Missing);
        let command = finding.command.unwrap();
        let program = std::env::current_exe().unwrap().display().to_string();
        assert!(command.starts_with("sudo setcap cap_net_raw,cap_net_admin+ep "));
        assert!(command.contains(&program), "{command}");
        assert_eq!(finding_for("lo", Attempt::Opened).status, Status::Ok);
        assert_eq!(
            finding_for("lo", Attempt::Failed("no memory".into())).text,
            "no memory"
        );
        let nothing = System::at("/nonexistent");
        assert_eq!(packet_socket(&nothing).status, Status::Missing);
    }

    #[test]
    fn paths_are_quoted_for_the_shell() {
        assert_eq!(shell_quoted("/usr/bin/flowatch"), "/usr/bin/flowatch");
        assert_eq!(shell_quoted("/my files/it's"), r"'/my files/it'\''s'");
    }

    #[test]
    fn libpcap_version_comes_from_the_mapped_file() {
        let maps = "7f00-7f01 r--p 0 fe:00 1 /usr/lib/libc.so.6\n\
                    7f02-7f03 r--p 0 fe:00 2   /usr/lib/x86_64-linux-gnu/libpcap.so.1.10.3\n";
        let tree = FakeSystem::new(&[("proc/self/maps", maps)]);
        let finding = libpcap(&tree.system());
        assert_eq!(
            finding.text,
            "1.10.3 (/usr/lib/x86_64-linux-gnu/libpcap.so.1.10.3), for filter expressions"
        );
        assert_eq!(libpcap(&System::at("/nonexistent")).status, Status::Note);
    }
}
