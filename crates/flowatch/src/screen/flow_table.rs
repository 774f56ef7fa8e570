//! The list of the largest flows. If a line is too short for all columns, other columns are left out
//! before addresses are shortened. A shortened address keeps both ends, network and host.

use super::flow_rates::{FlowRates, duration};
use super::palette::Palette;
use super::state::sum_directions;
use crate::protocol_name::protocol_name;
use crate::top_flows::vlan_text;
use crate::units;
use flow::{FlowDefinition, Record};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use std::cmp::Reverse;
use std::time::Duration;

/// Preferred width of a shortened address: enough to distinguish most IPv6 addresses.
const ADDRESS_SHORTENED: usize = 22;
/// Minimum width of an address column: an IPv4 address.
const ADDRESS_MIN: usize = 15;
/// From this width on, there are two spaces between columns.
const WIDE: usize = 110;

/// What the list is sorted by. It always shows the flows with the most bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Bytes,
    Packets,
    Rate,
    Duration,
}

impl Sort {
    /// Returns the next sort order.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Bytes => Self::Packets,
            Self::Packets => Self::Rate,
            Self::Rate => Self::Duration,
            Self::Duration => Self::Bytes,
        }
    }

    /// Name in the line of keys.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Packets => "packets",
            Self::Rate => "rate",
            Self::Duration => "time",
        }
    }

    const fn column(self) -> Column {
        match self {
            Self::Bytes => Column::Bytes,
            Self::Packets => Column::Packets,
            Self::Rate => Column::Rate,
            Self::Duration => Column::Duration,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Source,
    SourcePort,
    Destination,
    DestinationPort,
    Vlan,
    Protocol,
    Flags,
    Packets,
    Bytes,
    Mean,
    Rate,
    Duration,
}

impl Column {
    const fn heading(self) -> &'static str {
        match self {
            Self::Source => "SOURCE",
            Self::Destination => "DESTINATION",
            Self::SourcePort | Self::DestinationPort => "PORT",
            Self::Vlan => "VLAN",
            Self::Protocol => "PROTO",
            Self::Flags => "FLAGS",
            Self::Packets => "PKTS",
            Self::Bytes => "BYTES",
            Self::Mean => "B/PKT",
            Self::Rate => "BIT/S",
            Self::Duration => "TIME",
        }
    }

    /// Width in characters. 0 for addresses, which share the remaining width.
    const fn width(self) -> usize {
        match self {
            Self::Source | Self::Destination => 0,
            Self::Flags => 8,
            // Two tags.
            Self::Vlan => 9,
            Self::Packets | Self::Bytes | Self::Rate => 6,
            _ => 5,
        }
    }

    const fn is_address(self) -> bool {
        matches!(self, Self::Source | Self::Destination)
    }

    /// Whether the column needs a flow key with ports and protocol.
    const fn needs_transport(self) -> bool {
        matches!(self, Self::Protocol | Self::Flags)
    }

    const fn is_right_aligned(self) -> bool {
        !matches!(
            self,
            Self::Source | Self::Destination | Self::Protocol | Self::Flags
        )
    }
}

/// Column sets, from most to fewest columns. The first two are used only if whole addresses fit.
const COLUMN_SETS: [&[Column]; 6] = {
    use Column::{Bytes, Duration, Flags, Mean, Packets, Protocol, Rate};
    [
        &[Protocol, Flags, Packets, Bytes, Mean, Rate, Duration],
        &[Protocol, Packets, Bytes, Mean, Rate, Duration],
        &[Protocol, Packets, Bytes, Rate, Duration],
        &[Protocol, Packets, Bytes, Rate],
        &[Protocol, Bytes, Rate],
        &[Bytes],
    ]
};
const SETS_FOR_WHOLE_ADDRESSES: usize = 2;

/// The flows to list, and how to list them.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowTable<'a> {
    pub(super) flows: &'a [Record],
    pub(super) rates: &'a FlowRates,
    pub(super) definition: FlowDefinition,
    pub(super) numeric: bool,
    pub(super) sort: Sort,
    pub(super) palette: Palette,
}

