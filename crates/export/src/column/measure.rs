//! The columns of an analysis, whoever computes them, as every format takes them.

use super::Kind;
use crate::text::{Pen, Text};
use crate::time_text::TimeText;
use analysis::Analysis;
use analysis::{AnalysisColumn, AnalysisKind, AnalysisValue, Chosen, Filling, Part};
use app::{NameColumn, NameKind, NamePart, NameValue};
use flow::Schema;
use std::sync::LazyLock;

/// A column of an analysis.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Measure {
    /// Volume, timing, TCP.
    Analysis(&'static AnalysisColumn),
    /// The application layer.
    Name(&'static NameColumn),
}

/// A value of one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Measured<'a> {
    /// A number, a time, a word or a list.
    Plain(AnalysisValue<'a>),
    /// A text of any length.
    Text(&'a str),
}

/// What stands for a flow that was not analysed.
static NOTHING: LazyLock<Analysis> = LazyLock::new(Analysis::default);

/// The analysis of the record in `row`.
#[inline]
pub(crate) fn analysis(analyses: &[Analysis], row: usize) -> &Analysis {
    analyses.get(row).unwrap_or_else(|| &NOTHING)
}

/// A TCP flow of which nothing was seen.
static UNSEEN: LazyLock<Analysis> = LazyLock::new(Analysis::unseen);

/// What stands for a flow of which nothing of a kind was seen.
pub(crate) fn unseen() -> &'static Analysis {
    &UNSEEN
}

/// The columns of an analysis that a run of `schema` has, but for those of applications.
pub(crate) fn chosen(schema: &Schema) -> Option<Chosen> {
    schema.analysis.map(|level| Chosen {
        vlan: !schema.vlan,
        tcp: level.has_tcp(),
    })
}

/// The columns that a run of `schema` has behind those of its statistics.
pub(crate) fn measures(schema: &Schema) -> Vec<Measure> {
    let (Some(level), Some(chosen)) = (schema.analysis, chosen(schema)) else {
        return Vec::new();
    };
    let of_flow = analysis::COLUMNS
        .iter()
        .filter(|column| chosen.has(column.part));
    let of_names = app::COLUMNS.iter().filter(|_| level.has_applications());
    of_flow
        .map(Measure::Analysis)
        .chain(of_names.map(Measure::Name))
        .collect()
}

/// Columns one behind the other that have values together, and what a format keeps of each.
#[derive(Debug)]
pub(crate) struct Run<C> {
    part: RunPart,
    pub(crate) cells: Vec<C>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunPart {
    Analysis(Part),
    Name(NamePart),
}

impl<C> Run<C> {
    /// The columns by what they have values with, in their order.
    pub(crate) fn all(measures: Vec<Measure>, cell: impl Fn(Measure) -> C) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        for measure in measures {
            let part = match measure {
                Measure::Analysis(column) => RunPart::Analysis(column.part),
                Measure::Name(column) => RunPart::Name(column.part),
            };
            match runs.last_mut() {
                Some(run) if run.part == part => run.cells.push(cell(measure)),
                _ => runs.push(Self {
                    part,
                    cells: vec![cell(measure)],
                }),
            }
        }
        runs
    }

    /// What a flow has in them.
    #[inline(always)]
    pub(crate) fn filling(&self, analysis: &Analysis) -> Filling {
        match self.part {
            RunPart::Analysis(part) => analysis.filling(part),
            RunPart::Name(part) => match &analysis.names {
                Some(names) if names.has(part) => Filling::Own,
                _ => Filling::Nothing,
            },
        }
    }

    /// Whether there are texts of any length in it.
    pub(crate) const fn has_texts(&self) -> bool {
        matches!(self.part, RunPart::Name(_))
    }
}

impl Measure {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Analysis(column) => &column.name,
            Self::Name(column) => column.name,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Analysis(column) => match column.kind {
                AnalysisKind::Number8 => Kind::Unsigned8,
                AnalysisKind::Number16 => Kind::Unsigned16,
                AnalysisKind::Number => Kind::Unsigned64,
                AnalysisKind::Real => Kind::Float64,
                AnalysisKind::Time => Kind::DateTimeNanoseconds,
                AnalysisKind::Word | AnalysisKind::List => Kind::String,
            },
            Self::Name(column) => match column.kind {
                NameKind::Text => Kind::String,
                NameKind::Number => Kind::Unsigned64,
                NameKind::Real => Kind::Float64,
            },
        }
    }

    /// Whether it is one of applications.
    pub(crate) const fn is_name(&self) -> bool {
        matches!(self, Self::Name(_))
    }

    /// Whether its values are written between quotes in JSON.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.kind(), Kind::String | Kind::DateTimeNanoseconds)
    }

    #[inline(always)]
    pub(crate) fn value<'a>(&self, analysis: &'a Analysis) -> Measured<'a> {
        match self {
            Self::Analysis(column) => Measured::Plain(column.value(analysis)),
            Self::Name(column) => match analysis.names.as_ref().map(column.value) {
                None | Some(NameValue::None) => Measured::Plain(AnalysisValue::None),
                Some(NameValue::Text(text)) => Measured::Text(text),
                Some(NameValue::Number(number)) => Measured::Plain(AnalysisValue::Number(number)),
                Some(NameValue::Real(real)) => Measured::Plain(AnalysisValue::Real(real)),
            },
        }
    }
}

