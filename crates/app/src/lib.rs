//! The names behind flows: per-flow state that is fed payload and yields a [`NamesRecord`].
//!
//! A flow's own state has a word, its [`Progress`]. A flow that may still tell something has a state
//! in a bounded pool of [`Names`], where it is read and written in its place; once its names are
//! known, or it is given up, a packet of it costs a look at the word. Its texts lie in a pool of
//! distinct texts.

mod application;
mod assembly;
mod column;
pub mod dns;
mod http;
mod limits;
pub mod message;
mod name_ends;
mod opening;
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
pub mod told;

pub use application::{Applications, ApplicationsError};
pub use column::{COLUMNS, NameColumn, NameKind, NamePart, NameValue};
pub use limits::NamesLimits;
pub use record::{
    Application, Cut, DnsHalf, DnsRecord, FoundBy, HttpRecord, NameText, NamesRecord, QuicRecord,
    ResolvedName, RtpRecord, TlsRecord,
};
pub use told::Told;

use hw::pool::Pool;
use reader::{AnswersGo, Reader};
use state::{Common, Flow, Passing, Protocol, State, TEXTS_MAX, TcpState, side};
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

impl<'a> Segment<'a> {
    /// Of a packet's details; `payload` is asked for where some was captured.
    #[inline(always)]
    pub fn of(
        time_ns: i64,
        side: usize,
        segment: &wire::Segment,
        payload: impl FnOnce() -> &'a [u8],
    ) -> Self {
        Self {
            time_ns,
            direction: side as u8,
            protocol: segment.transport,
            tcp_flags: segment.tcp_flags,
            sequence: segment.sequence,
            source_port: segment.source_port,
            destination_port: segment.destination_port,
            payload: if segment.payload_captured > 0 {
                payload()
            } else {
                &[]
            },
            payload_length: segment.payload_length,
        }
    }
}

/// Stages of a flow; each has a number.
mod stage {
    /// No packet yet; the number is the hash by which the name resolved is found, from
    /// `Progress::HASH_LEAST` on.
    pub(super) const NEW: u32 = 0;
    /// A SYN; the number is the sequence number behind it.
    pub(super) const SYN: u32 = 1;
    /// A few packets, none of which told anything; the number is how many.
    pub(super) const TRIED: u32 = 2;
    /// To be looked at; the number is the state's handle.
    pub(super) const WATCHED: u32 = 3;
    /// Nothing more to learn; the number is the state's handle, or 0.
    pub(super) const QUIET: u32 = 4;
    /// No state was free.
    pub(super) const LOST: u32 = 5;
}

/// How far the names of a flow are: what its own state keeps of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    number: u32,
    stage: u32,
}

impl Progress {
    const fn new(stage: u32, number: u32) -> Self {
        Self { number, stage }
    }

    /// After so many packets, none of which told anything.
    const fn tried(packets: u8) -> Self {
        if packets < UDP_TRIES {
            Self::new(stage::TRIED, packets as u32)
        } else {
            Self::NOTHING
        }
    }

    /// Nothing is to be learnt.
    pub const NOTHING: Self = Self::new(stage::QUIET, 0);

    /// No packet yet, in a record for which what an earlier one knew found no room.
    const FORGOTTEN: Self = Self::new(stage::NEW, 1);

    /// No packet yet, in a record of a flow that has one before: the name that its initiator had resolved
    /// when it opened the flow is known, or there was none.
    const CONTINUED: Self = Self::new(stage::NEW, 2);

    /// The least hash that is told from these.
    const HASH_LEAST: u32 = 3;

    /// No packet yet, of a flow whose addresses have this hash.
    const fn expecting(hash: u32) -> Self {
        Self::new(stage::NEW, hash)
    }

    /// Of a flow without a packet: the hash of its addresses, if it was made.
    const fn hash(self) -> Option<u32> {
        match self.number() {
            hash @ Self::HASH_LEAST.. => Some(hash),
            _ => None,
        }
    }

    #[inline(always)]
    const fn stage(self) -> u32 {
        self.stage
    }

    #[inline(always)]
    const fn number(self) -> u32 {
        self.number
    }

    /// Whether a packet of the flow with so many bytes of payload and such TCP control bits is to be
    /// shown to [`Names::observe`], which would do nothing otherwise.
    #[inline(always)]
    #[must_use]
    pub const fn wants(self, payload_length: u32, tcp_flags: u8) -> bool {
        // Where it is known already whether there is payload, either is but one comparison.
        if payload_length > 0 {
            return self.stage() < stage::QUIET;
        }
        self.stage() < stage::TRIED || self.stage() < stage::QUIET && tcp_flags & flag::SYN != 0
    }
}

/// Datagrams of a UDP flow in which a protocol is looked for.
const UDP_TRIES: u8 = 8;

/// Packets with payload of a TCP stream in which a protocol is looked for: another may come before
/// it (STARTTLS).
const TCP_TRIES: u8 = 40;

/// The names of many flows.
#[derive(Debug)]
pub struct Names {
    flows: Pool<Flow>,
    reader: Reader,
}

