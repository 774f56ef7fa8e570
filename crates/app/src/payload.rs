//! The payload of a packet, and the header fields that inspection needs.

use crate::nanoseconds::Nanoseconds;

/// The payload of one packet and the header fields that inspection needs.
#[derive(Clone, Copy, Debug)]
pub struct L4Payload<'a> {
    /// Time of the packet, nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// 0: sent by the flow's initiator, 1: sent by the responder.
    pub direction: u8,
    /// Protocol of the transport header (protocolIdentifier).
    pub protocol: u8,
    /// TCP control bits; 0 if the packet is not TCP.
    pub tcp_flags: u8,
    /// TCP sequence number: of the SYN if the packet has one, else of the first payload byte.
    pub sequence: u32,
    /// TCP acknowledgement number, if the packet has the control bit for it.
    pub acknowledgement: u32,
    /// Source port of this packet.
    pub source_port: u16,
    /// Destination port of this packet.
    pub destination_port: u16,
    /// Captured part of the payload after the transport header.
    pub payload: &'a [u8],
    /// Bytes of payload on the wire.
    pub payload_length: u32,
}

impl<'a> L4Payload<'a> {
    /// Takes the header fields from `info`. Calls `payload` only if payload was captured.
    #[inline]
    pub fn new(
        time_ns: i64,
        side: usize,
        info: &wire::PacketInfo,
        payload: impl FnOnce() -> &'a [u8],
    ) -> Self {
        Self {
            time_ns,
            direction: side as u8,
            protocol: info.transport,
            tcp_flags: info.tcp_flags,
            sequence: info.sequence,
            acknowledgement: info.acknowledgement,
            source_port: info.source_port,
            destination_port: info.destination_port,
            payload: if info.payload_captured > 0 {
                payload()
            } else {
                &[]
            },
            payload_length: info.payload_length,
        }
    }
}

impl L4Payload<'static> {
    /// A packet without payload at an unknown time. Stands for the packet when a parser reads bytes
    /// that did not arrive with the current one.
    pub(crate) const fn empty(direction: u8, protocol: u8) -> Self {
        Self {
            time_ns: Nanoseconds::UNKNOWN,
            direction,
            protocol,
            tcp_flags: 0,
            sequence: 0,
            acknowledgement: 0,
            source_port: 0,
            destination_port: 0,
            payload: &[],
            payload_length: 0,
        }
    }
}
