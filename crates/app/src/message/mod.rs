//! From payload to what applications say: TLS, QUIC, DNS, HTTP/1, RTP.
//!
//! Pure functions of bytes. A message that is not whole is told apart from one that is wrong, so
//! that whoever puts segments together knows whether to wait for more.

pub mod dns;
pub mod http;
pub mod quic;
pub mod reader;
pub mod rtp;
pub mod tls;

pub use reader::Reader;
