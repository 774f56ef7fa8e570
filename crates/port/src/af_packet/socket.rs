//! The packet socket: all its system calls and nothing else.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::{io, mem, ptr};

use libc::{c_uint, sock_filter, tpacket_req3, tpacket_stats_v3};

/// Bytes of a VLAN tag, reserved before each frame to restore a stripped tag.
pub(super) const VLAN_TAG_BYTES: usize = 4;

/// Result of poll(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// Timeout, or a signal.
    Timeout,
    /// A block is ready.
    Readable,
    /// The socket has an error: [`Socket::take_error`].
    Error,
}

/// A raw packet socket.
#[derive(Debug)]
pub(super) struct Socket {
    descriptor: OwnedFd,
}

impl Socket {
    /// Opens a socket of protocol 0, which receives nothing until it is bound.
    pub(super) fn open() -> io::Result<Self> {
        // SAFETY: takes no pointers.
        let descriptor =
            unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and has no other owner.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Self { descriptor })
    }

    /// Selects ring version 3, with space for a VLAN tag before each frame.
    pub(super) fn select_version(&self) -> io::Result<()> {
        let version = libc::tpacket_versions::TPACKET_V3 as c_int;
        self.set(libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let reserve = VLAN_TAG_BYTES as c_uint;
        self.set(libc::SOL_PACKET, libc::PACKET_RESERVE, &reserve)
    }

    /// Ignores outgoing packets (Linux 4.20).
    pub(super) fn ignore_outgoing(&self) -> io::Result<()> {
        let on: c_int = 1;
        self.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &on)
    }

    /// Sets up the receive ring.
    pub(super) fn set_up_ring(&self, request: &tpacket_req3) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_RX_RING, request)
    }

    /// Enables promiscuous mode for the lifetime of the socket.
    pub(super) fn enable_promiscuous(&self, interface: i32) -> io::Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: interface,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// Starts receiving all protocols on an interface; index 0 is all interfaces.
    pub(super) fn bind(&self, interface: i32) -> io::Result<()> {
        self.bind_to(interface, libc::ETH_P_ALL as u16)
    }

    fn bind_to(&self, interface: i32, protocol: u16) -> io::Result<()> {
        // SAFETY: a structure of integers, for which zero is valid.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = interface;
        // SAFETY: a packet socket address of the length given, which outlives the call.
        let result = unsafe {
            libc::bind(
                self.descriptor.as_raw_fd(),
                ptr::from_ref(&address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        check(result)
    }

    /// Binds to an interface for sending; nothing is received.
    pub(super) fn bind_for_sending(&self, interface: i32) -> io::Result<()> {
        self.bind_to(interface, 0)
    }

    /// Bypasses the queueing discipline, which could drop frames silently (Linux 3.14).
    pub(super) fn bypass_qdisc(&self) -> io::Result<()> {
        let on: c_int = 1;
        self.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &on)
    }

    /// Sends the messages in order and returns how many were sent. An error is that of the first
    /// message.
    ///
    /// # Safety
    /// The buffers that the messages point to must be readable memory.
    pub(super) unsafe fn send_messages(&self, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
        // SAFETY: the count is that of the slice; the caller guarantees the buffers.
        let sent = unsafe {
            libc::sendmmsg(
                self.descriptor.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        check(sent)?;
        Ok(sent as usize)
    }

    /// Whether the bound interface still exists in this network namespace: the kernel unbinds the
    /// socket (interface index -1) when the interface is removed or moved. Index 0 is all interfaces.
    pub(super) fn is_bound(&self) -> io::Result<bool> {
        // SAFETY: a structure of integers, for which zero is valid.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to the address.
        let result = unsafe {
            libc::getsockname(
                self.descriptor.as_raw_fd(),
                ptr::from_mut(&mut address).cast(),
                &mut length,
            )
        };
        check(result)?;
        Ok(address.sll_ifindex >= 0)
    }

    /// Attaches `program`, which is run on each frame before it is received. An empty program detaches
    /// the filter.
    pub(super) fn attach_filter(&self, program: &[sock_filter]) -> io::Result<()> {
        if program.is_empty() {
            let none: c_int = 0;
            return match self.set(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &none) {
                // No filter was attached.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
                result => result,
            };
        }
        let program = libc::sock_fprog {
            len: program.len() as u16,
            // The kernel only reads the program, though the pointer is mutable.
            filter: program.as_ptr().cast_mut(),
        };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Creates a fan-out group with a unique identifier, and returns the identifier.
    pub(super) fn create_fanout_group(&self, mode: c_uint, members: u32) -> io::Result<u16> {
        self.join_fanout_group(0, mode | libc::PACKET_FANOUT_FLAG_UNIQUEID, members)?;
        // The result has the identifier in its lower half and the mode in its upper half.
        let group: u32 = self.get(libc::SOL_PACKET, libc::PACKET_FANOUT)?;
        Ok((group & 0xffff) as u16)
    }

    /// Joins a fan-out group.
    pub(super) fn join_fanout_group(&self, id: u16, mode: c_uint, members: u32) -> io::Result<()> {
        let request = libc::fanout_args {
            id,
            type_flags: mode as u16,
            // Older kernels ignore this field and allow 256 members.
            max_num_members: members,
        };
        self.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &request)
    }

    /// Reads the kernel's counters since the last call; reading resets them.
    pub(super) fn take_statistics(&self) -> io::Result<tpacket_stats_v3> {
        self.get(libc::SOL_PACKET, libc::PACKET_STATISTICS)
    }

    /// Returns and clears the socket's pending error; 0 if there is none.
    pub(super) fn take_error(&self) -> io::Result<c_int> {
        self.get(libc::SOL_SOCKET, libc::SO_ERROR)
    }

    /// Waits at most `timeout_ms` milliseconds for a block; 0 polls once.
    pub(super) fn wait(&self, timeout_ms: c_int) -> io::Result<Readiness> {
        let mut entry = libc::pollfd {
            fd: self.descriptor.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, which outlives the call.
        let result = unsafe { libc::poll(&mut entry, 1, timeout_ms) };
        if result < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                // The caller checks whether the signal requests a stop.
                io::ErrorKind::Interrupted => Ok(Readiness::Timeout),
                _ => Err(error),
            };
        }
        Ok(if entry.revents & libc::POLLERR != 0 {
            Readiness::Error
        } else if entry.revents & libc::POLLIN != 0 {
            Readiness::Readable
        } else {
            Readiness::Timeout
        })
    }

    /// Sets an option to a value without pointers, or with pointers that the kernel only reads from
    /// during the call.
    fn set<T>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        // SAFETY: the kernel reads at most the size of `value`, which outlives the call.
        let result = unsafe {
            libc::setsockopt(
                self.descriptor.as_raw_fd(),
                level,
                option,
                ptr::from_ref(value).cast(),
                size_of::<T>() as libc::socklen_t,
            )
        };
        check(result)
    }

    fn get<T: OptionValue>(&self, level: c_int, option: c_int) -> io::Result<T> {
        // SAFETY: any bit pattern is valid for an `OptionValue`.
        let mut value: T = unsafe { mem::zeroed() };
        let mut length = size_of::<T>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to the value, for which any bit pattern is
        // valid.
        let result = unsafe {
            libc::getsockopt(
                self.descriptor.as_raw_fd(),
                level,
                option,
                ptr::from_mut(&mut value).cast(),
                &mut length,
            )
        };
        check(result)?;
        Ok(value)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Types of socket options that can be read.
///
/// # Safety
/// Any bit pattern must be valid.
unsafe trait OptionValue: Copy {}

// SAFETY: an integer.
unsafe impl OptionValue for u32 {}
// SAFETY: an integer.
unsafe impl OptionValue for c_int {}
// SAFETY: three integers.
unsafe impl OptionValue for tpacket_stats_v3 {}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
