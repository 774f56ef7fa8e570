//! The results of an experiment, as they are written to files and read back for the report.

use crate::machine::Provenance;
use crate::plot::Figure;
use serde::{Deserialize, Serialize};

/// Whether a part of a paper's finding holds here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The measurement agrees with the paper.
    Holds,
    /// The measurement contradicts the paper.
    DoesNotHold,
    /// Nothing was measured that could agree or contradict.
    NotCompared,
}

impl Verdict {
    /// The text that the report and the command line print.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::NotCompared => "not compared",
        }
    }
}

/// A statement of a finding that is true or false by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The statement; empty when the finding is this one statement.
    pub claim: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// The measurement behind the verdict, or why there is none.
    pub reason: String,
}

impl Part {
    /// A statement that was compared: it holds if `holds`.
    pub fn compared(claim: &str, holds: bool, reason: impl Into<String>) -> Self {
        Self {
            claim: claim.into(),
            verdict: if holds {
                Verdict::Holds
            } else {
                Verdict::DoesNotHold
            },
            reason: reason.into(),
        }
    }

    /// A statement that was not compared, with the reason.
    pub fn not_compared(claim: &str, reason: impl Into<String>) -> Self {
        Self {
            claim: claim.into(),
            verdict: Verdict::NotCompared,
            reason: reason.into(),
        }
    }

    /// A statement that was compared if `holds` has a value.
    pub fn new(claim: &str, holds: Option<bool>, reason: impl Into<String>) -> Self {
        match holds {
            Some(holds) => Self::compared(claim, holds, reason),
            None => Self::not_compared(claim, reason),
        }
    }
}

/// A paper's finding with a verdict for each of its parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The paper's finding, in a sentence.
    pub paper: String,
    /// Its parts, at least one.
    pub parts: Vec<Part>,
}

impl Finding {
    /// A finding and its parts.
    pub fn new(paper: &str, parts: impl Into<Vec<Part>>) -> Self {
        Self {
            paper: paper.into(),
            parts: parts.into(),
        }
    }
}

/// A figure of a paper next to ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The quantity that is compared.
    pub what: String,
    /// The paper's value.
    pub paper: String,
    /// The value measured here.
    pub here: String,
}

impl Comparison {
    /// A quantity, the paper's value and ours.
    pub fn new(what: impl Into<String>, paper: impl Into<String>, here: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            paper: paper.into(),
            here: here.into(),
        }
    }
}

/// One value of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A count.
    Count(u64),
    /// A number; one that is not finite is written as an empty cell.
    Number(f64),
    /// A text.
    Text(String),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        if number.is_finite() {
            Self::Number(number)
        } else {
            Self::Text(String::new())
        }
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Self {
        Self::Count(u64::from(count))
    }
}

impl Cell {
    /// Formats the value for a CSV file.
    #[must_use]
    pub fn csv(&self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Number(number) if *number != 0.0 && number.abs() < 1e-4 => format!("{number:e}"),
            Self::Number(number) => format!("{number}"),
            Self::Text(text) if text.contains([',', '"', '\n']) => {
                format!("\"{}\"", text.replace('"', "\"\""))
            }
            Self::Text(text) => text.clone(),
        }
    }

    /// Formats the value for the report page.
    #[must_use]
    pub fn display(&self) -> String {
        match self {
            Self::Count(count) => with_separators(*count),
            Self::Number(number) => number_text(*number),
            Self::Text(text) => text.clone(),
        }
    }

    /// Whether the cell is a number, which the page aligns to the right.
    #[must_use]
    pub const fn is_number(&self) -> bool {
        !matches!(self, Self::Text(_))
    }
}

fn with_separators(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with three or four significant digits: `0.0123`, `14.88`, `1,234`, `2.1e-7`.
#[must_use]
pub fn number_text(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 {
        "0".into()
    } else if !number.is_finite() {
        "–".into()
    } else if size < 1e-3 {
        format!("{number:.1e}")
    } else if size < 0.1 {
        format!("{number:.4}")
    } else if size < 10.0 {
        format!("{number:.2}")
    } else if size < 1000.0 {
        format!("{number:.1}")
    } else if size < 1e15 {
        let whole = with_separators(size.round() as u64);
        if number < 0.0 {
            format!("-{whole}")
        } else {
            whole
        }
    } else {
        format!("{number:.2e}")
    }
}

/// A table of results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Its name, part of the file name.
    pub name: String,
    /// What the table shows, in a sentence.
    pub caption: String,
    /// Names of the columns, with their units.
    pub columns: Vec<String>,
    /// The rows, with a cell per column.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(name: &str, caption: &str, columns: &[&str]) -> Self {
        Self {
            name: name.into(),
            caption: caption.into(),
            columns: columns.iter().map(ToString::to_string).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When the number of cells is not the number of columns.
    pub fn row(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.columns.len(), "table {}", self.name);
        self.rows.push(cells);
    }

    /// Formats the table as CSV, after `#` lines with the provenance.
    #[must_use]
    pub fn csv(&self, provenance: &[(String, String)]) -> String {
        let mut text = String::new();
        for (key, value) in provenance {
            let value = value.replace('\n', " ");
            text.push_str(&format!("# {key}: {value}\n"));
        }
        let head: Vec<String> = self
            .columns
            .iter()
            .map(|column| Cell::from(column.as_str()).csv())
            .collect();
        text.push_str(&head.join(","));
        text.push('\n');
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(Cell::csv).collect();
            text.push_str(&cells.join(","));
            text.push('\n');
        }
        text
    }
}

