//! The EAL, which all tests share (one per process), and helpers for devices.

use std::sync::OnceLock;

use port::dpdk::{DeviceName, Eal};
use port::{Port, Received};

/// The EAL, which ends with the process.
pub(crate) fn eal() -> &'static Eal {
    static EAL: OnceLock<Eal> = OnceLock::new();
    EAL.get_or_init(|| {
        let arguments = ["--no-huge", "-m", "2048"].map(str::to_owned);
        Eal::start(&[], &arguments).unwrap()
    })
}

/// Parses a device name.
pub(crate) fn name(text: &str) -> DeviceName {
    DeviceName::parse(text).unwrap()
}

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) bytes: Vec<u8>,
    pub(crate) wire_length: u32,
    pub(crate) hash: u32,
}

/// Returns the frames of one `receive`; `None` at the end.
#[track_caller]
pub(crate) fn burst(port: &mut impl Port) -> Option<Vec<Kept>> {
    match port.receive().unwrap() {
        Received::Burst(burst) => Some(
            burst
                .frames
                .iter()
                .map(|frame| Kept {
                    bytes: frame.bytes.to_vec(),
                    wire_length: frame.wire_length,
                    hash: frame.rss_hash.map_or(0, Into::into),
                })
                .collect(),
        ),
        Received::Idle => Some(Vec::new()),
        Received::Fault(message) => panic!("{message}"),
        Received::End => None,
    }
}

/// Stops a port and returns its remaining frames.
#[track_caller]
pub(crate) fn drain(port: &mut impl Port) -> Vec<Kept> {
    port.stop();
    let mut frames = Vec::new();
    while let Some(more) = burst(port) {
        frames.extend(more);
    }
    frames
}
