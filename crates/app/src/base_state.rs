//! The part of the state that all flows have.

use crate::record::Incomplete;
use crate::text_pool::TextId;

/// Number of application classes that a state can distinguish.
pub(crate) const CLASSES_MAX: u16 = UNASKED - 1;

/// Bit of [`BaseState::class_and_unasked`].
const UNASKED: u16 = 1 << 15;

/// The part of the state that all flows have.
#[derive(Debug, Default)]
pub(crate) struct BaseState {
    /// Name that the initiator had resolved.
    pub(crate) resolved: TextId,
    /// Age of that name, in microseconds.
    pub(crate) resolved_age_us: u32,
    /// Application class by the first bytes, plus 1; 0 if there is none. The highest bit says that no
    /// query was seen that asked for the resolved name. A field of its own would enlarge every flow.
    class_and_unasked: u16,
    /// Number of packets with payload, up to 255.
    pub(crate) packets: u8,
    /// Why the results are incomplete.
    pub(crate) incomplete: Incomplete,
}

/// A flow of any protocol has one.
const _: () = assert!(size_of::<BaseState>() == 12);

impl BaseState {
    /// Application class by the first bytes.
    pub(crate) const fn class(&self) -> Option<u16> {
        (self.class_and_unasked & CLASSES_MAX).checked_sub(1)
    }

    /// Sets the application class, which must be below [`CLASSES_MAX`].
    pub(crate) const fn set_class(&mut self, class: u16) {
        self.class_and_unasked = self.class_and_unasked & UNASKED | (class + 1) & CLASSES_MAX;
    }

    /// Whether no query was seen that asked for the resolved name.
    pub(crate) const fn is_resolved_unasked(&self) -> bool {
        self.class_and_unasked & UNASKED != 0
    }

    pub(crate) const fn set_resolved_unasked(&mut self, is_unasked: bool) {
        let class = self.class_and_unasked & CLASSES_MAX;
        self.class_and_unasked = class | if is_unasked { UNASKED } else { 0 };
    }
}
