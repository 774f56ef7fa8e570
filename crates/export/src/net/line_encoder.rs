//! Line formats as messages: many lines for a stream, few for a datagram.

use crate::column::{measure, statistics};
use crate::lines::LineFormat;
use crate::net::message::{Message, MessageEncoder};
use crate::net::transport::Framing;
use crate::text::TextBuffer;
use flow::RecordBatch;

/// Bytes after which a message over a stream is complete: enough that the cost of sending one is
/// negligible, little enough that few records are lost with a connection.
const STREAM_BYTES: usize = 32 * 1024;

/// Encodes records as lines. No message contains a part of a line.
#[derive(Debug)]
pub(crate) struct LineEncoder<F> {
    format: F,
    /// The incomplete message.
    text: TextBuffer,
    /// Lines in it.
    lines: u64,
    framing: Framing,
}

impl<F: LineFormat> LineEncoder<F> {
    pub(crate) fn new(format: F, framing: Framing) -> Self {
        Self {
            format,
            text: TextBuffer::default(),
            lines: 0,
            framing,
        }
    }

    /// Ends a line that starts at `start`. Passes the message to `send` if it is complete.
    fn end_line(&mut self, start: usize, send: &mut dyn FnMut(Message)) {
        match self.framing {
            Framing::Stream => {
                self.lines += 1;
                if self.text.len() >= STREAM_BYTES {
                    self.flush(send);
                }
            }
            Framing::Datagram { preferred_bytes } => {
                let end = self.text.len();
                if end > preferred_bytes && self.lines > 0 {
                    let bytes = self.text.as_bytes().get(..start).unwrap_or_default();
                    send(Message {
                        bytes: bytes.to_vec(),
                        records: self.lines,
                    });
                    self.text.keep_range(start..end);
                    self.lines = 0;
                }
                self.lines += 1;
                if self.text.len() >= preferred_bytes {
                    self.flush(send);
                }
            }
        }
    }
}

impl<F: LineFormat> MessageEncoder for LineEncoder<F> {
    fn preamble(&self) -> Vec<u8> {
        self.format.header().to_vec()
    }

    fn encode(&mut self, batch: &RecordBatch, send: &mut dyn FnMut(Message)) {
        let width = self.format.statistics_per_record();
        for (row, record) in batch.records.iter().enumerate() {
            let start = self.text.len();
            let values = statistics(batch, row, width);
            let analysis = measure::analysis(&batch.analyses, row);
            self.format
                .append_record(&mut self.text, record, values, analysis);
            self.end_line(start, send);
        }
    }

    fn flush(&mut self, send: &mut dyn FnMut(Message)) {
        if self.lines > 0 {
            send(Message {
                bytes: self.text.as_bytes().to_vec(),
                records: self.lines,
            });
            self.text.clear();
            self.lines = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::Analysis;
    use flow::Record;

    /// A format whose lines have as many bytes as their records count.
    struct Filler;

    impl LineFormat for Filler {
        fn header(&self) -> &[u8] {
            b"header\n"
        }

        fn statistics_per_record(&self) -> usize {
            0
        }

        fn append_record(
            &mut self,
            text: &mut TextBuffer,
            record: &Record,
            _: &[f64],
            _: &Analysis,
        ) {
            text.push_bytes("x".repeat(record.bytes[0] as usize - 1).as_bytes());
            text.push_bytes(b"\n");
        }
    }

    /// Returns the length and the number of records of each message.
    fn messages(framing: Framing, lines: &[u64]) -> Vec<(usize, u64)> {
        let batch = RecordBatch {
            records: lines
                .iter()
                .map(|&bytes| Record {
                    bytes: [bytes, 0],
                    ..Record::default()
                })
                .collect(),
            ..RecordBatch::default()
        };
        let mut encoder = LineEncoder::new(Filler, framing);
        let mut messages = Vec::new();
        let mut send = |message: Message| {
            let text = String::from_utf8(message.bytes).unwrap();
            assert!(text.ends_with('\n'));
            assert_eq!(text.lines().count() as u64, message.records);
            messages.push((text.len(), message.records));
        };
        encoder.encode(&batch, &mut send);
        encoder.flush(&mut send);
        encoder.flush(&mut send);
        messages
    }

    #[test]
    fn datagrams_hold_whole_records_up_to_the_preferred_length() {
        let framing = Framing::Datagram {
            preferred_bytes: 100,
        };
        assert_eq!(messages(framing, &[40, 40, 40]), [(80, 2), (40, 1)]);
        assert_eq!(messages(framing, &[50, 50, 50]), [(100, 2), (50, 1)]);
        assert_eq!(
            messages(framing, &[40, 300, 40]),
            [(40, 1), (300, 1), (40, 1)]
        );
        assert_eq!(messages(framing, &[]), []);
    }

    #[test]
    fn stream_messages_hold_many_records() {
        assert_eq!(
            messages(Framing::Stream, &[1000; 40]),
            [(33_000, 33), (7_000, 7)]
        );
    }
}