/// The most bytes of a value that is not a text of any length: a list of the first packets.
pub(crate) const MEASURE_BYTES_MAX: usize = analysis::FIRST_PACKETS * 11;

/// Writes a value that is there and not a text of any length; whether there was one.
#[inline(always)]
pub(crate) fn write(pen: &mut Pen<'_>, times: &mut TimeText, value: AnalysisValue<'_>) -> bool {
    match value {
        AnalysisValue::None => return false,
        AnalysisValue::Number(number) => pen.unsigned(number),
        AnalysisValue::Real(real) if real.is_finite() => pen.float(real),
        AnalysisValue::Seconds(Some(nanoseconds)) => pen.seconds(nanoseconds),
        AnalysisValue::Real(_) | AnalysisValue::Seconds(None) => return false,
        AnalysisValue::Time(time_ns) => times.write(pen, time_ns),
        AnalysisValue::Word(word) => pen.slice(word.as_bytes()),
        AnalysisValue::Sizes(first, count) => {
            let sizes = first.sizes.get(..usize::from(count));
            pen.list(sizes.unwrap_or_default(), b'|');
        }
        AnalysisValue::Gaps(first, count) => {
            let gaps = first.gaps_us.get(..usize::from(count));
            pen.list(gaps.unwrap_or_default(), b'|');
        }
        AnalysisValue::Directions(first, count) => {
            for packet in 0..count {
                pen.byte(b'0' + (first.directions >> packet & 1) as u8);
            }
        }
    }
    true
}

/// Whether one of `bytes` is in `text`, or, if `controls`, a character below the blank. Eight bytes
/// are looked at together.
#[inline(always)]
pub(crate) fn has_any<const N: usize>(text: &str, bytes: [u8; N], controls: bool) -> bool {
    /// 1 in each byte.
    const ONES: u64 = u64::MAX / 255;
    const HIGHEST_BITS: u64 = ONES << 7;
    // Of a word that has a zero byte, or one below another number up to 128, the highest bit of a
    // byte is set here.
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let look = |word: u64| {
        let found = bytes.iter().fold(0, |found, &byte| {
            found | below(word ^ (ONES * u64::from(byte)), 1)
        });
        found | if controls { below(word, 0x20) } else { 0 }
    };
    let all = text.as_bytes();
    let (words, rest) = all.as_chunks();
    let found = words
        .iter()
        .fold(0, |found, &word| found | look(u64::from_le_bytes(word)));
    let last = match all.last_chunk() {
        // With bytes that were looked at before.
        Some(&last) => u64::from_le_bytes(last),
        None => rest.iter().fold(ONES * u64::from(b'a'), |last, &byte| {
            last << 8 | u64::from(byte)
        }),
    };
    (found | look(last)) & HIGHEST_BITS != 0
}

/// Whether `value` stands otherwise between the quotes of a JSON string (RFC 8259 section 7).
#[inline(always)]
pub(crate) fn needs_escape(value: &str) -> bool {
    has_any(value, *b"\"\\", true)
}

/// Appends `value` as it stands between the quotes of a JSON string.
pub(crate) fn append_escaped(text: &mut Text, value: &str) {
    const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";
    text.append(6 * value.len(), |pen| {
        for byte in value.bytes() {
            match byte {
                b'"' | b'\\' => pen.put(&[b'\\', byte], 2),
                0..b' ' => {
                    pen.put(b"\\u00", 4);
                    pen.byte(HEXADECIMAL[usize::from(byte >> 4)]);
                    pen.byte(HEXADECIMAL[usize::from(byte & 15)]);
                }
                _ => pen.byte(byte),
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::tcp::limit;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_in_a_text_is_found_wherever_it_stands(text in "[ -+ab~\u{1}\u{7f}é\"]{0,30}", controls: bool) {
            let expected = text.bytes().any(|byte| byte == b'"' || byte == b'+' || (controls && byte < b' '));
            prop_assert_eq!(has_any(&text, *b"\"+", controls), expected);
        }
    }

    /// Runs are but a shorter way to the same values.
    #[test]
    fn what_a_run_says_of_a_flow_is_true_of_each_of_its_columns() {
        let schema = Schema {
            analysis: Some(analysis::Level::Full),
            ..Schema::default()
        };
        let mut without_count = Analysis::unseen();
        let mut repeated = Analysis::unseen();
        let mut without_counts = Analysis::unseen();
        if let Some(tcp) = &mut without_count.tcp {
            tcp.sides[0].limits = limit::RARE;
        }
        if let Some(tcp) = &mut without_counts.tcp {
            tcp.sides.iter_mut().for_each(|it| it.limits = limit::RARE);
        }
        repeated.rare[1].anomalies.retransmitted = 1;
        let unseen = Analysis::unseen();
        let runs = Run::all(measures(&schema), |measure| measure);
        for analysis in [
            &Analysis::default(),
            &unseen,
            &without_count,
            &without_counts,
            &repeated,
        ] {
            let own = runs
                .iter()
                .filter(|run| run.filling(analysis) == Filling::Own);
            assert!(own.count() < runs.len());
            for run in &runs {
                for measure in &run.cells {
                    let value = |of| format!("{:?}", measure.value(of));
                    let expected = match run.filling(analysis) {
                        Filling::Own => continue,
                        Filling::Unseen => value(&unseen),
                        Filling::Nothing => format!("{:?}", Measured::Plain(AnalysisValue::None)),
                    };
                    assert_eq!(value(analysis), expected, "{}", measure.name());
                }
            }
        }
    }
}
