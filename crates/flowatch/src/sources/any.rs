//! All interfaces of the kernel at once (`-i any`).

use super::flags::RING_MEMORY;
use super::interface::watch_options;
use super::kind::{Duplex, KernelLink, LiveOptions, SourceKind};
use engine::Stop;
use port::af_packet::Options;
use port::{AfPacket, Port, PortError, Transmit};

/// All interfaces at once.
pub(super) struct Any;

impl SourceKind for Any {
    fn label(&self) -> &'static str {
        "all interfaces at once (-i any)"
    }

    fn matches(&self, name: &str) -> bool {
        name.split('@').next() == Some(Options::ANY)
    }

    fn flags(&self) -> &'static [&'static str] {
        &[RING_MEMORY]
    }

    fn has_queues(&self) -> bool {
        false
    }

    fn kernel_link(&self, _: &str) -> Option<KernelLink> {
        Some(KernelLink {
            index: None,
            queue: None,
        })
    }

    fn open(
        &self,
        names: &[&str],
        options: &LiveOptions<'_>,
    ) -> Result<Vec<Box<dyn Port>>, PortError> {
        let mut ports: Vec<Box<dyn Port>> = Vec::new();
        for name in names {
            let source = Options::from_source(name)?;
            ports.push(Box::new(AfPacket::open(&watch_options(source, options))?));
        }
        Ok(ports)
    }

    fn open_receiver(&self, name: &str, _: &[String]) -> Result<Box<dyn Port>, PortError> {
        Ok(Box::new(AfPacket::open(&Options::from_source(name)?)?))
    }

    fn open_sender(
        &self,
        name: &str,
        _: &[String],
        _: &Stop,
    ) -> Result<Box<dyn Transmit>, PortError> {
        Err(needs_one_interface(name))
    }

    fn open_both(&self, name: &str, _: &[String], _: &Stop) -> Result<Duplex, PortError> {
        Err(needs_one_interface(name))
    }
}

fn needs_one_interface(name: &str) -> PortError {
    PortError::Failed(format!(
        "{name}: frames can be received from all interfaces, but are sent on one: name it, as in -i eth0"
    ))
}
