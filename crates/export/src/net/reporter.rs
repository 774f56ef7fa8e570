//! Reports changes of a connection to the user, and not each attempt.

use crate::net::notices::Notices;

/// Reports failures of a connection and its return.
#[derive(Debug)]
pub(crate) struct Reporter {
    /// Name of the output.
    name: String,
    notices: Notices,
    /// The last failure reported. The same failure is not reported again until
    /// [`Reporter::forget`].
    failure: Option<String>,
    /// Whether the return after `failure` has been reported.
    has_returned: bool,
}

impl Reporter {
    pub(crate) const fn new(name: String, notices: Notices) -> Self {
        Self {
            name,
            notices,
            failure: None,
            has_returned: true,
        }
    }

    /// Reports that the connection has failed, unless that was the last report.
    pub(crate) fn failed(&mut self, error: &str) {
        if self.warn(&format!("{error}; retrying")) {
            self.has_returned = false;
        }
    }

    /// Reports that records are lost although there is a connection, unless that was the last report.
    /// Returns whether it was not.
    pub(crate) fn warn(&mut self, text: &str) -> bool {
        let is_new = self.failure.as_deref() != Some(text);
        if is_new {
            self.notices.push(format!("{}: {text}", self.name));
            self.failure = Some(text.to_owned());
        }
        is_new
    }

    /// Reports that sending works again after a reported failure.
    pub(crate) fn sent(&mut self) {
        if !self.has_returned {
            self.has_returned = true;
            self.notices.push(format!("{}: connected", self.name));
        }
    }

    /// Lets the next failure be reported even if it is the same as the last one: a connection that
    /// lasted has ended.
    pub(crate) fn forget(&mut self) {
        self.failure = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_changes_only() {
        let notices = Notices::default();
        let mut reporter = Reporter::new("x".to_owned(), notices.clone());
        reporter.sent();
        assert!(notices.take().is_empty());
        for _ in 0..3 {
            reporter.failed("refused");
        }
        assert_eq!(notices.take().len(), 1);
        reporter.failed("no route");
        assert_eq!(notices.take().len(), 1);
        for _ in 0..3 {
            reporter.sent();
            reporter.failed("no route");
        }
        assert_eq!(notices.take(), ["x: connected"]);
        assert!(reporter.warn("refused"));
        assert!(!reporter.warn("refused"));
        reporter.sent();
        assert_eq!(notices.take(), ["x: refused"]);
        reporter.forget();
        reporter.failed("no route");
        reporter.sent();
        assert_eq!(notices.take().len(), 2);
    }
}
