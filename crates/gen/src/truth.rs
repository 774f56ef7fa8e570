//! The truth: the packets and bytes of every flow that the link accepted.

use crate::source::NO_FLOW;
use std::collections::HashMap;
use std::io::{self, Write};
use wire::FlowKey;

/// The packets and bytes sent by a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentCounts {
    /// Frames that the link accepted.
    pub packets: u64,
    /// Bytes of these frames without frame check sequences, as in a capture.
    pub bytes: u64,
}

/// The packets and bytes sent by each flow, by flow number.
#[derive(Clone, Debug)]
pub struct Truth {
    flows: Vec<SentCounts>,
    no_flow: SentCounts,
}

impl Truth {
    /// Creates counters for flows 0 to `flows` - 1.
    #[must_use]
    pub fn new(flows: usize) -> Self {
        Self {
            flows: vec![SentCounts::default(); flows],
            no_flow: SentCounts::default(),
        }
    }

    /// Records sent frames, given the flow and the length of each.
    pub fn record(&mut self, flows: &[u32], lengths: &[u16]) {
        for (&flow, &length) in flows.iter().zip(lengths) {
            let sent = match self.flows.get_mut(flow as usize) {
                Some(sent) => sent,
                None => &mut self.no_flow,
            };
            sent.packets += 1;
            sent.bytes += u64::from(length);
        }
    }

    /// The packets and bytes sent by a flow; for [`NO_FLOW`], those that belong to no flow.
    #[must_use]
    pub fn sent_by(&self, flow: u32) -> SentCounts {
        match flow {
            NO_FLOW => self.no_flow,
            flow => self.flows.get(flow as usize).copied().unwrap_or_default(),
        }
    }

    /// The sum of all flows, including frames that belong to no flow.
    #[must_use]
    pub fn total(&self) -> SentCounts {
        self.flows
            .iter()
            .chain([&self.no_flow])
            .fold(SentCounts::default(), |sum, sent| SentCounts {
                packets: sum.packets + sent.packets,
                bytes: sum.bytes + sent.bytes,
            })
    }

    /// The packets and bytes sent by key, in the order of flow numbers. Flows with the same key, which
    /// copies of a capture can have, are merged.
    fn by_key(&self, key: impl Fn(u32) -> FlowKey) -> Vec<(FlowKey, SentCounts)> {
        let mut numbers = HashMap::new();
        let mut flows: Vec<(FlowKey, SentCounts)> = Vec::new();
        for (flow, sent) in self.flows.iter().enumerate() {
            if sent.packets == 0 {
                continue;
            }
            let key = key(flow as u32);
            let number = *numbers.entry(key).or_insert(flows.len());
            match flows.get_mut(number) {
                Some((_, sum)) => {
                    sum.packets += sent.packets;
                    sum.bytes += sent.bytes;
                }
                None => flows.push((key, *sent)),
            }
        }
        flows
    }

    /// Writes a CSV line for each flow that sent packets, with the column names of flow records.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_csv(
        &self,
        mut writer: impl Write,
        key: impl Fn(u32) -> FlowKey,
    ) -> io::Result<()> {
        writeln!(
            writer,
            "ipVersion,sourceIPv4Address,destinationIPv4Address,sourceIPv6Address,\
             destinationIPv6Address,sourceTransportPort,destinationTransportPort,\
             protocolIdentifier,packets,bytes"
        )?;
        for (key, sent) in self.by_key(key) {
            let (source, destination) = (key.source_address(), key.destination_address());
            write!(writer, "{}", key.version)?;
            if key.version == 4 {
                write!(writer, ",{source},{destination},,")?;
            } else {
                write!(writer, ",,,{source},{destination}")?;
            }
            writeln!(
                writer,
                ",{},{},{},{},{}",
                key.source_port, key.destination_port, key.protocol, sent.packets, sent.bytes
            )?;
        }
        writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_a_csv_line_per_flow() {
        let mut truth = Truth::new(3);
        truth.record(&[2, 0, 2, NO_FLOW], &[60, 100, 70, 42]);
        assert_eq!(
            truth.sent_by(2),
            SentCounts {
                packets: 2,
                bytes: 130
            }
        );
        assert_eq!(truth.sent_by(NO_FLOW).packets, 1);
        assert_eq!(
            truth.total(),
            SentCounts {
                packets: 4,
                bytes: 272
            }
        );
        let key = |flow: u32| FlowKey {
            version: 4,
            protocol: 17,
            source_port: flow as u16,
            ..FlowKey::default()
        };
        let mut text = Vec::new();
        truth.write_csv(&mut text, key).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "4,0.0.0.0,0.0.0.0,,,0,0,17,1,100",
                "4,0.0.0.0,0.0.0.0,,,2,0,17,2,130"
            ]
        );
    }
}
