//! The values of one column on their way into a row group.

use super::among::Among;
use super::presence::Presence;
use crate::column::measure::{self, MEASURE_BYTES_MAX, Measure, Measured};
use crate::column::{Field, Kind, Value};
use crate::text::{Pen, Text};
use crate::time_text::TimeText;
use flow::analysis::{AnalysisKind, AnalysisValue};
use flow::{Analysis, Record};

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
        if self.ends.capacity() == 0 {
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
            Value::Ipv4(address) => pen.ipv4(address),
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

    /// Values of the records of a batch.
    pub(super) fn push(&mut self, field: Field, records: &[Record], among: &mut Among) {
        let absent = among.absent();
        let value = |record| field.value(record);
        // The type is chosen once, not for each value. Unsigned numbers stand in the signed types
        // as their bits; the logical type says so.
        match &mut self.values {
            Values::Int32(values) => take(values, records, absent, |record| match value(record) {
                Value::Small(small) => Some(small.into()),
                Value::Unsigned(number) => Some(number as i32),
                _ => None,
            }),
            Values::Int64(values) => take(values, records, absent, |record| match value(record) {
                Value::Unsigned(number) => Some(number as i64),
                Value::Time(time_ns) => Some(time_ns),
                _ => None,
            }),
            Values::Double(values) => take(values, records, absent, |record| match value(record) {
                Value::Float(value) if value.is_finite() => Some(value),
                _ => None,
            }),
            Values::Strings(strings) => {
                for (place, record) in records.iter().enumerate() {
                    match value(record) {
                        Value::Absent => absent.push(place as u32),
                        value => strings.push_value(value),
                    }
                }
            }
        }
        self.say(among);
    }

    /// Numbers with a fraction, those that are some.
    pub(super) fn push_floats(&mut self, floats: &[f64], among: &mut Among) {
        if let Values::Double(values) = &mut self.values {
            let finite = |&value: &f64| Some(value).filter(|it| it.is_finite());
            take(values, floats, among.absent(), finite);
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
        let absent = among.absent();
        // The kind is known where this is compiled into, so one of these is there.
        match (kind, &mut self.values) {
            (AnalysisKind::Number8 | AnalysisKind::Number16, Values::Int32(values)) => {
                take(values, analyses, absent, |&it| match value(it) {
                    AnalysisValue::Number(number) => Some(number as i32),
                    _ => None,
                });
            }
            (AnalysisKind::Number | AnalysisKind::Time, Values::Int64(values)) => {
                take(values, analyses, absent, |&it| match value(it) {
                    AnalysisValue::Number(number) => Some(number as i64),
                    AnalysisValue::Time(time_ns) => Some(time_ns),
                    _ => None,
                });
            }
            (AnalysisKind::Real, Values::Double(values)) => {
                take(values, analyses, absent, |&it| match value(it) {
                    AnalysisValue::Real(real) if real.is_finite() => Some(real),
                    AnalysisValue::Seconds(nanoseconds) => nanoseconds.map(|ns| ns as f64 / 1e9),
                    _ => None,
                });
            }
            (AnalysisKind::Word | AnalysisKind::List, Values::Strings(strings)) => {
                for (place, &analysis) in analyses.iter().enumerate() {
                    match value(analysis) {
                        AnalysisValue::None => absent.push(place as u32),
                        value => strings.push(MEASURE_BYTES_MAX, |pen| {
                            measure::write(pen, times, value);
                        }),
                    }
                }
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
        let absent = among.absent();
        for (place, &analysis) in analyses.iter().enumerate() {
            if !push_measured(&mut self.values, measure.value(analysis)) {
                absent.push(place as u32);
            }
        }
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

/// Appends the values of those that have one, and says at which places of `items` there is none.
#[inline(always)]
fn take<'a, I, T: Copy + Default>(
    values: &mut Vec<T>,
    items: &'a [I],
    absent: &mut Vec<u32>,
    value: impl Fn(&'a I) -> Option<T>,
) {
    if values.capacity() == 0 {
        values.reserve(ROOM);
    }
    let first = values.len();
    // For each something, since most have a value: so there is room to be looked for but once.
    values.extend(items.iter().enumerate().map(|(place, item)| {
        value(item).unwrap_or_else(|| {
            absent.push(place as u32);
            T::default()
        })
    }));
    if !absent.is_empty() {
        leave_out(values, first, absent);
    }
}

/// Takes values out that are none: they are at these places behind `first`.
#[inline(never)]
fn leave_out<T: Copy>(values: &mut Vec<T>, first: usize, absent: &[u32]) {
    let taken = values.get_mut(first..).unwrap_or_default();
    let mut kept = absent.first().map_or(taken.len(), |&place| place as usize);
    for (next, &place) in (1..).zip(absent) {
        let end = absent
            .get(next)
            .map_or(taken.len(), |&place| place as usize);
        for from in place as usize + 1..end {
            taken[kept] = taken[from];
            kept += 1;
        }
    }
    values.truncate(first + kept);
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
