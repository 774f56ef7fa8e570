//! pcap-filter expressions, compiled by libpcap, before any port.

use crate::frame::{Burst, Counters, Frame, Port, PortError, Received};
use crate::frame_list::FrameList;
use crate::wrapper::Wrapper;
use pcap::{BpfProgram, Capture, Linktype};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use wire::LinkType;

/// Link types for which an expression is tried when it is given: one of them is enough, since some
/// expressions make sense on few links only. Ethernet comes first, its message is the one told.
const TRIED: [LinkType; 5] = [
    LinkType::Ethernet,
    LinkType::Raw,
    LinkType::LinuxSll,
    LinkType::Other(127), // IEEE 802.11 with radiotap
    LinkType::Other(122), // IP over Fibre Channel
];

/// Bursts without a match after which the port says that it is idle, so that whoever reads can look
/// at his clock.
const PATIENCE_BURSTS: u32 = 64;

/// Hands over the frames of another port that match an expression, and counts the others.
pub struct Filtered<P> {
    port: P,
    expression: Expression,
    frames: FrameList,
    counters: Counters,
}

/// An expression, and its program for the link type at hand.
struct Expression {
    text: String,
    /// The link type last met, and the program for it; none where libpcap has none.
    compiled: Option<(LinkType, Option<BpfProgram>)>,
    /// Link types for which there is none, and of which that has been told.
    refused: Vec<LinkType>,
}

impl<P: Port> Filtered<P> {
    /// Lets through what matches `expression` (pcap-filter(7)). It is compiled anew for each link
    /// type that the port turns to.
    ///
    /// # Errors
    /// libpcap's own message, when the expression fits no link type.
    pub fn new(port: P, expression: &str) -> Result<Self, PortError> {
        check(expression)?;
        Ok(Self {
            port,
            expression: Expression {
                text: expression.to_owned(),
                compiled: None,
                refused: Vec::new(),
            },
            frames: FrameList::default(),
            counters: Counters::default(),
        })
    }
}

/// One expression compiled for one link type, asked frame by frame.
pub struct Matcher {
    program: BpfProgram,
}

impl Matcher {
    /// Compiles `expression` (pcap-filter(7)) for frames of `link`.
    ///
    /// # Errors
    /// libpcap's own message, in one line that names the expression.
    pub fn new(expression: &str, link: LinkType) -> Result<Self, PortError> {
        let program = compile(expression, link).map_err(|error| {
            PortError::Failed(format!(
                "filter '{expression}': {error} (see pcap-filter(7))"
            ))
        })?;
        Ok(Self { program })
    }

    /// Whether the expression lets `frame` through.
    #[must_use]
    pub fn matches(&self, frame: &Frame<'_>) -> bool {
        matches(&self.program, frame)
    }
}

/// Says whether `expression` can be compiled.
///
/// # Errors
/// libpcap's own message, in one line that names the expression.
pub fn check(expression: &str) -> Result<(), PortError> {
    let mut first = None;
    for link in TRIED {
        match compile(expression, link) {
            Ok(_) => return Ok(()),
            Err(error) => {
                first.get_or_insert(error);
            }
        }
    }
    let error = first.unwrap_or_default();
    Err(PortError::Failed(format!(
        "filter '{expression}': {error} (see pcap-filter(7))"
    )))
}

fn compile(expression: &str, link: LinkType) -> Result<BpfProgram, String> {
    let compiled = if link == LinkType::Null {
        // Of a file, libpcap knows that any system may have written it, and takes all their
        // numbers of protocol families.
        file_header(link).and_then(|path| {
            Capture::from_file(path.path()).and_then(|capture| capture.compile(expression, true))
        })
    } else {
        Capture::dead(Linktype(data_link_type(link)))
            .and_then(|capture| capture.compile(expression, true))
    };
    compiled.map_err(|error| match error {
        pcap::Error::PcapError(message) => message,
        other => other.to_string(),
    })
}

/// A file in memory that holds the header of a pcap file and no packets.
fn file_header(link: LinkType) -> Result<MemoryFile, pcap::Error> {
    let mut header = [0; 24];
    header[..4].copy_from_slice(&0xa1b2_c3d4u32.to_ne_bytes());
    header[4..6].copy_from_slice(&2u16.to_ne_bytes());
    header[6..8].copy_from_slice(&4u16.to_ne_bytes());
    header[16..20].copy_from_slice(&0x0004_0000u32.to_ne_bytes());
    header[20..24].copy_from_slice(&u32::from(link.linktype()).to_ne_bytes());
    MemoryFile::holding(&header).map_err(|error| pcap::Error::PcapError(error.to_string()))
}

/// A file that lives in memory, and has a path while it does.
struct MemoryFile(File);

