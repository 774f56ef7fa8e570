//! Live capture through AF_PACKET sockets with memory-mapped receive rings (TPACKET_V3, the
//! kernel's Documentation/networking/packet_mmap.rst).
//!
//! The kernel copies each frame into a block of the ring; whole blocks change hands. A frame is
//! handed over where it lies in the ring, and its block goes back at the `receive` that follows
//! the block's last burst.
//!
//! ```text
//! bound interface ─► filter ─► ring: block │ block │ block … ─► bursts ─► counters.frames
//!                      │         └► no free block: counters.dropped
//!                      └► not wanted (another queue, stopped): never counted
//! ```
//!
//! # The books
//! The kernel counts what passed the filter (`tp_packets`) and how much of it found no free block
//! (`tp_drops`). After [`stop`](crate::Port::stop) nothing new passes the filter; what the ring still
//! holds is handed over until `frames = tp_packets - tp_drops`, to the packet.
//!
//! # Frames
//! As on the wire without the frame check sequence, with two exceptions that come from offloads:
//! what the device or the kernel merged (GRO, LRO) or has not yet split (TSO, GSO) is one frame
//! of up to 64 KiB, and the checksums of outgoing frames may not be filled in. VLAN tags that the kernel took off
//! are put back.

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
use self::filter::Queue;
use self::interface::Interface;
pub use self::options::{Options, Wait};
use self::ring::Ring;
use self::socket::{Readiness, Socket};
pub use self::transmit::AfPacketSender;
use crate::frame::{Burst, Counters, Port, PortError, Received};

/// The kernel's counters are 32 bits wide and start again at each reading: they are read at least
/// every so many blocks.
const BLOCKS_PER_STATISTICS: u64 = 64;
/// While spinning, the socket's state is asked for every so many looks in vain.
const LOOKS_PER_STATE: u32 = 4096;
/// How long after the last burst a stopped port waits for frames that the kernel has counted,
/// besides some retire time-outs. They come within two of these; this is for a kernel that never
/// passes them on.
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);

/// What the socket counts besides [`Counters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Frames that passed the filter, those included that were then dropped (`tp_packets`).
    pub kernel_packets: u64,
    /// Those of them that found no free block (`tp_drops`).
    pub kernel_drops: u64,
    /// How often the kernel found all blocks taken and stopped filling (`tp_freeze_q_cnt`).
    pub freezes: u64,
    /// Blocks read.
    pub blocks: u64,
    /// Frames that the kernel counted as received and never passed on, or that lay outside their
    /// block; 0 as long as the kernel keeps its word. Part of [`Counters::dropped`].
    pub missing: u64,
    /// How often the interface went down.
    pub downs: u64,
}

/// Where a port is in its life.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Receiving.
    Open,
    /// Nothing new comes in; the ring is being emptied, with patience until then.
    Draining { until: Instant },
    /// Empty, and the books are closed.
    Ended,
}

/// One packet socket with its ring.
pub struct AfPacket {
    ring: Ring,
    socket: Socket,
    /// A second socket, never bound. Closing a packet socket waits until the kernel is done with
    /// every packet that was on its way when the close began (`synchronize_net` in
    /// `packet_release`); kept open until that is wanted, when the right to open one may be gone.
    barrier: Option<Socket>,
    name: String,
    link: LinkType,
    wait: Wait,
    retire_ms: i32,
    patience: Duration,
    state: State,
    /// Whether packets that the machine sends are left out.
    ignores_outgoing: bool,
    /// Whether the interface was down when last heard of.
    down: bool,
    looks: u32,
    blocks_at_statistics: u64,
    counters: Counters,
    details: Details,
    notices: VecDeque<String>,
    /// Why the port ends, told after the last frame.
    failure: Option<PortError>,
}

impl AfPacket {
    /// Opens an interface, and receives from it from here on.
    ///
    /// An interface that is down is opened too; see [`AfPacket::notice`].
    ///
    /// # Errors
    /// [`PortError::Permission`] without CAP_NET_RAW; [`PortError::Failed`] when there is no such
    /// interface or queue, or no memory for the ring.
    pub fn open(options: &Options) -> Result<Self, PortError> {
        let port = Self::open_deaf(options)?;
        port.filter(options)?;
        Ok(port)
    }

