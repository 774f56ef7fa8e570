//! Tests of joined ports.
