//! Packet level: counts packets and bytes as they are received, without reading a byte of them.
//! (FloWatcher's "software" counting. The report also has the device's own count.)

use crate::books::{Books, Count};
use crate::executor::{Executor, block_on};
use crate::options::{EngineError, Input, Options};
use crate::parser::PacketParser;
use crate::progress::Progress;
use crate::receiver::{Handler, Receiver};
use crate::report::{Report, ThreadResult};
use crate::thread::{join, spawn};
use port::{Burst, BurstCount, Port, PortError, Received};
use std::thread;

/// Runs one thread for each port. If all ports read the same packets, only the first one is read.
///
/// # Errors
/// Fails if a thread cannot start.
pub(crate) fn run(
    options: &Options,
    input: Input,
    progress: &Progress,
) -> Result<Report, EngineError> {
    let ports = if input.same_packets {
        1
    } else {
        input.ports.len()
    };
    let live = input.live;
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, port) in input.ports.into_iter().take(ports).enumerate() {
            let name = format!("counter-{number}");
            let work = move || count_port(options, progress, port, live, number);
            threads.push(spawn(scope, options, name, work)?);
        }
        Ok(threads.into_iter().map(join).collect())
    })
}

/// Counts the packets of one port until it ends.
fn count_port(
    options: &Options,
    progress: &Progress,
    port: Box<dyn Port>,
    live: bool,
    number: usize,
) -> ThreadResult {
    let placement = options.apply_placement(number);
    let executor = Executor::single_task(&placement.schedule);
    let mut parser = PacketParser::new(&options.meter, options.decapsulate);
    let mut counter = PacketCounter::default();
    let mut receiver = Receiver {
        stop_ticket: None,
        port,
        live,
        stop: &options.stop,
        progress,
        queue: progress.queues.get(number),
    };
    let mut faults = block_on(receiver.run(&mut parser, &mut counter, executor));
    faults.messages.extend(placement.fault.clone());
    receiver.publish(&parser, &mut counter);
    let queue = receiver.report(counter.books(&parser), &placement);
    ThreadResult {
        queue,
        port_faults: faults,
        ..ThreadResult::default()
    }
}

/// The packets and bytes received.
#[derive(Default)]
struct PacketCounter(Count);

impl PacketCounter {
    fn add(&mut self, BurstCount { frames, bytes }: BurstCount) {
        self.0 += Count {
            packets: frames,
            bytes,
        };
    }
}

impl Handler for PacketCounter {
    async fn handle_burst(&mut self, _: &mut PacketParser, burst: &Burst<'_>) {
        self.add(BurstCount::from(*burst));
    }

    /// Lets the port count without building a list of frames.
    async fn receive(
        &mut self,
        _: &mut PacketParser,
        port: &mut dyn Port,
    ) -> Result<Received<()>, PortError> {
        Ok(port.receive_count()?.map(|counted| self.add(counted)))
    }

    async fn handle_idle(&mut self, _: &mut PacketParser) {}

    fn publish_progress(&mut self, _: &PacketParser) {}

    fn books(&self, _: &PacketParser) -> Books {
        Books {
            received: self.0,
            processed: self.0,
            counted_only: self.0,
            ..Books::default()
        }
    }
}