    /// Opens an interface behind a filter that lets nothing through.
    ///
    /// The socket is created for no protocol and bound last, so that no frame of another
    /// interface, or from before the ring, gets into it.
    fn open_deaf(options: &Options) -> Result<Self, PortError> {
        let name = &options.interface;
        let index = interface::index(name).ok_or_else(|| no_interface(name))?;
        let failed = |what: &str, error| failure(name, what, &error);
        let socket = Socket::open().map_err(|error| failed("open a packet socket", error))?;
        let barrier = Socket::open().map_err(|error| failed("open a packet socket", error))?;
        let found = interface::query(socket.as_fd(), name, index)
            .map_err(|error| failed("ask for the state of the interface", error))?;
        if let Some(queue) = options.queue {
            check_queue(&socket, name, queue)?;
        }
        let link = interface::link_type(found.hardware);

        socket
            .prepare()
            .map_err(|error| failed("use TPACKET_V3 rings", error))?;
        // A queue is a receive queue.
        let ignores_outgoing = options.ignore_outgoing || found.loopback || options.queue.is_some();
        if ignores_outgoing {
            socket
                .ignore_outgoing()
                .map_err(|error| failed("leave out outgoing packets", error))?;
        }
        let ring = Ring::new(&socket, options, link == LinkType::Ethernet).map_err(|error| {
            let size = format!(
                "make a ring of {} blocks of {} KiB",
                options.block_count,
                options.whole_block_bytes() >> 10
            );
            failed(&size, error)
        })?;
        socket
            .filter(&filter::NOTHING)
            .map_err(|error| failed("attach a filter", error))?;
        socket
            .bind(found.index)
            .map_err(|error| failed("bind to the interface", error))?;
        if options.promiscuous {
            socket
                .promiscuous(found.index)
                .map_err(|error| failed("make the interface promiscuous", error))?;
        }
        // Binding to an interface that is down leaves an error behind, which is told below.
        socket
            .take_error()
            .map_err(|error| failed("ask for the state of the socket", error))?;

        Ok(Self {
            ring,
            socket,
            barrier: Some(barrier),
            name: match options.queue {
                Some(queue) => format!("{name}@{queue}"),
                None => name.clone(),
            },
            link,
            wait: options.wait,
            retire_ms: options.retire_ms().cast_signed(),
            patience: DRAIN_PATIENCE + Duration::from_millis(options.retire_ms().into()) * 4,
            state: State::Open,
            ignores_outgoing,
            down: !found.up,
            looks: 0,
            blocks_at_statistics: 0,
            counters: Counters::default(),
            details: Details::default(),
            notices: first_notices(name, &found, link),
            failure: None,
        })
    }

    /// Lets in what the options want.
    fn filter(&self, options: &Options) -> Result<(), PortError> {
        let queue = options.queue.map(|number| {
            if interface::keeps_transmit_queue(self.socket.as_fd(), &options.interface) {
                Queue::kept(number)
            } else {
                Queue::recorded(number)
            }
        });
        self.socket
            .filter(&filter::program(queue, options.snap_bytes))
            .map_err(|error| failure(&self.name, "attach a filter", &error))
    }

    /// The link type of all frames.
    #[must_use]
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// Something that a person should be told, once each: that the interface was down when it was
    /// opened, that frames came after it was down, that its frames cannot be read. That it went
    /// down while open is a [`Received::Fault`], at the first time; [`Counters::faults`] counts all.
    pub fn notice(&mut self) -> Option<String> {
        self.notices.pop_front()
    }

    /// The kernel's counters and others, up to date.
    pub fn details(&mut self) -> Details {
        self.read_statistics();
        self.details
    }

