//! The values of one column on their way into a row group.

use super::presence::Presence;
use crate::column::measure::{self, MEASURE_BYTES_MAX, Measure, Measured};
use crate::column::{Kind, Value};
use crate::text::{Pen, Text};
use crate::time_text::TimeText;
use flow::Analysis;
use flow::analysis::{AnalysisColumn, AnalysisValue};

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
    Strings(Strings),
}

/// One string after the other, and where each ends.
#[derive(Debug, Default)]
pub(super) struct Strings {
    text: Text,
    ends: Vec<usize>,
}

impl Strings {
    pub(super) const fn len(&self) -> usize {
        self.ends.len()
    }

    /// String `at`.
    #[inline(always)]
    pub(super) fn get(&self, at: usize) -> &[u8] {
        let end = self.ends.get(at).copied().unwrap_or(0);
        let start = match at {
            0 => 0,
            _ => self.ends.get(at - 1).copied().unwrap_or(0),
        };
        self.text.as_bytes().get(start..end).unwrap_or_default()
    }

    #[inline(always)]
    fn push(&mut self, bytes_max: usize, write: impl FnOnce(&mut Pen<'_>)) {
        self.text.append(bytes_max, write);
        self.ends.push(self.text.len());
    }
}

/// Values that a column has room for from its first one on.
const ROOM: usize = 16 * 1024;

/// What a record of a batch has in the columns of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filled<'a> {
    /// Its number in the batch.
    pub(super) at: usize,
    /// What was found of it; none where nothing of the kind was seen.
    pub(super) own: Option<&'a Analysis>,
}

impl Column {
    pub(super) fn new(kind: Kind, optional: bool, packing: Packing) -> Self {
        let values = match kind {
            Kind::Unsigned8 | Kind::Unsigned16 => Values::Int32(Vec::new()),
            Kind::Unsigned64 | Kind::DateTimeNanoseconds => Values::Int64(Vec::new()),
            Kind::Float64 => Values::Double(Vec::new()),
            Kind::Ipv4Address | Kind::Ipv6Address | Kind::String => {
                Values::Strings(Strings::default())
            }
        };
        Self {
            values,
            present: optional.then(Presence::default),
            packing,
        }
    }

    /// Values of so many records.
    #[inline(always)]
    pub(super) fn push<'a>(&mut self, records: usize, values: impl Iterator<Item = Value<'a>>) {
        let mut present = self.present.as_mut();
        let first = present.as_mut().map_or(0, |present| present.add(records));
        for (at, value) in values.enumerate() {
            let absent = match value {
                Value::Absent => true,
                Value::Float(value) => !value.is_finite(),
                _ => false,
            };
            if let Some(present) = &mut present {
                if absent {
                    continue;
                }
                present.set(first + at);
            }
            push(&mut self.values, value);
        }
    }

    /// The values of a measure in a batch of so many records, of which `filled` have some in the
    /// measure's run.
    pub(super) fn push_measures(
        &mut self,
        measure: &Measure,
        records: usize,
        filled: &[Filled<'_>],
        times: &mut TimeText,
    ) {
        let Some(present) = &mut self.present else {
            debug_assert!(false, "a measure may be without a value");
            return;
        };
        let first = present.add(records);
        if filled.is_empty() {
            return;
        }
        let unseen = measure::unseen();
        if let Measure::Analysis(column) = measure {
            // The type is chosen once, not for each value.
            match &mut self.values {
                Values::Int32(values) => {
                    return fill(present, first, values, filled, |it| small(column, it));
                }
                Values::Int64(values) => {
                    return fill(present, first, values, filled, |it| large(column, it));
                }
                Values::Double(values) => {
                    return fill(present, first, values, filled, |it| real(column, it));
                }
                Values::Strings(_) => {}
            }
        }
        for record in filled {
            let measured = measure.value(record.own.unwrap_or(unseen));
            if push_measured(&mut self.values, measured, times) {
                present.set(first + record.at);
            }
        }
    }

    /// Forgets the values and keeps the room.
    pub(super) fn clear(&mut self) {
        match &mut self.values {
            Values::Int32(values) => values.clear(),
            Values::Int64(values) => values.clear(),
            Values::Double(values) => values.clear(),
            Values::Strings(strings) => {
                strings.text.clear();
                strings.ends.clear();
            }
        }
        if let Some(present) = &mut self.present {
            present.clear();
        }
    }
}

