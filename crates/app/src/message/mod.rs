//! Parsers of application-layer messages: TLS, QUIC, DNS, HTTP/1, RTP.
//!
//! They are pure functions of bytes. They distinguish an incomplete message from an invalid one, so
//! that the caller knows whether to wait for more segments.

pub mod dns;
pub mod http;
pub mod media;
pub mod proxy;
pub mod quic;
pub mod reader;
pub mod rtp;
pub mod tls;

pub use reader::Reader;
