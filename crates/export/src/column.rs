//! The table of columns that every format writes, and how to get a column's value from a record.

pub(crate) mod measure;
mod table;

pub use table::COLUMNS;
pub(crate) use table::columns;

use crate::text::Word;
use flow::{EndReason, FlowDefinition, Record, RecordBatch, Schema};
use wire::{CommunityId, icmp};

/// Version of the column names, types and meanings. It increases when a column changes or is
/// removed; a new column does not change it.
pub const SCHEMA_VERSION: u32 = 1;

/// A column's number in the IANA registry of IPFIX Information Elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpfixElement {
    /// IPFIX has no element for the column.
    None,
    /// The element with this number.
    Iana(u16),
    /// The reverse element (enterprise number 29305, RFC 5103 section 6.1) of the element with this
    /// number.
    Reverse(u16),
}

/// The IPFIX abstract data types in use (RFC 7012 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataType {
    /// unsigned8.
    Unsigned8,
    /// unsigned16.
    Unsigned16,
    /// unsigned64.
    Unsigned64,
    /// float64.
    Float64,
    /// dateTimeNanoseconds, limited to 64-bit nanoseconds around the Unix epoch.
    DateTimeNanoseconds,
    /// ipv4Address.
    Ipv4Address,
    /// ipv6Address.
    Ipv6Address,
    /// string.
    String,
}

impl DataType {
    /// Returns the name of the type in RFC 7012.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unsigned8 => "unsigned8",
            Self::Unsigned16 => "unsigned16",
            Self::Unsigned64 => "unsigned64",
            Self::Float64 => "float64",
            Self::DateTimeNanoseconds => "dateTimeNanoseconds",
            Self::Ipv4Address => "ipv4Address",
            Self::Ipv6Address => "ipv6Address",
            Self::String => "string",
        }
    }
}

/// In which runs a column exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// In every run.
    Always,
    /// Runs that parse headers.
    Headers,
    /// Runs whose flow key is a hash only.
    Hash,
    /// Runs with the source address in the flow key.
    SourceAddress,
    /// Runs with the destination address in the flow key.
    DestinationAddress,
    /// Runs with ports and protocol in the flow key.
    Ports,
    /// Runs with bidirectional flows.
    Bidirectional,
    /// Runs with VLAN tags in the flow key.
    Vlan,
    /// Only on request.
    CommunityId,
}

impl Availability {
    /// Returns its text in the documentation.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Headers => "all flows except rss",
            Self::Hash => "flows rss",
            Self::SourceAddress => "flows 5tuple, bidirectional, src, src-dst",
            Self::DestinationAddress => "flows 5tuple, bidirectional, dst, src-dst",
            Self::Ports => "flows 5tuple, bidirectional",
            Self::Bidirectional => "flows bidirectional",
            Self::Vlan => "VLAN tags in the key",
            Self::CommunityId => "on request; flows 5tuple, bidirectional",
        }
    }

    /// Whether a run of `schema` has the column.
    fn applies(self, schema: &Schema, community_id: bool) -> bool {
        use FlowDefinition::{Bidirectional, Destination, FiveTuple, Rss, Source};
        let ports = matches!(schema.flow, FiveTuple | Bidirectional);
        match self {
            Self::Always => true,
            Self::Headers => schema.flow != Rss,
            Self::Hash => schema.flow == Rss,
            Self::SourceAddress => !matches!(schema.flow, Destination | Rss),
            Self::DestinationAddress => !matches!(schema.flow, Source | Rss),
            Self::Ports => ports,
            Self::Bidirectional => schema.flow == Bidirectional,
            Self::Vlan => schema.vlan,
            Self::CommunityId => community_id && ports,
        }
    }
}

