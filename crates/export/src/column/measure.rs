//! The analysis columns, in the form that all formats accept.

use super::DataType;
use crate::text::Cursor;
use crate::time_text::TimeFormatter;
use analysis::Analysis;
use analysis::{AnalysisColumn, AnalysisKind, AnalysisValue, ColumnSelection, Part, PartState};
use app::{AppColumn, AppGroup, AppType, AppValue};
use flow::Schema;
use std::sync::LazyLock;

/// An analysis column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Measure {
    /// Volume, timing, TCP.
    Analysis(&'static AnalysisColumn),
    /// The application layer.
    Application(&'static AppColumn),
}

/// A value of an analysis column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MeasureValue<'a> {
    /// A number, time, word or list, of at most [`MEASURE_BYTES_MAX`] bytes.
    Bounded(AnalysisValue<'a>),
    /// Text of any length.
    Text(&'a str),
}

/// The analysis of a flow that was not analysed.
static NOT_ANALYSED: LazyLock<Analysis> = LazyLock::new(Analysis::default);

/// Returns the analysis of the record in `row`.
#[inline]
pub(crate) fn analysis(analyses: &[Analysis], row: usize) -> &Analysis {
    analyses.get(row).unwrap_or_else(|| &NOT_ANALYSED)
}

/// The analysis of a TCP flow without observations.
static UNSEEN: LazyLock<Analysis> = LazyLock::new(Analysis::empty_tcp);

/// Returns the analysis of a flow without observations.
pub(crate) fn unseen() -> &'static Analysis {
    &UNSEEN
}

/// Returns the analysis columns of a run of `schema`, except those of the application layer.
pub(crate) fn chosen(schema: &Schema) -> Option<ColumnSelection> {
    schema.analysis.map(|level| ColumnSelection {
        vlan: !schema.vlan,
        tcp: level.has_tcp(),
    })
}

/// Returns the columns that follow the statistics in a run of `schema`.
pub(crate) fn measures(schema: &Schema) -> Vec<Measure> {
    let (Some(level), Some(chosen)) = (schema.analysis, chosen(schema)) else {
        return Vec::new();
    };
    let flow_columns = analysis::COLUMNS
        .iter()
        .filter(|column| chosen.includes(column.part));
    let app_columns = app::COLUMNS.iter().filter(|_| level.has_applications());
    flow_columns
        .map(Measure::Analysis)
        .chain(app_columns.map(Measure::Application))
        .collect()
}

/// Consecutive columns that are present or absent together, with a format's state for each.
#[derive(Debug)]
pub(crate) struct ColumnGroup<C> {
    part: GroupPart,
    pub(crate) columns: Vec<C>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupPart {
    Analysis(Part),
    Application(AppGroup),
}

impl<C> ColumnGroup<C> {
    /// Groups the columns by presence and keeps their order.
    pub(crate) fn group(measures: Vec<Measure>, column: impl Fn(Measure) -> C) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for measure in measures {
            let part = match measure {
                Measure::Analysis(column) => GroupPart::Analysis(column.part),
                Measure::Application(column) => GroupPart::Application(column.group),
            };
            match groups.last_mut() {
                Some(group) if group.part == part => group.columns.push(column(measure)),
                _ => groups.push(Self {
                    part,
                    columns: vec![column(measure)],
                }),
            }
        }
        groups
    }

    /// Returns which values a flow has in these columns.
    #[inline]
    pub(crate) fn part_state(&self, analysis: &Analysis) -> PartState {
        match self.part {
            GroupPart::Analysis(part) => analysis.part_state(part),
            GroupPart::Application(part) => match &analysis.app {
                Some(names) if names.has(part) => PartState::Present,
                _ => PartState::Empty,
            },
        }
    }

    /// Whether the group has text columns of unlimited length.
    pub(crate) const fn has_text(&self) -> bool {
        matches!(self.part, GroupPart::Application(_))
    }
}

impl Measure {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Analysis(column) => &column.name,
            Self::Application(column) => column.name,
        }
    }

    pub(crate) fn data_type(&self) -> DataType {
        match self {
            Self::Analysis(column) => match column.kind {
                AnalysisKind::Number8 => DataType::Unsigned8,
                AnalysisKind::Number16 => DataType::Unsigned16,
                AnalysisKind::Number => DataType::Unsigned64,
                AnalysisKind::Real => DataType::Float64,
                AnalysisKind::Time => DataType::DateTimeNanoseconds,
                AnalysisKind::Word | AnalysisKind::List => DataType::String,
            },
            Self::Application(column) => match column.kind {
                AppType::Text => DataType::String,
                AppType::Number => DataType::Unsigned64,
                AppType::Real => DataType::Float64,
            },
        }
    }

    /// Whether the column belongs to the application layer.
    pub(crate) const fn is_application(&self) -> bool {
        matches!(self, Self::Application(_))
    }

    /// Whether JSON quotes its values.
    pub(crate) fn is_text(&self) -> bool {
        matches!(
            self.data_type(),
            DataType::String | DataType::DateTimeNanoseconds
        )
    }

    // Part of what `append_record` in `json.rs` gives the reason for.
    #[inline(always)]
    pub(crate) fn value<'a>(&self, analysis: &'a Analysis) -> MeasureValue<'a> {
        match self {
            Self::Analysis(column) => MeasureValue::Bounded(column.value(analysis)),
            Self::Application(column) => match analysis.app.as_ref().map(column.value) {
                None | Some(AppValue::None) => MeasureValue::Bounded(AnalysisValue::None),
                Some(AppValue::Text(text)) => MeasureValue::Text(text),
                Some(AppValue::Number(number)) => {
                    MeasureValue::Bounded(AnalysisValue::Number(number))
                }
                Some(AppValue::Real(real)) => MeasureValue::Bounded(AnalysisValue::Real(real)),
            },
        }
    }
}

