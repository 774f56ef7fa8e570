//! Sending on an interface: whole frames, a burst with one system call, each known to be taken or not.
//!
//! A transmit ring would be faster (1.1 against 0.7 Mpps over a virtual cable), but a frame that the
//! device refuses vanishes from it without a word; here the call ends at that frame.

use super::interface;
use super::socket::Socket;
use super::{failure, no_interface};
use crate::frame::{BURST, PortError};
use crate::link_watch::LinkWatch;
use crate::slot_memory::SlotMemory;
use crate::transmit::{Slot, Transmit};
use std::mem;
use std::os::fd::AsFd;
use std::time::Instant;
use wire::LinkType;

/// An interface that frames are sent on.
pub struct AfPacketSender {
    socket: Socket,
    name: String,
    memory: SlotMemory,
    /// One message and its one part for each slot, written anew for each burst.
    messages: Box<[libc::mmsghdr; BURST]>,
    parts: Box<[libc::iovec; BURST]>,
    frames: u64,
    bytes: u64,
    index: i32,
    link: LinkWatch,
}

// SAFETY: the pointers in messages and parts are written before each system call and not read after
// it; everything else may be sent.
unsafe impl Send for AfPacketSender {}

impl AfPacketSender {
    /// Opens the interface of this name.
    ///
    /// # Errors
    /// No such interface, one that is down or has no Ethernet header, or no right to.
    pub fn open(name: &str) -> Result<Self, PortError> {
        let fail = |what: &str, error: std::io::Error| failure(name, what, &error);
        let index = interface::index(name).ok_or_else(|| no_interface(name))?;
        let socket = Socket::open().map_err(|error| fail("open a packet socket", error))?;
        let found = interface::query(socket.as_fd(), name, index)
            .map_err(|error| fail("ask for the interface", error))?;
        if interface::link_type(found.hardware) != LinkType::Ethernet {
            return Err(PortError::Failed(format!(
                "{name}: frames are made with an Ethernet header, which this interface does not have"
            )));
        }
        if !found.up {
            return Err(PortError::Failed(format!(
                "{name}: the interface is down (ip link set {name} up)"
            )));
        }
        let mut link = LinkWatch::new();
        if !found.running {
            link.begins_down(name);
        }
        socket
            .bypass_queueing()
            .map_err(|error| fail("pass the queueing discipline by", error))?;
        socket
            .bind_for_sending(index)
            .map_err(|error| fail("bind to the interface", error))?;
        // SAFETY: structures of numbers and pointers, for which zero is a value.
        let message: libc::mmsghdr = unsafe { mem::zeroed() };
        let part = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        Ok(Self {
            socket,
            name: name.to_owned(),
            memory: SlotMemory::new(),
            messages: Box::new([message; BURST]),
            parts: Box::new([part; BURST]),
            frames: 0,
            bytes: 0,
            index,
            link,
        })
    }

    fn refusal(&self, error: &std::io::Error, length: usize) -> PortError {
        let name = &self.name;
        match error.raw_os_error() {
            Some(libc::EMSGSIZE) => PortError::Failed(format!(
                "{name}: a frame of {length} bytes is longer than the interface sends (ip link set {name} mtu {})",
                length.saturating_sub(14)
            )),
            Some(libc::ENETDOWN) => PortError::Failed(format!(
                "{name}: the interface went down (ip link set {name} up)"
            )),
            Some(libc::ENXIO | libc::ENODEV) => PortError::Failed(format!(
                "{name}: the interface was removed, or moved to another network namespace"
            )),
            _ => failure(name, "send frames", error),
        }
    }
}

impl Transmit for AfPacketSender {
    fn reserve(&mut self, count: usize, room: usize) -> Result<&mut [Slot<'_>], PortError> {
        self.memory.lend(count, room)
    }

    fn submit(&mut self, count: usize) -> Result<usize, PortError> {
        let count = count.min(self.memory.lent());
        for index in 0..count {
            let (bytes, ..) = self.memory.frame(index);
            self.parts[index] = libc::iovec {
                // The kernel only reads; the structure says mutable.
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            };
            let message = &mut self.messages[index].msg_hdr;
            message.msg_iov = &raw mut self.parts[index];
            message.msg_iovlen = 1;
        }
        if count == 0 {
            self.memory.take(0, 0);
            return Ok(0);
        }
        // SAFETY: each of the messages points to its part, and that to a frame in the slots' memory,
        // which nobody writes to before this call is over.
        let sent = unsafe { self.socket.send_many(&mut self.messages[..count]) };
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) => match error.raw_os_error() {
                // The device has no room, and the first frame was not taken.
                Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR) => 0,
                _ => return Err(self.refusal(&error, self.memory.length(0))),
            },
        };
        let bytes: usize = (0..sent).map(|index| self.memory.length(index)).sum();
        self.frames += sent as u64;
        self.bytes += bytes as u64;
        self.memory.take(sent, count);
        if self.link.is_due(sent) {
            let found = interface::query(self.socket.as_fd(), &self.name, self.index)
                .map_err(|error| failure(&self.name, "ask for the interface", &error))?;
            self.link.note(&self.name, !found.running);
        }
        Ok(sent)
    }

    fn discard(&mut self) {
        self.memory.discard();
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn down_since(&self) -> Option<Instant> {
        self.link.down_since()
    }

    fn notice(&mut self) -> Option<String> {
        self.link.notice()
    }

    fn sent(&self) -> (u64, u64) {
        (self.frames, self.bytes)
    }

    fn name(&self) -> &str {
        &self.name
    }
}
