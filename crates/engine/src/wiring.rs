//! How the halves of a model that hands packets on hang together: for each port a receiver, the
//! monitors behind it, and a way from the one to each of the others.

use crate::monitoring::Monitor;
use crate::options::{Options, Seat};
use crate::output::Records;
use crate::overhearing::Overhearing;
use crate::pace::Pace;
use crate::progress::Progress;
use crate::report::Worked;
use crate::sending::{Sender, way};
use flow::Meter;
use port::Port;

/// What the halves of all ports have alike.
#[derive(Clone, Copy)]
pub(crate) struct Wiring<'a> {
    pub(crate) options: &'a Options,
    pub(crate) progress: &'a Progress,
    /// Whether packets come from a link.
    pub(crate) live: bool,
    /// See [`Sender::drops`].
    pub(crate) drops: bool,
}

/// A monitor, and what it counts with.
pub(crate) struct Counting<'a> {
    pub(crate) monitor: Monitor<'a>,
    pub(crate) meter: Meter,
    pub(crate) records: Records,
}

impl Counting<'_> {
    /// The task of the monitor.
    pub(crate) async fn run(self, seat: Seat, pace: Pace) -> Worked {
        self.monitor.run(self.meter, self.records, seat, pace).await
    }
}

impl<'a> Wiring<'a> {
    /// The halves of the port with this number: a monitor for each meter.
    pub(crate) fn halves(
        &self,
        receiver: usize,
        port: Box<dyn Port>,
        overhearing: Overhearing,
        meters: impl IntoIterator<Item = Meter>,
        records: &Records,
    ) -> (Sender<'a>, Vec<Counting<'a>>) {
        let &Self {
            options,
            progress,
            live,
            drops,
        } = self;
        // A receiver's monitors have the places behind its own.
        let first = receiver * (1 + options.monitors);
        let (mut ways, mut monitors) = (Vec::new(), Vec::new());
        for (monitor, meter) in meters.into_iter().enumerate() {
            let (to_monitor, full, empty) = way(options.ring);
            ways.push(to_monitor);
            let place = first + 1 + monitor;
            let monitor = Monitor {
                name: format!("monitor-{receiver}-{monitor}"),
                place,
                full,
                empty,
                live,
                progress,
            };
            monitors.push(Counting {
                monitor,
                meter,
                records: records.of_worker(place),
            });
        }
        let sender = Sender {
            options,
            progress,
            port,
            live,
            drops,
            place: first,
            overhearing,
            ways,
        };
        (sender, monitors)
    }
}
