//! The flowatch command.
fn main() {}
