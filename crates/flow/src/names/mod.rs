//! The names behind flows: per-flow state that is fed payload and yields a [`NamesRecord`].
//!
//! [`Names`] holds a word for each slot of the flow table. A flow that may still tell something has
//! a state in a bounded pool, where it is read and written in its place; once its names are known,
//! or it is given up, a packet of it costs a look at the word. Its texts lie in a pool of distinct
//! texts.

mod application;
mod assembly;
mod column;
mod dns;
mod http;
mod limits;
mod quic;
mod reader;
mod record;
mod resolved;
mod rtp;
mod state;
mod tcp_stream;
#[cfg(test)]
mod tests;
mod text_pool;
mod tls;

pub use application::{Applications, ApplicationsError};
pub use column::{COLUMNS, NameColumn, NameKind, NamePart, NameValue};
pub use limits::NamesLimits;
pub use record::{
    Application, Cut, DnsRecord, FoundBy, HttpRecord, NameText, NamesRecord, QuicRecord,
    ResolvedName, RtpRecord, TlsRecord,
};

use crate::pool::Pool;
use hw::memory::HugeSlice;
use hw::prefetch;
use reader::Reader;

use state::{Common, Flow, Protocol, State, TEXTS_MAX, TcpState, side};
use std::io;
use std::sync::Arc;
use text_pool::TEXT_MAX;
use wire::FlowKey;
use wire::ip_protocol;
use wire::tcp::flag;

/// One packet of a flow, as far as names need it.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Time of the packet, nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// 0 from the flow's initiator, 1 to it.
    pub direction: u8,
    /// Protocol of the transport header (protocolIdentifier).
    pub protocol: u8,
    /// TCP control bits, 0 without TCP.
    pub tcp_flags: u8,
    /// TCP sequence number of the first byte of payload (of the SYN, where there is one).
    pub sequence: u32,
    /// Port of the sender of this packet.
    pub source_port: u16,
    /// Port of its receiver.
    pub destination_port: u16,
    /// Payload behind the transport header, as far as it was captured.
    pub payload: &'a [u8],
    /// Bytes of payload on the wire.
    pub payload_length: u32,
}

/// What a slot's word says of its flow, in bits 32 to 39; the low half is a number.
mod stage {
    /// No packet yet.
    pub(super) const NEW: u64 = 0;
    /// A SYN; the number is the sequence number behind it.
    pub(super) const SYN: u64 = 1;
    /// A few packets, none of which told anything; the number is how many.
    pub(super) const TRIED: u64 = 2;
    /// To be looked at; the number is the state's handle.
    pub(super) const WATCHED: u64 = 3;
    /// Nothing more to learn; the number is the state's handle, or 0.
    pub(super) const QUIET: u64 = 4;
    /// No state was free.
    pub(super) const LOST: u64 = 5;
}

const fn word(stage: u64, number: u32) -> u64 {
    stage << 32 | number as u64
}

/// Datagrams of a UDP flow in which a protocol is looked for.
const UDP_TRIES: u8 = 8;

/// Packets with payload of a TCP stream in which a protocol is looked for: another may come before
/// it (STARTTLS).
const TCP_TRIES: u8 = 40;

/// The names of many flows.
#[derive(Debug)]
pub struct Names {
    words: HugeSlice<u64>,
    flows: Pool<Flow>,
    reader: Reader,
}

impl Names {
    /// Bytes of a flow that names are kept of, whatever it is: a word, and a state once it may tell
    /// something. Its texts are in the pool that all flows share, its streams in buffers.
    pub const BYTES_PER_FLOW: usize = size_of::<u64>() + size_of::<Flow>();

    /// The most bytes of text that one flow holds, with nobody to share them.
    pub const TEXT_BYTES_PER_FLOW_MAX: usize = TEXTS_MAX * TEXT_MAX;

    /// For `slots` flows. Memory is taken as flows come, up to [`Names::memory_bytes`].
    ///
    /// # Errors
    /// When the machine has no room for them.
    pub fn new(
        slots: usize,
        limits: &NamesLimits,
        applications: Arc<Applications>,
    ) -> io::Result<Self> {
        Ok(Self {
            words: HugeSlice::try_zeroed(slots)?,
            flows: Pool::new(slots)?,
            reader: Reader::new(slots, limits, applications)?,
        })
    }

    /// Takes the memory of the first flows now.
    pub(crate) fn populate(&mut self) {
        self.words.populate();
        self.flows.populate();
        self.reader.populate();
    }

