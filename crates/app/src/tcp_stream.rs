//! TCP segments in the order of their sequence numbers, up to where names are known.
//!
//! A segment that comes in order and holds all of a message is read where it lies. Others are put
//! together in a buffer out of a bounded pool, which is given back as soon as it has been read.

use super::Segment;
use super::assembly::TCP_PIECES_MAX;
use super::reader::Reader;
use super::record::Cut;
use super::state::{Common, DnsState, HttpState, Messages, Nanoseconds, Protocol, TcpState, side};
use crate::message::{http, tls};
use std::ops::ControlFlow;
use wire::ip_protocol;

/// Packets for which a gap is waited out before it is given up.
const WAIT_PACKETS: u8 = 24;

/// The furthest that a gap is jumped without resynchronising, in bytes.
const GAP_MAX: u32 = 1 << 20;

/// The furthest that a segment can be behind another of its connection (RFC 7323 section 2.3): one
/// further behind is of another connection of the same ports.
const BEHIND_MAX: u32 = 1 << 30;

/// What a reader says of the bytes that it was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It wants them again with what follows.
    More,
    /// It has done with as many as this, which may be more than there are.
    Used(usize),
    /// It has done with all of this direction.
    Close,
}

impl Reader {
    /// Takes in a segment with payload.
    pub(super) fn read_segment(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &Segment<'_>,
        sequence: u32,
    ) {
        let direction = usize::from(segment.direction & 1);
        let side = &mut tcp.sides[direction];
        if side.is(side::CLOSED) {
            return;
        }
        if !side.is(side::KNOWN) {
            side.set(side::KNOWN);
            side.expected = sequence;
        }
        if side.assembly != 0 {
            self.join_segment(common, tcp, segment, sequence);
            return;
        }
        let length = segment.payload_length;
        let ahead = sequence.wrapping_sub(side.expected);
        if ahead.cast_signed() < 0 {
            let behind = ahead.wrapping_neg();
            if behind >= length {
                // Without a SYN the first packet seen need not be the stream's first.
                let is_earlier = !side.is(side::FROM_SYN)
                    && tcp.protocol == Protocol::Unknown
                    && begins_something(segment.payload);
                if is_earlier || behind > BEHIND_MAX {
                    side.expected = sequence;
                    side.skip = 0;
                    self.read_in_order(common, tcp, segment, segment.payload, length);
                }
                return;
            }
            let rest = segment.payload.get(behind as usize..).unwrap_or_default();
            self.read_in_order(common, tcp, segment, rest, length - behind);
        } else if ahead == 0 {
            self.read_in_order(common, tcp, segment, segment.payload, length);
        } else if ahead <= side.skip {
            side.skip -= ahead;
            side.expected = sequence;
            self.read_in_order(common, tcp, segment, segment.payload, length);
        } else if ahead > GAP_MAX
            || segment.payload.len() < length as usize
            || (tcp.protocol == Protocol::Http && begins_message(segment.payload))
        {
            // Between messages of HTTP nothing is wanted but where the next begins.
            self.resynchronise(common, tcp, segment, sequence);
        } else {
            // What is between is wanted: what follows it waits.
            let skip = std::mem::take(&mut side.skip);
            side.assembly = self.assemblies.take(
                direction as u8,
                side.expected.wrapping_add(skip),
                TCP_PIECES_MAX,
            );
            if side.assembly == 0 {
                common.cut.add(Cut::ASSEMBLY);
                self.resynchronise(common, tcp, segment, sequence);
            } else {
                self.join_segment(common, tcp, segment, sequence);
            }
        }
    }

    /// Gives up what is missing before this segment, and goes on with it.
    fn resynchronise(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &Segment<'_>,
        sequence: u32,
    ) {
        let direction = usize::from(segment.direction & 1);
        self.drop_assembly(common, tcp, direction);
        let side = &mut tcp.sides[direction];
        if side.is(side::CLOSED) {
            return;
        }
        if tcp.protocol != Protocol::Unknown {
            common.cut.add(Cut::GAP);
        }
        side.expected = sequence;
        side.skip = 0;
        self.read_in_order(
            common,
            tcp,
            segment,
            segment.payload,
            segment.payload_length,
        );
    }

