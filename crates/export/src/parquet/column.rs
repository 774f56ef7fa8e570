//! The buffered values of a column of a row group.

use super::hash_index::Fingerprint;
use super::row_selection::{RowSelection, WORD_BITS};
use super::validity::ValidityBitmap;
use crate::column::measure::{self, MEASURE_BYTES_MAX, Measure, MeasureValue};
use crate::column::{DataType, Field, Value};
use crate::text::{Cursor, TextBuffer};
use crate::time_text::TimeFormatter;
use analysis::Analysis;
use analysis::{AnalysisKind, AnalysisValue};
use flow::Record;
use std::ops::Range;

/// How the values of a column are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnEncoding {
    /// As dictionary indices, if there are few distinct values.
    Dictionary,
    /// As plain values.
    Plain,
    /// As differences of consecutive values.
    Delta,
}

/// The buffered values of a column.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) values: Values,
    /// Which records have a value; `None` if all have.
    pub(super) validity: Option<ValidityBitmap>,
    pub(super) encoding: ColumnEncoding,
}

/// The values that are present.
#[derive(Debug)]
pub(super) enum Values {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>),
    Ipv4(Ipv4Addresses),
    Strings(Strings),
}

/// IPv4 addresses. They are strings in the file, but only distinct ones are formatted.
#[derive(Debug, Default)]
pub(super) struct Ipv4Addresses(pub(super) Vec<u32>);

/// Strings in one buffer.
#[derive(Debug)]
pub(super) struct Strings {
    text: TextBuffer,
    /// Start of the first string, then the end of each.
    ends: Vec<usize>,
}

impl Default for Strings {
    fn default() -> Self {
        Self {
            text: TextBuffer::default(),
            ends: vec![0],
        }
    }
}

impl Strings {
    pub(super) const fn len(&self) -> usize {
        self.ends.len() - 1
    }

    /// Returns the string at an index.
    pub(super) fn get(&self, at: usize) -> &[u8] {
        let index = self.ranges(at..at + 1).next();
        self.slice(&index.unwrap_or_default())
    }

    /// Returns the byte ranges of these strings.
    #[inline]
    pub(super) fn ranges(&self, strings: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let ends = self.ends.get(strings.start..=strings.end);
        let ends = ends.unwrap_or_default().array_windows();
        ends.map(|&[start, end]| start..end)
    }

    /// Returns the string in a byte range.
    #[inline]
    pub(super) fn slice(&self, index: &Range<usize>) -> &[u8] {
        self.text.as_bytes().get(index.clone()).unwrap_or_default()
    }

    /// Returns the fingerprint of the string in a byte range.
    #[inline]
    pub(super) fn fingerprint(&self, index: &Range<usize>) -> Fingerprint {
        let last = index.end.wrapping_sub(size_of::<u64>());
        let word = |at| self.text.load_u64(at);
        Fingerprint::new(word(index.start), word(last), index.len())
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ends.truncate(1);
    }

    #[inline]
    fn push(&mut self, bytes_max: usize, write: impl FnOnce(&mut Cursor<'_>)) {
        if self.ends.capacity() < INITIAL_VALUES {
            self.ends.reserve(INITIAL_VALUES);
            self.text = TextBuffer::with_capacity(INITIAL_VALUES * INITIAL_STRING_BYTES);
        }
        self.text.append(bytes_max, write);
        self.ends.push(self.text.len());
    }

    /// Appends a string value that is present.
    #[inline]
    fn push_value(&mut self, value: Value<'_>) {
        self.push(Cursor::VALUE_BYTES_MAX, |cursor| match value {
            Value::Ipv6(address) => cursor.ipv6(address),
            Value::Word(word) => cursor.word(word),
            Value::CommunityId(id) => cursor.bytes(id.as_str().as_bytes()),
            _ => debug_assert!(false, "{value:?} is not a string"),
        });
    }
}

/// Initial capacity of a column, in values.
const INITIAL_VALUES: usize = 16 * 1024;

/// Initial capacity per string, in bytes; unused pages take no physical memory.
const INITIAL_STRING_BYTES: usize = 16;

impl Column {
    pub(super) fn new(kind: DataType, optional: bool, encoding: ColumnEncoding) -> Self {
        let values = match kind {
            DataType::Unsigned8 | DataType::Unsigned16 => Values::Int32(Vec::new()),
            DataType::Unsigned64 | DataType::DateTimeNanoseconds => Values::Int64(Vec::new()),
            DataType::Float64 => Values::Double(Vec::new()),
            DataType::Ipv4Address => Values::Ipv4(Ipv4Addresses::default()),
            DataType::Ipv6Address | DataType::String => Values::Strings(Strings::default()),
        };
        Self {
            values,
            validity: optional.then(ValidityBitmap::default),
            encoding,
        }
    }

