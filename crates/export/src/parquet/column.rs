//! The values of one column on their way into a row group.

use super::among::{Among, WORD};
use super::dictionary::Ends;
use super::presence::Presence;
use crate::column::measure::{self, MEASURE_BYTES_MAX, Measure, Measured};
use crate::column::{Field, Kind, Value};
use crate::text::{Pen, Text};
use crate::time_text::TimeText;
use analysis::Analysis;
use analysis::{AnalysisKind, AnalysisValue};
use flow::Record;
use std::ops::Range;

/// How the values of a column are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// As numbers of the distinct ones, if these are few.
    Dictionary,
    /// As they are.
    Plain,
    /// As differences from one to the next.
    Delta,
}

/// A column.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) values: Values,
    /// Which records have a value. None where all have.
    pub(super) present: Option<Presence>,
    pub(super) packing: Packing,
}

/// The values that are there.
#[derive(Debug)]
pub(super) enum Values {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>),
    Ipv4(Ipv4Addresses),
    Strings(Strings),
}

/// IPv4 addresses, which are strings in the file: their text is made when it is known which are
/// distinct.
#[derive(Debug, Default)]
pub(super) struct Ipv4Addresses(pub(super) Vec<u32>);

/// One string after the other.
#[derive(Debug)]
pub(super) struct Strings {
    text: Text,
    /// Where the first begins, and where each ends.
    ends: Vec<usize>,
}

impl Default for Strings {
    fn default() -> Self {
        Self {
            text: Text::default(),
            ends: vec![0],
        }
    }
}

impl Strings {
    pub(super) const fn len(&self) -> usize {
        self.ends.len() - 1
    }

    /// String `at`.
    pub(super) fn get(&self, at: usize) -> &[u8] {
        let place = self.places(at..at + 1).next();
        self.slice(&place.unwrap_or_default())
    }

    /// Where these strings are among all bytes.
    #[inline(always)]
    pub(super) fn places(&self, strings: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let ends = self.ends.get(strings.start..=strings.end);
        let ends = ends.unwrap_or_default().array_windows();
        ends.map(|&[start, end]| start..end)
    }

    /// The string in this place.
    #[inline(always)]
    pub(super) fn slice(&self, place: &Range<usize>) -> &[u8] {
        self.text.as_bytes().get(place.clone()).unwrap_or_default()
    }

    /// The first and the last bytes of the string in this place.
    #[inline(always)]
    pub(super) fn ends(&self, place: &Range<usize>) -> Ends {
        let last = place.end.wrapping_sub(size_of::<u64>());
        let word = |at| self.text.word(at);
        Ends::new(word(place.start), word(last), place.len())
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ends.truncate(1);
    }

    #[inline(always)]
    fn push(&mut self, bytes_max: usize, write: impl FnOnce(&mut Pen<'_>)) {
        if self.ends.capacity() < ROOM {
            self.ends.reserve(ROOM);
            self.text = Text::with_capacity(ROOM * STRING_BYTES);
        }
        self.text.append(bytes_max, write);
        self.ends.push(self.text.len());
    }

    /// A value that is there.
    #[inline(always)]
    fn push_value(&mut self, value: Value<'_>) {
        self.push(Pen::VALUE_BYTES_MAX, |pen| match value {
            Value::Ipv6(address) => pen.ipv6(address),
            Value::Word(word) => pen.word(word),
            Value::CommunityId(id) => pen.slice(id.as_str().as_bytes()),
            _ => debug_assert!(false, "{value:?} is no string"),
        });
    }
}

/// Values that a column has room for from its first one on.
const ROOM: usize = 16 * 1024;

/// Bytes of a string that there is room for; what is not written takes no memory.
const STRING_BYTES: usize = 16;

impl Column {
    pub(super) fn new(kind: Kind, optional: bool, packing: Packing) -> Self {
        let values = match kind {
            Kind::Unsigned8 | Kind::Unsigned16 => Values::Int32(Vec::new()),
            Kind::Unsigned64 | Kind::DateTimeNanoseconds => Values::Int64(Vec::new()),
            Kind::Float64 => Values::Double(Vec::new()),
            Kind::Ipv4Address => Values::Ipv4(Ipv4Addresses::default()),
            Kind::Ipv6Address | Kind::String => Values::Strings(Strings::default()),
        };
        Self {
            values,
            present: optional.then(Presence::default),
            packing,
        }
    }

