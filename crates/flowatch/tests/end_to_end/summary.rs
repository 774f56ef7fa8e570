//! `--summary json`, and whether its books balance.

use crate::command::Outcome;
use serde_json::Value;

/// The object at the end of a run.
#[derive(Debug)]
pub(crate) struct Summary(Value);

impl Summary {
    /// The last line of a standard output or error, which must be the object.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
        let line = text.lines().last().ok_or("no summary")?;
        match serde_json::from_str(line) {
            Ok(value @ Value::Object(_)) => Ok(Self(value)),
            other => Err(format!("{other:?} is no summary")),
        }
    }

    /// That of a run which must have balanced books.
    #[track_caller]
    pub(crate) fn balanced(outcome: &Outcome) -> Self {
        let summary = Self::parse(&outcome.stdout)
            .and_then(|summary| summary.check_balance().map(|()| summary));
        summary.unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
    }

    /// What stands at a path as `/books/received`.
    pub(crate) fn at(&self, path: &str) -> &Value {
        self.0
            .pointer(path)
            .unwrap_or_else(|| panic!("no {path} in {}", self.0))
    }

    /// A number; 0 where the summary leaves out what there is none of.
    pub(crate) fn number(&self, path: &str) -> u64 {
        self.0.pointer(path).map_or(0, |value| {
            value
                .as_u64()
                .unwrap_or_else(|| panic!("{path}: {value} is no number"))
        })
    }

    /// The parts of the input or output that could not be read or written, in words.
    pub(crate) fn faults(&self) -> Vec<&str> {
        let faults = self.at("/faults").as_array().unwrap();
        faults.iter().map(|fault| fault.as_str().unwrap()).collect()
    }

    fn sum(&self, path: &str) -> u64 {
        let parts = self.at(path).as_object().unwrap();
        parts.values().map(|part| part.as_u64().unwrap()).sum()
    }

    /// Adds the books up, in packets and in bytes. (Lost packets have no bytes in the summary, so
    /// where there are any, bytes may be fewer.)
    pub(crate) fn check_balance(&self) -> Result<(), String> {
        let number = |path: &str| self.number(path);
        let dropped = self.sum("/books/dropped");
        let holds = [
            number("/packets") == number("/books/received"),
            number("/bytes") == number("/books/bytes/received"),
            number("/books/received") == number("/books/processed") + dropped,
            number("/books/processed")
                == number("/books/in_flows")
                    + self.sum("/books/no_flow")
                    + number("/books/miscounted")
                    + number("/books/counted_only"),
            number("/books/bytes/received") == number("/books/bytes/processed")
                || number("/books/dropped/ring") > 0,
            number("/books/bytes/processed")
                == number("/books/bytes/in_flows")
                    + number("/books/bytes/no_flow")
                    + number("/books/bytes/miscounted")
                    + number("/books/bytes/counted_only"),
            self.at("/books/balanced") == true,
        ];
        if holds.contains(&false) {
            return Err(format!("not balanced ({holds:?}): {}", self.at("/books")));
        }
        Ok(())
    }
}
