//! Ports around a port.

use crate::frame::{Burst, Counted, Counters, Port, PortError, Received, Rss};

/// A port that changes what another one hands over. Whatever else is asked of it, the other answers:
/// that is written here, once for all.
pub trait Wrapper: Send {
    /// The port within.
    type Inner: Port + ?Sized;

    /// The port within.
    fn inner(&self) -> &Self::Inner;

    /// The same, to be changed.
    fn inner_mut(&mut self) -> &mut Self::Inner;

    /// [`Port::receive`].
    ///
    /// # Errors
    /// When the port within cannot go on.
    fn pass_on(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        self.inner_mut().receive()
    }

    /// [`Port::count`].
    ///
    /// # Errors
    /// As above.
    fn count_on(&mut self) -> Result<Received<Counted>, PortError> {
        Ok(self.pass_on()?.map(Counted::from))
    }

    /// [`Port::counters`], made of those of the port within.
    fn amend(&self, counters: Counters) -> Counters {
        counters
    }
}

impl<P: Port + ?Sized> Wrapper for Box<P> {
    type Inner = P;

    fn inner(&self) -> &P {
        self
    }

    fn inner_mut(&mut self) -> &mut P {
        self
    }

    fn count_on(&mut self) -> Result<Received<Counted>, PortError> {
        self.inner_mut().count()
    }
}

#[deny(
    clippy::missing_trait_methods,
    reason = "what is not passed on here, no wrapper passes on"
)]
impl<W: Wrapper> Port for W {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        self.pass_on()
    }

    fn count(&mut self) -> Result<Received<Counted>, PortError> {
        self.count_on()
    }

    fn counters(&mut self) -> Counters {
        let counters = self.inner_mut().counters();
        self.amend(counters)
    }

    fn name(&self) -> &str {
        self.inner().name()
    }

    fn rss_key(&self) -> Option<&[u8]> {
        self.inner().rss_key()
    }

    fn occupancy(&mut self) -> Option<usize> {
        self.inner_mut().occupancy()
    }

    fn queue_size(&self) -> Option<usize> {
        self.inner().queue_size()
    }

    fn stamps_bursts(&self) -> bool {
        self.inner().stamps_bursts()
    }

    fn stop(&mut self) {
        self.inner_mut().stop();
    }

    fn rss(&self) -> Option<Rss> {
        self.inner().rss()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Faults, Faulty, Filtered, Limit, Limited};

    const ODD: Counted = Counted {
        frames: 6,
        bytes: 66,
    };

    /// Answers to everything what no port says unasked.
    #[derive(Default)]
    struct Odd {
        stopped: bool,
    }

    impl Port for Odd {
        fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
            Ok(if self.stopped {
                Received::End
            } else {
                Received::Fault("odd".into())
            })
        }

        fn count(&mut self) -> Result<Received<Counted>, PortError> {
            Ok(Received::Burst(ODD))
        }

        fn counters(&mut self) -> Counters {
            Counters {
                dropped: 7,
                position: 8,
                ..Counters::default()
            }
        }

        fn name(&self) -> &'static str {
            "odd"
        }

        fn rss_key(&self) -> Option<&[u8]> {
            Some(&[1, 2, 3])
        }

        fn occupancy(&mut self) -> Option<usize> {
            Some(4)
        }

        fn queue_size(&self) -> Option<usize> {
            Some(5)
        }

        fn stamps_bursts(&self) -> bool {
            true
        }

        fn stop(&mut self) {
            self.stopped = true;
        }

        fn rss(&self) -> Option<Rss> {
            Some(Rss::Configured { symmetric: true })
        }
    }

    #[test]
    fn a_wrapper_passes_on_whatever_it_does_not_change() {
        let mut boxed = Box::new(Odd::default()) as Box<dyn Port>;
        assert!(matches!(Port::count(&mut boxed), Ok(Received::Burst(ODD))));
        let wrappers: [Box<dyn Port>; 4] = [
            Box::new(Limited::new(Odd::default(), Limit::new(1))),
            Box::new(Filtered::new(Odd::default(), "udp").unwrap()),
            Box::new(Faulty::new(Odd::default(), Faults::default())),
            Box::new(Limited::new(
                Box::new(Odd::default()) as Box<dyn Port>,
                Limit::new(1),
            )),
        ];
        for mut port in wrappers {
            assert_eq!(port.name(), "odd");
            assert_eq!(port.rss_key(), Some(&[1, 2, 3][..]));
            assert_eq!(port.occupancy(), Some(4));
            assert_eq!(port.queue_size(), Some(5));
            assert!(port.stamps_bursts());
            assert_eq!(port.rss(), Some(Rss::Configured { symmetric: true }));
            let counters = port.counters();
            assert_eq!((counters.dropped, counters.position), (7, 8));
            assert!(matches!(port.receive(), Ok(Received::Fault(told)) if told == "odd"));
            // What hands over other frames counts those.
            assert!(matches!(port.count(), Ok(Received::Fault(told)) if told == "odd"));
            port.stop();
            assert!(matches!(port.receive(), Ok(Received::End)));
        }
    }
}
