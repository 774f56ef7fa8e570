//! What the kernel says of an interface: its number, link type, state and receive queues.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::{io, mem, ptr};

use wire::LinkType;

/// Packets without a link-layer header (linux/if_arp.h, not in libc).
const ARPHRD_RAWIP: u16 = 519;
/// IEEE 802.15.4 with its frame check sequence (linux/if_arp.h).
const ARPHRD_IEEE802154: u16 = 804;
/// Monitoring of netlink sockets (linux/if_arp.h).
const ARPHRD_NETLINK: u16 = 824;

/// "Get driver info" of linux/ethtool.h.
const ETHTOOL_GDRVINFO: u32 = 0x03;
/// "Get channels" of linux/ethtool.h.
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// An interface as it was when asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    /// The kernel's number for it.
    pub(super) index: i32,
    /// Its hardware type, an `ARPHRD_` value.
    pub(super) hardware: u16,
    /// Whether it is administratively up.
    pub(super) up: bool,
    /// Whether its link is, too: there is a carrier.
    pub(super) running: bool,
    /// Whether what it sends comes back as received.
    pub(super) loopback: bool,
}

/// `struct ethtool_channels` of linux/ethtool.h.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    receive_max: u32,
    transmit_max: u32,
    other_max: u32,
    combined_max: u32,
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_drvinfo` of linux/ethtool.h, the parts not needed here taken together.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// Structures that an ethtool command fills, whose code is their first member.
///
/// # Safety
/// The structure must be at least as long as what the kernel writes for the command it holds, and
/// any bits must be a value of it.
unsafe trait EthtoolCommand {}

// SAFETY: nine numbers, as struct ethtool_channels; only made with the code for it.
unsafe impl EthtoolCommand for Channels {}
// SAFETY: 196 bytes, as struct ethtool_drvinfo; only made with the code for it.
unsafe impl EthtoolCommand for DriverInfo {}

/// The number of the interface of this name, if there is one.
pub(super) fn index(name: &str) -> Option<i32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends with a zero byte and outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    i32::try_from(index).ok().filter(|&index| index > 0)
}

/// The names of all interfaces, in the kernel's order.
pub(super) fn names() -> Vec<String> {
    let mut names = Vec::new();
    // SAFETY: no arguments; a null result is checked below.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return names;
    }
    let mut entry = list;
    loop {
        // SAFETY: the list ends with an entry of number 0 and a null name, where the loop ends, so
        // `entry` points at an entry of it.
        let (index, name) = unsafe { ((*entry).if_index, (*entry).if_name) };
        if index == 0 || name.is_null() {
            break;
        }
        // SAFETY: the name of an entry before the last is a string that ends with a zero byte and
        // lives until the list is freed.
        let name = unsafe { CStr::from_ptr(name) };
        names.push(name.to_string_lossy().into_owned());
        // SAFETY: this entry was not the last, so another follows.
        entry = unsafe { entry.add(1) };
    }
    // SAFETY: the list came from if_nameindex and is freed once.
    unsafe { libc::if_freenameindex(list) };
    names
}

/// Asks for the interface `name`, which has number `index`, over any socket.
pub(super) fn query(socket: BorrowedFd<'_>, name: &str, index: i32) -> io::Result<Interface> {
    let mut request = request(name)?;
    // SAFETY: a command that takes an ifreq, and follows no pointer in it.
    unsafe { ioctl(socket, libc::SIOCGIFHWADDR, &mut request)? };
    // SAFETY: SIOCGIFHWADDR filled this variant, and any bits are a value of it.
    let hardware = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
    // SAFETY: as above.
    unsafe { ioctl(socket, libc::SIOCGIFFLAGS, &mut request)? };
    // SAFETY: SIOCGIFFLAGS filled this variant, and any bits are a value of it.
    let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
    Ok(Interface {
        index,
        hardware,
        up: flags & libc::IFF_UP != 0,
        running: flags & libc::IFF_RUNNING != 0,
        loopback: flags & libc::IFF_LOOPBACK != 0,
    })
}

/// How many receive queues the interface has: as its driver says, or else as the kernel keeps them.
pub(super) fn receive_queues(socket: BorrowedFd<'_>, name: &str) -> Option<u32> {
    channels(socket, name).or_else(|| {
        let queues = std::fs::read_dir(format!("/sys/class/net/{name}/queues")).ok()?;
        let receiving = queues
            .flatten()
            .filter(|queue| queue.file_name().to_string_lossy().starts_with("rx-"));
        u32::try_from(receiving.count())
            .ok()
            .filter(|&queues| queues > 0)
    })
}

fn channels(socket: BorrowedFd<'_>, name: &str) -> Option<u32> {
    let mut channels = Channels {
        command: ETHTOOL_GCHANNELS,
        ..Channels::default()
    };
    ethtool(socket, name, &mut channels)?;
    // Where queues receive and send together the driver reports them as combined; a driver has one
    // kind, or some of each.
    Some(channels.receive.saturating_add(channels.combined)).filter(|&queues| queues > 0)
}

/// Whether the driver leaves in a received packet the number of the queue on which its peer sent
/// it, which is also that of the queue on which it was received, rather than recording the latter
/// as devices do. So do virtual cables.
pub(super) fn keeps_transmit_queue(socket: BorrowedFd<'_>, name: &str) -> bool {
    let mut info = DriverInfo {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        rest: [0; 160],
    };
    ethtool(socket, name, &mut info).is_some() && info.driver.starts_with(b"veth\0")
}

/// Size of a page of memory in bytes.
pub(super) fn page_bytes() -> usize {
    // SAFETY: no memory is involved.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes)
        .ok()
        .filter(|&bytes| bytes > 0)
        .unwrap_or(4096)
}

/// The link type of what a raw packet socket reads from an interface of this hardware type.
///
/// Tunnels and PPP devices have no header that the socket would see: the kernel has taken it off
/// (`dev_has_header` is false), and the packet starts with its IP header.
pub(super) fn link_type(hardware: u16) -> LinkType {
    match hardware {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => LinkType::Ethernet,
        libc::ARPHRD_NONE
        | ARPHRD_RAWIP
        | libc::ARPHRD_PPP
        | libc::ARPHRD_TUNNEL
        | libc::ARPHRD_TUNNEL6
        | libc::ARPHRD_SIT => LinkType::Raw,
        // The numbers are libpcap's LINKTYPE_ values for the same headers.
        libc::ARPHRD_IEEE80211 => LinkType::Other(105),
        libc::ARPHRD_IEEE80211_PRISM => LinkType::Other(119),
        libc::ARPHRD_IEEE80211_RADIOTAP => LinkType::Other(127),
        libc::ARPHRD_CAN => LinkType::Other(227),
        ARPHRD_IEEE802154 => LinkType::Other(230),
        ARPHRD_NETLINK => LinkType::Other(253),
        // LINKTYPE_USER0: a header that has no number.
        _ => LinkType::Other(147),
    }
}

/// A request about the interface of this name.
fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: a structure of numbers, arrays of numbers and pointers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // One byte less: the name ends with a zero.
    let room = request.ifr_name.len() - 1;
    if name.len() > room {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *slot = byte as libc::c_char;
    }
    Ok(request)
}

/// Has the driver of the interface fill an answer; `None` where it does not know the command.
fn ethtool<T: EthtoolCommand>(socket: BorrowedFd<'_>, name: &str, answer: &mut T) -> Option<()> {
    let mut request = request(name).ok()?;
    request.ifr_ifru.ifru_data = ptr::from_mut(answer).cast();
    // SAFETY: a command that takes an ifreq, and follows its pointer to a structure that is long enough
    // for the answer, as `EthtoolCommand` says, and borrowed mutably during the call.
    unsafe { ioctl(socket, libc::SIOCETHTOOL, &mut request).ok() }
}

/// Asks the kernel.
///
/// # Safety
/// `command` must be one that takes an `ifreq`; where it follows a pointer within it, what that points
/// to must be good for what the command reads and writes there.
unsafe fn ioctl(
    socket: BorrowedFd<'_>,
    command: libc::c_ulong,
    request: &mut libc::ifreq,
) -> io::Result<()> {
    // SAFETY: the command takes a pointer to an ifreq, which the reference is; the caller warrants what
    // is within.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), command as _, ptr::from_mut(request)) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
