//! Ports that wrap another port.

use crate::frame::{Burst, BurstCount, Counters, InputCounters, Port, PortError, Received, Rss};

/// A port that changes the frames of another port. Every [`Port`] method that a wrapper does not
/// override is forwarded to the inner port, once here for all wrappers.
pub trait Wrapper: Send {
    /// The inner port.
    type Inner: Port + ?Sized;

    /// The inner port.
    fn inner(&self) -> &Self::Inner;

    /// The inner port, mutably.
    fn inner_mut(&mut self) -> &mut Self::Inner;

    /// Implements [`Port::receive`].
    ///
    /// # Errors
    /// If the inner port cannot continue.
    fn wrap_receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        self.inner_mut().receive()
    }

    /// Implements [`Port::receive_count`].
    ///
    /// # Errors
    /// If the inner port cannot continue.
    fn wrap_receive_count(&mut self) -> Result<Received<BurstCount>, PortError> {
        Ok(self.wrap_receive()?.map(BurstCount::from))
    }

    /// Implements [`Port::counters`]: adjusts the counters of the inner port.
    fn wrap_counters(&self, counters: Counters) -> Counters {
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

    fn wrap_receive_count(&mut self) -> Result<Received<BurstCount>, PortError> {
        self.inner_mut().receive_count()
    }
}

#[deny(
    clippy::missing_trait_methods,
    reason = "a method that is not forwarded here is lost in every wrapper"
)]
impl<W: Wrapper> Port for W {
    fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
        self.wrap_receive()
    }

    fn receive_count(&mut self) -> Result<Received<BurstCount>, PortError> {
        self.wrap_receive_count()
    }

    fn counters(&mut self) -> Counters {
        let counters = self.inner_mut().counters();
        self.wrap_counters(counters)
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

    fn memory_bytes(&self) -> usize {
        self.inner().memory_bytes()
    }

    fn has_burst_timestamps(&self) -> bool {
        self.inner().has_burst_timestamps()
    }

    fn stop(&mut self) {
        self.inner_mut().stop();
    }

    fn rss(&self) -> Option<Rss> {
        self.inner().rss()
    }

    fn inputs(&mut self) -> Vec<InputCounters> {
        self.inner_mut().inputs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Filtered, Impaired, Impairments, Limit, Limited};

    const COUNT: BurstCount = BurstCount {
        frames: 6,
        bytes: 66,
    };

    /// Returns a value other than the default from every method.
    #[derive(Default)]
    struct NonDefault {
        stopped: bool,
    }

    impl Port for NonDefault {
        fn receive(&mut self) -> Result<Received<Burst<'_>>, PortError> {
            Ok(if self.stopped {
                Received::End
            } else {
                Received::Fault("inner".into())
            })
        }

        fn receive_count(&mut self) -> Result<Received<BurstCount>, PortError> {
            Ok(Received::Burst(COUNT))
        }

        fn counters(&mut self) -> Counters {
            Counters {
                dropped: 7,
                position: 8,
                ..Counters::default()
            }
        }

        fn name(&self) -> &'static str {
            "inner"
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

        fn has_burst_timestamps(&self) -> bool {
            true
        }

        fn stop(&mut self) {
            self.stopped = true;
        }

        fn rss(&self) -> Option<Rss> {
            Some(Rss::Configured { symmetric: true })
        }

        fn inputs(&mut self) -> Vec<InputCounters> {
            vec![InputCounters::default()]
        }
    }

    #[test]
    fn wrappers_forward_the_methods_they_do_not_change() {
        let mut boxed = Box::new(NonDefault::default()) as Box<dyn Port>;
        assert!(matches!(
            Port::receive_count(&mut boxed),
            Ok(Received::Burst(COUNT))
        ));
        let wrappers: [Box<dyn Port>; 4] = [
            Box::new(Limited::new(NonDefault::default(), Limit::new(1))),
            Box::new(Filtered::new(NonDefault::default(), "udp").unwrap()),
            Box::new(Impaired::new(NonDefault::default(), Impairments::default())),
            Box::new(Limited::new(
                Box::new(NonDefault::default()) as Box<dyn Port>,
                Limit::new(1),
            )),
        ];
        for mut port in wrappers {
            assert_eq!(port.name(), "inner");
            assert_eq!(port.rss_key(), Some(&[1, 2, 3][..]));
            assert_eq!(port.occupancy(), Some(4));
            assert_eq!(port.queue_size(), Some(5));
            assert!(port.has_burst_timestamps());
            assert_eq!(port.rss(), Some(Rss::Configured { symmetric: true }));
            assert_eq!(port.inputs(), [InputCounters::default()]);
            let counters = port.counters();
            assert_eq!((counters.dropped, counters.position), (7, 8));
            assert!(matches!(port.receive(), Ok(Received::Fault(message)) if message == "inner"));
            // A wrapper that changes the frames counts its own.
            assert!(
                matches!(port.receive_count(), Ok(Received::Fault(message)) if message == "inner")
            );
            port.stop();
            assert!(matches!(port.receive(), Ok(Received::End)));
        }
    }
}
