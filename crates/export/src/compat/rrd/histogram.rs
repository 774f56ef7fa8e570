//! Histograms of the flows that ended in an interval, as text: comment lines, then a line `from to
//! flows` for each bin.

use crate::compat::connection::Connection;
use crate::directory;
use crate::error::ExportError;
use crate::storage::write_file;
use crate::time_text::{NANOSECONDS, file_stamp};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Intervals kept in memory for late records; the oldest are written when there are more.
const OPEN_MAX: usize = 64;

/// A measured quantity.
#[derive(Clone, Copy, Debug)]
struct Quantity {
    name: &'static str,
    unit: &'static str,
    bins: Bins,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bins {
    /// One bin per value.
    Each,
    /// A bin for 0, then one from each power of two to below the next.
    Octaves,
}

const QUANTITIES: [Quantity; 9] = [
    octaves("flow_packets", "packets of a flow"),
    octaves("flow_bytes", "bytes of a flow's whole frames"),
    octaves("flow_duration", "duration of a flow, milliseconds"),
    octaves("packet_size", "mean frame size of a flow, bytes"),
    octaves(
        "rtt_client",
        "mean round-trip time of the client's segments, microseconds",
    ),
    octaves(
        "rtt_server",
        "mean round-trip time of the server's segments, microseconds",
    ),
    each("ttl", "maximum time to live of each side"),
    each("protocol", "protocol of the transport header"),
    each("port", "destination port of TCP and UDP flows"),
];

const fn octaves(name: &'static str, unit: &'static str) -> Quantity {
    Quantity {
        name,
        unit,
        bins: Bins::Octaves,
    }
}

const fn each(name: &'static str, unit: &'static str) -> Quantity {
    Quantity {
        name,
        unit,
        bins: Bins::Each,
    }
}

/// The histograms of an interval, keyed by the lower end of the bin.
type Interval = [BTreeMap<u64, u64>; QUANTITIES.len()];

/// The histograms of the latest intervals.
#[derive(Debug)]
pub(super) struct Histograms {
    step_s: i64,
    open: BTreeMap<i64, Interval>,
}

impl Histograms {
    pub(super) const fn new(step_s: i64) -> Self {
        Self {
            step_s,
            open: BTreeMap::new(),
        }
    }

    /// Counts a flow in the interval in which it ended.
    pub(super) fn add_flow(&mut self, connection: &Connection<'_>) {
        let index = connection.end_ns.div_euclid(self.step_s * NANOSECONDS);
        let interval = self.open.entry(index).or_default();
        let mut count = |quantity: usize, value: u64| {
            let bin = match QUANTITIES[quantity].bins {
                Bins::Each => value,
                Bins::Octaves => value.checked_ilog2().map_or(0, |octave| 1 << octave),
            };
            *interval[quantity].entry(bin).or_default() += 1;
        };
        let (packets, bytes) = (connection.packets(), connection.frame_bytes());
        let duration_ns = connection.end_ns.saturating_sub(connection.start_ns);
        count(0, packets);
        count(1, bytes);
        count(2, duration_ns.max(0).unsigned_abs() / 1_000_000);
        if let Some(size) = bytes.checked_div(packets) {
            count(3, size);
        }
        for (which, side) in connection.sides.iter().enumerate() {
            if side.rtt.count > 0 {
                count(4 + which, (side.rtt.mean_ns / 1000.0) as u64);
            }
            if side.ttl_max > 0 {
                count(6, side.ttl_max.into());
            }
        }
        let key = &connection.key;
        count(7, key.protocol.into());
        if matches!(
            key.protocol,
            wire::ip_protocol::TCP | wire::ip_protocol::UDP
        ) {
            count(8, key.destination_port.into());
        }
    }

    /// Writes the oldest intervals if there are too many.
    pub(super) fn write_oldest(&mut self, directory: &Path) -> Result<(), ExportError> {
        let mut result = Ok(());
        while self.open.len() > OPEN_MAX {
            result = result.and(self.write_first(directory));
        }
        result
    }

