//! Tests of the sample.
