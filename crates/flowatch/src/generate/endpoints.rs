//! Opens the sources and sinks that `-i` and `-w` name.

use super::plan::Sink;
use crate::sources::{self, Duplex};
use engine::Stop;
use port::{PcapWriter, Port, PortError, Transmit};
use std::time::Duration;
use wire::LinkType;

/// How long to wait for the other end to close, on links where it must close first.
pub(super) const PEER_CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Opens a sink for frames of link type `link`. `eal` are the EAL arguments of a DPDK device; opening
/// one waits for its link unless `stop` is requested.
pub(crate) fn sink(
    sink: &Sink,
    link: LinkType,
    eal: &[String],
    stop: &Stop,
) -> Result<Box<dyn Transmit>, PortError> {
    let name = match sink {
        Sink::File(path) => return Ok(Box::new(PcapWriter::create(path, link)?)),
        Sink::Interface(name) => name,
    };
    let kind = sources::kind(name);
    if link != LinkType::Ethernet && !kind.sends_any_link_type() {
        return Err(PortError::Failed(format!(
            "{name}: frames of link type {} cannot be sent on an interface, only Ethernet frames; write them to a \
             file with -w",
            link.linktype()
        )));
    }
    kind.open_sender(name, eal, stop)
}

/// Opens an interface to receive from.
pub(crate) fn source(name: &str, eal: &[String]) -> Result<Box<dyn Port>, PortError> {
    sources::kind(name).open_receiver(name, eal)
}

/// Opens an interface to receive and send; waits as [`sink`] does.
pub(crate) fn both(name: &str, eal: &[String], stop: &Stop) -> Result<Duplex, PortError> {
    sources::kind(name).open_both(name, eal, stop)
}
