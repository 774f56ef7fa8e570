//! Live capture through AF_PACKET sockets with memory-mapped receive rings (TPACKET_V3, the
//! kernel's Documentation/networking/packet_mmap.rst).
//!
//! The kernel copies each frame into a block of the ring and passes whole blocks to user space. Frames
//! are delivered in place; a block is returned to the kernel at the first `receive` after its last
//! burst.
//!
//! ```text
//! bound interface ─► filter ─► ring: block │ block │ block … ─► bursts ─► counters.frames
//!                      │         └► no free block: counters.dropped
//!                      └► rejected (another queue, stopped): never counted
//! ```
//!
//! # Packet accounting
//! The kernel counts the frames that passed the filter (`tp_packets`) and those of them that found no
//! free block (`tp_drops`). After [`stop`](crate::Port::stop) no new frame passes the filter; the
//! frames in the ring are delivered until `frames = tp_packets - tp_drops`, exact to the packet.
//!
//! # Frames
//! Frames are as on the wire without the frame check sequence, with two exceptions due to offloads:
//! packets that the device or the kernel merged (GRO, LRO) or has not split yet (TSO, GSO) are one
//! frame of up to 64 KiB, and checksums of outgoing frames may be missing. VLAN tags that the kernel
//! stripped are restored.
//!
//! On all interfaces at once ([`Options::ANY`]) the socket is raw too, and each burst has the link type
//! of its frames. A cooked socket (`SOCK_DGRAM`) would lose information: since Linux 6.10 it names the
//! innermost protocol of a frame with two VLAN tags, of which one is still in front of the packet.

mod fanout;
mod filter;
mod interface;
mod options;
mod ring;
mod socket;
mod transmit;

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use wire::LinkType;

pub use self::fanout::{MAX_MEMBERS, open_fanout};
use self::filter::QueueFilter;
use self::interface::Interface;
pub use self::options::{Options, Wait};
use self::ring::{Links, Ring};
use self::socket::{Readiness, Socket};
pub use self::transmit::AfPacketSender;
use crate::frame::{Burst, Counters, Port, PortError, Received};

/// Blocks between two readings of the kernel's counters, which are 32 bits wide and reset by each
/// reading.
const BLOCKS_PER_STATISTICS: u64 = 64;
/// Empty polls of the ring between two checks of the socket's state, while spinning.
const SPINS_PER_POLL: u32 = 4096;
/// How long after the last burst a stopped port waits for frames that the kernel has counted, in
/// addition to some block timeouts. They arrive within two block timeouts; this limit is for a kernel
/// that never delivers them.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Counters of a packet socket in addition to [`Counters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketCounters {
    /// Frames that passed the filter, including those dropped afterwards (`tp_packets`).
    pub kernel_packets: u64,
    /// Frames of these that found no free block (`tp_drops`).
    pub kernel_drops: u64,
    /// How often the kernel found all blocks in use and froze the queue (`tp_freeze_q_cnt`).
    pub freezes: u64,
    /// Blocks read.
    pub blocks: u64,
    /// Frames that the kernel counted and never delivered, or that lie outside their block; 0 unless
    /// the kernel has a bug. Part of [`Counters::dropped`].
    pub missing: u64,
    /// How often the interface went down.
    pub downs: u64,
}

/// State of a port.
#[derive(Clone, Copy, Debug)]
enum CaptureState {
    /// Receiving.
    Open,
    /// Stopped: no new frames; the ring is being emptied, until the deadline at the latest.
    Draining { until: Instant },
    /// The ring is empty and the counters are final.
    Ended,
}

/// A packet socket with its receive ring.
pub struct AfPacket {
    ring: Ring,
    socket: Socket,
    /// A second, unbound socket that serves as a barrier: closing a packet socket waits until the
    /// kernel has processed every packet in flight (`synchronize_net` in `packet_release`). Opened in
    /// advance, since the process may have dropped the permission by then.
    barrier: Option<Socket>,
    name: String,
    wait: Wait,
    block_timeout_ms: i32,
    drain_timeout: Duration,
    state: CaptureState,
    /// Whether outgoing packets are ignored.
    ignores_outgoing: bool,
    /// Whether the interface was down at the last check.
    down: bool,
    spins: u32,
    blocks_at_statistics: u64,
    counters: Counters,
    socket_counters: SocketCounters,
    notices: VecDeque<String>,
    /// Why the port ends; returned after the last frame.
    end_error: Option<PortError>,
}

impl AfPacket {
    /// Opens an interface and starts receiving.
    ///
    /// An interface that is down can be opened, too; see [`AfPacket::next_notice`].
    ///
    /// # Errors
    /// [`PortError::Permission`] without CAP_NET_RAW; [`PortError::Failed`] if there is no such
    /// interface or queue, or no memory for the ring.
    pub fn open(options: &Options) -> Result<Self, PortError> {
        let port = Self::open_rejecting_all(options)?;
        port.attach_filter(options)?;
        Ok(port)
    }