/// The definition of a column.
#[derive(Clone, Copy, Debug)]
pub struct ColumnDefinition {
    /// Name, the same in every format.
    pub name: &'static str,
    /// IPFIX element.
    pub element: IpfixElement,
    /// Data type.
    pub data_type: DataType,
    /// Unit, or empty.
    pub unit: &'static str,
    /// In which runs the column exists.
    pub availability: Availability,
    /// Which records have no value, or empty if all have one.
    pub empty_when: &'static str,
    /// Meaning and source, in a sentence or two.
    pub definition: &'static str,
    /// How to get the value.
    pub(crate) field: Field,
}

/// A value of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Start,
    End,
    Duration,
    FlowHash,
    IpVersion,
    SourceIpv4,
    DestinationIpv4,
    SourceIpv6,
    DestinationIpv6,
    SourcePort,
    DestinationPort,
    Protocol,
    OuterVlan,
    InnerVlan,
    Packets,
    Bytes,
    ForwardPackets,
    ReversePackets,
    ForwardBytes,
    ReverseBytes,
    BiflowDirection,
    TcpFlags,
    ReverseTcpFlags,
    IcmpV4,
    IcmpV6,
    EndReasonNumber,
    EndReasonWord,
    PacketRate,
    BitRate,
    /// The seed.
    CommunityId(u16),
}

/// A value in the form that all formats accept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    /// The column does not apply to this record.
    Absent,
    /// Separate from other numbers because its text is cheaper.
    Octet(u8),
    Unsigned(u64),
    /// NaN if the record has no value.
    Float(f64),
    /// Nanoseconds since the Unix epoch.
    Time(i64),
    Ipv4([u8; 4]),
    Ipv6(&'a [u8; 16]),
    Word(&'static Word),
    CommunityId(CommunityId),
}

/// IANA protocol numbers that decide whether a column applies.
mod protocol {
    pub(super) const ICMP: u8 = 1;
    pub(super) const TCP: u8 = 6;
    pub(super) const ICMP_V6: u8 = 58;
}

const NANOSECONDS_PER_SECOND: f64 = 1e9;

impl Field {
    /// Returns the value of this column for `record`.
    // Part of what `append_record` in `json.rs` gives the reason for.
    #[inline(always)]
    pub(crate) fn value(self, record: &Record) -> Value<'_> {
        let key = &record.key;
        let total = |of: &[u64; 2]| of[0].saturating_add(of[1]);
        match self {
            Self::Start => Value::Time(record.start_ns),
            Self::End => Value::Time(record.end_ns),
            Self::Duration => Value::Unsigned(duration_ns(record)),
            Self::FlowHash => key
                .hash()
                .map_or(Value::Absent, |hash| Value::Unsigned(hash.into())),
            Self::IpVersion => Value::Octet(key.version),
            Self::SourceIpv4 => ipv4(key.version, &key.source),
            Self::DestinationIpv4 => ipv4(key.version, &key.destination),
            Self::SourceIpv6 => ipv6(key.version, &key.source),
            Self::DestinationIpv6 => ipv6(key.version, &key.destination),
            Self::SourcePort => Value::Unsigned(key.source_port.into()),
            Self::DestinationPort => Value::Unsigned(key.destination_port.into()),
            Self::Protocol => Value::Octet(key.protocol),
            Self::OuterVlan => vlan(key.vlan[0]),
            Self::InnerVlan => vlan(key.vlan[1]),
            Self::Packets => Value::Unsigned(total(&record.packets)),
            Self::Bytes => Value::Unsigned(total(&record.bytes)),
            Self::ForwardPackets => Value::Unsigned(record.packets[0]),
            Self::ReversePackets => Value::Unsigned(record.packets[1]),
            Self::ForwardBytes => Value::Unsigned(record.bytes[0]),
            Self::ReverseBytes => Value::Unsigned(record.bytes[1]),
            // 1: the source is the initiator, because it sent the first packet (RFC 5103 section
            // 6.3).
            Self::BiflowDirection => Value::Octet(1),
            Self::TcpFlags => flags(key.protocol, record.tcp_flags[0]),
            Self::ReverseTcpFlags => flags(key.protocol, record.tcp_flags[1]),
            Self::IcmpV4 | Self::IcmpV6 if record.icmp_type_code == icmp::UNKNOWN => Value::Absent,
            Self::IcmpV4 if key.protocol == protocol::ICMP && key.version == 4 => {
                Value::Unsigned(record.icmp_type_code.into())
            }
            Self::IcmpV6 if key.protocol == protocol::ICMP_V6 && key.version == 6 => {
                Value::Unsigned(record.icmp_type_code.into())
            }
            Self::IcmpV4 | Self::IcmpV6 => Value::Absent,
            Self::EndReasonNumber => Value::Octet(record.end_reason.ipfix()),
            Self::EndReasonWord => Value::Word(end_reason_word(record.end_reason)),
            Self::PacketRate => rate(total(&record.packets) as f64, duration_ns(record)),
            Self::BitRate => rate(8.0 * total(&record.bytes) as f64, duration_ns(record)),
            Self::CommunityId(seed) => {
                Value::CommunityId(CommunityId::new(key, record.icmp_type_code, seed))
            }
        }
    }
}