    /// Adds up the kernel's counters.
    fn read_statistics(&mut self) {
        self.blocks_at_statistics = self.ring.blocks;
        // Should the reading fail nothing is lost: the kernel goes on counting.
        if let Ok(statistics) = self.socket.take_statistics() {
            self.details.kernel_packets += u64::from(statistics.tp_packets);
            self.details.kernel_drops += u64::from(statistics.tp_drops);
            self.details.freezes += u64::from(statistics.tp_freeze_q_cnt);
        }
        self.details.blocks = self.ring.blocks;
        self.counters.dropped = self.details.kernel_drops + self.details.missing;
    }

    /// Frames that the kernel has put into the ring and that have not been handed over; final
    /// only once the port is stopped.
    fn outstanding(&self) -> u64 {
        let kept = self.details.kernel_packets - self.details.kernel_drops;
        kept.saturating_sub(self.counters.frames)
    }

    /// Shuts the filter, and waits until the kernel is done with what had passed it.
    fn shut(&mut self) -> Result<(), PortError> {
        self.socket
            .filter(&filter::NOTHING)
            .map_err(|error| failure(&self.name, "stop receiving", &error))?;
        self.barrier = None;
        self.read_statistics();
        Ok(())
    }

    fn start_draining(&mut self) {
        if !matches!(self.state, State::Open) {
            return;
        }
        match self.shut() {
            Ok(()) => {
                self.state = State::Draining {
                    until: Instant::now() + self.patience,
                };
            }
            Err(error) => {
                // Frames would keep coming: end here rather than never.
                self.failure.get_or_insert(error);
                self.end();
            }
        }
    }

    /// Takes the next burst; whether there is one. With the books closed there is none: what still
    /// came is booked as missing.
    fn advance(&mut self) -> bool {
        !matches!(self.state, State::Ended) && self.ring.advance()
    }

    /// Closes the books.
    fn end(&mut self) {
        self.read_statistics();
        self.details.missing = self.outstanding();
        self.counters.dropped = self.details.kernel_drops + self.details.missing;
        self.state = State::Ended;
    }

    /// The ring is empty: waits, and looks after the state of the port. What to
    /// say of it, if anything.
    fn wait_for_frames(&mut self) -> Result<Option<String>, PortError> {
        let timeout_ms = match (self.state, self.wait) {
            (State::Ended, _) => return Ok(None),
            (State::Draining { until }, _) => {
                // Patience may end while this thread has no turn: what came until then is there now.
                let is_over = || Instant::now() >= until && !self.ring.is_ready();
                if self.outstanding() == self.ring.misplaced || is_over() {
                    self.end();
                    return Ok(None);
                }
                self.retire_ms
            }
            (State::Open, Wait::Sleep(time)) => i32::try_from(time.as_millis()).unwrap_or(i32::MAX),
            (State::Open, Wait::Spin) => {
                self.looks += 1;
                if self.looks < LOOKS_PER_STATE {
                    return Ok(None);
                }
                self.looks = 0;
                0
            }
        };
        let readiness = self
            .socket
            .wait(timeout_ms)
            .map_err(|error| failure(&self.name, "wait for frames", &error))?;
        match readiness {
            Readiness::Error => self.handle_error(),
            // Of one that is down already the kernel does not tell that it is removed.
            Readiness::Nothing if self.down => self.check_bound().map(|_| None),
            Readiness::Frames | Readiness::Nothing => Ok(None),
        }
    }

    /// The socket has an error to tell: the interface went down, or away. What to say of it, if
    /// the port goes on.
    fn handle_error(&mut self) -> Result<Option<String>, PortError> {
        let failed = |error| failure(&self.name, "ask for the state of the socket", &error);
        let error = self.socket.take_error().map_err(failed)?;
        if !self.check_bound()? {
            return Ok(None);
        }
        if error == libc::ENETDOWN {
            self.details.downs += 1;
            self.counters.faults += 1;
            self.down = true;
            // A link that flaps is told of once and counted each time.
            if self.details.downs == 1 {
                return Ok(Some(format!(
                    "{}: the interface went down; reading goes on when it is up again",
                    self.name
                )));
            }
        } else if error != 0 {
            let error = io::Error::from_raw_os_error(error);
            self.failure
                .get_or_insert(failure(&self.name, "go on", &error));
            self.start_draining();
        }
        Ok(None)
    }

