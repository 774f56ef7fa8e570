//! A network output: an encoder in front of a link.

use crate::error::ExportError;
use crate::exporter::Exporter;
use crate::net::counters::NetCounters;
use crate::net::link::Link;
use crate::net::message::MessageEncoder;
use crate::net::notices::Notices;
use flow::RecordBatch;

/// Sends records to a receiver.
#[derive(Debug)]
pub(crate) struct NetExporter<E> {
    encoder: E,
    link: Link,
    /// Whether records wait for the receiver, so that a loss is a failure of the output.
    waits: bool,
}

impl<E: MessageEncoder> NetExporter<E> {
    pub(crate) const fn new(encoder: E, link: Link, waits: bool) -> Self {
        Self {
            encoder,
            link,
            waits,
        }
    }
}

impl<E: MessageEncoder> Exporter for NetExporter<E> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ExportError> {
        let link = &self.link;
        self.encoder
            .encode(batch, &mut |message| link.send(message));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        let link = &self.link;
        self.encoder.flush(&mut |message| link.send(message));
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ExportError> {
        self.flush()?;
        self.link.finish();
        let counters = self.link.counters();
        let lost = counters.lost.total();
        // On a live link the losses of an output that works are counted, as those of a slow file are.
        if lost == 0 || !self.waits && counters.connects > 0 {
            return Ok(());
        }
        let reason = match counters.last_error {
            Some((_, error)) => error,
            None => "the receiver was too slow".to_owned(),
        };
        Err(ExportError::NotDelivered {
            target: self.link.name().to_owned(),
            lost,
            reason,
        })
    }

    fn written(&self) -> u64 {
        self.link.sent_and_lost().0
    }

    fn lost(&self) -> u64 {
        self.link.sent_and_lost().1
    }

    fn net_counters(&self) -> Option<NetCounters> {
        Some(self.link.counters())
    }

    fn notices(&self) -> Option<Notices> {
        Some(self.link.notices())
    }
}