    /// Values of the records of a batch.
    pub(super) fn push(&mut self, field: Field, records: &[Record], among: &mut Among) {
        // The field is known where each of these is compiled: none is asked for which it is.
        macro_rules! by_field {
            ($($known:ident)*) => {
                match field {
                    $(Field::$known => {
                        self.push_field(records, among, |record| Field::$known.value(record));
                    })*
                    Field::CommunityId(_) => {
                        self.push_field(records, among, |record| field.value(record));
                    }
                }
            };
        }
        by_field!(
            Start End Duration FlowHash IpVersion SourceIpv4 DestinationIpv4 SourceIpv6
            DestinationIpv6 SourcePort DestinationPort Protocol OuterVlan InnerVlan Packets Bytes
            ForwardPackets ReversePackets ForwardBytes ReverseBytes BiflowDirection TcpFlags
            ReverseTcpFlags IcmpV4 IcmpV6 EndReasonNumber EndReasonWord PacketRate BitRate
        );
    }

    #[inline(always)]
    fn push_field<'a>(
        &mut self,
        records: &'a [Record],
        among: &mut Among,
        value: impl Fn(&'a Record) -> Value<'a>,
    ) {
        // Unsigned numbers stand in the signed types as their bits; the logical type says so.
        let all = self.present.is_none();
        let int32 = |record| match value(record) {
            Value::Small(small) => Some(small.into()),
            Value::Unsigned(number) => Some(number as i32),
            _ => None,
        };
        let int64 = |record| match value(record) {
            Value::Unsigned(number) => Some(number as i64),
            Value::Time(time_ns) => Some(time_ns),
            _ => None,
        };
        match &mut self.values {
            Values::Int32(values) if all => take_all(values, records, int32),
            Values::Int64(values) if all => take_all(values, records, int64),
            Values::Int32(values) => take(values, records, among, int32),
            Values::Int64(values) => take(values, records, among, int64),
            Values::Ipv4(Ipv4Addresses(values)) => {
                take(values, records, among, |record| match value(record) {
                    Value::Ipv4(address) => Some(u32::from_be_bytes(address)),
                    _ => None,
                });
            }
            Values::Double(values) => take(values, records, among, |record| match value(record) {
                Value::Float(value) if value.is_finite() => Some(value),
                _ => None,
            }),
            Values::Strings(strings) => ask(records, among, |record| match value(record) {
                Value::Absent => false,
                value => {
                    strings.push_value(value);
                    true
                }
            }),
        }
        self.say(among);
    }

    /// Numbers with a fraction, those that are some.
    pub(super) fn push_floats(&mut self, floats: &[f64], among: &mut Among) {
        if let Values::Double(values) = &mut self.values {
            let finite = |&value: &f64| Some(value).filter(|it| it.is_finite());
            take(values, floats, among, finite);
        }
        self.say(among);
    }