    /// Whether the interface is still there; without it the port ends.
    fn check_bound(&mut self) -> Result<bool, PortError> {
        let bound = self.socket.is_bound();
        let bound = bound
            .map_err(|error| failure(&self.name, "ask for the state of the socket", &error))?;
        if !bound {
            self.failure.get_or_insert_with(|| {
                PortError::Failed(format!(
                    "{}: the interface was removed, or moved to another network namespace",
                    self.name
                ))
            });
            self.start_draining();
        }
        Ok(bound)
    }

    /// Frames came: what waited for that.
    fn note_arrival(&mut self) {
        if self.down {
            self.down = false;
            if self.details.downs <= 1 {
                self.notices
                    .push_back(format!("{}: the interface is up", self.name));
            }
        }
        if let State::Draining { until } = &mut self.state {
            *until = Instant::now() + self.patience;
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
            self.note_arrival();
            let frames = self.ring.frames();
            self.counters.frames += frames.len() as u64;
            self.counters.bytes += frames
                .iter()
                .map(|frame| u64::from(frame.wire_length))
                .sum::<u64>();
            return Ok(Received::Burst(Burst {
                link: self.link,
                frames,
            }));
        }
        if let State::Ended = self.state {
            return match self.failure.take() {
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

    fn name(&self) -> &str {
        &self.name
    }

    /// Frames of the block that is being filled are not among them.
    fn occupancy(&mut self) -> Option<usize> {
        Some(self.ring.waiting())
    }

    fn queue_size(&self) -> Option<usize> {
        self.ring.holds()
    }

    /// Nothing that arrives after this is received or counted; `receive` hands over what the ring
    /// holds, then says `End`.
    fn stop(&mut self) {
        self.start_draining();
    }
}

/// What to say of an interface when it is opened.
fn first_notices(name: &str, found: &Interface, link: LinkType) -> VecDeque<String> {
    let mut notices = VecDeque::new();
    if !found.up {
        notices.push_back(format!(
            "{name}: the interface is down, no frames will come until it is up (ip link set {name} up)"
        ));
    }
    if let LinkType::Other(_) = link {
        notices.push_back(format!(
            "{name}: frames of hardware type {} (ARPHRD_ in linux/if_arp.h) are counted, not read",
            found.hardware
        ));
    }
    notices
}

/// Refuses a queue that the device does not have, where its driver says how many it has.
fn check_queue(socket: &Socket, name: &str, queue: u16) -> Result<(), PortError> {
    match interface::receive_queues(socket.as_fd(), name) {
        Some(queues) if u32::from(queue) >= queues => {
            let has = match queues {
                0 | 1 => "one receive queue, number 0".to_owned(),
                _ => format!("receive queues 0 to {}", queues - 1),
            };
            Err(PortError::Failed(format!(
                "{name}@{queue}: {name} has {has} (ethtool -l {name})"
            )))
        }
        _ => Ok(()),
    }
}

fn no_interface(name: &str) -> PortError {
    let names = interface::names().join(", ");
    PortError::Failed(if name == "any" {
        format!("any: name the interfaces, each with its own -i; there are: {names}")
    } else {
        format!("{name}: no such interface; there are: {names}")
    })
}

/// What could not be done, and what to do about it.
fn failure(name: &str, what: &str, error: &io::Error) -> PortError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            let path = std::env::current_exe()
                .map_or_else(|_| "PATH".to_owned(), |path| path.display().to_string());
            PortError::Permission(format!(
                "{name}: no permission to {what}; run as root, or once: sudo setcap cap_net_raw,cap_net_admin+ep {path}"
            ))
        }
        Some(libc::ENOMEM) => PortError::Failed(format!(
            "{name}: no memory to {what}; ask for a smaller ring"
        )),
        _ => PortError::Failed(format!("{name}: cannot {what}: {error}")),
    }
}
