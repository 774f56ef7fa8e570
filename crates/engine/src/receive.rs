//! The receiving half of every model: bursts and idle moments go to whoever handles them, until the
//! port ends or the run is stopped; what the port has to say is gathered.

use crate::books::Books;
use crate::intake::Intake;
use crate::options::{Seat, Stop};
use crate::pace::Pace;
use crate::progress::{Progress, QueueProgress};
use crate::report::QueueReport;
use crate::together::Attendance;
use port::{Burst, Port, PortError, Received};

/// Bursts between two looks at the clock of the progress, where packets come fast.
const BURSTS: u32 = 64;

/// Packet time between two updates of the progress, where they come slowly.
pub(crate) const PUBLISH_MS: u32 = 100;

/// What a model does with what is received.
pub(crate) trait Handler {
    /// Reads a burst.
    async fn burst(&mut self, intake: &mut Intake, burst: &Burst<'_>);

    /// Receives, and reads what it gets.
    async fn receive(
        &mut self,
        intake: &mut Intake,
        port: &mut dyn Port,
    ) -> Result<Received<()>, PortError> {
        let received = port.receive()?;
        if let Received::Burst(burst) = &received {
            self.burst(intake, burst).await;
        }
        Ok(received.map(drop))
    }

    /// Nothing came for a while.
    async fn idle(&mut self, intake: &mut Intake);

    /// Now and then: progress, and records that wait.
    fn now_and_then(&mut self, intake: &Intake);

    /// Nothing behind so many packets is to be counted.
    fn end_behind(&mut self, packets: u64) {
        let _ = packets;
    }

    /// Whether all that is to be counted is.
    fn has_ended(&self, intake: &Intake) -> bool {
        let _ = intake;
        false
    }

    /// The books so far.
    fn books(&self, intake: &Intake) -> Books {
        intake.books()
    }
}

/// A port and what is known of it.
pub(crate) struct Receiver<'a> {
    pub(crate) port: Box<dyn Port>,
    pub(crate) live: bool,
    pub(crate) stop: &'a Stop,
    pub(crate) progress: &'a Progress,
    /// Where this thread's figures go, if its packets are counted by it.
    pub(crate) place: Option<&'a QueueProgress>,
    /// Those that read the same packets.
    pub(crate) together: Option<Attendance<'a>>,
}

/// What a port told besides packets.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) faults: Vec<String>,
    pub(crate) failed: bool,
}

impl Receiver<'_> {
    /// Receives until there is no more.
    pub(crate) async fn run(
        &mut self,
        intake: &mut Intake,
        handler: &mut impl Handler,
        pace: Pace,
    ) -> Told {
        let mut told = Told::default();
        intake.trust_device_hashes(self.port.rss_key());
        let (mut bursts, mut published_ms, mut stopping) = (0, intake.clock_ms(), false);
        loop {
            if !stopping && self.stop.is_requested() {
                stopping = true;
                if let Some(together) = &mut self.together {
                    handler.end_behind(together.stop_behind(intake.received()));
                } else {
                    self.port.stop();
                    if !self.live {
                        break;
                    }
                }
            }
            if handler.has_ended(intake) {
                self.port.stop();
                break;
            }
            match handler.receive(intake, &mut *self.port).await {
                Ok(Received::Burst(())) => {
                    bursts += 1;
                    pace.boundary().await;
                }
                Ok(Received::Idle) => {
                    handler.idle(intake).await;
                    bursts = BURSTS;
                    pace.idle().await;
                }
                Ok(Received::Fault(message)) => self.tell(message, &mut told),
                Ok(Received::End) => break,
                Err(error) => {
                    // Other ports may go on for days.
                    self.tell(error.to_string(), &mut told);
                    told.failed = true;
                    break;
                }
            }
            let waited_ms = intake.clock_ms().wrapping_sub(published_ms);
            if bursts >= BURSTS || waited_ms >= PUBLISH_MS {
                bursts = 0;
                published_ms = intake.clock_ms();
                self.stop.look_at_clock();
                self.publish(intake, handler);
            }
        }
        if let Some(together) = &mut self.together {
            together.end(intake.received());
        }
        told
    }

    /// Tells of a fault at once; of threads that share an input, one does.
    fn tell(&self, message: String, told: &mut Told) {
        if self.place.is_some() {
            self.progress.tell(&message);
        }
        told.faults.push(message);
    }

    /// Shows the books, and lets the handler do what it does now and then.
    pub(crate) fn publish(&mut self, intake: &Intake, handler: &mut impl Handler) {
        if let Some(place) = self.place {
            place.show_port(&handler.books(intake), &self.port.counters());
        }
        handler.now_and_then(intake);
    }

    /// The report of this thread: its books with what the port counted itself.
    pub(crate) fn report(&mut self, mut books: Books, seat: &Seat) -> QueueReport {
        let counters = self.port.counters();
        books.enter(&counters);
        QueueReport {
            name: self.port.name().to_owned(),
            books,
            device: counters.device,
            rss: self.port.rss(),
            ..seat.report()
        }
    }
}