impl Names {
    /// Bytes of a flow that names are kept of, whatever it is, once it may tell something. Its texts
    /// are in the pool that all flows share, its streams in buffers.
    pub const BYTES_PER_FLOW: usize = size_of::<Flow>();

    /// The most bytes of text that one flow holds, with nobody to share them.
    pub const TEXT_BYTES_PER_FLOW_MAX: usize = TEXTS_MAX * TEXT_MAX;

    /// For so many flows. Memory is taken as flows come, up to [`Names::memory_bytes`]. `seed` is
    /// secret.
    ///
    /// # Errors
    /// When the machine has no room for them.
    pub fn new(
        flows: usize,
        limits: &NamesLimits,
        applications: Arc<Applications>,
        seed: u64,
    ) -> io::Result<Self> {
        Ok(Self {
            flows: Pool::new(flows)?,
            reader: Reader::new(flows, limits, applications, seed)?,
        })
    }

    /// What responses of DNS tell comes by [`Names::hear`], for which flow it may: it is not taken
    /// from the packets that are observed.
    pub const fn overhear(&mut self) {
        self.reader.answers_go = AnswersGo::Nowhere;
    }

    /// What responses of DNS tell is to be had by [`Names::told`].
    pub const fn tell(&mut self) {
        self.reader.answers_go = AnswersGo::Out;
    }

    /// What responses in the packet that was observed last told a client, who is not in it.
    pub fn told(&mut self) -> impl Iterator<Item = Told> {
        self.reader.told.drain(..)
    }

    /// Takes in what a client was told.
    pub fn hear(&mut self, told: &Told) {
        self.reader.hear(told);
    }

    /// Takes the memory of the first flows now.
    pub fn populate(&mut self) {
        self.flows.populate();
        self.reader.populate();
    }

    /// Takes in a packet of the flow whose names are in `progress`. Every packet of the flow is to be
    /// shown, also those without payload; `key` gives the flow's key as its initiator sent it, and is
    /// called seldom.
    #[inline]
    pub fn observe(
        &mut self,
        progress: &mut Progress,
        segment: &Segment<'_>,
        key: impl Fn() -> FlowKey,
    ) {
        if !progress.wants(segment.payload_length, segment.tcp_flags) {
            return;
        }
        let passing = Passing {
            direction: segment.direction,
            tcp_flags: segment.tcp_flags,
            sequence: segment.sequence,
            payload_length: segment.payload_length,
        };
        let ports = [segment.source_port, segment.destination_port];
        let may_begin = || tcp_stream::may_begin(segment.payload, ports);
        if !self.pass_over(*progress, passing, may_begin) {
            self.read(progress, segment, key);
        }
    }

    /// Whether a packet that its flow [wants](Progress::wants), with these details, was but counted, and
    /// is not to be [read](Names::read). `may_begin` tells by its payload whether something
    /// [may](may_begin), and is asked seldom.
    #[inline(always)]
    pub fn passes_over(
        &mut self,
        progress: Progress,
        side: usize,
        segment: &wire::Segment,
        may_begin: impl FnOnce() -> bool,
    ) -> bool {
        let passing = Passing {
            direction: side as u8,
            tcp_flags: segment.tcp_flags,
            sequence: segment.sequence,
            payload_length: segment.payload_length,
        };
        self.pass_over(progress, passing, may_begin)
    }

    #[inline(always)]
    fn pass_over(
        &mut self,
        progress: Progress,
        passing: Passing,
        may_begin: impl FnOnce() -> bool,
    ) -> bool {
        progress.stage() == stage::WATCHED
            && self
                .flows
                .get_mut(progress.number())
                .is_none_or(|flow| flow.pass_over(passing, may_begin))
    }

    /// Reads a packet that is not [passed over](Names::passes_over).
    #[inline(always)]
    pub fn read(
        &mut self,
        progress: &mut Progress,
        segment: &Segment<'_>,
        key: impl Fn() -> FlowKey,
    ) {
        *progress = match progress.stage() {
            stage::WATCHED => self.look(progress.number(), segment, key),
            _ => self.begin(*progress, segment, key),
        };
    }

    /// Gives a flow a state for this packet, unless a number says all that is to be kept of it.
    #[inline(never)]
    fn begin(
        &mut self,
        progress: Progress,
        segment: &Segment<'_>,
        key: impl Fn() -> FlowKey,
    ) -> Progress {
        let stage = progress.stage();
        let number = match stage {
            stage::NEW => 0,
            _ => progress.number(),
        };
        let mut begun = Common::default();
        let opens = stage == stage::NEW
            && progress != Progress::CONTINUED
            && progress != Progress::FORGOTTEN;
        if opens && self.reader.has_resolved() {
            let hash = progress.hash();
            self.reader.look_up(&mut begun, hash, &key, segment.time_ns);
        }
        if progress == Progress::FORGOTTEN {
            begun.cut.add(Cut::TEXT);
        }
        if begun.resolved.is_none() && begun.cut == Cut::default() {
            if stage <= stage::SYN && is_first_syn(segment) {
                let behind = segment.sequence.wrapping_add(1);
                return Progress::new(stage::SYN, behind);
            }
            if stage != stage::SYN && !self.reader.may_tell(segment) {
                let is_empty = segment.protocol == ip_protocol::UDP && segment.payload_length == 0;
                return Progress::tried(number as u8 + u8::from(!is_empty));
            }
        }
        let handle = self.flows.take();
        let Some(flow) = self.flows.get_mut(handle) else {
            self.reader.release_common(&begun);
            return Progress::new(stage::LOST, 0);
        };
        match stage {
            stage::NEW => flow.common = begun,
            stage::SYN => {
                let mut tcp = TcpState::default();
                tcp.begin(0, number);
                flow.state = State::Tcp(tcp);
            }
            _ => flow.common.packets = number as u8,
        }
        self.look(handle, segment, key)
    }