    /// Opens an interface with a filter that rejects all frames.
    ///
    /// The socket is created for protocol 0 and bound last, so that no frame of another interface, or
    /// from before the ring exists, is received.
    fn open_rejecting_all(options: &Options) -> Result<Self, PortError> {
        let name = &options.interface;
        let failed = |action: &str, error| io_failure(name, action, &error);
        let (socket, found, links) = find(options)?;
        let barrier = Socket::open().map_err(|error| failed("open a packet socket", error))?;

        socket
            .select_version()
            .map_err(|error| failed("use TPACKET_V3 rings", error))?;
        // `queue` is a receive queue.
        let ignores_outgoing = options.ignore_outgoing || found.loopback || options.queue.is_some();
        if ignores_outgoing {
            socket
                .ignore_outgoing()
                .map_err(|error| failed("ignore outgoing packets", error))?;
        }
        let ring = Ring::new(&socket, options, links).map_err(|error| {
            let action = format!(
                "allocate a ring of {} blocks of {} KiB",
                options.block_count,
                options.block_bytes_in_pages() >> 10
            );
            failed(&action, error)
        })?;
        socket
            .attach_filter(&filter::REJECT_ALL)
            .map_err(|error| failed("attach a filter", error))?;
        socket
            .bind(found.index)
            .map_err(|error| failed("bind to the interface", error))?;
        if options.promiscuous {
            socket
                .enable_promiscuous(found.index)
                .map_err(|error| failed("enable promiscuous mode", error))?;
        }
        // Binding to an interface that is down sets the socket's error; clear it: a notice below
        // reports it.
        socket
            .take_error()
            .map_err(|error| failed("query the state of the socket", error))?;

        Ok(Self {
            ring,
            socket,
            barrier: Some(barrier),
            name: match options.queue {
                Some(queue) => format!("{name}@{queue}"),
                None => name.clone(),
            },
            wait: options.wait,
            block_timeout_ms: options.block_timeout_ms().cast_signed(),
            drain_timeout: DRAIN_TIMEOUT
                + Duration::from_millis(options.block_timeout_ms().into()) * 4,
            state: CaptureState::Open,
            ignores_outgoing,
            down: !found.up,
            spins: 0,
            blocks_at_statistics: 0,
            counters: Counters::default(),
            socket_counters: SocketCounters::default(),
            notices: initial_notices(name, &found, links),
            end_error: None,
        })
    }

    /// Attaches the filter for the options, so that frames are received.
    fn attach_filter(&self, options: &Options) -> Result<(), PortError> {
        let failed = |error| io_failure(&self.name, "attach a filter", &error);
        if options.is_any() {
            let program = filter::program_any(interface::index("lo"), options.snaplen);
            return self.socket.attach_filter(&program).map_err(failed);
        }
        let queue = options.queue.map(|number| {
            if interface::keeps_peer_queue(self.socket.as_fd(), &options.interface) {
                QueueFilter::from_peer_queue(number)
            } else {
                QueueFilter::from_recorded_queue(number)
            }
        });
        self.socket
            .attach_filter(&filter::program(queue, options.snaplen))
            .map_err(failed)
    }

    /// The link type of the last burst; on one interface, that of all frames.
    #[must_use]
    pub fn link(&self) -> LinkType {
        self.ring.link()
    }

    /// Returns the next notice for the user, each once: that the interface was down when it was opened,
    /// that it is up again, that its frames cannot be parsed. The first time that it goes down while
    /// open is a [`Received::Fault`]; [`Counters::faults`] counts every time.
    pub fn next_notice(&mut self) -> Option<String> {
        self.notices.pop_front()
    }

    /// Reads the kernel's counters and returns them with others.
    pub fn socket_counters(&mut self) -> SocketCounters {
        self.read_statistics();
        self.socket_counters
    }

    /// Adds the kernel's counters to the totals.
    fn read_statistics(&mut self) {
        self.blocks_at_statistics = self.ring.blocks;
        // If reading fails, nothing is lost: the kernel continues counting.
        if let Ok(statistics) = self.socket.take_statistics() {
            self.socket_counters.kernel_packets += u64::from(statistics.tp_packets);
            self.socket_counters.kernel_drops += u64::from(statistics.tp_drops);
            self.socket_counters.freezes += u64::from(statistics.tp_freeze_q_cnt);
        }
        self.socket_counters.blocks = self.ring.blocks;
        self.counters.dropped = self.socket_counters.kernel_drops + self.socket_counters.missing;
    }

    /// Frames that the kernel has stored in the ring and that have not been delivered; final only after
    /// the port has stopped.
    fn undelivered(&self) -> u64 {
        let stored = self.socket_counters.kernel_packets - self.socket_counters.kernel_drops;
        stored.saturating_sub(self.counters.frames)
    }

