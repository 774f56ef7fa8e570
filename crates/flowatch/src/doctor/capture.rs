//! Ways of capture: which work here, tried for real.

use super::finding::Finding;
use super::system::System;

/// Opens a packet socket with a small ring, and closes it again.
pub(super) fn packet_socket(interface: Option<&str>) -> Finding {
    match interface {
        Some(interface) => outcome(interface, open(interface)),
        None => Finding::missing("packet socket", "there is no interface to open one on"),
    }
}

/// What became of the attempt.
enum Attempt {
    Opened,
    NoPermission,
    Failed(String),
}

#[cfg(target_os = "linux")]
fn open(interface: &str) -> Attempt {
    use port::af_packet::Options;
    // A name may hold an @, which is no queue here.
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
    Attempt::Failed("live capture is for Linux; files are read anywhere".into())
}

fn outcome(interface: &str, attempt: Attempt) -> Finding {
    match attempt {
        Attempt::Opened => Finding::ok(
            "packet socket",
            format!("AF_PACKET with a TPACKET_V3 ring: opened on {interface}, so -i works"),
        ),
        Attempt::NoPermission => Finding::missing(
            "packet socket",
            "no permission for live capture (-i); run as root, or grant it to the program once \
             (again after each update of it)",
        )
        .with(format!(
            "sudo setcap cap_net_raw,cap_net_admin+ep {}",
            binary()
        )),
        Attempt::Failed(message) => Finding::missing("packet socket", message),
    }
}

/// The path of this program, as a shell takes it.
fn binary() -> String {
    let path =
        std::env::current_exe().map_or_else(|_| "PATH".into(), |path| path.display().to_string());
    quoted(&path)
}

fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+".contains(c);
    if path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

/// The library of pcap-filter expressions, as it is mapped into this process.
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
            "not loaded from a file of its own: its version is unknown",
        ),
    }
}

/// What people will look for, and this build does not have.
pub(super) fn not_in_this_build() -> [Finding; 1] {
    [Finding::note("AF_XDP", "not in this build")]
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::super::system::made_up::MadeUp;
    use super::*;

    #[test]
    fn a_missing_right_comes_with_the_line_that_grants_it() {
        let finding = outcome("lo", Attempt::NoPermission);
        assert_eq!(finding.state, State::Missing);
        let command = finding.command.unwrap();
        let program = std::env::current_exe().unwrap().display().to_string();
        assert!(command.starts_with("sudo setcap cap_net_raw,cap_net_admin+ep "));
        assert!(command.contains(&program), "{command}");
        assert_eq!(outcome("lo", Attempt::Opened).state, State::Ok);
        assert_eq!(
            outcome("lo", Attempt::Failed("no memory".into())).text,
            "no memory"
        );
        assert_eq!(packet_socket(None).state, State::Missing);
    }

    #[test]
    fn paths_are_quoted_for_the_shell() {
        assert_eq!(quoted("/usr/bin/flowatch"), "/usr/bin/flowatch");
        assert_eq!(quoted("/my files/it's"), r"'/my files/it'\''s'");
    }

    #[test]
    fn the_version_of_libpcap_is_that_of_the_mapped_file() {
        let maps = "7f00-7f01 r--p 0 fe:00 1 /usr/lib/libc.so.6\n\
                    7f02-7f03 r--p 0 fe:00 2   /usr/lib/x86_64-linux-gnu/libpcap.so.1.10.3\n";
        let tree = MadeUp::new(&[("proc/self/maps", maps)]);
        let finding = libpcap(&tree.system());
        assert_eq!(
            finding.text,
            "1.10.3 (/usr/lib/x86_64-linux-gnu/libpcap.so.1.10.3), for filter expressions"
        );
        assert_eq!(libpcap(&System::at("/nonexistent")).state, State::Note);
    }
}