/// Maximum length of a bounded value: a list of the first packets.
pub(crate) const MEASURE_BYTES_MAX: usize = analysis::FIRST_PACKETS * 11;

/// Writes a value. Returns whether there was one.
// Part of what `append_record` in `json.rs` gives the reason for.
#[inline(always)]
pub(crate) fn write_value(
    cursor: &mut Cursor<'_>,
    times: &mut TimeFormatter,
    value: AnalysisValue<'_>,
) -> bool {
    match value {
        AnalysisValue::None => return false,
        AnalysisValue::Number(number) => cursor.unsigned(number),
        AnalysisValue::Real(real) if real.is_finite() => cursor.float(real),
        AnalysisValue::Seconds(Some(nanoseconds)) => cursor.seconds(nanoseconds),
        AnalysisValue::Real(_) | AnalysisValue::Seconds(None) => return false,
        AnalysisValue::Time(time_ns) => times.write(cursor, time_ns),
        AnalysisValue::Word(word) => cursor.bytes(word.as_bytes()),
        AnalysisValue::Sizes(first, count) => {
            let sizes = first.sizes.get(..usize::from(count));
            cursor.list(sizes.unwrap_or_default(), b'|');
        }
        AnalysisValue::Gaps(first, count) => {
            let gaps = first.gaps_us.get(..usize::from(count));
            cursor.list(gaps.unwrap_or_default(), b'|');
        }
        AnalysisValue::Directions(first, count) => {
            for packet in 0..count {
                cursor.byte(b'0' + (first.directions >> packet & 1) as u8);
            }
        }
    }
    true
}

/// Whether `text` contains one of `bytes`, a control character, or a character outside ASCII, which may
/// be [unprintable](crate::printable). Checks eight bytes at a time.
#[inline]
pub(crate) fn needs_care<const N: usize>(text: &str, bytes: [u8; N]) -> bool {
    const DELETE: u8 = 0x7f;
    /// 1 in each byte.
    const ONES: u64 = u64::MAX / 255;
    const HIGHEST_BITS: u64 = ONES << 7;
    // Has the highest bit of some byte set if and only if some byte is below `limit` (at most 128).
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let match_word = |word: u64| {
        // Bytes outside ASCII have the highest bit.
        let matches = word | below(word, 0x20) | below(word ^ (ONES * u64::from(DELETE)), 1);
        bytes.iter().fold(matches, |matches, &byte| {
            matches | below(word ^ (ONES * u64::from(byte)), 1)
        })
    };
    let all = text.as_bytes();
    let (words, rest) = all.as_chunks();
    let matches = words.iter().fold(0, |matches, &word| {
        matches | match_word(u64::from_le_bytes(word))
    });
    let last = match all.last_chunk() {
        // Overlaps bytes that were already checked.
        Some(&last) => u64::from_le_bytes(last),
        None => rest.iter().fold(ONES * u64::from(b'a'), |last, &byte| {
            last << 8 | u64::from(byte)
        }),
    };
    (matches | match_word(last)) & HIGHEST_BITS != 0
}

/// Whether `value` may need escapes in a JSON string (RFC 8259 section 7).
#[inline]
pub(crate) fn needs_escape(value: &str) -> bool {
    needs_care(value, *b"\"\\")
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::tcp::limit;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn needs_care_finds_bytes_at_every_position(text in "[ -+ab~]{0,30}", byte in "[\u{1}\u{1f}\u{7f}\u{80}é\"+a ~]", at: prop::sample::Index) {
            let mut text = text.replace(['"', '+'], "_");
            let expected = !matches!(&*byte, "a" | " " | "~");
            text.insert_str(at.index(text.len() + 1), &byte);
            prop_assert_eq!(needs_care(&text, *b"\"+"), expected);
        }
    }

    /// Groups are a shortcut: they must give the same values as their columns.
    #[test]
    fn group_state_agrees_with_each_column() {
        let schema = Schema {
            analysis: Some(analysis::Level::Full),
            ..Schema::default()
        };
        let mut without_count = Analysis::empty_tcp();
        let mut repeated = Analysis::empty_tcp();
        let mut without_counts = Analysis::empty_tcp();
        if let Some(tcp) = &mut without_count.tcp {
            tcp.sides[0].limits = limit::COLD;
        }
        if let Some(tcp) = &mut without_counts.tcp {
            tcp.sides.iter_mut().for_each(|it| it.limits = limit::COLD);
        }
        repeated.cold[1].anomalies.retransmitted = 1;
        let unseen = Analysis::empty_tcp();
        let groups = ColumnGroup::group(measures(&schema), |measure| measure);
        for analysis in [
            &Analysis::default(),
            &unseen,
            &without_count,
            &without_counts,
            &repeated,
        ] {
            let own = groups
                .iter()
                .filter(|group| group.part_state(analysis) == PartState::Present);
            assert!(own.count() < groups.len());
            for group in &groups {
                for measure in &group.columns {
                    let value = |of| format!("{:?}", measure.value(of));
                    let expected = match group.part_state(analysis) {
                        PartState::Present => continue,
                        PartState::Default => value(&unseen),
                        PartState::Empty => {
                            format!("{:?}", MeasureValue::Bounded(AnalysisValue::None))
                        }
                    };
                    assert_eq!(value(analysis), expected, "{}", measure.name());
                }
            }
        }
    }
}
