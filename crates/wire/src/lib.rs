//! From bytes to headers.
//!
//! Every header is a checked view over bytes: made once with its length verified, read by named
//! fields afterwards. Nothing here allocates, nothing is unsafe, and no input makes it panic.
//!
//! [`dissect()`] walks from the link type to the transport header and gives the flow key;
//! [`simple_ipv4`] does the same for simple frames, without a walk, in a few instructions. Each
//! protocol has a module with its views, built on [`packet_view`].

pub mod community_id;
pub mod erspan;
pub mod ether_type;
pub mod ethernet;
pub mod fast;
pub mod geneve;
pub mod gre;
pub mod gtp_u;
pub mod headers;
pub mod icmp;
pub mod ip_protocol;
pub mod ipv4;
pub mod ipv6;
pub mod ipv6_extension;
pub mod key;
pub mod link;
pub mod linux_sll;
pub mod llc;
pub mod loopback;
pub mod malformed;
pub mod mpls;
pub mod no_flow;
pub mod packet_info;
pub mod packet_view;
pub mod ppp;
pub mod pppoe;
pub mod sctp;
pub mod tcp;
pub mod teredo;
pub mod toeplitz;
pub mod udp;
pub mod vlan;
pub mod vxlan;
pub mod work;

mod field;
mod guess;
mod named;
mod view;
mod walk;

pub use community_id::CommunityId;
pub use fast::{SimpleIpv4, simple_ipv4};
pub use headers::{Decapsulate, Fragment, Headers, Outline, Tunnel};
pub use key::FlowKey;
pub use link::LinkType;
pub use malformed::Malformed;
pub use no_flow::NoFlow;
pub use packet_info::PacketInfo;
pub use toeplitz::Toeplitz;
pub use walk::{
    MAX_ENCAPSULATIONS, MAX_EXTENSION_HEADERS, MAX_MPLS_LABELS, MAX_VLAN_TAGS, dissect,
};
