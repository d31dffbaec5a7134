//! The per-core loop and one request's life.
