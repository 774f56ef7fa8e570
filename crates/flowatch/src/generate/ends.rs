//! The ends of a link, as `-i`, `-w` and `-r` name them, opened.

use super::plan::Sink;
use crate::dpdk::{self, BothWays};
use crate::watch::complain;
use engine::Stop;
use port::{AfPacket, AfPacketSender, NullSink, PcapWriter, Port, PortError, Transmit, af_packet};
use wire::LinkType;

/// Forgets what it is given.
const NULL: &str = "null:";

/// Opens a sink for frames of `link`. `eal` are arguments for DPDK, whose peers are waited for until
/// `stop`.
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
            "{name}: frames of link type {} cannot be sent on an interface, only Ethernet frames can; write them \
             with -w",
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
            "{NULL} leads nowhere, nothing ever comes from it"
        )));
    }
    if dpdk::is_device(name) {
        dpdk::open_receiver(name, eal)
    } else {
        interface(name)
    }
}

/// Opens an interface for both ways; as [`sink`].
pub(crate) fn both(name: &String, eal: &[String], stop: &Stop) -> Result<BothWays, PortError> {
    if name == NULL {
        return Err(PortError::Failed(format!(
            "{NULL} leads nowhere, nobody answers; a closed loop needs an interface"
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
        // What is sent to other stations is for us as well: nobody here has those addresses.
        promiscuous: true,
        ..af_packet::Options::from_source(name)?
    };
    let mut port = AfPacket::open(&options)?;
    while let Some(notice) = port.notice() {
        complain(&notice);
    }
    Ok(Box::new(port))
}
