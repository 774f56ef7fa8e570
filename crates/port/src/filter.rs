//! Filters any port by pcap-filter expressions, compiled by libpcap.

use crate::frame::{Burst, Counters, Frame, Port, PortError, Received};
use crate::frame_list::FrameList;
use crate::wrapper::Wrapper;
use pcap::{BpfProgram, Capture, Linktype};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use wire::LinkType;

/// Link types for which an expression is compiled to validate it. One success is enough, since some
/// expressions are valid on few link types only. Ethernet comes first: its error message is reported.
const PROBED_LINK_TYPES: [LinkType; 5] = [
    LinkType::Ethernet,
    LinkType::Raw,
    LinkType::LinuxSll,
    LinkType::Other(127), // IEEE 802.11 with radiotap
    LinkType::Other(122), // IP over Fibre Channel
];

/// Bursts without a match after which the port returns `Idle`, so that the reader can check its timers.
const BURSTS_UNTIL_IDLE: u32 = 64;

/// Delivers the frames of another port that match an expression, and counts the others.
pub struct Filtered<P> {
    port: P,
    expression: Expression,
    frames: FrameList,
    counters: Counters,
}

/// An expression, and its program for the current link type.
struct Expression {
    text: String,
    /// The last link type and its program; no program if the expression is invalid for it.
    compiled: Option<(LinkType, Option<BpfProgram>)>,
    /// Link types without a program, which have been reported.
    unsupported: Vec<LinkType>,
}

impl<P: Port> Filtered<P> {
    /// Filters `port` by `expression` (pcap-filter(7)), which is recompiled whenever the link type
    /// changes.
    ///
    /// # Errors
    /// libpcap's message, if the expression is invalid for every link type.
    pub fn new(port: P, expression: &str) -> Result<Self, PortError> {
        validate(expression)?;
        Ok(Self {
            port,
            expression: Expression {
                text: expression.to_owned(),
                compiled: None,
                unsupported: Vec::new(),
            },
            frames: FrameList::default(),
            counters: Counters::default(),
        })
    }
}

/// An expression compiled for one link type, to match single frames.
pub struct Matcher {
    program: BpfProgram,
}

impl Matcher {
    /// Compiles `expression` (pcap-filter(7)) for frames of `link`.
    ///
    /// # Errors
    /// libpcap's message, in one line that contains the expression.
    pub fn new(expression: &str, link: LinkType) -> Result<Self, PortError> {
        let program = compile(expression, link).map_err(|error| {
            PortError::Failed(format!(
                "filter '{expression}': {error} (see pcap-filter(7))"
            ))
        })?;
        Ok(Self { program })
    }

    /// Whether `frame` matches the expression.
    #[must_use]
    pub fn matches(&self, frame: &Frame<'_>) -> bool {
        matches(&self.program, frame)
    }
}

