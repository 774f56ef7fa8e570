//! The fast path: parses the frames that make up nearly all traffic at fixed offsets, without a walk.
//!
//! A frame is **simple** if it is Ethernet with IPv4 without options or with IPv6 without extension
//! headers, not fragmented, TCP or UDP, with all headers captured and with length fields that agree.
//! For such frames, and for a few more kinds, the parsers here find what [`dissect`](crate::dissect())
//! finds, and no fault (except with [`Decapsulate::Innermost`](crate::Decapsulate::Innermost) on the
//! frame of a tunnel). `None` says nothing about a frame: `dissect` has to parse it.
//!
//! | file | what it has |
//! |---|---|
//! | `offset` | the offsets of all fields |
//! | `rule` | what makes a frame simple |
//! | `ipv4`, `ipv6`, `portless` | parsers of one frame: flow key and TCP flags |
//! | `chunk` | parses many IPv4 frames at once, with AVX-512 where the CPU has it |
//! | `untagged` | strips a VLAN tag |
//! | `info` | fills [`PacketInfo`](crate::PacketInfo) for a frame that one of these parsers accepted |

mod chunk;
mod info;
mod ipv4;
mod ipv6;
mod offset;
mod portless;
mod rule;
mod untagged;

pub use chunk::{CHUNK, ChunkParser, RawFrame, SWAPPED};
pub use info::read_simple_chunk;
pub use ipv4::{HEADERS, SimpleIpv4, simple_ipv4};
pub use ipv6::{SimpleIpv6, simple_ipv6};
pub use portless::{Portless, portless_ipv4};
pub use untagged::Untagged;
