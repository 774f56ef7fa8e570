//! The state of a flow under inspection.

use crate::base_state::BaseState;
use crate::parser::{Context, UDP_PROBE_PACKETS};
use crate::payload::L4Payload;
use crate::protocols::DatagramState;
use crate::reassembly::Evicted;
use crate::record::{AppRecord, Incomplete};
use crate::services::Services;
use crate::tcp::{L4Header, TcpState};
use crate::udp;
use hw::pool::FreeListNode;
use wire::ip_protocol;

/// The most texts that one flow holds: the resolved name, and those of HTTP and of TLS after it.
pub(crate) const TEXTS_MAX: usize = 1 + 4 + 3 + 4;

/// The state of a flow, the same size for all protocols.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct FlowState {
    pub(crate) common: BaseState,
    pub(crate) transport: Transport,
}

/// The part of the state that depends on the transport protocol.
#[derive(Debug)]
pub(crate) enum Transport {
    /// TCP.
    Tcp(TcpState),
    /// UDP, or no payload of a known transport protocol yet.
    Udp(DatagramState),
}

impl Default for Transport {
    fn default() -> Self {
        Self::Udp(DatagramState::Unknown)
    }
}

impl FreeListNode for FlowState {
    fn next_free(&mut self) -> &mut u32 {
        &mut self.common.resolved_age_us
    }
}

impl FlowState {
    /// Counts a TCP segment of which nothing needs to be parsed ([`TcpState::try_skip`]).
    #[inline]
    pub(crate) fn try_skip(&mut self, header: L4Header, may_start: impl FnOnce() -> bool) -> bool {
        match &mut self.transport {
            Transport::Tcp(tcp) => tcp.try_skip(&mut self.common.packets, header, may_start),
            Transport::Udp(_) => false,
        }
    }

    /// Reads a packet. Returns false if the flow needs no more packets.
    pub(crate) fn read(&mut self, services: &mut Services, packet: &L4Payload<'_>) -> bool {
        let Self { common, transport } = self;
        let mut cx = Context::new(services, common, packet);
        match packet.protocol {
            ip_protocol::TCP => {
                if matches!(transport, Transport::Udp(DatagramState::Unknown)) {
                    *transport = Transport::Tcp(TcpState::default());
                }
                match transport {
                    Transport::Tcp(tcp) => tcp.read(&mut cx),
                    Transport::Udp(_) => false,
                }
            }
            ip_protocol::UDP => match transport {
                Transport::Udp(datagrams) => udp::read(datagrams, &mut cx),
                Transport::Tcp(_) => false,
            },
            // Another protocol, or a fragment without its transport header.
            _ => {
                common.packets = common.packets.saturating_add(1);
                common.packets < UDP_PROBE_PACKETS
            }
        }
    }

    /// Whether packets without payload are needed, too ([`TcpState::is_waiting`]).
    pub(crate) fn is_waiting(&self) -> bool {
        match &self.transport {
            Transport::Tcp(tcp) => tcp.is_waiting(),
            Transport::Udp(_) => false,
        }
    }

    /// Whether part of a handshake must be kept for the flow's next record.
    pub(crate) fn is_partial(&self) -> bool {
        match &self.transport {
            Transport::Tcp(tcp) => tcp.is_partial(),
            Transport::Udp(datagrams) => datagrams.is_partial(),
        }
    }

    /// Whether the state holds something for the record, or a stream position that is still needed.
    pub(crate) fn is_worth_keeping(&self, needs_more: bool) -> bool {
        let transport = match &self.transport {
            Transport::Tcp(tcp) => tcp.is_worth_keeping(needs_more),
            Transport::Udp(datagrams) => !datagrams.is_unknown(),
        };
        transport
            || !self.common.resolved.is_empty()
            || self.common.class().is_some()
            || self.common.incomplete != Incomplete::default()
    }

    /// Reads the contents of a buffer that was evicted.
    pub(crate) fn evict(&mut self, services: &mut Services, evicted: &Evicted) {
        self.common.incomplete.add(Incomplete::REASSEMBLY);
        let protocol = match self.transport {
            Transport::Tcp(_) => ip_protocol::TCP,
            Transport::Udp(_) => ip_protocol::UDP,
        };
        let packet = L4Payload::empty(evicted.owner.direction, protocol);
        let mut cx = Context::new(services, &mut self.common, &packet);
        match &mut self.transport {
            Transport::Tcp(tcp) => tcp.evict(&mut cx, evicted),
            Transport::Udp(datagrams) => datagrams.evict(&mut cx, &evicted.bytes),
        }
    }

    /// Releases the buffers.
    pub(crate) fn release_buffers(&mut self, services: &mut Services) {
        match &mut self.transport {
            Transport::Tcp(tcp) => tcp.release(services),
            Transport::Udp(datagrams) => datagrams.release(services),
        }
    }

    /// Moves the results to the record, and releases all texts and buffers.
    /// `ports` are those of the initiator and the responder.
    pub(crate) fn finish(
        &mut self,
        services: &mut Services,
        record: &mut AppRecord,
        ports: [u16; 2],
    ) {
        let packet = L4Payload {
            source_port: ports[0],
            destination_port: ports[1],
            ..L4Payload::empty(0, ip_protocol::TCP)
        };
        let mut cx = Context::new(services, &mut self.common, &packet);
        match &mut self.transport {
            Transport::Tcp(tcp) => tcp.finish(&mut cx, record),
            Transport::Udp(datagrams) => datagrams.finish(&mut cx, record),
        }
        services.write_common(&mut self.common, record);
    }

    /// Writes the record of a flow whose partial handshake continues in its next record. The record
    /// has the fields of the partial handshake; the state does not, since the next record will have
    /// those of the complete one.
    pub(crate) fn snapshot(&mut self, services: &mut Services, record: &mut AppRecord) {
        // The record takes the text out of the pool, but the flow needs it again.
        let kept = services.texts.retain(self.common.resolved);
        let packet = L4Payload::empty(0, 0);
        let mut cx = Context::new(services, &mut self.common, &packet);
        match &mut self.transport {
            Transport::Tcp(tcp) => tcp.snapshot(&mut cx, record),
            Transport::Udp(datagrams) => datagrams.snapshot(&mut cx, record),
        }
        services.write_common(&mut self.common, record);
        self.common.resolved = kept;
    }
}