    /// Reads a packet of a flow that has a state.
    #[inline(never)]
    fn look(&mut self, handle: u32, segment: &Segment<'_>, key: impl Fn() -> FlowKey) -> Progress {
        let Some(flow) = self.flows.get_mut(handle) else {
            return Progress::default();
        };
        self.reader.assemblies.flow = handle;
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
        while let Some(evicted) = self.reader.assemblies.next_evicted() {
            if let Some(flow) = self.flows.get_mut(evicted.owner.flow) {
                self.reader.read_evicted(flow, &evicted);
            }
        }
        let Some(flow) = self.flows.get_mut(handle) else {
            return Progress::default();
        };
        if !on {
            self.reader.release_assemblies(flow);
        }
        if flow.is_worth_keeping(on) {
            return Progress::new(if on { stage::WATCHED } else { stage::QUIET }, handle);
        }
        let packets = flow.common.packets;
        self.flows.release(handle);
        if on {
            Progress::new(stage::TRIED, u32::from(packets))
        } else {
            Progress::new(stage::QUIET, 0)
        }
    }

    /// Of a flow that begins, before its first packet is observed: what will be looked up is asked for.
    pub fn expect(&self, key: impl FnOnce() -> FlowKey) -> Progress {
        if self.reader.has_resolved() {
            Progress::expecting(self.reader.expect(&key()))
        } else {
            Progress::default()
        }
    }

    /// Asks for what is kept of a flow that is about to end.
    pub fn approach(&self, progress: Progress) {
        if progress.stage() >= stage::WATCHED {
            self.flows.prefetch_all(progress.number());
        }
    }

    /// Takes out what is known of the flow whose names are in `progress` and whose key (as its
    /// initiator sent it) is `key`, and forgets it.
    #[must_use]
    pub fn take(&mut self, progress: &mut Progress, key: &FlowKey) -> NamesRecord {
        let mut record = NamesRecord::default();
        self.take_into(&mut record, progress, key);
        record
    }

    /// [`Names::take`] into an empty record where it lies.
    pub fn take_into(&mut self, record: &mut NamesRecord, progress: &mut Progress, key: &FlowKey) {
        let progress = std::mem::take(progress);
        if progress.stage() == stage::LOST {
            record.cut.add(Cut::STATES);
        }
        if progress.stage() >= stage::WATCHED
            && let Some(flow) = self.flows.get_mut(progress.number())
        {
            self.reader.assemblies.flow = progress.number();
            self.reader.describe(flow, record);
            self.flows.release(progress.number());
        }
        self.reader.applications.classify(key, record);
    }

    /// The same of a flow that its active time-out cuts: a handshake of which half is read stays, and is
    /// read on with the flow's next record. Not on the port of DNS: whoever [listens](Overhearer) to it
    /// for several tables ends with the record.
    pub fn take_so_far(
        &mut self,
        record: &mut NamesRecord,
        progress: &mut Progress,
        key: &FlowKey,
    ) {
        if progress.stage() == stage::WATCHED
            && !dns::tells_a_client(key.source_port, key.destination_port)
            && let Some(flow) = self.flows.get_mut(progress.number())
            && flow.is_half_read()
        {
            self.reader.assemblies.flow = progress.number();
            self.reader.describe_so_far(flow, record);
            return self.reader.applications.classify(key, record);
        }
        self.take_into(record, progress, key);
    }

    /// Forgets a flow that goes on in no record.
    pub fn forget(&mut self, progress: &mut Progress) {
        if progress.stage() >= stage::WATCHED {
            drop(self.take(progress, &FlowKey::default()));
        }
    }

    /// Goes on with the next record of a flow that was cut; whether what was known of it is kept.
    pub fn go_on(&mut self, progress: &mut Progress, is_kept: bool) {
        if progress.stage() != stage::WATCHED {
            *progress = match is_kept {
                true => Progress::CONTINUED,
                false => Progress::FORGOTTEN,
            };
        } else if !is_kept && let Some(flow) = self.flows.get_mut(progress.number()) {
            flow.common.cut.add(Cut::TEXT);
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
        self.flows.memory_bytes() + self.reader.memory_bytes()
    }
}

/// Whether something that is read may begin with this payload of a TCP stream, whose details these are.
pub fn may_begin(payload: &[u8], segment: &wire::Segment) -> bool {
    tcp_stream::may_begin(payload, [segment.source_port, segment.destination_port])
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
                    || tcp.tls.has_hello()
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