    /// Writes all intervals.
    pub(super) fn write_all(&mut self, directory: &Path) -> Result<(), ExportError> {
        let mut result = Ok(());
        while !self.open.is_empty() {
            result = result.and(self.write_first(directory));
        }
        result
    }

    fn write_first(&mut self, directory: &Path) -> Result<(), ExportError> {
        let Some((index, interval)) = self.open.pop_first() else {
            return Ok(());
        };
        let step_ns = self.step_s * NANOSECONDS;
        let [from, to] =
            [index, index.saturating_add(1)].map(|index| index.saturating_mul(step_ns));
        let all = directory.join("histograms");
        directory::recreate(directory);
        directory::create(&all)?;
        let mut number = 1_u32;
        // Late flows of an interval that was already written get a directory of their own.
        let target = loop {
            let count = if number == 1 {
                String::new()
            } else {
                format!("-{number}")
            };
            number += 1;
            let target = all.join(format!("{}{count}", file_stamp(from)));
            if !target.exists() {
                break target;
            }
        };
        directory::create(&target)?;
        let mut result = Ok(());
        for (quantity, bins) in QUANTITIES.iter().zip(&interval) {
            if bins.is_empty() {
                continue;
            }
            let text = text(quantity, bins, &file_stamp(from), &file_stamp(to));
            result = result.and(write_file(&target.join(quantity.name), text.as_bytes()));
        }
        if result.is_err() {
            // An incomplete interval would be misleading.
            let _ = fs::remove_dir_all(&target);
        }
        result
    }
}

fn text(quantity: &Quantity, bins: &BTreeMap<u64, u64>, from: &str, to: &str) -> String {
    let mut text = format!(
        "# {}: {}\n# flows that ended from {from} until before {to}\n# from to flows\n",
        quantity.name, quantity.unit
    );
    for (&bin, &flows) in bins {
        let last = match quantity.bins {
            Bins::Each => bin,
            Bins::Octaves if bin == 0 => 0,
            Bins::Octaves => bin + (bin - 1),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{bin} {last} {flows}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_written_with_both_ends() {
        let bins = BTreeMap::from([(0, 3), (1, 1), (4, 2), (1 << 63, 9)]);
        let written = text(&QUANTITIES[1], &bins, "A", "B");
        assert!(written.starts_with("# flow_bytes: "));
        assert!(written.contains("from A until before B"));
        assert!(
            written
                .ends_with("\n0 0 3\n1 1 1\n4 7 2\n9223372036854775808 18446744073709551615 9\n")
        );
        let ports = BTreeMap::from([(53, 1), (443, 7)]);
        assert!(text(&QUANTITIES[8], &ports, "A", "B").ends_with("\n53 53 1\n443 443 7\n"));
    }

    #[test]
    fn late_flows_get_a_directory_of_their_own() {
        let directory = tempfile::tempdir().unwrap();
        let mut histograms = Histograms::new(300);
        let flow = |end_s: i64| Connection {
            end_ns: end_s * NANOSECONDS,
            start_ns: end_s * NANOSECONDS,
            ..Connection::default()
        };
        for index in 0..OPEN_MAX as i64 + 1 {
            histograms.add_flow(&flow(300 * index));
        }
        histograms.write_oldest(directory.path()).unwrap();
        assert_eq!(histograms.open.len(), OPEN_MAX);
        histograms.add_flow(&flow(299));
        histograms.write_all(directory.path()).unwrap();
        let all = directory.path().join("histograms");
        assert_eq!(fs::read_dir(&all).unwrap().count(), OPEN_MAX + 2);
        for name in ["19700101T000000Z", "19700101T000000Z-2"] {
            let text = fs::read_to_string(all.join(name).join("flow_packets")).unwrap();
            assert!(text.ends_with("\n0 0 1\n"), "{text}");
        }
    }
}
