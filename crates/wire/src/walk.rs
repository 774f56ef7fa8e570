//! The walk over the headers of a frame: the next layer, and what was found so far.
//!
//! It is a loop over layers, not a recursion, so that no packet controls the stack depth.

mod link_layer;
mod network;
mod transport;
mod tunnel;

use crate::packet_view::{Cut, PacketView};
use crate::{
    Decapsulate, FlowKey, Fragment, Headers, LinkType, Malformed, NoFlow, Outline, Tunnel, icmp,
    ip_protocol, work,
};

/// Maximum number of encapsulations that the walk follows: each stack of MPLS labels, PPPoE header,
/// tunnel and IP header within another counts as one.
///
/// Deeper than real networks, and it bounds the work per packet.
pub const MAX_ENCAPSULATIONS: u8 = 8;

/// Maximum number of extension headers of one frame: of IPv6, of GTP-U, source routes of GRE, and
/// authentication headers in IPv4.
pub const MAX_EXTENSION_HEADERS: u8 = 16;

/// Maximum number of VLAN tags of one frame. Networks use two, also within a tunnel; the key has room for
/// these.
pub const MAX_VLAN_TAGS: u8 = 8;

/// Maximum number of MPLS labels of one frame. Routers push about ten.
pub const MAX_MPLS_LABELS: u8 = 16;

/// Reads the headers of `frame`, of which `wire_length` bytes were on the wire.
///
/// Never fails: the result says what could not be read. A `wire_length` below `frame.len()` counts
/// as `frame.len()`.
#[must_use]
pub fn dissect(
    link: LinkType,
    frame: &[u8],
    wire_length: u32,
    decapsulate: Decapsulate,
) -> Headers {
    Walk::new(decapsulate).run(link, frame, wire_length)
}

/// The layer that the rest of a packet begins with.
#[derive(Clone, Copy, Debug)]
enum Layer {
    Ethernet,
    EtherType(u16),
    Llc,
    Ppp,
    Mpls,
    Pppoe,
    /// IPv4 or IPv6 by the version.
    Ip,
    Ipv4,
    Ipv6,
    Gre,
    Vxlan,
    VxlanGpe,
    Geneve,
    GtpU,
    Teredo,
}

/// The next layer and the bytes from there on; `None` where the walk ends.
type Step<'a> = Option<(Layer, PacketView<'a>)>;

/// What makes the walk follow a guess.
#[derive(Clone, Copy, Debug)]
enum Guess {
    /// The number of a UDP port.
    Port,
    /// The first bytes of a pseudowire.
    Pseudowire,
}

/// A guess that neither a strict header nor an IP header has confirmed yet.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    guess: Guess,
    /// The fault before it: those behind it are none if the guess is wrong.
    malformed: Option<Malformed>,
}

/// The state of a walk.
struct Walk {
    headers: Headers,
    decapsulate: Decapsulate,
    /// Whether a valid IP header gave a key.
    has_key: bool,
    /// Encapsulations opened so far.
    encapsulations: u8,
    /// VLAN tags, MPLS labels and extension headers walked so far.
    tags: u8,
    labels: u8,
    extensions: u8,
    /// The innermost encapsulation opened so far, which counts once an IP header is found inside.
    tunnel: Tunnel,
    /// The label of the last MPLS stack, which counts likewise.
    mpls_label: u32,
    /// Set where the walk follows a guess.
    doubt: Option<Doubt>,
    /// ICMP type and code of the packet that gave the key.
    icmp_type_code: Option<u16>,
    /// VLAN tags of the current Ethernet frame.
    vlan: [u16; 2],
    /// Address of the frame's first byte, to compute offsets.
    frame: usize,
}

impl Walk {
    fn new(decapsulate: Decapsulate) -> Self {
        Self {
            headers: Headers::default(),
            decapsulate,
            has_key: false,
            encapsulations: 0,
            tags: 0,
            labels: 0,
            extensions: 0,
            tunnel: Tunnel::None,
            mpls_label: 0,
            doubt: None,
            icmp_type_code: None,
            vlan: [0; 2],
            frame: 0,
        }
    }