    /// Reads bytes that are next in the stream; `length` of them were on the wire.
    fn read_in_order(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &Segment<'_>,
        bytes: &[u8],
        length: u32,
    ) {
        let direction = usize::from(segment.direction & 1);
        let side = &mut tcp.sides[direction];
        let start = side.expected;
        side.expected = start.wrapping_add(length);
        let skipped = side.skip.min(length);
        side.skip -= skipped;
        let mut at = skipped as usize;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match self.read(common, tcp, segment, rest) {
                Verdict::Used(used) => {
                    let used = used.max(1);
                    if used > rest.len() {
                        // What was not captured of this segment is skipped already.
                        let beyond = (at + used).saturating_sub(length as usize);
                        tcp.sides[direction].skip = u32::try_from(beyond).unwrap_or(u32::MAX);
                    }
                    at += used;
                }
                Verdict::Close => {
                    tcp.sides[direction].set(side::CLOSED);
                    return;
                }
                Verdict::More if bytes.len() < length as usize => {
                    // The capture has not the rest of this segment: nothing can be appended.
                    common.cut.add(Cut::SNAP_LENGTH);
                    self.read_what_there_is(common, tcp, segment, rest);
                    return;
                }
                Verdict::More => {
                    let base = start.wrapping_add(at as u32);
                    let assembly = self.assemblies.take(direction as u8, base, TCP_PIECES_MAX);
                    let kept = self.assemblies.insert(assembly, direction as u8, 0, rest);
                    if kept.is_ok() {
                        tcp.sides[direction].assembly = assembly;
                        tcp.sides[direction].waited = 0;
                    } else {
                        let mut assembly = assembly;
                        self.assemblies.release(&mut assembly, direction as u8);
                        common.cut.add(Cut::ASSEMBLY);
                        self.read_what_there_is(common, tcp, segment, rest);
                    }
                    return;
                }
            }
        }
        if bytes.len() < length as usize && tcp.protocol == Protocol::Unknown && at == 0 {
            common.cut.add(Cut::SNAP_LENGTH);
        }
    }

    /// Adds a segment to the stream that is put together, and reads what is whole by that.
    fn join_segment(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &Segment<'_>,
        sequence: u32,
    ) {
        let direction = usize::from(segment.direction & 1);
        let handle = tcp.sides[direction].assembly;
        let Some(stream) = self.assemblies.get_mut(handle, direction as u8) else {
            return;
        };
        let before = stream.contiguous().len();
        let offset = sequence.wrapping_sub(stream.base);
        let whole = segment.payload.len() == segment.payload_length as usize;
        let (offset, bytes) = if offset.cast_signed() < 0 {
            let behind = offset.wrapping_neg() as usize;
            (0, segment.payload.get(behind..).unwrap_or_default())
        } else {
            (offset, segment.payload)
        };
        let inserted = self
            .assemblies
            .insert(handle, direction as u8, offset, bytes);
        let stream = self.assemblies.get_mut(handle, direction as u8);
        let grew = stream.is_some_and(|stream| stream.contiguous().len() > before);
        if grew {
            tcp.sides[direction].waited = 0;
            if self.read_joined(common, tcp, segment).is_break() {
                return;
            }
        }
        let side = &mut tcp.sides[direction];
        side.waited = side.waited.saturating_add(1);
        if inserted.is_err() {
            common.cut.add(Cut::ASSEMBLY);
            self.resynchronise(common, tcp, segment, sequence);
        } else if !whole || side.waited > WAIT_PACKETS {
            common.cut.add(match whole {
                true => Cut::GAP,
                false => Cut::SNAP_LENGTH,
            });
            self.drop_assembly(common, tcp, direction);
            tcp.sides[direction].expected = sequence.wrapping_add(segment.payload_length);
        }
    }

    /// Reads what is contiguous; breaks when the stream needs no assembly any more.
    fn read_joined(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &Segment<'_>,
    ) -> ControlFlow<()> {
        let direction = usize::from(segment.direction & 1);
        let handle = tcp.sides[direction].assembly;
        loop {
            let Some(stream) = self.assemblies.get_mut(handle, direction as u8) else {
                return ControlFlow::Break(());
            };
            let there = stream.contiguous().len();
            if there == 0 {
                return ControlFlow::Continue(());
            }
            let bytes = stream.lend();
            let verdict = self.read(common, tcp, segment, &bytes[..there]);
            let Some(stream) = self.assemblies.get_mut(handle, direction as u8) else {
                return ControlFlow::Break(());
            };
            stream.take_back(bytes);
            let side = &mut tcp.sides[direction];
            match verdict {
                Verdict::More => return ControlFlow::Continue(()),
                Verdict::Close => {
                    side.set(side::CLOSED);
                    self.assemblies.release(&mut side.assembly, direction as u8);
                    return ControlFlow::Break(());
                }
                Verdict::Used(used) => {
                    let used = u32::try_from(used.max(1)).unwrap_or(u32::MAX);
                    let there = there as u32;
                    if used >= there && stream.is_only(there) {
                        side.expected = stream.base.wrapping_add(there);
                        side.skip = used - there;
                        self.assemblies.release(&mut side.assembly, direction as u8);
                        return ControlFlow::Break(());
                    }
                    stream.advance(used);
                }
            }
        }
    }

    /// Reads what there is of a stream that will not become whole, and lets its buffer go. The packet
    /// at hand says nothing of when it came.
    pub(super) fn drop_assembly(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        direction: usize,
    ) {
        let handle = tcp.sides[direction].assembly;
        if let Some(stream) = self.assemblies.get_mut(handle, direction as u8) {
            let there = stream.contiguous().len();
            let bytes = stream.lend();
            if there > 0 {
                let segment = nothing(direction as u8);
                self.read_what_there_is(common, tcp, &segment, &bytes[..there]);
            }
        }
        self.assemblies
            .release(&mut tcp.sides[direction].assembly, direction as u8);
    }

    /// Whether bytes are missing before some that wait in a direction.
    pub(super) fn has_gap(&mut self, tcp: &TcpState, direction: usize) -> bool {
        let handle = tcp.sides[direction].assembly;
        let stream = self.assemblies.get_mut(handle, direction as u8);
        stream.is_some_and(|stream| !stream.is_only(stream.contiguous().len() as u32))
    }

    /// Shows the next bytes of a stream to whoever reads it.
    fn read(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &Segment<'_>,
        bytes: &[u8],
    ) -> Verdict {
        match tcp.protocol {
            Protocol::Unknown => self.identify(common, tcp, segment, bytes),
            Protocol::Tls => self.read_tls(common, tcp, segment, bytes),
            Protocol::Http => self.read_http(common, tcp, segment, bytes),
            Protocol::Dns => match &mut tcp.messages {
                Messages::Dns(dns) => self.read_dns_stream(&mut common.cut, dns, segment, bytes),
                _ => Verdict::Close,
            },
        }
    }

    /// Finds out what a stream is by its first bytes, or by those after another protocol's
    /// (STARTTLS).
    fn identify(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &Segment<'_>,
        bytes: &[u8],
    ) -> Verdict {
        let direction = usize::from(segment.direction & 1);
        match tls::begins(bytes) {
            tls::Begins::Hello(_) => {
                tcp.protocol = Protocol::Tls;
                self.pass_over_text(tcp, 1 - direction);
                return self.read_tls(common, tcp, segment, bytes);
            }
            tls::Begins::Perhaps => return Verdict::More,
            tls::Begins::No => {}
        }
        // Text is looked at line by line only where a stream begins.
        let is_beginning = !tcp.sides[direction].is(side::COMPARED);
        let begins = match is_beginning {
            true => http::begins_by_line(bytes),
            false => http::begins(bytes),
        };
        match begins {
            http::Begins::Request | http::Begins::Response => {
                tcp.messages = Messages::Http(HttpState::default());
                tcp.protocol = Protocol::Http;
                return self.read_http(common, tcp, segment, bytes);
            }
            http::Begins::Perhaps if is_beginning => return Verdict::More,
            http::Begins::Perhaps | http::Begins::No => {}
        }
        if is_dns([segment.source_port, segment.destination_port]) {
            match super::dns::begins_stream(bytes) {
                Some(true) => {
                    tcp.messages = Messages::Dns(DnsState::default());
                    tcp.protocol = Protocol::Dns;
                    return self.read(common, tcp, segment, bytes);
                }
                None => return Verdict::More,
                Some(false) => {}
            }
        }
        if is_beginning {
            tcp.sides[direction].set(side::COMPARED);
            if common.class == 0
                && let Some(class) = self.applications.by_bytes(bytes)
            {
                common.class = class + 1;
            }
        }
        Verdict::Used(bytes.len())
    }

    /// Passes over what waits in the other direction when TLS begins, if it is of the protocol before.
    fn pass_over_text(&mut self, tcp: &mut TcpState, direction: usize) {
        let side = &mut tcp.sides[direction];
        let Some(stream) = self.assemblies.get_mut(side.assembly, direction as u8) else {
            return;
        };
        if tls::begins(stream.contiguous()) != tls::Begins::No {
            return;
        }
        let there = stream.contiguous().len() as u32;
        if stream.is_only(there) {
            side.expected = stream.base.wrapping_add(there);
            self.assemblies.release(&mut side.assembly, direction as u8);
        } else {
            stream.advance(there);
        }
    }

    /// Reads of bytes that will not become a whole message what can be read.
    pub(super) fn read_what_there_is(
        &mut self,
        common: &mut Common,
        tcp: &mut TcpState,
        segment: &Segment<'_>,
        bytes: &[u8],
    ) {
        let cut = &mut common.cut;
        match (tcp.protocol, &mut tcp.messages) {
            (Protocol::Tls, _) => self.read_cut_hello(cut, &mut tcp.tls, segment, bytes),
            (Protocol::Http, Messages::Http(http)) => {
                self.read_cut_head(cut, http, segment, bytes);
            }
            _ => {}
        }
    }
}

