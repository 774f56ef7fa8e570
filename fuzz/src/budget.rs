//! The budget of work: hostile packets cost less than ten benign ones. The test `cost` of the crate app holds
//! the same by instructions; here readers count it themselves, in bytes that they scan.

use wire::work;

/// Of the work of a benign packet.
const FACTOR: usize = 10;

/// A benign packet beyond its own bytes: a request, a response or a hello.
const PACKET: usize = 600;

/// A benign frame of a tunnel: its headers.
const FRAME: usize = 64;

/// Forgets the work so far.
pub fn start() {
    let _ = work::take();
}

/// Checks the work of the readers of payload since the last check, for this number of packets and bytes.
///
/// # Panics
/// If it is too much.
pub fn check_payload(packets: usize, bytes: usize) {
    check(FACTOR * (packets * PACKET + bytes));
}

/// Checks the work of the reader of headers since the last check, for one frame.
///
/// # Panics
/// If it is too much.
pub fn check_frame() {
    check(FACTOR * FRAME);
}

fn check(budget: usize) {
    let work = work::take();
    assert!(
        work <= budget,
        "the work {work} is above the budget {budget}"
    );
}
