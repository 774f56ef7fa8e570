//! Packet level: packets and bytes are counted as they are received, and no byte of them is
//! touched. (FloWatcher's "software" counting; the device's own count is beside it in the report.)

use crate::books::{Books, Count};
use crate::intake::Intake;
use crate::options::{EngineError, Input, Options};
use crate::pace::{Pace, alone};
use crate::progress::Progress;
use crate::receive::{Handler, Receiver};
use crate::report::{Report, Worked};
use crate::thread::{join, start};
use port::{Burst, Counted, Port, PortError, Received};
use std::thread;

/// Runs one thread for each port. Of ports that read the same packets only the first is read.
///
/// # Errors
/// When a thread cannot start.
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
            let work = move || work(options, progress, port, live, number);
            threads.push(start(scope, options, name, work)?);
        }
        Ok(threads.into_iter().map(join).collect())
    })
}

fn work(
    options: &Options,
    progress: &Progress,
    port: Box<dyn Port>,
    live: bool,
    number: usize,
) -> Worked {
    let seat = options.settle(number);
    let pace = Pace::alone(&seat.schedule);
    let mut intake = Intake::new(&options.meter, options.decapsulate);
    let mut counting = Counting::default();
    let mut receiver = Receiver {
        together: None,
        port,
        live,
        stop: &options.stop,
        progress,
        place: progress.queues.get(number),
    };
    let mut told = alone(receiver.run(&mut intake, &mut counting, pace));
    told.faults.extend(seat.fault.clone());
    receiver.publish(&intake, &mut counting);
    let queue = receiver.report(counting.books(&intake), &seat);
    Worked {
        queue,
        told,
        ..Worked::default()
    }
}

/// What has been received.
#[derive(Default)]
struct Counting(Count);

impl Counting {
    fn add(&mut self, Counted { frames, bytes }: Counted) {
        self.0 += Count {
            packets: frames,
            bytes,
        };
    }
}

impl Handler for Counting {
    async fn burst(&mut self, _: &mut Intake, burst: &Burst<'_>) {
        self.add(Counted::from(*burst));
    }

    /// No port need make a list of frames for that.
    async fn receive(
        &mut self,
        _: &mut Intake,
        port: &mut dyn Port,
    ) -> Result<Received<()>, PortError> {
        Ok(port.count()?.map(|counted| self.add(counted)))
    }

    async fn idle(&mut self, _: &mut Intake) {}

    fn now_and_then(&mut self, _: &Intake) {}

    fn books(&self, _: &Intake) -> Books {
        Books {
            received: self.0,
            processed: self.0,
            counted_only: self.0,
            ..Books::default()
        }
    }
}
