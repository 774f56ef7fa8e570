//! Queries the kernel about interfaces: index, link type, state and receive queues.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::{io, mem, ptr};

use wire::LinkType;

/// Packets without a link-layer header (linux/if_arp.h, not in libc).
const ARPHRD_RAWIP: u16 = 519;
/// IEEE 802.15.4 with frame check sequence (linux/if_arp.h).
const ARPHRD_IEEE802154: u16 = 804;
/// Monitoring of netlink sockets (linux/if_arp.h).
const ARPHRD_NETLINK: u16 = 824;

/// "Get driver info" of linux/ethtool.h.
const ETHTOOL_GDRVINFO: u32 = 0x03;
/// "Get channels" of linux/ethtool.h.
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// State of an interface at the time of the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    /// Interface index.
    pub(super) index: i32,
    /// Hardware type, an `ARPHRD_` value.
    pub(super) hardware: u16,
    /// Whether it is administratively up.
    pub(super) up: bool,
    /// Whether it is operational: the link has a carrier.
    pub(super) running: bool,
    /// Whether it is a loopback device.
    pub(super) loopback: bool,
}

impl Interface {
    /// All interfaces at once, which no query describes.
    pub(super) const ALL: Self = Self {
        index: 0,
        hardware: 0,
        up: true,
        running: true,
        loopback: false,
    };
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

/// `struct ethtool_drvinfo` of linux/ethtool.h; unused fields are one array.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// Structures that an ethtool command fills; the first field is the command.
///
/// # Safety
/// The structure must be at least as long as what the kernel writes for its command, and any bit
/// pattern must be valid.
unsafe trait EthtoolCommand {}

// SAFETY: nine integers, as struct ethtool_channels; only created with its command.
unsafe impl EthtoolCommand for Channels {}
// SAFETY: 196 bytes, as struct ethtool_drvinfo; only created with its command.
unsafe impl EthtoolCommand for DriverInfo {}

/// Returns the index of an interface, if it exists.
pub(super) fn index(name: &str) -> Option<i32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is NUL-terminated and outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    i32::try_from(index).ok().filter(|&index| index > 0)
}

/// Returns the names of all interfaces, in the kernel's order.
pub(super) fn interface_names() -> Vec<String> {
    let mut names = Vec::new();
    // SAFETY: takes no arguments; a null result is checked below.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return names;
    }
    let mut entry = list;
    loop {
        // SAFETY: the list ends with an entry of index 0 and a null name, at which the loop ends, so
        // `entry` points to an entry.
        let (index, name) = unsafe { ((*entry).if_index, (*entry).if_name) };
        if index == 0 || name.is_null() {
            break;
        }
        // SAFETY: the name of an entry before the last is NUL-terminated and lives until the list is
        // freed.
        let name = unsafe { CStr::from_ptr(name) };
        names.push(name.to_string_lossy().into_owned());
        // SAFETY: this was not the last entry, so another follows.
        entry = unsafe { entry.add(1) };
    }
    // SAFETY: the list came from if_nameindex and is freed once.
    unsafe { libc::if_freenameindex(list) };
    names
}

/// Queries the interface `name` with index `index`, using any socket.
pub(super) fn query(socket: BorrowedFd<'_>, name: &str, index: i32) -> io::Result<Interface> {
    let mut request = interface_request(name)?;
    // SAFETY: the command takes an ifreq and follows no pointer in it.
    unsafe { ioctl(socket, libc::SIOCGIFHWADDR, &mut request)? };
    // SAFETY: SIOCGIFHWADDR filled this variant, for which any bit pattern is valid.
    let hardware = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
    // SAFETY: as above.
    unsafe { ioctl(socket, libc::SIOCGIFFLAGS, &mut request)? };
    // SAFETY: SIOCGIFFLAGS filled this variant, for which any bit pattern is valid.
    let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
    Ok(Interface {
        index,
        hardware,
        up: flags & libc::IFF_UP != 0,
        running: flags & libc::IFF_RUNNING != 0,
        loopback: flags & libc::IFF_LOOPBACK != 0,
    })
}

/// Returns the number of receive queues, from the driver or else from sysfs.
pub(super) fn receive_queue_count(socket: BorrowedFd<'_>, name: &str) -> Option<u32> {
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
    // Queues that both receive and send are reported as combined; a driver may have both kinds.
    Some(channels.receive.saturating_add(channels.combined)).filter(|&queues| queues > 0)
}

/// Whether the driver does not record the receive queue, but leaves the number of the peer's transmit
/// queue (which equals it) in the packet. The veth driver does so.
pub(super) fn keeps_peer_queue(socket: BorrowedFd<'_>, name: &str) -> bool {
    let mut info = DriverInfo {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        rest: [0; 160],
    };
    ethtool(socket, name, &mut info).is_some() && info.driver.starts_with(b"veth\0")
}

/// Size of a memory page in bytes.
pub(super) fn page_size() -> usize {
    // SAFETY: takes no pointers.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes)
        .ok()
        .filter(|&bytes| bytes > 0)
        .unwrap_or(4096)
}

/// Returns the link type of a raw packet socket on an interface of this hardware type.
///
/// Packets of tunnels and PPP devices have no link-layer header at the socket, since the kernel has
/// removed it (`dev_has_header` is false): they start with the IP header.
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
        // LINKTYPE_USER0: a header without a LINKTYPE_ value.
        _ => LinkType::Other(147),
    }
}

/// Returns a request for the interface `name`.
fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: a structure of integers, arrays of integers and pointers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The name is NUL-terminated.
    let max = request.ifr_name.len() - 1;
    if name.len() > max {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *slot = byte as libc::c_char;
    }
    Ok(request)
}

/// Runs an ethtool command, which fills `answer`; `None` if the driver does not support it.
fn ethtool<T: EthtoolCommand>(socket: BorrowedFd<'_>, name: &str, answer: &mut T) -> Option<()> {
    let mut request = interface_request(name).ok()?;
    request.ifr_ifru.ifru_data = ptr::from_mut(answer).cast();
    // SAFETY: the command takes an ifreq and follows its pointer to a structure that is long enough for
    // the answer, as `EthtoolCommand` requires, and mutably borrowed during the call.
    unsafe { ioctl(socket, libc::SIOCETHTOOL, &mut request).ok() }
}

/// Runs an ioctl on a socket.
///
/// # Safety
/// `command` must take an `ifreq`. If it follows a pointer in it, the memory must be valid for what the
/// command reads and writes.
unsafe fn ioctl(
    socket: BorrowedFd<'_>,
    command: libc::c_ulong,
    request: &mut libc::ifreq,
) -> io::Result<()> {
    // SAFETY: the command takes a pointer to an ifreq, as the caller guarantees for its content, too.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), command as _, ptr::from_mut(request)) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
