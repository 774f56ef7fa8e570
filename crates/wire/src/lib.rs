//! From bytes to headers.
//!
//! Every header is a checked view over bytes: made once with its length verified, read by named
//! fields afterwards. Nothing here allocates, nothing is unsafe, and no input makes it panic.

pub mod dissect;
pub mod key;
pub mod link;

pub use dissect::{Decapsulate, Fragment, Headers, Malformed, NoFlow, dissect};
pub use key::FlowKey;
pub use link::LinkType;