#[inline(always)]
fn push(values: &mut Values, value: Value<'_>) {
    match (values, value) {
        // Unsigned numbers stand in the signed types as their bits; the logical type says so.
        (Values::Int32(values), Value::Small(value)) => values.push(value.into()),
        (Values::Int32(values), Value::Unsigned(value)) => values.push(value as i32),
        (Values::Int64(values), Value::Unsigned(value)) => values.push(value as i64),
        (Values::Int64(values), Value::Time(time_ns)) => values.push(time_ns),
        (Values::Double(values), Value::Float(value)) => values.push(value),
        (Values::Strings(strings), value) => {
            strings.push(Pen::VALUE_BYTES_MAX, |pen| match value {
                Value::Ipv4(address) => pen.ipv4(address),
                Value::Ipv6(address) => pen.ipv6(address),
                Value::Word(word) => pen.word(word),
                Value::CommunityId(id) => pen.slice(id.as_str().as_bytes()),
                _ => debug_assert!(false, "{value:?} is no string"),
            });
        }
        (_, value) => debug_assert!(false, "{value:?} does not fit its column"),
    }
}

#[inline(always)]
fn small(column: &AnalysisColumn, analysis: &Analysis) -> Option<i32> {
    match column.value(analysis) {
        AnalysisValue::Number(number) => Some(number as i32),
        _ => None,
    }
}

#[inline(always)]
fn large(column: &AnalysisColumn, analysis: &Analysis) -> Option<i64> {
    match column.value(analysis) {
        AnalysisValue::Number(number) => Some(number as i64),
        AnalysisValue::Time(time_ns) => Some(time_ns),
        _ => None,
    }
}

#[inline(always)]
fn real(column: &AnalysisColumn, analysis: &Analysis) -> Option<f64> {
    match column.value(analysis) {
        AnalysisValue::Real(real) if real.is_finite() => Some(real),
        AnalysisValue::Seconds(nanoseconds) => nanoseconds.map(|ns| ns as f64 / 1e9),
        _ => None,
    }
}

/// Appends the values of the records that have one, and says which have.
#[inline(always)]
fn fill<T: Copy>(
    present: &mut Presence,
    first: usize,
    values: &mut Vec<T>,
    filled: &[Filled<'_>],
    value: impl Fn(&Analysis) -> Option<T>,
) {
    let unseen = value(measure::unseen());
    if values.capacity() == 0 {
        values.reserve(ROOM);
    }
    values.reserve(filled.len());
    for record in filled {
        let value = match record.own {
            Some(analysis) => value(analysis),
            None => unseen,
        };
        if let Some(value) = value {
            values.push(value);
            present.set(first + record.at);
        }
    }
}

/// Appends a value; whether there was one.
fn push_measured(values: &mut Values, measured: Measured<'_>, times: &mut TimeText) -> bool {
    match (values, measured) {
        (_, Measured::Plain(AnalysisValue::None)) => return false,
        (_, Measured::Plain(AnalysisValue::Real(real))) if !real.is_finite() => return false,
        (Values::Int32(values), Measured::Plain(AnalysisValue::Number(number))) => {
            values.push(number as i32);
        }
        (Values::Int64(values), Measured::Plain(AnalysisValue::Number(number))) => {
            values.push(number as i64);
        }
        (Values::Double(values), Measured::Plain(AnalysisValue::Real(real))) => values.push(real),
        (Values::Strings(strings), Measured::Plain(list)) => {
            strings.push(MEASURE_BYTES_MAX, |pen| {
                measure::write(pen, times, list);
            });
        }
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