    /// Rejects all new frames, and waits until the kernel has processed those that passed the filter.
    fn stop_reception(&mut self) -> Result<(), PortError> {
        self.socket
            .attach_filter(&filter::REJECT_ALL)
            .map_err(|error| io_failure(&self.name, "stop receiving", &error))?;
        self.barrier = None;
        self.read_statistics();
        Ok(())
    }

    fn start_draining(&mut self) {
        if !matches!(self.state, CaptureState::Open) {
            return;
        }
        match self.stop_reception() {
            Ok(()) => {
                self.state = CaptureState::Draining {
                    until: Instant::now() + self.drain_timeout,
                };
            }
            Err(error) => {
                // Frames would continue to arrive: end at once instead of never.
                self.end_error.get_or_insert(error);
                self.finish();
            }
        }
    }

    /// Advances to the next burst; returns whether there is one. After the end there is none: frames
    /// that arrive late are counted as missing.
    fn advance(&mut self) -> bool {
        !matches!(self.state, CaptureState::Ended) && self.ring.advance()
    }

    /// Ends the port with final counters.
    fn finish(&mut self) {
        self.read_statistics();
        self.socket_counters.missing = self.undelivered();
        self.counters.dropped = self.socket_counters.kernel_drops + self.socket_counters.missing;
        self.state = CaptureState::Ended;
    }

    /// Waits for frames while the ring is empty, and checks the state of the port. Returns a fault to
    /// report, if any.
    fn wait_for_frames(&mut self) -> Result<Option<String>, PortError> {
        let timeout_ms = match (self.state, self.wait) {
            (CaptureState::Ended, _) => return Ok(None),
            (CaptureState::Draining { until }, _) => {
                // This thread may not have run until after the deadline: check the ring once more.
                let is_expired = || Instant::now() >= until && !self.ring.is_ready();
                if self.undelivered() == self.ring.out_of_block || is_expired() {
                    self.finish();
                    return Ok(None);
                }
                self.block_timeout_ms
            }
            (CaptureState::Open, Wait::Sleep(time)) => {
                i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
            }
            (CaptureState::Open, Wait::Spin) => {
                self.spins += 1;
                if self.spins < SPINS_PER_POLL {
                    return Ok(None);
                }
                self.spins = 0;
                0
            }
        };
        let readiness = self
            .socket
            .wait(timeout_ms)
            .map_err(|error| io_failure(&self.name, "wait for frames", &error))?;
        match readiness {
            Readiness::Error => self.handle_error(),
            // The kernel does not report the removal of an interface that is down.
            Readiness::Timeout if self.down => self.check_bound().map(|_| None),
            Readiness::Readable | Readiness::Timeout => Ok(None),
        }
    }

    /// Handles an error of the socket: the interface went down or was removed. Returns a fault to
    /// report if the port continues.
    fn handle_error(&mut self) -> Result<Option<String>, PortError> {
        let failed = |error| io_failure(&self.name, "query the state of the socket", &error);
        let error = self.socket.take_error().map_err(failed)?;
        if !self.check_bound()? {
            return Ok(None);
        }
        if error == libc::ENETDOWN {
            self.socket_counters.downs += 1;
            self.counters.faults += 1;
            self.down = true;
            // Report a flapping link once, and count every time.
            if self.socket_counters.downs == 1 {
                return Ok(Some(format!(
                    "{}: the interface went down; capture resumes when it is up again",
                    self.name
                )));
            }
        } else if error != 0 {
            let error = io::Error::from_raw_os_error(error);
            self.end_error
                .get_or_insert(io_failure(&self.name, "continue", &error));
            self.start_draining();
        }
        Ok(None)
    }

    /// Returns whether the interface still exists; if not, the port ends.
    fn check_bound(&mut self) -> Result<bool, PortError> {
        let bound = self.socket.is_bound();
        let bound = bound
            .map_err(|error| io_failure(&self.name, "query the state of the socket", &error))?;
        if !bound {
            self.end_error.get_or_insert_with(|| {
                PortError::Failed(format!(
                    "{}: the interface was removed, or moved to another network namespace",
                    self.name
                ))
            });
            self.start_draining();
        }
        Ok(bound)
    }

    /// Updates the state of the port after frames arrived.
    fn on_arrival(&mut self) {
        if self.down {
            self.down = false;
            if self.socket_counters.downs <= 1 {
                self.notices
                    .push_back(format!("{}: the interface is up", self.name));
            }
        }
        if let CaptureState::Draining { until } = &mut self.state {
            *until = Instant::now() + self.drain_timeout;
        }
        if self.ring.blocks - self.blocks_at_statistics >= BLOCKS_PER_STATISTICS {
            self.read_statistics();
        }
    }
}

