//! What a format provides for network outputs: an encoder that turns records into messages.

use flow::RecordBatch;

/// A message to be sent whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
    /// Number of records in it.
    pub(crate) records: u64,
}

/// Encodes records as messages.
pub(crate) trait MessageEncoder: Send {
    /// Returns the message that begins each connection, such as a CSV header or IPFIX templates; empty
    /// if there is none. It is repeated over transports without connections.
    fn preamble(&self) -> Vec<u8>;

    /// Encodes a batch. Passes complete messages to `send`; the last one may remain incomplete.
    fn encode(&mut self, batch: &RecordBatch, send: &mut dyn FnMut(Message));

    /// Passes the incomplete message to `send`, if there is one.
    fn flush(&mut self, send: &mut dyn FnMut(Message));
}
