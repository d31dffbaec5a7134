//! One benchmark.