    /// Asks for the cache lines of a flow, some time before [`Names::observe`].
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        prefetch::read(&self.words, slot as usize);
    }

    /// Whether a packet of the flow in `slot` with so many bytes of payload is to be shown to
    /// [`Names::observe`], which would do nothing otherwise.
    #[inline(always)]
    #[must_use]
    pub fn wants(&self, slot: u32, payload_length: u32) -> bool {
        let stage = self.words.get(slot as usize).copied().unwrap_or(u64::MAX) >> 32;
        stage < stage::TRIED || (stage < stage::QUIET && payload_length > 0)
    }

    /// Takes in a packet of the flow in `slot`. Every packet of the flow is to be shown, also those
    /// without payload; `key` gives the flow's key as its initiator sent it, and is called seldom.
    #[inline]
    pub fn observe(&mut self, slot: u32, segment: &Segment<'_>, key: impl Fn() -> FlowKey) {
        let Some(&word) = self.words.get(slot as usize) else {
            return;
        };
        if !self.wants(slot, segment.payload_length) {
            return;
        }
        let handle = word as u32;
        if word >> 32 != stage::WATCHED {
            self.begin(slot, word, segment, key);
        } else if let Some(flow) = self.flows.get_mut(handle)
            && !flow.pass_over(segment)
        {
            self.look(slot, handle, segment, key);
        }
    }

    /// Gives a flow a state for this packet, unless a number says all that is to be kept of it.
    #[inline(never)]
    fn begin(&mut self, slot: u32, old: u64, segment: &Segment<'_>, key: impl Fn() -> FlowKey) {
        let (stage, number) = (old >> 32, old as u32);
        let mut begun = Common::default();
        if stage == stage::NEW && self.reader.has_resolved() {
            self.reader.look_up(&mut begun, &key(), segment.time_ns);
        }
        if stage <= stage::SYN
            && is_first_syn(segment)
            && begun.resolved.is_none()
            && begun.cut == Cut::default()
        {
            let behind = segment.sequence.wrapping_add(1);
            self.words[slot as usize] = word(stage::SYN, behind);
            return;
        }
        let handle = self.flows.take();
        let Some(flow) = self.flows.get_mut(handle) else {
            self.reader.release_common(&begun);
            self.words[slot as usize] = word(stage::LOST, 0);
            return;
        };
        match stage {
            stage::NEW => flow.common = begun,
            stage::SYN => {
                let mut tcp = TcpState::default();
                tcp.sides[0].begin(number);
                flow.state = State::Tcp(tcp);
            }
            _ => flow.common.packets = number as u8,
        }
        self.look(slot, handle, segment, key);
    }

    /// Reads a packet of a flow that has a state.
    #[inline(never)]
    fn look(&mut self, slot: u32, handle: u32, segment: &Segment<'_>, key: impl Fn() -> FlowKey) {
        let Some(flow) = self.flows.get_mut(handle) else {
            return;
        };
        let on = match segment.protocol {
            ip_protocol::TCP => self.reader.read_tcp(flow, segment),
            ip_protocol::UDP => self.reader.read_udp(flow, segment),
            // Another protocol, or a fragment without its transport header.
            _ => {
                flow.common.packets = flow.common.packets.saturating_add(1);
                flow.common.packets < UDP_TRIES
            }
        };
        if self.reader.has_answers() {
            let key = key();
            // A response goes to the client: to the initiator, unless the query was not seen.
            let client = if segment.direction == 0 {
                key.destination
            } else {
                key.source
            };
            self.reader
                .note_answers(u128::from_le_bytes(client), segment.time_ns);
        }
        if !on {
            self.reader.release_assemblies(flow);
        }
        self.words[slot as usize] = if flow.is_worth_keeping(on) {
            word(if on { stage::WATCHED } else { stage::QUIET }, handle)
        } else {
            let packets = flow.common.packets;
            self.flows.release(handle);
            if on {
                word(stage::TRIED, u32::from(packets))
            } else {
                word(stage::QUIET, 0)
            }
        };
    }

    /// Takes out what is known of the flow in `slot`, whose key (as its initiator sent it) is
    /// `key`, and forgets it.
    #[must_use]
    pub fn take(&mut self, slot: u32, key: &FlowKey) -> NamesRecord {
        let word = self.forget(slot);
        let mut record = NamesRecord::default();
        if word >> 32 == stage::LOST {
            record.cut.add(Cut::STATES);
        }
        if word >> 32 >= stage::WATCHED
            && let Some(flow) = self.flows.get_mut(word as u32)
        {
            self.reader.describe(flow, &mut record);
            self.flows.release(word as u32);
        }
        self.reader.applications.classify(key, &mut record);
        record
    }

    /// Forgets the flow in `slot`.
    pub fn clear(&mut self, slot: u32) {
        let word = self.forget(slot);
        if word >> 32 >= stage::WATCHED
            && let Some(flow) = self.flows.get_mut(word as u32)
        {
            self.reader.release(flow);
            self.flows.release(word as u32);
        }
    }

    /// The word of a slot, which is a new flow's from then on.
    fn forget(&mut self, slot: u32) -> u64 {
        self.words.get_mut(slot as usize).map_or(0, std::mem::take)
    }

    /// Moves the flow in slot `from` to the free slot `to`.
    pub fn relocate(&mut self, from: u32, to: u32) {
        if from != to
            && (to as usize) < self.words.len()
            && let Some(word) = self.words.get_mut(from as usize)
        {
            let moved = std::mem::take(word);
            self.words[to as usize] = moved;
        }
    }

    /// Whether no flow holds anything: all that was taken has been given back.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.flows.taken() == 0 && self.reader.is_idle()
    }

    /// Memory when every flow has a state and all pools are full, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.words.len() * size_of::<u64>() + self.flows.memory_bytes() + self.reader.memory_bytes()
    }
}

/// Whether a packet is but the SYN that begins a flow: a number is all there is to keep of it.
fn is_first_syn(segment: &Segment<'_>) -> bool {
    segment.protocol == ip_protocol::TCP
        && segment.tcp_flags & flag::SYN != 0
        && segment.payload_length == 0
        && segment.direction == 0
}

impl Flow {
    /// Whether it has told something, or has a place in its streams to be kept for what it may.
    fn is_worth_keeping(&self, on: bool) -> bool {
        let state = match &self.state {
            State::Unknown => false,
            State::Tcp(tcp) => {
                tcp.protocol != Protocol::Unknown
                    || (on && tcp.sides.iter().any(|it| it.is(side::KNOWN)))
            }
            State::Dns(_) | State::Quic(_) | State::Rtp(_) => true,
        };
        state
            || !self.common.resolved.is_none()
            || self.common.class != 0
            || self.common.cut != Cut::default()
    }
}