/// Checks that `expression` is valid for at least one link type.
///
/// # Errors
/// libpcap's message, in one line that contains the expression.
pub fn validate(expression: &str) -> Result<(), PortError> {
    let mut first = None;
    for link in PROBED_LINK_TYPES {
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
        // For a file, libpcap accepts the protocol family numbers of every system, since any may have
        // written it.
        pcap_header_file(link).and_then(|path| {
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

/// Returns a file in memory with a pcap file header and no packets.
fn pcap_header_file(link: LinkType) -> Result<MemoryFile, pcap::Error> {
    let mut header = [0; 24];
    header[..4].copy_from_slice(&0xa1b2_c3d4u32.to_ne_bytes());
    header[4..6].copy_from_slice(&2u16.to_ne_bytes());
    header[6..8].copy_from_slice(&4u16.to_ne_bytes());
    header[16..20].copy_from_slice(&0x0004_0000u32.to_ne_bytes());
    header[20..24].copy_from_slice(&u32::from(link.linktype()).to_ne_bytes());
    MemoryFile::with_content(&header).map_err(|error| pcap::Error::PcapError(error.to_string()))
}

/// A file in memory that has a path while it is open.
struct MemoryFile(File);

impl MemoryFile {
    fn with_content(bytes: &[u8]) -> io::Result<Self> {
        // SAFETY: the name is NUL-terminated; the new descriptor has one owner, the returned file.
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

/// libpcap's number for a link type on this system (DLT_). It differs from the number in files
/// (LINKTYPE_) where operating systems disagree; see pcap/dlt.h.
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

/// Whether `frame` matches `program`.
fn matches(program: &BpfProgram, frame: &Frame<'_>) -> bool {
    let instructions = program.get_instructions();
    // SAFETY: libpcap compiled the program and ends every path of it with a return; `BpfInstruction` is
    // a transparent `struct bpf_insn`. The captured length is that of the slice, and libpcap checks
    // each load against it.
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

/// Copies matching frames to `kept`; returns their number and the bytes on the wire of all `frames`.
fn select<'a>(program: &BpfProgram, frames: &[Frame<'a>], kept: &mut [Frame<'a>]) -> (usize, u64) {
    let mut count = 0;
    for frame in frames {
        if matches(program, frame)
            && let Some(slot) = kept.get_mut(count)
        {
            *slot = *frame;
            count += 1;
        }
    }
    (count, wire_bytes(frames))
}

/// Bytes on the wire of all frames.
fn wire_bytes(frames: &[Frame<'_>]) -> u64 {
    frames
        .iter()
        .map(|frame| u64::from(frame.wire_length))
        .sum()
}

/// A BPF instruction; used behind a pointer only.
#[repr(C)]
struct BpfInsn {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

// `BpfProgram::filter` of the crate `pcap` uses the captured length as the length on the wire, so that
// `greater 1000` would miss every frame that a snaplen has cut.
// SAFETY: the declaration repeats libpcap's header pcap/bpf.h, stable since its first release.
unsafe extern "C" {
    /// libpcap, pcap/bpf.h: returns the bytes of the packet to keep, 0 to reject it.
    fn bpf_filter(
        program: *const BpfInsn,
        packet: *const u8,
        wire_length: libc::c_uint,
        captured_length: libc::c_uint,
    ) -> libc::c_uint;
}

impl Expression {
    /// Returns the program for `link`, if the expression is valid for it; an error the first time it is
    /// not.
    fn program(&mut self, link: LinkType) -> Result<Option<&BpfProgram>, String> {
        if self
            .compiled
            .as_ref()
            .is_none_or(|(compiled_for, _)| *compiled_for != link)
        {
            match compile(&self.text, link) {
                Ok(program) => self.compiled = Some((link, Some(program))),
                Err(error) => {
                    self.compiled = Some((link, None));
                    if !self.unsupported.contains(&link) {
                        self.unsupported.push(link);
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

    fn wrap_receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        for _ in 0..BURSTS_UNTIL_IDLE {
            let burst = match self.port.receive()? {
                Received::Burst(burst) => burst,
                Received::Idle => return Ok(Received::Idle),
                Received::Fault(message) => return Ok(Received::Fault(message)),
                Received::End => return Ok(Received::End),
            };
            // SAFETY: only the frames written now are read below. Their bytes belong to the inner port,
            // which keeps them until its next `receive`; that call needs `self` mutably, and the
            // returned burst borrows `self` until then.
            let kept = unsafe { self.frames.slots() };
            let mut fault = None;
            let (count, total) = match self.expression.program(burst.link) {
                Ok(Some(program)) => select(program, burst.frames, kept),
                Ok(None) => (0, wire_bytes(burst.frames)),
                Err(error) => {
                    self.counters.faults += 1;
                    fault = Some(format!(
                        "filter '{}': {error}: packets of link type {} cannot match and are filtered",
                        self.expression.text,
                        burst.link.linktype()
                    ));
                    (0, wire_bytes(burst.frames))
                }
            };
            let link = burst.link;
            let frames = self.frames.first(count);
            let bytes = wire_bytes(frames);
            self.counters.frames += count as u64;
            self.counters.bytes += bytes;
            self.counters.filtered += (burst.frames.len() - count) as u64;
            self.counters.filtered_bytes += total - bytes;
            if let Some(message) = fault {
                return Ok(Received::Fault(message));
            }
            if count > 0 {
                let frames = self.frames.first(count);
                return Ok(Received::Burst(Burst { link, frames }));
            }
        }
        Ok(Received::Idle)
    }

    /// Counts matching frames as `frames` and the others as `filtered`.
    fn wrap_counters(&self, port: Counters) -> Counters {
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
    fn matching_frames_pass_and_others_are_counted() {
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
    fn filters_use_the_wire_length_of_truncated_frames() {
        let frames = [(1, 1500, udp(1)), (2, 42, udp(1))];
        let port = MemoryPort::new(LinkType::Ethernet, frames);
        let mut filtered = Filtered::new(port, "greater 1000").expect("a good expression");
        assert_eq!(times(&mut filtered), [1]);
    }

    #[test]
    fn raw_ip_uses_the_dlt_number_of_libpcap() {
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
    fn invalid_expression_is_reported_with_libpcaps_message() {
        let error = validate("udp port banana")
            .expect_err("no such port")
            .to_string();
        assert!(error.starts_with("filter 'udp port banana': "), "{error}");
        assert!(error.contains("unknown port 'banana'"), "{error}");
        assert!(!error.contains('\n'), "{error}");
        assert!(validate("ip\0").is_err());
        assert!(validate("((").is_err());
        assert!(validate("").is_ok());
        // Valid for 802.11 only.
        assert!(validate("wlan type mgt").is_ok());
    }

    #[test]
    fn link_type_invalid_for_the_expression_is_reported_once_and_filtered() {
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
