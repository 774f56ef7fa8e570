//! Interfaces of the kernel (`-i eth0`, `-i eth0@2`), through AF_PACKET.

use super::flags::{PROMISCUOUS, RING_MEMORY};
use super::kind::{Duplex, KernelLink, LiveOptions, SourceKind};
use crate::doctor::capture;
use crate::doctor::finding::Finding;
use crate::doctor::system::System;
use crate::messages::warn;
use engine::{PollMode, Stop};
use port::af_packet::{self, Options, Wait};
use port::{AfPacket, AfPacketSender, Port, PortError, Transmit};
use rustix::net::netdevice::name_to_index;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// Default size of a kernel receive ring, in MiB.
const RING_MEMORY_MIB_DEFAULT: u32 = 64;

/// An interface of the kernel. Every name that no other kind matches.
pub(super) struct Interface;

impl SourceKind for Interface {
    fn label(&self) -> &'static str {
        "interfaces (-i eth0)"
    }

    fn matches(&self, _: &str) -> bool {
        true
    }

    fn flags(&self) -> &'static [&'static str] {
        &[PROMISCUOUS, RING_MEMORY]
    }

    fn has_same_hash_on_all(&self) -> bool {
        true
    }

    fn kernel_link(&self, name: &str) -> Option<KernelLink> {
        let Options {
            interface, queue, ..
        } = Options::from_source(name).ok()?;
        // The ioctl works on any socket.
        let socket = UnixDatagram::unbound().ok()?;
        Some(KernelLink {
            index: Some(name_to_index(socket, &interface).ok()?),
            queue,
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
            if source.queue.is_some() && options.queues > 1 {
                return Err(PortError::Failed(format!(
                    "{name} names one queue, but --queues needs the whole interface: leave out the @ part"
                )));
            }
            let opened = af_packet::open_fanout(&watch_options(source, options), options.queues)?;
            for mut port in opened {
                if let Some(notice) = port.next_notice() {
                    warn(&notice);
                }
                ports.push(Box::new(port));
            }
        }
        Ok(ports)
    }

    fn open_receiver(&self, name: &str, _: &[String]) -> Result<Box<dyn Port>, PortError> {
        let options = Options {
            // Frames are addressed to MAC addresses that this interface does not have.
            promiscuous: true,
            ..Options::from_source(name)?
        };
        let mut port = AfPacket::open(&options)?;
        while let Some(notice) = port.next_notice() {
            warn(&notice);
        }
        Ok(Box::new(port))
    }

    fn open_sender(
        &self,
        name: &str,
        _: &[String],
        _: &Stop,
    ) -> Result<Box<dyn Transmit>, PortError> {
        Ok(Box::new(AfPacketSender::open(name)?))
    }

    fn open_both(&self, name: &str, eal: &[String], _: &Stop) -> Result<Duplex, PortError> {
        let receiver = self.open_receiver(name, eal)?;
        Ok((receiver, Box::new(AfPacketSender::open(name)?)))
    }

    fn findings(&self, system: &System) -> Option<(&'static str, Vec<Finding>)> {
        Some(("Capture", vec![capture::packet_socket(system)]))
    }
}

/// Returns the options to receive from a packet socket in a run of `watch`.
pub(super) fn watch_options(source: Options, options: &LiveOptions<'_>) -> Options {
    let (flags, acquisition) = (options.input, options.engine.acquisition);
    let ring_mib = flags.ring_memory.unwrap_or(RING_MEMORY_MIB_DEFAULT);
    let ring_bytes = (ring_mib as usize) << 20;
    Options {
        promiscuous: flags.promiscuous,
        wait: match acquisition.map(|acquisition| acquisition.mode) {
            // Periodic acquisition sleeps between its polls, so the port must not wait.
            Some(PollMode::Periodic(_)) => Wait::Sleep(Duration::ZERO),
            Some(PollMode::Continuous) | None => source.wait,
        },
        block_count: (ring_bytes / source.block_bytes).max(2),
        ..source
    }
}
