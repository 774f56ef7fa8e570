//! The packet socket: every system call on it, and nothing else.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::{io, mem, ptr};

use libc::{c_uint, sock_filter, tpacket_req3, tpacket_stats_v3};

/// A VLAN tag: the room that is left before each frame for putting it back.
pub(super) const VLAN_TAG_BYTES: usize = 4;

/// What poll(2) said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// Nothing within the time, or a signal came.
    Nothing,
    /// A block is ready.
    Frames,
    /// The socket has an error to tell: [`Socket::take_error`].
    Error,
}

/// A raw packet socket.
#[derive(Debug)]
pub(super) struct Socket {
    descriptor: OwnedFd,
}

impl Socket {
    /// A socket of protocol 0: it receives nothing until it is bound.
    pub(super) fn open() -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let descriptor =
            unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was just opened and that nobody else owns.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Self { descriptor })
    }

    /// Chooses version 3 of the ring, with room for a VLAN tag before each frame.
    pub(super) fn prepare(&self) -> io::Result<()> {
        let version = libc::tpacket_versions::TPACKET_V3 as c_int;
        self.set(libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let room = VLAN_TAG_BYTES as c_uint;
        self.set(libc::SOL_PACKET, libc::PACKET_RESERVE, &room)
    }

    /// Leaves out what the machine sends (Linux 4.20).
    pub(super) fn ignore_outgoing(&self) -> io::Result<()> {
        let on: c_int = 1;
        self.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &on)
    }

    /// Has the kernel set up the receive ring.
    pub(super) fn request_ring(&self, request: &tpacket_req3) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_RX_RING, request)
    }

    /// Asks the device for frames to others, for as long as the socket lives.
    pub(super) fn promiscuous(&self, interface: i32) -> io::Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: interface,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// Starts receiving every protocol on one interface.
    pub(super) fn bind(&self, interface: i32) -> io::Result<()> {
        self.bind_to(interface, libc::ETH_P_ALL as u16)
    }

    fn bind_to(&self, interface: i32, protocol: u16) -> io::Result<()> {
        // SAFETY: a structure of numbers, for which zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = interface;
        // SAFETY: the address is one of packet sockets, of the length given, and outlives the call.
        let result = unsafe {
            libc::bind(
                self.descriptor.as_raw_fd(),
                ptr::from_ref(&address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        check(result)
    }

    /// Frames go from now on to one interface; nothing is received.
    pub(super) fn bind_for_sending(&self, interface: i32) -> io::Result<()> {
        self.bind_to(interface, 0)
    }

    /// Hands frames to the driver itself, past the queueing discipline, whose losses nobody would
    /// hear of (Linux 3.14).
    pub(super) fn bypass_queueing(&self) -> io::Result<()> {
        let on: c_int = 1;
        self.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &on)
    }

    /// Sends each of the messages, in their order; how many were sent. An error is that of the first
    /// one.
    ///
    /// # Safety
    /// The parts that the messages point to must be memory that may be read.
    pub(super) unsafe fn send_many(&self, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
        // SAFETY: as many messages as the slice has; the caller warrants what they point to.
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

    /// Whether the interface that the socket was bound to still exists here: the kernel unbinds a
    /// socket (its interface becomes -1) when the interface is removed or moved away.
    pub(super) fn is_bound(&self) -> io::Result<bool> {
        // SAFETY: a structure of numbers, for which zero is a value.
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
        Ok(address.sll_ifindex > 0)
    }

    /// Runs `program` on each frame before it is received; an empty one accepts everything.
    pub(super) fn filter(&self, program: &[sock_filter]) -> io::Result<()> {
        if program.is_empty() {
            let none: c_int = 0;
            return match self.set(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &none) {
                // There was none.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
                result => result,
            };
        }
        let program = libc::sock_fprog {
            len: program.len() as u16,
            // The kernel only reads the program; the structure says mutable.
            filter: program.as_ptr().cast_mut(),
        };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Founds a fan-out group with an identifier that no other group has, and returns it.
    pub(super) fn found_group(&self, mode: c_uint, members: u32) -> io::Result<u16> {
        self.join_group(0, mode | libc::PACKET_FANOUT_FLAG_UNIQUEID, members)?;
        // The kernel answers with identifier and mode in the two halves of a number.
        let group: u32 = self.get(libc::SOL_PACKET, libc::PACKET_FANOUT)?;
        Ok((group & 0xffff) as u16)
    }

    /// Joins a fan-out group.
    pub(super) fn join_group(&self, id: u16, mode: c_uint, members: u32) -> io::Result<()> {
        let request = libc::fanout_args {
            id,
            type_flags: mode as u16,
            // Older kernels know no such field, read the first four bytes, and admit 256.
            max_num_members: members,
        };
        self.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &request)
    }

    /// The kernel's counters since the last call: reading them sets them to zero.
    pub(super) fn take_statistics(&self) -> io::Result<tpacket_stats_v3> {
        self.get(libc::SOL_PACKET, libc::PACKET_STATISTICS)
    }

    /// The error that the socket has to tell, once; 0 where there is none.
    pub(super) fn take_error(&self) -> io::Result<c_int> {
        self.get(libc::SOL_SOCKET, libc::SO_ERROR)
    }

    /// Waits for a block at most `timeout_ms` milliseconds; 0 only looks.
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
                // The caller looks whether the signal was for it.
                io::ErrorKind::Interrupted => Ok(Readiness::Nothing),
                _ => Err(error),
            };
        }
        Ok(if entry.revents & libc::POLLERR != 0 {
            Readiness::Error
        } else if entry.revents & libc::POLLIN != 0 {
            Readiness::Frames
        } else {
            Readiness::Nothing
        })
    }

    /// Sets an option whose value is a `T` without pointers, or with pointers that the kernel only
    /// reads through during the call.
    fn set<T>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        // SAFETY: the kernel reads at most the size of the value, which outlives the call.
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

    fn get<T: Answer>(&self, level: c_int, option: c_int) -> io::Result<T> {
        // SAFETY: zero is a value of every answer.
        let mut value: T = unsafe { mem::zeroed() };
        let mut length = size_of::<T>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to the value, any bits of which are one.
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

/// Types that an option may be read as.
///
/// # Safety
/// Any bits must be a value.
unsafe trait Answer: Copy {}

// SAFETY: a number.
unsafe impl Answer for u32 {}
// SAFETY: a number.
unsafe impl Answer for c_int {}
// SAFETY: three numbers.
unsafe impl Answer for tpacket_stats_v3 {}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