/// Counts of an experiment's trials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trials {
    /// Valid trials.
    pub valid: u64,
    /// Invalid trials, which do not count.
    pub invalid: u64,
    /// The reasons of invalid trials, each once, with its number of trials.
    pub reasons: Vec<(String, u64)>,
    /// The books of the last trial, as an example.
    pub example: String,
}

impl Trials {
    /// Counts a trial, which is invalid if there are reasons.
    pub fn count(&mut self, reasons: &[String]) {
        if reasons.is_empty() {
            self.valid += 1;
            return;
        }
        self.invalid += 1;
        for reason in reasons {
            // Numbers differ from trial to trial, the kind of reason does not.
            let kind: String = reason
                .split(' ')
                .filter(|word| !word.starts_with(|first: char| first.is_ascii_digit()))
                .collect::<Vec<_>>()
                .join(" ");
            match self.reasons.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, count)) => *count += 1,
                None => self.reasons.push((kind, 1)),
            }
        }
    }
}

/// Everything that the report says about an experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The experiment's name.
    pub name: String,
    /// Its subject, in a few words.
    pub title: String,
    /// Paper and figure or table.
    pub source: String,
    /// The instrument and its limits.
    pub instrument: String,
    /// The parameters that decide the result.
    pub settings: Vec<(String, String)>,
    /// The paper's findings with their verdicts.
    pub findings: Vec<Finding>,
    /// The paper's figures next to ours.
    pub comparisons: Vec<Comparison>,
    /// Plots.
    pub figures: Vec<Figure>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Remarks.
    pub notes: Vec<String>,
    /// Its trials.
    pub trials: Trials,
    /// Machine, build, command line and time of the measurement.
    pub provenance: Provenance,
    /// Duration in seconds.
    pub seconds: f64,
}

impl Outcome {
    /// Returns the names and values that every result file starts with.
    #[must_use]
    pub fn origin(&self) -> Vec<(String, String)> {
        let mut origin = vec![
            ("experiment".into(), self.name.clone()),
            ("source".into(), self.source.clone()),
            ("instrument".into(), self.instrument.clone()),
        ];
        origin.extend(self.provenance.pairs());
        origin.extend(self.settings.clone());
        origin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_starts_with_the_provenance_and_quotes_special_characters() {
        let mut table = Table::new("t", "", &["flows", "name, odd"]);
        table.row(vec![5u64.into(), "a \"b\"".into()]);
        table.row(vec![0.25.into(), f64::NAN.into()]);
        let csv = table.csv(&[("seed".into(), "7".into())]);
        assert_eq!(
            csv,
            "# seed: 7\nflows,\"name, odd\"\n5,\"a \"\"b\"\"\"\n0.25,\n"
        );
    }

    #[test]
    fn numbers_have_three_or_four_significant_digits() {
        for (number, text) in [
            (0.0, "0"),
            (2.13e-7, "2.1e-7"),
            (0.012_34, "0.0123"),
            (1.2345, "1.23"),
            (14.881, "14.9"),
            (1234.5, "1,235"),
            (-1234.0, "-1,234"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number_text(number), text);
        }
    }

    #[test]
    fn reasons_are_grouped_without_their_numbers() {
        let mut trials = Trials::default();
        trials.count(&[]);
        trials.count(&["3 of 40 polls were stalled".into()]);
        trials.count(&["7 of 90 polls were stalled".into()]);
        assert_eq!((trials.valid, trials.invalid), (1, 2));
        assert_eq!(trials.reasons, [("of polls were stalled".into(), 2)]);
    }

    #[test]
    fn part_without_a_comparison_is_neither_true_nor_false() {
        let verdict = |holds| Part::new("a", holds, "b").verdict;
        assert_eq!(verdict(Some(true)), Verdict::Holds);
        assert_eq!(verdict(Some(false)), Verdict::DoesNotHold);
        assert_eq!(verdict(None), Verdict::NotCompared);
    }
}
