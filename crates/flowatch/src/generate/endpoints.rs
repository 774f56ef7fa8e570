//! Opens the sources and sinks that `-i` and `-w` name.

use super::plan::Sink;
use crate::dpdk::{self, Duplex};
use crate::watch::warn;
use engine::Stop;
use port::{AfPacket, AfPacketSender, NullSink, PcapWriter, Port, PortError, Transmit, af_packet};
use wire::LinkType;

/// The sink that discards all frames.
const NULL: &str = "null:";

/// Opens a sink for frames of link type `link`. `eal` are the EAL arguments of a DPDK device; opening
/// one waits for its link unless `stop` is requested.
pub(crate) fn sink(
    sink: &Sink,
    link: LinkType,
    eal: &[String],
    stop: &Stop,
) -> Result<Box<dyn Transmit>, PortError> {
    match sink {
        Sink::File(path) => Ok(Box::new(PcapWriter::create(path, link)?)),
        Sink::Interface(name) if name == NULL => Ok(Box::new(NullSink::new())),
        Sink::Interface(name) if link != LinkType::Ethernet => Err(PortError::Failed(format!(
            "{name}: frames of link type {} cannot be sent on an interface, only Ethernet frames; write them to a \
             file with -w",
            link.linktype()
        ))),
        Sink::Interface(name) if dpdk::is_device(name) => dpdk::open_sender(name, eal, stop),
        Sink::Interface(name) => Ok(Box::new(AfPacketSender::open(name)?)),
    }
}

/// Opens an interface to receive from.
pub(crate) fn source(name: &String, eal: &[String]) -> Result<Box<dyn Port>, PortError> {
    if name == NULL {
        return Err(PortError::Failed(format!(
            "{NULL} only discards frames, so nothing can be received from it"
        )));
    }
    if dpdk::is_device(name) {
        dpdk::open_receiver(name, eal)
    } else {
        interface(name)
    }
}

/// Opens an interface to receive and send; waits as [`sink`] does.
pub(crate) fn both(name: &String, eal: &[String], stop: &Stop) -> Result<Duplex, PortError> {
    if name == NULL {
        return Err(PortError::Failed(format!(
            "{NULL} only discards frames and never answers; a closed loop needs an interface"
        )));
    }
    if dpdk::is_device(name) {
        dpdk::open_both(name, eal, stop)
    } else {
        Ok((interface(name)?, Box::new(AfPacketSender::open(name)?)))
    }
}

fn interface(name: &str) -> Result<Box<dyn Port>, PortError> {
    let options = af_packet::Options {
        // Frames are addressed to MAC addresses that this interface does not have.
        promiscuous: true,
        ..af_packet::Options::from_source(name)?
    };
    let mut port = AfPacket::open(&options)?;
    while let Some(notice) = port.next_notice() {
        warn(&notice);
    }
    Ok(Box::new(port))
}