    /// The values of a column of an analysis of this kind.
    #[inline(always)]
    pub(super) fn push_analysed<'a>(
        &mut self,
        kind: AnalysisKind,
        analyses: &[&'a Analysis],
        among: &mut Among,
        times: &mut TimeText,
        value: impl Fn(&'a Analysis) -> AnalysisValue<'a>,
    ) {
        // The kind is known where this is compiled into, so one of these is there.
        match (kind, &mut self.values) {
            (AnalysisKind::Number8 | AnalysisKind::Number16, Values::Int32(values)) => {
                take(values, analyses, among, |&it| match value(it) {
                    AnalysisValue::Number(number) => Some(number as i32),
                    _ => None,
                });
            }
            (AnalysisKind::Number | AnalysisKind::Time, Values::Int64(values)) => {
                take(values, analyses, among, |&it| match value(it) {
                    AnalysisValue::Number(number) => Some(number as i64),
                    AnalysisValue::Time(time_ns) => Some(time_ns),
                    _ => None,
                });
            }
            (AnalysisKind::Real, Values::Double(values)) => {
                take(values, analyses, among, |&it| match value(it) {
                    AnalysisValue::Real(real) if real.is_finite() => Some(real),
                    AnalysisValue::Seconds(nanoseconds) => nanoseconds.map(|ns| ns as f64 / 1e9),
                    _ => None,
                });
            }
            (AnalysisKind::Word | AnalysisKind::List, Values::Strings(strings)) => {
                ask(analyses, among, |&it| match value(it) {
                    AnalysisValue::None => false,
                    value => {
                        strings.push(MEASURE_BYTES_MAX, |pen| {
                            measure::write(pen, times, value);
                        });
                        true
                    }
                });
            }
            (kind, _) => debug_assert!(false, "{kind:?} does not fit its column"),
        }
        self.say(among);
    }

    /// The values of a column of applications.
    pub(super) fn push_names(
        &mut self,
        measure: &Measure,
        analyses: &[&Analysis],
        among: &mut Among,
    ) {
        ask(analyses, among, |&it| {
            push_measured(&mut self.values, measure.value(it))
        });
        self.say(among);
    }

    /// So many records without a value.
    pub(super) fn push_none(&mut self, records: usize) {
        if let Some(present) = &mut self.present {
            present.add_none(records);
        }
    }

    /// Says which records of a batch have a value.
    fn say(&mut self, among: &mut Among) {
        let records = among.records();
        let bits = among.present();
        if let Some(present) = &mut self.present {
            present.add(bits, records);
        }
    }

    /// Forgets the values and keeps the room.
    pub(super) fn clear(&mut self) {
        match &mut self.values {
            Values::Int32(values) => values.clear(),
            Values::Int64(values) => values.clear(),
            Values::Double(values) => values.clear(),
            Values::Ipv4(addresses) => addresses.0.clear(),
            Values::Strings(strings) => strings.clear(),
        }
        if let Some(present) = &mut self.present {
            present.clear();
        }
    }
}

/// Asks each of `items` whether it has a value, which is taken where it is asked.
#[inline(always)]
fn ask<'a, I>(items: &'a [I], among: &mut Among, mut has: impl FnMut(&'a I) -> bool) {
    for (number, items) in items.chunks(WORD).enumerate() {
        let bits = items.iter().enumerate().fold(0, |bits, (place, item)| {
            bits | u64::from(has(item)) << place
        });
        among.note(number, items.len(), bits);
    }
}

/// Appends the values of `items`, which all have one.
#[inline(always)]
fn take_all<'a, I, T: Copy + Default>(
    values: &mut Vec<T>,
    items: &'a [I],
    value: impl Fn(&'a I) -> Option<T>,
) {
    if values.capacity() == 0 {
        values.reserve(ROOM);
    }
    values.extend(items.iter().map(|item| {
        let value = value(item);
        debug_assert!(value.is_some(), "a column that has all values lacks one");
        value.unwrap_or_default()
    }));
}

/// Appends the values of those of `items` that have one.
#[inline(always)]
fn take<'a, I, T: Copy + Default>(
    values: &mut Vec<T>,
    items: &'a [I],
    among: &mut Among,
    value: impl Fn(&'a I) -> Option<T>,
) {
    if values.capacity() == 0 {
        values.reserve(ROOM);
    }
    for (number, items) in items.chunks(WORD).enumerate() {
        let begin = values.len();
        // For each something, since most have a value: so there is room to be looked for but once.
        let mut bits = 0;
        values.extend(items.iter().enumerate().map(|(place, item)| {
            let value = value(item);
            bits |= u64::from(value.is_some()) << place;
            value.unwrap_or_default()
        }));
        if (bits.count_ones() as usize) < items.len() {
            leave_out(values, begin, bits);
        }
        among.note(number, items.len(), bits);
    }
}

/// Leaves those values out from `begin` on whose bit is not set.
#[inline(never)]
fn leave_out<T: Copy>(values: &mut Vec<T>, begin: usize, bits: u64) {
    let taken = values.get_mut(begin..).unwrap_or_default();
    let mut kept = bits.trailing_ones() as usize;
    let mut left = bits & bits.wrapping_add(1);
    while left != 0 {
        let place = left.trailing_zeros() as usize;
        if let Some(&value) = taken.get(place) {
            taken[kept] = value;
        }
        kept += 1;
        left &= left - 1;
    }
    values.truncate(begin + kept);
}

/// Appends a value of applications; whether there was one.
fn push_measured(values: &mut Values, measured: Measured<'_>) -> bool {
    match (values, measured) {
        (_, Measured::Plain(AnalysisValue::None)) => return false,
        (_, Measured::Plain(AnalysisValue::Real(real))) if !real.is_finite() => return false,
        (Values::Int64(values), Measured::Plain(AnalysisValue::Number(number))) => {
            values.push(number as i64);
        }
        (Values::Double(values), Measured::Plain(AnalysisValue::Real(real))) => values.push(real),
        (Values::Strings(strings), Measured::Text(text)) => {
            strings.push(text.len(), |pen| pen.slice(text.as_bytes()));
        }
        (_, measured) => {
            debug_assert!(false, "{measured:?} does not fit its column");
            return false;
        }
    }
    true
}