impl FlowTable<'_> {
    /// Draws the heading and as many flows as fit.
    pub(super) fn render(&self, area: Rect, buffer: &mut Buffer) {
        if area.height < 2 || area.width < 8 {
            return;
        }
        let mut flows = self.sorted();
        flows.truncate(usize::from(area.height) - 1);
        let columns = self.columns(&flows, usize::from(area.width) - 2);
        let heading = self.line(&columns, usize::from(area.width) - 2, |column| {
            let text = column.heading().to_owned();
            if column == self.sort.column() {
                text + &self.palette.sort_marker().to_string()
            } else {
                text
            }
        });
        buffer.set_style(Rect { height: 1, ..area }, self.palette.heading());
        let width = usize::from(area.width) - 1;
        buffer.set_stringn(area.x + 1, area.y, heading, width, self.palette.heading());
        for (row, record) in flows.into_iter().enumerate() {
            let y = area.y + 1 + row as u16;
            let line = self.line(&columns, width - 1, |column| self.cell(column, record));
            let style = if row == 0 {
                Style::new().add_modifier(Modifier::BOLD)
            } else {
                Style::new()
            };
            buffer.set_stringn(area.x + 1, y, line, width, style);
        }
    }

    fn sorted(&self) -> Vec<&Record> {
        let mut flows: Vec<&Record> = self.flows.iter().collect();
        let rate = |record: &Record| {
            let rate = self.rates.bits_per_second(record);
            if rate.is_finite() { rate as u64 } else { 0 }
        };
        match self.sort {
            Sort::Bytes => {
                flows.sort_by_key(|record| (Reverse(sum_directions(record.bytes)), record.key));
            }
            Sort::Packets => {
                flows.sort_by_key(|record| (Reverse(sum_directions(record.packets)), record.key));
            }
            Sort::Rate => flows.sort_by_key(|record| (Reverse(rate(record)), record.key)),
            Sort::Duration => flows.sort_by_key(|record| (Reverse(duration(record)), record.key)),
        }
        flows
    }

    /// Returns the columns and their widths for lines of `width` characters that show `flows`.
    fn columns(&self, flows: &[&Record], width: usize) -> Vec<(Column, usize)> {
        use FlowDefinition::{
            Bidirectional, Destination, FiveTuple, Rss, Source, SourceDestination,
        };
        let (ends, ports): (&[Column], bool) = match self.definition {
            FiveTuple | Bidirectional => (&[Column::Source, Column::Destination], true),
            SourceDestination => (&[Column::Source, Column::Destination], false),
            // Flows known by their hash show it as their source.
            Source | Rss => (&[Column::Source], false),
            Destination => (&[Column::Destination], false),
        };
        let gap = gap(width);
        let needed: Vec<usize> = ends
            .iter()
            .map(|&end| self.address_width(flows, end))
            .collect();
        let at_most = |cut: usize| needed.iter().map(|&wanted| wanted.min(cut)).sum::<usize>();
        // Total width left for addresses next to the columns of a set.
        let room = |(set, ports): (&[Column], bool)| {
            let fixed: usize = set.iter().map(|column| column.width() + gap).sum();
            let ports = if ports {
                ends.len() * (Column::SourcePort.width() + gap)
            } else {
                0
            };
            width.saturating_sub(fixed + ports + gap * (ends.len() - 1))
        };
        let poorest = (COLUMN_SETS[COLUMN_SETS.len() - 1], false);
        let has_vlan = flows.iter().any(|record| record.key.vlan != [0; 2]);
        let vlan: &[Column] = if has_vlan { &[Column::Vlan] } else { &[] };
        let sets: Vec<Vec<Column>> = COLUMN_SETS
            .iter()
            .map(|set| {
                vlan.iter()
                    .chain(*set)
                    .copied()
                    .filter(|column| ports || !column.needs_transport())
                    .collect()
            })
            .collect();
        let sets = || sets.iter().map(|set| (&set[..], ports));
        // The last set, with bytes only, is the last resort.
        let chosen = sets()
            .take(COLUMN_SETS.len() - 1)
            .find(|&set| room(set) >= at_most(usize::MAX))
            .or_else(|| {
                sets()
                    .skip(SETS_FOR_WHOLE_ADDRESSES)
                    .find(|&set| room(set) >= at_most(ADDRESS_SHORTENED))
            })
            .or_else(|| {
                sets()
                    .skip(SETS_FOR_WHOLE_ADDRESSES)
                    .find(|&set| room(set) >= at_most(ADDRESS_MIN))
            })
            .unwrap_or(poorest);
        let widths = divide_width(room(chosen), &needed);
        let mut columns = Vec::new();
        for (&end, width) in ends.iter().zip(widths) {
            columns.push((end, width));
            if chosen.1 {
                let port = if end == Column::Source {
                    Column::SourcePort
                } else {
                    Column::DestinationPort
                };
                columns.push((port, port.width()));
            }
        }
        columns.extend(chosen.0.iter().map(|&column| (column, column.width())));
        columns
    }

    /// Returns the width of the longest address in a column, including its heading.
    fn address_width(&self, flows: &[&Record], end: Column) -> usize {
        let lengths = flows.iter().map(|record| self.cell(end, record).len());
        lengths
            .max()
            .unwrap_or(0)
            .max(end.heading().len())
            .max(ADDRESS_MIN)
    }

    /// Returns a line with a cell per column.
    fn line(
        &self,
        columns: &[(Column, usize)],
        width: usize,
        cell: impl Fn(Column) -> String,
    ) -> String {
        let cells: Vec<String> = columns
            .iter()
            .map(|&(column, width)| {
                let text = cell(column);
                let text = if column.is_address() {
                    self.shorten(&text, width)
                } else {
                    text
                };
                if column.is_right_aligned() {
                    format!("{text:>width$}")
                } else {
                    format!("{text:<width$}")
                }
            })
            .collect();
        cells.join(&" ".repeat(gap(width)))
    }

    /// Shortens a text to at most `width` characters by leaving out its middle.
    fn shorten(&self, text: &str, width: usize) -> String {
        let length = text.chars().count();
        if length <= width {
            return text.to_owned();
        }
        if width == 0 {
            return String::new();
        }
        let tail = (width - 1) / 2;
        let head = width - 1 - tail;
        let mut cut: String = text.chars().take(head).collect();
        cut.push(self.palette.ellipsis());
        cut.extend(text.chars().skip(length - tail));
        cut
    }

    fn cell(&self, column: Column, record: &Record) -> String {
        let key = &record.key;
        let port = |number: u16| match key.protocol {
            wire::ip_protocol::TCP | wire::ip_protocol::UDP | wire::ip_protocol::SCTP => {
                number.to_string()
            }
            _ if number == 0 => String::new(),
            _ => number.to_string(),
        };
        let (packets, bytes) = (sum_directions(record.packets), sum_directions(record.bytes));
        match column {
            Column::Source => match key.hash() {
                Some(hash) => format!("{hash:#010x}"),
                None => key.source_address().to_string(),
            },
            Column::Destination => key.destination_address().to_string(),
            Column::SourcePort => port(key.source_port),
            Column::DestinationPort => port(key.destination_port),
            Column::Vlan => vlan_text(key),
            Column::Protocol => protocol_name(key.protocol)
                .filter(|_| !self.numeric)
                .map_or_else(|| key.protocol.to_string(), str::to_owned),
            Column::Flags => flags(record),
            Column::Packets => short(packets as f64),
            Column::Bytes => short(bytes as f64),
            Column::Mean => bytes
                .checked_div(packets)
                .map_or_else(String::new, |mean| mean.to_string()),
            Column::Rate => short(self.rates.bits_per_second(record)),
            Column::Duration => short_time(duration(record)),
        }
    }
}

