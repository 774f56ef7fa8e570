//! Where `gen` sends: what `-i` and `-w` name, opened.

use super::plan::Sink;
use crate::dpdk;
use port::{AfPacketSender, NullSink, PcapWriter, PortError, Transmit};
use wire::LinkType;

/// Opens a sink for frames of `link`.
pub(crate) fn open(
    sink: &Sink,
    link: LinkType,
    eal: &[String],
) -> Result<Box<dyn Transmit>, PortError> {
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
            interface(name, eal)
        }
    }
}

fn interface(name: &String, eal: &[String]) -> Result<Box<dyn Transmit>, PortError> {
    if name == "null:" {
        return Ok(Box::new(NullSink::new()));
    }
    if dpdk::is_device(name) {
        return dpdk::open_sender(name, eal);
    }
    Ok(Box::new(AfPacketSender::open(name)?))
}
