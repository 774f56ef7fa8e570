//! Parses `--summary json`, and checks that its books balance.

use crate::command::Outcome;
use serde_json::Value;

/// The summary of a run.
#[derive(Debug)]
pub(crate) struct Summary(Value);

impl Summary {
    /// Parses the last line of standard output or error.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
        let line = text.lines().last().ok_or("no summary")?;
        match serde_json::from_str(line) {
            Ok(value @ Value::Object(_)) => Ok(Self(value)),
            other => Err(format!("{other:?} is not a summary")),
        }
    }

    /// Parses the summary of a run, and asserts that its books balance.
    #[track_caller]
    pub(crate) fn balanced(outcome: &Outcome) -> Self {
        let summary = Self::parse(&outcome.stdout)
            .and_then(|summary| summary.check_balance().map(|()| summary));
        summary.unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
    }

    /// Returns the value at a path such as `/books/received`.
    pub(crate) fn at(&self, path: &str) -> &Value {
        self.0
            .pointer(path)
            .unwrap_or_else(|| panic!("no {path} in {}", self.0))
    }

    /// Returns the number at a path; 0 if the summary does not have it.
    pub(crate) fn number(&self, path: &str) -> u64 {
        self.0.pointer(path).map_or(0, |value| {
            value
                .as_u64()
                .unwrap_or_else(|| panic!("{path}: {value} is not a number"))
        })
    }

    /// Returns the error messages of the run.
    pub(crate) fn faults(&self) -> Vec<&str> {
        let faults = self.at("/faults").as_array().unwrap();
        faults.iter().map(|fault| fault.as_str().unwrap()).collect()
    }

    fn sum(&self, path: &str) -> u64 {
        let parts = self.at(path).as_object().unwrap();
        parts.values().map(|part| part.as_u64().unwrap()).sum()
    }

    /// Checks that the books balance, in packets and in bytes. (The summary has no bytes of lost
    /// packets, so the bytes need not match if a ring dropped packets.)
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
                    + number("/books/unattributed")
                    + number("/books/counted_only"),
            number("/books/bytes/received") == number("/books/bytes/processed")
                || number("/books/dropped/ring") > 0,
            number("/books/bytes/processed")
                == number("/books/bytes/in_flows")
                    + number("/books/bytes/no_flow")
                    + number("/books/bytes/unattributed")
                    + number("/books/bytes/counted_only"),
            self.at("/books/balanced") == true,
        ];
        if holds.contains(&false) {
            return Err(format!("not balanced ({holds:?}): {}", self.at("/books")));
        }
        Ok(())
    }
}
