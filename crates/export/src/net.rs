//! Network outputs: records are encoded as messages, queued, and sent to a receiver by a thread.

mod endpoint;

pub use endpoint::{Endpoint, EndpointError};