    /// Appends the values of the records of a batch.
    pub(super) fn push(&mut self, field: Field, records: &[Record], selection: &mut RowSelection) {
        // Specialises the code for each field, so that the inner loop does not branch on it.
        macro_rules! by_field {
            ($($known:ident)*) => {
                match field {
                    $(Field::$known => {
                        self.push_field(records, selection, |record| Field::$known.value(record));
                    })*
                    Field::CommunityId(_) => {
                        self.push_field(records, selection, |record| field.value(record));
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

    #[inline]
    fn push_field<'a>(
        &mut self,
        records: &'a [Record],
        selection: &mut RowSelection,
        value: impl Fn(&'a Record) -> Value<'a>,
    ) {
        // Unsigned numbers are stored as the bits of signed types; the logical type says so.
        let all = self.validity.is_none();
        let int32 = |record| match value(record) {
            Value::Octet(small) => Some(small.into()),
            Value::Unsigned(number) => Some(number as i32),
            _ => None,
        };
        let int64 = |record| match value(record) {
            Value::Unsigned(number) => Some(number as i64),
            Value::Time(time_ns) => Some(time_ns),
            _ => None,
        };
        match &mut self.values {
            Values::Int32(values) if all => push_all(values, records, int32),
            Values::Int64(values) if all => push_all(values, records, int64),
            Values::Int32(values) => push_present(values, records, selection, int32),
            Values::Int64(values) => push_present(values, records, selection, int64),
            Values::Ipv4(Ipv4Addresses(values)) => {
                push_present(values, records, selection, |record| match value(record) {
                    Value::Ipv4(address) => Some(u32::from_be_bytes(address)),
                    _ => None,
                });
            }
            Values::Double(values) => {
                push_present(values, records, selection, |record| match value(record) {
                    Value::Float(value) if value.is_finite() => Some(value),
                    _ => None,
                });
            }
            Values::Strings(strings) => {
                push_each(records, selection, |record| match value(record) {
                    Value::Absent => false,
                    value => {
                        strings.push_value(value);
                        true
                    }
                });
            }
        }
        self.add_validity(selection);
    }

    /// Appends the finite ones of these numbers.
    pub(super) fn push_floats(&mut self, floats: &[f64], selection: &mut RowSelection) {
        if let Values::Double(values) = &mut self.values {
            let finite = |&value: &f64| Some(value).filter(|item| item.is_finite());
            push_present(values, floats, selection, finite);
        }
        self.add_validity(selection);
    }

    /// Appends the values of an analysis column of this kind.
    #[inline]
    pub(super) fn push_analysis<'a>(
        &mut self,
        kind: AnalysisKind,
        analyses: &[&'a Analysis],
        selection: &mut RowSelection,
        times: &mut TimeFormatter,
        value: impl Fn(&'a Analysis) -> AnalysisValue<'a>,
    ) {
        // `kind` is a constant after inlining, which leaves one of these arms.
        match (kind, &mut self.values) {
            (AnalysisKind::Number8 | AnalysisKind::Number16, Values::Int32(values)) => {
                push_present(values, analyses, selection, |&item| match value(item) {
                    AnalysisValue::Number(number) => Some(number as i32),
                    _ => None,
                });
            }
            (AnalysisKind::Number | AnalysisKind::Time, Values::Int64(values)) => {
                push_present(values, analyses, selection, |&item| match value(item) {
                    AnalysisValue::Number(number) => Some(number as i64),
                    AnalysisValue::Time(time_ns) => Some(time_ns),
                    _ => None,
                });
            }
            (AnalysisKind::Real, Values::Double(values)) => {
                push_present(values, analyses, selection, |&item| match value(item) {
                    AnalysisValue::Real(real) if real.is_finite() => Some(real),
                    AnalysisValue::Seconds(nanoseconds) => nanoseconds.map(|ns| ns as f64 / 1e9),
                    _ => None,
                });
            }
            (AnalysisKind::Word | AnalysisKind::List, Values::Strings(strings)) => {
                push_each(analyses, selection, |&item| match value(item) {
                    AnalysisValue::None => false,
                    value => {
                        strings.push(MEASURE_BYTES_MAX, |cursor| {
                            measure::write_value(cursor, times, value);
                        });
                        true
                    }
                });
            }
            (kind, _) => debug_assert!(false, "{kind:?} does not fit its column"),
        }
        self.add_validity(selection);
    }

    /// Appends the values of an application-layer column.
    pub(super) fn push_measure(
        &mut self,
        measure: &Measure,
        analyses: &[&Analysis],
        selection: &mut RowSelection,
    ) {
        push_each(analyses, selection, |&item| {
            push_measure_value(&mut self.values, measure.value(item))
        });
        self.add_validity(selection);
    }

    /// Appends records without a value.
    pub(super) fn push_nulls(&mut self, records: usize) {
        if let Some(present) = &mut self.validity {
            present.add_nulls(records);
        }
    }

    /// Records which records of the batch have a value.
    fn add_validity(&mut self, selection: &mut RowSelection) {
        let records = selection.records();
        let bits = selection.take_with_value();
        if let Some(present) = &mut self.validity {
            present.add(bits, records);
        }
    }

    /// Removes the values and keeps the capacity.
    pub(super) fn clear(&mut self) {
        match &mut self.values {
            Values::Int32(values) => values.clear(),
            Values::Int64(values) => values.clear(),
            Values::Double(values) => values.clear(),
            Values::Ipv4(addresses) => addresses.0.clear(),
            Values::Strings(strings) => strings.clear(),
        }
        if let Some(present) = &mut self.validity {
            present.clear();
        }
    }
}

/// Calls `push` for each of `items`; it appends the value, if any, and returns whether there was
/// one.
#[inline]
fn push_each<'a, I>(
    items: &'a [I],
    selection: &mut RowSelection,
    mut push: impl FnMut(&'a I) -> bool,
) {
    for (number, items) in items.chunks(WORD_BITS).enumerate() {
        let bits = items.iter().enumerate().fold(0, |bits, (index, item)| {
            bits | u64::from(push(item)) << index
        });
        selection.record_values(number, items.len(), bits);
    }
}

/// Appends the values of `items`, all of which have one.
#[inline]
fn push_all<'a, I, T: Copy + Default>(
    values: &mut Vec<T>,
    items: &'a [I],
    value: impl Fn(&'a I) -> Option<T>,
) {
    if values.capacity() == 0 {
        values.reserve(INITIAL_VALUES);
    }
    values.extend(items.iter().map(|item| {
        let value = value(item);
        debug_assert!(value.is_some(), "a required column lacks a value");
        value.unwrap_or_default()
    }));
}

/// Appends the values of those `items` that have one.
#[inline]
fn push_present<'a, I, T: Copy + Default>(
    values: &mut Vec<T>,
    items: &'a [I],
    selection: &mut RowSelection,
    value: impl Fn(&'a I) -> Option<T>,
) {
    if values.capacity() == 0 {
        values.reserve(INITIAL_VALUES);
    }
    for (number, items) in items.chunks(WORD_BITS).enumerate() {
        let begin = values.len();
        // Append a value for every item, since most have one; then the capacity is checked only
        // once.
        let mut bits = 0;
        values.extend(items.iter().enumerate().map(|(index, item)| {
            let value = value(item);
            bits |= u64::from(value.is_some()) << index;
            value.unwrap_or_default()
        }));
        if (bits.count_ones() as usize) < items.len() {
            compact(values, begin, bits);
        }
        selection.record_values(number, items.len(), bits);
    }
}

/// Removes the values from `begin` on whose bit is not set.
#[inline(never)]
fn compact<T: Copy>(values: &mut Vec<T>, begin: usize, bits: u64) {
    let appended = values.get_mut(begin..).unwrap_or_default();
    let mut kept = bits.trailing_ones() as usize;
    let mut left = bits & bits.wrapping_add(1);
    while left != 0 {
        let index = left.trailing_zeros() as usize;
        if let Some(&value) = appended.get(index) {
            appended[kept] = value;
        }
        kept += 1;
        left &= left - 1;
    }
    values.truncate(begin + kept);
}

/// Appends a value of an application-layer column. Returns whether there was one.
fn push_measure_value(values: &mut Values, measured: MeasureValue<'_>) -> bool {
    match (values, measured) {
        (_, MeasureValue::Bounded(AnalysisValue::None)) => return false,
        (_, MeasureValue::Bounded(AnalysisValue::Real(real))) if !real.is_finite() => return false,
        (Values::Int64(values), MeasureValue::Bounded(AnalysisValue::Number(number))) => {
            values.push(number as i64);
        }
        (Values::Double(values), MeasureValue::Bounded(AnalysisValue::Real(real))) => {
            values.push(real);
        }
        (Values::Strings(strings), MeasureValue::Text(text)) => {
            strings.push(text.len(), |cursor| cursor.bytes(text.as_bytes()));
        }
        (_, measured) => {
            debug_assert!(false, "{measured:?} does not fit its column");
            return false;
        }
    }
    true
}