impl MemoryFile {
    fn holding(bytes: &[u8]) -> io::Result<Self> {
        // SAFETY: the name is a string with its end; the new descriptor is owned at once.
        let file = unsafe {
            match libc::memfd_create(c"pcap-header".as_ptr(), libc::MFD_CLOEXEC) {
                -1 => return Err(io::Error::last_os_error()),
                descriptor => File::from_raw_fd(descriptor),
            }
        };
        (&file).write_all(bytes)?;
        Ok(Self(file))
    }

    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }
}

/// libpcap's name for a link type on this system (DLT_), which differs from the one in files
/// (LINKTYPE_) where systems could not agree; pcap/dlt.h.
fn data_link_type(link: LinkType) -> i32 {
    match link.linktype() {
        100 => 11, // ATM, RFC 1483
        101 => 12, // raw IP
        102 => 15, // SLIP of BSD/OS
        103 => 16, // PPP of BSD/OS
        106 => 19, // classical IP over ATM
        other => i32::from(other),
    }
}

/// Whether `program` lets `frame` through.
fn matches(program: &BpfProgram, frame: &Frame<'_>) -> bool {
    let instructions = program.get_instructions();
    // SAFETY: the program was compiled by libpcap, which ends every path of a program with a return;
    // `BpfInstruction` is a transparent `struct bpf_insn`. The length given for the packet is that of
    // its slice, and libpcap checks each load against it.
    let kept = unsafe {
        bpf_filter(
            instructions.as_ptr().cast(),
            frame.bytes.as_ptr(),
            frame.wire_length,
            u32::try_from(frame.bytes.len()).unwrap_or(u32::MAX),
        )
    };
    kept != 0
}

/// Puts those of `frames` that match into `kept`; their number, and the wire length of all.
fn sieve<'a>(program: &BpfProgram, frames: &[Frame<'a>], kept: &mut [Frame<'a>]) -> (usize, u64) {
    let mut count = 0;
    for frame in frames {
        if matches(program, frame)
            && let Some(slot) = kept.get_mut(count)
        {
            *slot = *frame;
            count += 1;
        }
    }
    (count, sum(frames))
}