/// Nanoseconds from the first packet to the last; 0 if the capture clock went backwards.
#[inline]
fn duration_ns(record: &Record) -> u64 {
    u64::try_from(record.end_ns.saturating_sub(record.start_ns)).unwrap_or(0)
}

#[inline]
fn rate(amount: f64, duration_ns: u64) -> Value<'static> {
    Value::Float(if duration_ns == 0 {
        f64::NAN
    } else {
        amount * NANOSECONDS_PER_SECOND / duration_ns as f64
    })
}

#[inline]
fn ipv4(version: u8, address: &[u8; 16]) -> Value<'_> {
    let [a, b, c, d, ..] = *address;
    if version == 4 {
        Value::Ipv4([a, b, c, d])
    } else {
        Value::Absent
    }
}

#[inline]
fn ipv6(version: u8, address: &[u8; 16]) -> Value<'_> {
    if version == 6 {
        Value::Ipv6(address)
    } else {
        Value::Absent
    }
}

#[inline]
fn vlan(tag: u16) -> Value<'static> {
    if tag & wire::FlowKey::VLAN_PRESENT == 0 {
        Value::Absent
    } else {
        Value::Unsigned((tag & (wire::FlowKey::VLAN_PRESENT - 1)).into())
    }
}

/// TCP control bits of a flow. Flows without a protocol in their key may have them too.
#[inline]
fn flags(key_protocol: u8, flags: u8) -> Value<'static> {
    if key_protocol == protocol::TCP || flags != 0 {
        Value::Octet(flags)
    } else {
        Value::Absent
    }
}

/// Returns the text of an end reason.
#[inline]
pub(crate) fn end_reason_word(reason: EndReason) -> &'static Word {
    static IDLE: Word = Word::new("idle");
    static ACTIVE: Word = Word::new("active");
    static FIN: Word = Word::new("tcp-fin");
    static RESET: Word = Word::new("tcp-rst");
    static END: Word = Word::new("end-of-input");
    static LACK: Word = Word::new("lack-of-resources");
    match reason {
        EndReason::IdleTimeout => &IDLE,
        EndReason::ActiveTimeout => &ACTIVE,
        EndReason::TcpFin => &FIN,
        EndReason::TcpReset => &RESET,
        EndReason::EndOfInput => &END,
        EndReason::LackOfResources => &LACK,
    }
}

/// Returns the statistics of the record in `row`; each record has `width` of them.
#[inline]
pub(crate) fn statistics(batch: &RecordBatch, row: usize, width: usize) -> &[f64] {
    let values = batch.values.get(row * width..(row + 1) * width);
    debug_assert!(values.is_some(), "a batch has {width} values per record");
    values.unwrap_or_default()
}
