//! Network namespaces that are removed when a test drops them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Enough for every wait here, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A quiet network namespace: without IPv6, no interface sends anything by itself.
pub(crate) struct Namespace {
    /// A process in the namespace. It exits when its standard input closes, at the latest when the
    /// test exits.
    holder: Child,
}

impl Namespace {
    /// Creates a namespace with only `lo`, which is up.
    pub(crate) fn new() -> Self {
        const SCRIPT: &str = "for scope in all default; do \
                              echo 1 >/proc/sys/net/ipv6/conf/$scope/disable_ipv6; done 2>/dev/null; \
                              ip link set lo up && echo ready && exec cat";
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this test needs unshare (util-linux)");
        let mut line = String::new();
        let stdout = holder.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(
            line, "ready\n",
            "this test creates a network namespace and needs root: run `sudo -E cargo test -p flowatch`"
        );
        Self { holder }
    }

    /// Returns a command that runs `command` in the namespace.
    pub(crate) fn command_inside(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside.arg(format!("--net=/proc/{}/ns/net", self.holder.id()));
        inside
            .arg("--")
            .arg(command.get_program())
            .args(command.get_args());
        inside.stdin(Stdio::null());
        inside
    }

    /// Runs a command line in the namespace. It must succeed; returns what it printed.
    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> String {
        let mut words = line.split_whitespace();
        let mut command = Command::new(words.next().unwrap());
        self.output(command.args(words))
    }

    /// Runs a command in the namespace. It must succeed; returns what it printed.
    #[track_caller]
    pub(crate) fn output(&self, command: &Command) -> String {
        let output = self.command_inside(command).output().unwrap();
        assert!(
            output.status.success(),
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the packets that an interface has sent, and those that it dropped.
    pub(crate) fn sent(&self, interface: &str) -> (u64, u64) {
        let text = self.run(&format!("ip -j -s link show {interface}"));
        let links: serde_json::Value = serde_json::from_str(&text).unwrap();
        let count = |name: &str| links[0]["stats64"]["tx"][name].as_u64().unwrap();
        (count("packets"), count("dropped"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Two namespaces connected by a veth pair: frames sent on `left` in one arrive on `right` in the
/// other unchanged.
pub(crate) struct Cable {
    pub(crate) sender: Namespace,
    pub(crate) receiver: Namespace,
}

impl Cable {
    /// The largest frame, without the link-layer header.
    pub(crate) const MTU: usize = 9000;

    pub(crate) fn new() -> Self {
        let (sender, receiver) = (Namespace::new(), Namespace::new());
        let cable = Self { sender, receiver };
        cable.connect("left", "right");
        cable
    }

    /// Connects the namespaces by another veth pair: `left` in the sender's, `right` in the receiver's.
    pub(crate) fn connect(&self, left: &str, right: &str) {
        let Self { sender, receiver } = self;
        let peer = receiver.holder.id();
        sender.run(&format!(
            "ip link add {left} type veth peer name {right} netns {peer}"
        ));
        for (namespace, name) in [(sender, left), (receiver, right)] {
            namespace.run(&format!("ip link set {name} mtu {} arp off", Self::MTU));
            // No segmentation or checksum offloads, so that frames arrive as sent.
            namespace.run(&format!(
                "ethtool -K {name} gro off gso off tso off tx off rx off txvlan off rxvlan off"
            ));
            namespace.run(&format!("ip link set {name} up"));
        }
        self.wait_for_carrier(left, right);
    }

    /// Waits until both interfaces can send. After the link comes up, the kernel takes some time to
    /// activate the queue; until then the queueing discipline is `noop`, which drops packets.
    fn wait_for_carrier(&self, left: &str, right: &str) {
        let deadline = Instant::now() + TIMEOUT;
        for (namespace, name) in [(&self.sender, left), (&self.receiver, right)] {
            loop {
                let state = namespace.run(&format!("ip -o link show {name}"));
                if state.contains("state UP") && !state.contains("qdisc noop ") {
                    break;
                }
                assert!(Instant::now() < deadline, "{state}");
                thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Sends the frames of a capture `times` times. Returns the number of packets sent.
    #[track_caller]
    pub(crate) fn replay(&self, capture: &Path, times: u32) -> u64 {
        self.replay_on("left", capture, times)
    }

    /// Sends the frames of a capture on an interface of the sender's namespace, as
    /// [`Cable::replay`] does.
    #[track_caller]
    pub(crate) fn replay_on(&self, interface: &str, capture: &Path, times: u32) -> u64 {
        let before = self.sender.sent(interface);
        let mut command = Command::new("tcpreplay");
        command.args(["--intf1", interface, "--topspeed", "--preload-pcap"]);
        command.arg("--loop").arg(times.to_string()).arg(capture);
        self.sender.output(&command);
        let after = self.sender.sent(interface);
        assert_eq!(after.1, before.1, "the cable itself dropped packets");
        after.0 - before.0
    }
}
