//! Messages about connections, for the user.

use std::sync::{Arc, Mutex};

/// Messages of a network output that have not been printed yet, shared with the thread that prints
/// them. A connection that breaks is no fault of the run as long as no record is lost.
#[derive(Clone, Debug, Default)]
pub struct Notices(Arc<Mutex<Vec<String>>>);

impl Notices {
    pub(crate) fn push(&self, text: String) {
        if let Ok(mut texts) = self.0.lock() {
            texts.push(text);
        }
    }

    /// Takes the messages since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        let taken = self.0.lock().map(|mut texts| std::mem::take(&mut *texts));
        taken.unwrap_or_default()
    }
}