    fn run(mut self, link: LinkType, frame: &[u8], wire_length: u32) -> Headers {
        let packet = PacketView::new(frame, wire_length as usize);
        self.frame = frame.as_ptr().addr();
        let mut step = self.link_type(link, packet);
        while let Some((layer, packet)) = step {
            work::count(work::CALL);
            step = match layer {
                Layer::Ethernet => self.ethernet(packet),
                Layer::EtherType(ether_type) => self.ether_type(ether_type, packet),
                Layer::Llc => self.llc(packet),
                Layer::Ppp => self.ppp(packet),
                Layer::Mpls => self.mpls(packet),
                Layer::Pppoe => self.pppoe(packet),
                Layer::Ip => self.ip(packet),
                Layer::Ipv4 => self.ipv4(packet),
                Layer::Ipv6 => self.ipv6(packet),
                Layer::Gre => self.gre(packet),
                Layer::Vxlan => self.vxlan(packet),
                Layer::VxlanGpe => self.vxlan_gpe(packet),
                Layer::Geneve => self.geneve(packet),
                Layer::GtpU => self.gtp_u(packet),
                Layer::Teredo => self.teredo(packet),
            };
        }
        if let Some(doubt) = self.doubt {
            self.reject(doubt);
        }
        if let ip_protocol::ICMP | ip_protocol::ICMPV6 = self.headers.key.protocol {
            self.headers.icmp_type_code = self.icmp_type_code.unwrap_or(icmp::UNKNOWN);
        }
        self.headers
    }

    /// Takes the key of a valid IP header and forgets what an outer one gave.
    fn take_key(&mut self, key: FlowKey, fragment: Fragment, header: PacketView<'_>) {
        self.has_key = true;
        self.doubt = None;
        self.headers.outline = Outline {
            network: self.place(header),
            tunnel: self.tunnel,
            mpls_label: self.mpls_label,
            ..Outline::default()
        };
        self.headers.key = FlowKey {
            vlan: self.vlan,
            ..key
        };
        self.headers.fragment = fragment;
        self.headers.tcp_flags = 0;
        self.icmp_type_code = None;
    }

    /// Offset of `packet` in the frame.
    fn place(&self, packet: PacketView<'_>) -> u32 {
        packet.bytes().as_ptr().addr().wrapping_sub(self.frame) as u32
    }

    /// Sets the payload to what follows a header, until a header within it is found.
    fn take_payload(&mut self, payload: PacketView<'_>) {
        self.headers.outline.payload = self.place(payload);
        self.headers.outline.payload_length = payload.length() as u32;
    }

    /// Continues inside an encapsulation, unless that is one too many.
    fn open<'a>(&mut self, tunnel: Tunnel, layer: Layer, packet: PacketView<'a>) -> Step<'a> {
        if self.encapsulations == MAX_ENCAPSULATIONS {
            return self.malformed(Malformed::EncapsulationTooDeep);
        }
        self.encapsulations += 1;
        self.tunnel = tunnel;
        Some((layer, packet))
    }

    /// Follows a guess: what is found counts only if it proves right.
    fn doubt(&mut self, guess: Guess) {
        self.doubt = self.doubt.or(Some(Doubt {
            guess,
            malformed: self.headers.malformed,
        }));
    }

    /// Whether the walk may be in something that is no tunnel.
    const fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// The header of a tunnel is right in every bit: what follows is no guess.
    fn confirm(&mut self) {
        self.doubt = None;
    }

    /// Takes back what a guess found that nothing confirmed.
    #[cold]
    fn reject(&mut self, doubt: Doubt) {
        self.headers.malformed = doubt.malformed;
        // The port may be anyone's, but labels are no guess: behind them the snaplen cut something.
        self.headers.truncated &= matches!(doubt.guess, Guess::Pseudowire);
        if self.headers.no_flow == Some(NoFlow::Malformed) {
            self.headers.no_flow = Some(NoFlow::OtherProtocol);
        }
    }

    /// Ends the walk: no flow, for `reason`.
    fn end<'a>(&mut self, reason: NoFlow) -> Step<'a> {
        if !self.has_key {
            self.headers.no_flow = Some(reason);
        }
        None
    }

    /// Records a fault that does not end the walk.
    fn note(&mut self, fault: Malformed) {
        self.headers.malformed = self.headers.malformed.or(Some(fault));
    }

    /// Ends the walk at a fault.
    fn malformed<'a>(&mut self, fault: Malformed) -> Step<'a> {
        self.note(fault);
        self.end(NoFlow::Malformed)
    }

    /// Ends the walk at a truncated header; `fault` applies if the packet itself ends there.
    fn cut<'a>(&mut self, cut: Cut, fault: Malformed) -> Step<'a> {
        match cut {
            Cut::Packet => self.malformed(fault),
            Cut::Capture => {
                self.headers.truncated = self.has_key;
                self.end(NoFlow::Truncated)
            }
        }
    }
}
