//! A network namespace for each test, which ends with the test's thread and its sockets, so that tests
//! run in parallel and leave nothing behind.

use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, io, mem, ptr, thread};

use port::af_packet::{Options, Wait};
use port::{AfPacket, Port, Received};

/// Moves this thread, and threads it starts later, into a new network namespace. IPv6 is disabled, so
/// that no interface sends packets on its own.
pub(crate) fn enter_new() {
    // SAFETY: takes no pointers and affects only this thread.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    assert!(
        result == 0,
        "this test creates a network namespace and needs root (CAP_SYS_ADMIN, CAP_NET_ADMIN, \
         CAP_NET_RAW): run `sudo -E cargo test -p flowatch-port`: {}",
        io::Error::last_os_error()
    );
    for scope in ["all", "default"] {
        // Absent if the kernel has no IPv6.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
    }
}

/// Enters a namespace with a veth pair, `left` and `right`, both up.
pub(crate) fn enter_cable() {
    enter_new();
    ip("link add left type veth peer name right");
    ip("link set left up");
    ip("link set right up");
    await_carrier();
}

/// Waits until the veth pair carries frames from `left` to `right`. The kernel activates a device for
/// sending some time after its link has come up, and drops frames until then.
///
/// The probe frames have a protocol that the tests do not use: see [`is_probe`].
pub(crate) fn await_carrier() {
    let mut port = AfPacket::open(&Options {
        wait: Wait::Sleep(Duration::from_millis(1)),
        block_count: 2,
        block_timeout: Duration::from_millis(1),
        ignore_outgoing: true,
        ..Options::new("right")
    })
    .unwrap();
    let sender = Sender::on("left");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !matches!(port.receive().unwrap(), Received::Burst(_)) {
        assert!(Instant::now() < deadline, "no frame arrives");
        // Fails while the other end is down.
        let _ = sender.send(&PROBE);
        thread::sleep(Duration::from_millis(1));
    }
}

/// A frame with null addresses and the first EtherType for local experiments (IEEE 802, 9.2.3).
const PROBE: [u8; 60] = {
    let mut frame = [0; 60];
    frame[12] = 0x88;
    frame[13] = 0xb5;
    frame
};

/// Whether this is a frame of [`await_carrier`].
pub(crate) fn is_probe(frame: &[u8]) -> bool {
    frame == PROBE
}

/// Runs `ip` with these arguments in this thread's namespace and returns its output.
pub(crate) fn ip(arguments: &str) -> String {
    run("ip", arguments)
}

/// Runs a program, which must succeed, and returns its output.
pub(crate) fn run(program: &str, arguments: &str) -> String {
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .output()
        .unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Sends raw frames on an interface.
pub(crate) struct Sender {
    socket: OwnedFd,
}

impl Sender {
    pub(crate) fn on(interface: &str) -> Self {
        let name = CString::new(interface).unwrap();
        // SAFETY: the name is NUL-terminated and outlives the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        assert!(index != 0, "{interface}");
        // SAFETY: takes no pointers.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
        assert!(socket >= 0, "{}", io::Error::last_os_error());
        // SAFETY: just opened, without another owner.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        // SAFETY: a structure of integers, for which zero is valid.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index.cast_signed();
        // SAFETY: the address has the length given and outlives the call.
        let result = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                ptr::from_ref(&address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        assert!(result == 0, "{}", io::Error::last_os_error());
        Self { socket }
    }

    /// Sends one frame.
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the frame has the length given and outlives the call.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        assert_eq!(sent.cast_unsigned(), frame.len());
        Ok(())
    }
}

/// Drops all capabilities of this thread, so that it cannot open packet sockets.
pub(crate) fn drop_capabilities() {
    /// linux/capability.h, `_LINUX_CAPABILITY_VERSION_3`: sets of 64 bits in two halves.
    const VERSION: u32 = 0x2008_0522;
    let header = [VERSION, 0];
    // Effective, permitted and inheritable set, lower and upper half.
    let nothing = [[0u32; 3]; 2];
    // SAFETY: header and sets have the layout of version 3 and outlive the call, which affects only
    // this thread.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), nothing.as_ptr()) };
    assert!(result == 0, "{}", io::Error::last_os_error());
}

/// Opens the TUN device `tunnel`, whose packets have no link-layer header.
pub(crate) fn open_tunnel() -> fs::File {
    open_tunnel_with(0)
}

/// Opens another queue of the TUN device `tunnel`.
pub(crate) fn open_tunnel_queue() -> fs::File {
    open_tunnel_with(libc::IFF_MULTI_QUEUE)
}

fn open_tunnel_with(flags: i32) -> fs::File {
    /// linux/if_tun.h: `_IOW('T', 202, int)`.
    const TUNSETIFF: u32 = 0x4004_54ca;
    let device = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .expect("this test needs /dev/net/tun");
    // SAFETY: integers and arrays of integers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(b"tunnel") {
        *slot = *byte as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | flags) as i16;
    // SAFETY: TUNSETIFF takes a pointer to an ifreq, which outlives the call.
    let result = unsafe {
        libc::ioctl(
            device.as_raw_fd(),
            TUNSETIFF as _,
            ptr::from_mut(&mut request),
        )
    };
    assert!(result == 0, "{}", io::Error::last_os_error());
    device
}
