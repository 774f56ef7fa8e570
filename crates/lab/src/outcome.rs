//! What an experiment comes to, as it is written to a file and read back for the report.

use crate::machine::Provenance;
use crate::plot::Figure;
use serde::{Deserialize, Serialize};

/// Whether what a paper found is found here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// It is.
    Yes,
    /// In part.
    Partly,
    /// It is not.
    No,
    /// It cannot be told here.
    Unknown,
}

impl Holds {
    /// In a word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Yes => "holds here",
            Self::Partly => "holds in part",
            Self::No => "does not hold here",
            Self::Unknown => "cannot be told here",
        }
    }
}

/// A paper's finding, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What the paper found, in a sentence.
    pub paper: String,
    /// Whether it holds.
    pub holds: Holds,
    /// What was seen, and why it differs where it does.
    pub because: String,
}

/// A figure of a paper beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What is compared.
    pub what: String,
    /// The paper's value.
    pub paper: String,
    /// Ours.
    pub here: String,
}

/// One value of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A count.
    Count(u64),
    /// A number; what is not finite is written as nothing.
    Number(f64),
    /// A word.
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
    /// As it stands in a CSV file.
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

    /// As a person reads it.
    #[must_use]
    pub fn display(&self) -> String {
        match self {
            Self::Count(count) => with_separators(*count),
            Self::Number(number) => number_text(*number),
            Self::Text(text) => text.clone(),
        }
    }

    /// Whether it is set to the right, as numbers are.
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

/// A number with three or four digits that count: `0.0123`, `14.88`, `1,234`, `2.1e-7`.
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
    /// Its name in the name of its file.
    pub name: String,
    /// What it shows, in a sentence.
    pub caption: String,
    /// Names of the columns, with their units.
    pub columns: Vec<String>,
    /// The rows, a cell for each column.
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
    /// When it has not a cell for each column.
    pub fn row(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.columns.len(), "table {}", self.name);
        self.rows.push(cells);
    }

    /// As CSV, behind lines that begin with `#` and say where it comes from.
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

/// What became of the trials of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trials {
    /// Trials that say something.
    pub valid: u64,
    /// Trials that do not.
    pub invalid: u64,
    /// Why, each reason once, with how often.
    pub reasons: Vec<(String, u64)>,
    /// The books of the last trial, as an example.
    pub example: String,
}

impl Trials {
    /// Counts a trial by its verdict.
    pub fn count(&mut self, against: &[String]) {
        if against.is_empty() {
            self.valid += 1;
            return;
        }
        self.invalid += 1;
        for reason in against {
            // Numbers differ from trial to trial, the reason does not.
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

/// An experiment carried out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// What it is about, in a few words.
    pub title: String,
    /// Where it comes from: paper, figure or table.
    pub source: String,
    /// Which instrument, and what that cannot say.
    pub instrument: String,
    /// Options that decide the result.
    pub settings: Vec<(String, String)>,
    /// The paper's findings.
    pub findings: Vec<Finding>,
    /// Figures side by side.
    pub comparisons: Vec<Comparison>,
    /// Plots.
    pub figures: Vec<Figure>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Remarks.
    pub notes: Vec<String>,
    /// Its trials.
    pub trials: Trials,
    /// Where it was measured, and with what.
    pub provenance: Provenance,
    /// How long it took, in seconds.
    pub seconds: f64,
}

impl Outcome {
    /// What every file of it says of where it comes from.
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
    fn a_csv_file_says_where_it_comes_from_and_quotes_what_must_be() {
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
    fn numbers_have_the_digits_that_count() {
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
    fn reasons_are_counted_without_their_numbers() {
        let mut trials = Trials::default();
        trials.count(&[]);
        trials.count(&["3 of 40 polls were stalled".into()]);
        trials.count(&["7 of 90 polls were stalled".into()]);
        assert_eq!((trials.valid, trials.invalid), (1, 2));
        assert_eq!(trials.reasons, [("of polls were stalled".into(), 2)]);
    }
}