impl Port for AfPacket {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        let mut ready = self.advance();
        if !ready {
            if let Some(fault) = self.wait_for_frames()? {
                return Ok(Received::Fault(fault));
            }
            ready = self.advance();
        }
        if ready {
            self.on_arrival();
            let link = self.ring.link();
            let frames = self.ring.frames();
            self.counters.frames += frames.len() as u64;
            self.counters.bytes += frames
                .iter()
                .map(|frame| u64::from(frame.wire_length))
                .sum::<u64>();
            return Ok(Received::Burst(Burst { link, frames }));
        }
        if let CaptureState::Ended = self.state {
            return match self.end_error.take() {
                Some(failure) => Err(failure),
                None => Ok(Received::End),
            };
        }
        Ok(Received::Idle)
    }

    fn counters(&mut self) -> Counters {
        self.read_statistics();
        self.counters
    }

    fn memory_bytes(&self) -> usize {
        self.ring.memory_bytes()
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// Frames in complete blocks only, without those in the block being filled.
    fn occupancy(&mut self) -> Option<usize> {
        Some(self.ring.waiting_frames())
    }

    fn queue_size(&self) -> Option<usize> {
        self.ring.capacity_frames()
    }

    /// Frames that arrive later are neither received nor counted; `receive` delivers the frames in the
    /// ring, then returns `End`.
    fn stop(&mut self) {
        self.start_draining();
    }
}

/// Opens a socket and finds the interface that options name, or all interfaces.
fn find(options: &Options) -> Result<(Socket, Interface, Links), PortError> {
    let name = &options.interface;
    let failed = |action: &str, error| io_failure(name, action, &error);
    if options.is_any() {
        let refused = match options.queue {
            Some(queue) => Some(format!(
                "{name}@{queue}: {name} has no receive queues; name the interface, as in eth0@{queue}"
            )),
            None if options.promiscuous => Some(format!(
                "{name}: all interfaces cannot be made promiscuous at once; name them, each with its own -i"
            )),
            None => None,
        };
        if let Some(message) = refused {
            return Err(PortError::Failed(message));
        }
        let socket = Socket::open().map_err(|error| failed("open a packet socket", error))?;
        return Ok((socket, Interface::ALL, Links::PerFrame));
    }
    let index = interface::index(name).ok_or_else(|| unknown_interface(name))?;
    let socket = Socket::open().map_err(|error| failed("open a packet socket", error))?;
    let found = interface::query(socket.as_fd(), name, index)
        .map_err(|error| failed("query the interface", error))?;
    if let Some(queue) = options.queue {
        check_queue(&socket, name, queue)?;
    }
    let link = interface::link_type(found.hardware);
    Ok((socket, found, Links::One(link)))
}

/// Returns the notices about an interface at its opening.
fn initial_notices(name: &str, found: &Interface, links: Links) -> VecDeque<String> {
    let mut notices = VecDeque::new();
    if !found.up {
        notices.push_back(format!(
            "{name}: the interface is down; no frames are received until it is up (ip link set {name} up)"
        ));
    }
    if let Links::One(LinkType::Other(_)) = links {
        notices.push_back(format!(
            "{name}: frames of hardware type {} (ARPHRD_ in linux/if_arp.h) are counted but not parsed",
            found.hardware
        ));
    }
    notices
}

/// Rejects a queue that the device does not have, if its driver reports the number of queues.
fn check_queue(socket: &Socket, name: &str, queue: u16) -> Result<(), PortError> {
    match interface::receive_queue_count(socket.as_fd(), name) {
        Some(queues) if u32::from(queue) >= queues => {
            let valid = match queues {
                0 | 1 => "one receive queue, number 0".to_owned(),
                _ => format!("receive queues 0 to {}", queues - 1),
            };
            Err(PortError::Failed(format!(
                "{name}@{queue}: {name} has {valid} (ethtool -l {name})"
            )))
        }
        _ => Ok(()),
    }
}

fn unknown_interface(name: &str) -> PortError {
    let names = interface::interface_names().join(", ");
    PortError::Failed(format!("{name}: no such interface; available: {names}"))
}

/// Returns the error for a failed `action` on an interface, with a hint.
fn io_failure(name: &str, action: &str, error: &io::Error) -> PortError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            let path = std::env::current_exe()
                .map_or_else(|_| "PATH".to_owned(), |path| path.display().to_string());
            PortError::Permission(format!(
                "{name}: no permission to {action}; run as root, or run once: sudo setcap cap_net_raw,cap_net_admin+ep {path}"
            ))
        }
        Some(libc::ENOMEM) => {
            PortError::Failed(format!("{name}: no memory to {action}; use a smaller ring"))
        }
        _ => PortError::Failed(format!("{name}: cannot {action}: {error}")),
    }
}