/// A segment that brings nothing, at no time that is known.
pub(super) fn nothing(direction: u8) -> Segment<'static> {
    Segment {
        time_ns: Nanoseconds::UNKNOWN,
        direction,
        protocol: ip_protocol::TCP,
        tcp_flags: 0,
        sequence: 0,
        source_port: 0,
        destination_port: 0,
        payload: &[],
        payload_length: 0,
    }
}

/// Whether the payload of a stream that nothing is known of, between such ports, may begin something,
/// by a look at as little as may be. (Of the whole segment, every packet would have to put it into
/// memory.)
#[inline]
pub(super) fn may_begin(payload: &[u8], ports: [u16; 2]) -> bool {
    let Some(&first) = payload.first() else {
        return true;
    };
    tls::may_begin(first) || http::may_begin_known(payload) || is_dns(ports)
}

/// Whether one of two ports is that of DNS.
const fn is_dns([source, destination]: [u16; 2]) -> bool {
    source == super::dns::PORT || destination == super::dns::PORT
}

/// Whether bytes begin a message of HTTP.
fn begins_message(bytes: &[u8]) -> bool {
    matches!(
        http::begins_by_line(bytes),
        http::Begins::Request | http::Begins::Response
    )
}

/// Whether bytes begin a message of a protocol that is read from its beginning.
fn begins_something(bytes: &[u8]) -> bool {
    matches!(tls::begins(bytes), tls::Begins::Hello(_))
        || matches!(http::begins_by_line(bytes), http::Begins::Request)
}
