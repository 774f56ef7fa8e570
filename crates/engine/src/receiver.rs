//! The receive loop of every model: passes bursts to a handler until the port ends or the run is
//! stopped, publishes progress and collects port faults.

use crate::books::Books;
use crate::executor::Executor;
use crate::options::Stop;
use crate::parser::PacketParser;
use crate::progress::{Progress, QueueProgress};
use crate::report::{PortFaults, QueueReport};
use crate::thread::ThreadPlacement;
use port::{Burst, Port, PortError, Received};

/// Bursts between two progress updates when packets arrive fast.
const PUBLISH_BURSTS: u32 = 64;

/// Packet time between two progress updates when packets arrive slowly, in milliseconds.
pub(crate) const PUBLISH_MS: u32 = 100;

/// The part of a receive loop that depends on the model.
pub(crate) trait Handler {
    /// Processes a burst.
    async fn handle_burst(&mut self, parser: &mut PacketParser, burst: &Burst<'_>);

    /// Receives from `port` and processes the burst, if any.
    async fn receive(
        &mut self,
        parser: &mut PacketParser,
        port: &mut dyn Port,
    ) -> Result<Received<()>, PortError> {
        receive_burst(self, parser, port).await
    }

    /// Called when the port has no packets.
    async fn handle_idle(&mut self, parser: &mut PacketParser);

    /// Called about every [`PUBLISH_MS`]: publishes the meter's counters and sends records that have
    /// waited.
    fn publish_progress(&mut self, parser: &PacketParser);

    /// Returns the packet accounting so far.
    fn books(&self, parser: &PacketParser) -> Books {
        parser.books()
    }
}

/// Receives from `port` and lets `handler` process the burst, if any.
pub(crate) async fn receive_burst(
    handler: &mut (impl Handler + ?Sized),
    parser: &mut PacketParser,
    port: &mut dyn Port,
) -> Result<Received<()>, PortError> {
    let received = port.receive()?;
    if let Received::Burst(burst) = &received {
        handler.handle_burst(parser, burst).await;
    }
    Ok(received.map(drop))
}

/// A port and the state of its receive loop.
pub(crate) struct Receiver<'a> {
    pub(crate) port: Box<dyn Port>,
    /// Whether packets come from a link.
    pub(crate) live: bool,
    pub(crate) stop: &'a Stop,
    pub(crate) progress: &'a Progress,
    /// This thread's counters.
    pub(crate) queue: Option<&'a QueueProgress>,
}

impl Receiver<'_> {
    /// Receives until the port ends or the run is stopped.
    pub(crate) async fn run(
        &mut self,
        parser: &mut PacketParser,
        handler: &mut impl Handler,
        executor: Executor,
    ) -> PortFaults {
        let mut faults = PortFaults::default();
        parser.trust_device_hashes(self.port.rss_key());
        let (mut bursts, mut published_ms, mut stopping) = (0, parser.clock_ms(), false);
        loop {
            if !stopping && self.stop.is_requested() {
                stopping = true;
                self.port.stop();
                if !self.live {
                    break;
                }
            }
            match handler.receive(parser, &mut *self.port).await {
                Ok(Received::Burst(())) => {
                    bursts += 1;
                    executor.yield_now().await;
                }
                Ok(Received::Idle) => {
                    handler.handle_idle(parser).await;
                    bursts = PUBLISH_BURSTS;
                    executor.idle().await;
                }
                Ok(Received::Fault(message)) => self.report_fault(message, &mut faults),
                Ok(Received::End) => break,
                Err(error) => {
                    // Not fatal for the run: other ports may continue for days.
                    self.report_fault(error.to_string(), &mut faults);
                    faults.failed = true;
                    break;
                }
            }
            let elapsed_ms = parser.clock_ms().wrapping_sub(published_ms);
            if bursts >= PUBLISH_BURSTS || elapsed_ms >= PUBLISH_MS {
                bursts = 0;
                published_ms = parser.clock_ms();
                self.stop.check_deadline();
                self.publish(parser, handler);
            }
        }
        faults
    }

    /// Records a fault and warns at once.
    fn report_fault(&self, message: String, faults: &mut PortFaults) {
        self.progress.warn(&message);
        faults.messages.push(message);
    }

    /// Publishes the counters of the port and those of the handler.
    pub(crate) fn publish(&mut self, parser: &PacketParser, handler: &mut impl Handler) {
        if let Some(queue) = self.queue {
            queue.update_port(&handler.books(parser), &self.port.counters());
        }
        handler.publish_progress(parser);
    }

    /// Returns the report of this thread: `books` plus the port's own counters.
    pub(crate) fn report(&mut self, mut books: Books, placement: &ThreadPlacement) -> QueueReport {
        let counters = self.port.counters();
        books.add_port_counters(&counters);
        QueueReport {
            name: self.port.name().to_owned(),
            books,
            device: counters.device,
            rss: self.port.rss(),
            ..placement.report()
        }
    }
}