/// The wire length of all frames.
fn sum(frames: &[Frame<'_>]) -> u64 {
    frames
        .iter()
        .map(|frame| u64::from(frame.wire_length))
        .sum()
}

/// One instruction; only ever behind a pointer.
#[repr(C)]
struct BpfInsn {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

// The crate's own `BpfProgram::filter` takes the captured length for the length on the wire, so that
// `greater 1000` would miss every frame that a snap length has cut.
// SAFETY: the declaration is that of libpcap's header pcap/bpf.h, stable since its first release.
unsafe extern "C" {
    /// libpcap, pcap/bpf.h: how many bytes of the packet to keep, 0 for none of it.
    fn bpf_filter(
        program: *const BpfInsn,
        packet: *const u8,
        wire_length: libc::c_uint,
        captured_length: libc::c_uint,
    ) -> libc::c_uint;
}

impl Expression {
    /// The program for `link`, if there is one.
    fn program(&mut self, link: LinkType) -> Result<Option<&BpfProgram>, String> {
        if self.compiled.as_ref().is_none_or(|(of, _)| *of != link) {
            match compile(&self.text, link) {
                Ok(program) => self.compiled = Some((link, Some(program))),
                Err(error) => {
                    self.compiled = Some((link, None));
                    if !self.refused.contains(&link) {
                        self.refused.push(link);
                        return Err(error);
                    }
                }
            }
        }
        Ok(self
            .compiled
            .as_ref()
            .and_then(|(_, program)| program.as_ref()))
    }
}

impl<P: Port> Wrapper for Filtered<P> {
    type Inner = P;

    fn inner(&self) -> &P {
        &self.port
    }

    fn inner_mut(&mut self) -> &mut P {
        &mut self.port
    }

    fn pass_on(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        for _ in 0..PATIENCE_BURSTS {
            let burst = match self.port.receive()? {
                Received::Burst(burst) => burst,
                Received::Idle => return Ok(Received::Idle),
                Received::Fault(message) => return Ok(Received::Fault(message)),
                Received::End => return Ok(Received::End),
            };
            // SAFETY: the frames are read below alone, up to the number that is put there now. Their
            // bytes belong to the port, which keeps them until it is asked again; that happens at
            // the next `receive`, until which whoever holds these frames borrows `self`.
            let kept = unsafe { self.frames.borrow() };
            let mut refusal = None;
            let (count, total) = match self.expression.program(burst.link) {
                Ok(Some(program)) => sieve(program, burst.frames, kept),
                Ok(None) => (0, sum(burst.frames)),
                Err(error) => {
                    self.counters.faults += 1;
                    refusal = Some(format!(
                        "filter '{}': {error}: packets of link type {} cannot match and are left out",
                        self.expression.text,
                        burst.link.linktype()
                    ));
                    (0, sum(burst.frames))
                }
            };
            let link = burst.link;
            let frames = self.frames.first(count);
            let bytes = sum(frames);
            self.counters.frames += count as u64;
            self.counters.bytes += bytes;
            self.counters.filtered += (burst.frames.len() - count) as u64;
            self.counters.filtered_bytes += total - bytes;
            if let Some(message) = refusal {
                return Ok(Received::Fault(message));
            }
            if count > 0 {
                let frames = self.frames.first(count);
                return Ok(Received::Burst(Burst { link, frames }));
            }
        }
        Ok(Received::Idle)
    }

    /// Those of the port; `frames` are the matching ones, the others are `filtered`.
    fn amend(&self, port: Counters) -> Counters {
        Counters {
            frames: self.counters.frames,
            bytes: self.counters.bytes,
            filtered: port.filtered + self.counters.filtered,
            filtered_bytes: port.filtered_bytes + self.counters.filtered_bytes,
            faults: port.faults + self.counters.faults,
            ..port
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryPort;

    /// Ethernet, IPv4, UDP from port 1 to `port`, 42 bytes.
    fn udp(port: u8) -> Vec<u8> {
        let mut frame = vec![0; 42];
        frame[12] = 8;
        frame[14] = 0x45;
        frame[17] = 28;
        frame[23] = 17;
        frame[35] = 1;
        frame[37] = port;
        frame
    }

    fn times<P: Port>(port: &mut P) -> Vec<i64> {
        let mut times = Vec::new();
        loop {
            match port.receive().expect("memory has no errors") {
                Received::Burst(burst) => {
                    times.extend(burst.frames.iter().map(|frame| frame.time_ns))
                }
                Received::End => return times,
                Received::Idle | Received::Fault(_) => {}
            }
        }
    }

    #[test]
    fn matching_frames_pass_and_the_others_are_counted() {
        let frames = (0..1000i64).map(|number| (number, 60, udp((number % 5) as u8)));
        let port = MemoryPort::new(LinkType::Ethernet, frames);
        let mut filtered = Filtered::new(port, "udp dst port 3").expect("a good expression");
        let expected: Vec<i64> = (0..1000).filter(|number| number % 5 == 3).collect();
        assert_eq!(times(&mut filtered), expected);
        let counters = filtered.counters();
        assert_eq!((counters.frames, counters.bytes), (200, 12_000));
        assert_eq!((counters.filtered, counters.filtered_bytes), (800, 48_000));
        assert_eq!(counters.faults, 0);
    }

    #[test]
    fn the_length_of_a_cut_frame_is_its_length_on_the_wire() {
        let frames = [(1, 1500, udp(1)), (2, 42, udp(1))];
        let port = MemoryPort::new(LinkType::Ethernet, frames);
        let mut filtered = Filtered::new(port, "greater 1000").expect("a good expression");
        assert_eq!(times(&mut filtered), [1]);
    }

    #[test]
    fn raw_ip_has_another_number_in_libpcap_than_in_files() {
        let frames = [
            (1, 28, udp(7)[14..].to_vec()),
            (2, 28, udp(8)[14..].to_vec()),
        ];
        let port = MemoryPort::new(LinkType::Raw, frames);
        let mut filtered = Filtered::new(port, "udp port 8").expect("a good expression");
        assert_eq!(times(&mut filtered), [2]);
        assert_eq!(filtered.counters().faults, 0);
    }

    #[test]
    fn a_bad_expression_is_told_in_libpcaps_words() {
        let error = check("udp port banana")
            .expect_err("no such port")
            .to_string();
        assert!(error.starts_with("filter 'udp port banana': "), "{error}");
        assert!(error.contains("unknown port 'banana'"), "{error}");
        assert!(!error.contains('\n'), "{error}");
        assert!(check("ip\0").is_err());
        assert!(check("((").is_err());
        assert!(check("").is_ok());
        // Fits 802.11 alone.
        assert!(check("wlan type mgt").is_ok());
    }

    #[test]
    fn a_link_type_that_the_expression_does_not_fit_is_told_once_and_left_out() {
        let frames = (0..600i64).map(|number| (number, 60, udp(1)));
        let port = MemoryPort::new(LinkType::Ethernet, frames);
        let mut filtered = Filtered::new(port, "wlan type mgt").expect("fits some link");
        let Ok(Received::Fault(message)) = filtered.receive() else {
            panic!("no fault");
        };
        assert!(message.contains("link type 1 "), "{message}");
        assert_eq!(times(&mut filtered), []);
        assert_eq!(filtered.counters().filtered, 600);
        assert_eq!(filtered.counters().faults, 1);
    }
}