fn gap(width: usize) -> usize {
    if width >= WIDE { 2 } else { 1 }
}

/// Divides a width between columns. A column that needs less than half leaves the rest to the other.
fn divide_width(room: usize, wanted: &[usize]) -> Vec<usize> {
    match *wanted {
        [first, second] => {
            let half = room / 2;
            let (first, second) = if first <= half {
                (first, room - first)
            } else if second <= half {
                (room - second, second)
            } else {
                (room - half, half)
            };
            vec![first.min(wanted[0]), second.min(wanted[1])]
        }
        _ => wanted.iter().map(|&wanted| wanted.min(room)).collect(),
    }
}

/// A number in at most six characters.
fn short(number: f64) -> String {
    units::compact(number)
}

/// A time in at most five characters (six for years).
fn short_time(time: Duration) -> String {
    if time.is_zero() {
        return "0s".into();
    }
    if time < Duration::from_millis(100) {
        return format!("{}ms", time.as_millis().max(1));
    }
    if time < Duration::from_millis(59_950) {
        return format!("{:.1}s", time.as_secs_f64());
    }
    units::duration(time).replace(' ', "")
}

/// Returns the TCP control bits seen in either direction, as letters in the order of RFC 9293
/// section 3.1.
fn flags(record: &Record) -> String {
    if record.key.protocol != wire::ip_protocol::TCP {
        return String::new();
    }
    let seen = record.tcp_flags[0] | record.tcp_flags[1];
    "CEUAPRSF"
        .chars()
        .enumerate()
        .filter(|(bit, _)| seen & 0x80 >> bit != 0)
        .map(|(_, letter)| letter)
        .collect()
}
