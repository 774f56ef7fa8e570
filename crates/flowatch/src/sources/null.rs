//! The sink that discards all frames (`-i null:`).

use super::kind::{Duplex, LiveOptions, SourceKind};
use engine::Stop;
use port::{NullSink, Port, PortError, Transmit};

const NAME: &str = "null:";

/// The sink that discards all frames.
pub(super) struct Null;

impl SourceKind for Null {
    fn label(&self) -> &'static str {
        "the sink that discards frames (-i null:)"
    }

    fn matches(&self, name: &str) -> bool {
        name == NAME
    }

    fn open(&self, _: &[&str], _: &LiveOptions<'_>) -> Result<Vec<Box<dyn Port>>, PortError> {
        Err(nothing_to_receive())
    }

    fn open_receiver(&self, _: &str, _: &[String]) -> Result<Box<dyn Port>, PortError> {
        Err(nothing_to_receive())
    }

    fn sends_any_link_type(&self) -> bool {
        true
    }

    fn open_sender(&self, _: &str, _: &[String], _: &Stop) -> Result<Box<dyn Transmit>, PortError> {
        Ok(Box::new(NullSink::new()))
    }

    fn open_both(&self, _: &str, _: &[String], _: &Stop) -> Result<Duplex, PortError> {
        Err(PortError::Failed(format!(
            "{NAME} only discards frames and never answers; a closed loop needs an interface"
        )))
    }
}

fn nothing_to_receive() -> PortError {
    PortError::Failed(format!(
        "{NAME} only discards frames, so nothing can be received from it"
    ))
}
