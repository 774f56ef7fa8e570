//! Where `gen` sends: what `-i` and `-w` name, opened.

use super::plan::Sink;
use port::{AfPacketSender, NullSink, PcapWriter, PortError, Transmit};
use wire::LinkType;

/// Opens a sink for frames of `link`.
pub(crate) fn open(sink: &Sink, link: LinkType) -> Result<Box<dyn Transmit>, PortError> {
    match sink {
        Sink::File(path) => Ok(Box::new(PcapWriter::create(path, link)?)),
        Sink::Interface(name) => {
            if link != LinkType::Ethernet && name != "null:" {
                return Err(PortError::Failed(format!(
                    "{name}: frames of link type {} cannot be sent on an interface, only Ethernet frames can; \
                     write them with -w",
                    link.linktype()
                )));
            }
            interface(name)
        }
    }
}

fn interface(name: &str) -> Result<Box<dyn Transmit>, PortError> {
    if name == "null:" {
        return Ok(Box::new(NullSink::new()));
    }
    if name.starts_with("dpdk:") {
        return Err(PortError::Failed(format!(
            "{name}: this flowatch was built without DPDK (cargo build --features dpdk)"
        )));
    }
    Ok(Box::new(AfPacketSender::open(name)?))
}
