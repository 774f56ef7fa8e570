//! Values of columns, and their types.

use crate::volume::FirstPackets;

/// A value of a column.
#[derive(Clone, Copy, Debug)]
pub enum AnalysisValue<'a> {
    /// The column does not apply to this flow.
    None,
    /// An integer.
    Number(u64),
    /// A real number; NaN if the measure has no value.
    Real(f64),
    /// A duration in nanoseconds, written in seconds; `None` if the measure has no value.
    Seconds(Option<u64>),
    /// Nanoseconds since the Unix epoch.
    Time(i64),
    /// A word.
    Word(&'static str),
    /// Sizes of the first packets, of which there are this many.
    Sizes(&'a FirstPackets, u8),
    /// Directions of the first packets, of which there are this many.
    Directions(&'a FirstPackets, u8),
    /// Gaps before the first packets, of which there are this many.
    Gaps(&'a FirstPackets, u8),
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnalysisKind {
    /// [`AnalysisValue::Number`] below 256.
    Number8,
    /// [`AnalysisValue::Number`] below 65,536.
    Number16,
    /// [`AnalysisValue::Number`].
    Number,
    /// [`AnalysisValue::Real`] or [`AnalysisValue::Seconds`].
    Real,
    /// [`AnalysisValue::Time`].
    Time,
    /// [`AnalysisValue::Word`].
    Word,
    /// A list, as text.
    List,
}

#[inline]
pub(super) const fn seconds(nanoseconds: Option<u64>) -> AnalysisValue<'static> {
    AnalysisValue::Seconds(nanoseconds)
}

#[inline]
pub(super) fn number(value: impl Into<u64>) -> AnalysisValue<'static> {
    AnalysisValue::Number(value.into())
}
