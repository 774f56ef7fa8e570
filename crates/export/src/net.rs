//! Network outputs: records are encoded as messages, queued, and sent to a receiver by a thread.
//!
//! A format provides a `MessageEncoder`, a kind of receiver a `Transport`. The
//! rest is written once: the bounded queue and its accounting (`queue`), connecting and reconnecting
//! (`sender`), messages for the user (`reporter`).

mod backoff;
mod counters;
mod endpoint;
mod exporter;
mod line_encoder;
mod link;
mod message;
mod notices;
mod queue;
mod reporter;
mod resolve;
mod sender;
mod stream;
mod tcp;
mod transport;
mod udp;
mod unix;

pub use counters::{NetCounters, NetLoss};
pub use endpoint::{Endpoint, EndpointError, HostPort};
pub use notices::Notices;

pub(crate) use exporter::NetExporter;
pub(crate) use line_encoder::LineEncoder;

use crate::error::ExportError;
use link::Link;
use message::MessageEncoder;
use transport::{Framing, Transport};

/// Opens a network output. `encoder` creates the encoder for a kind of transport; `waits` says whether
/// records wait for a slow receiver.
///
/// # Errors
/// The sender thread cannot be started. The receiver may appear later.
pub(crate) fn open<E: MessageEncoder>(
    endpoint: &Endpoint,
    waits: bool,
    encoder: impl FnOnce(Framing) -> E,
) -> Result<NetExporter<E>, ExportError> {
    let transport: Box<dyn Transport> = match endpoint {
        Endpoint::Tcp(address) => Box::new(tcp::Tcp(address.clone())),
        Endpoint::Udp(address) => Box::new(udp::Udp(address.clone())),
        Endpoint::Unix(path) => Box::new(unix::Unix(path.clone())),
    };
    let encoder = encoder(transport.framing());
    let link = Link::open(endpoint.to_string(), transport, encoder.preamble(), waits)?;
    Ok(NetExporter::new(encoder, link, waits))
}
