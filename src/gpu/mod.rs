//! GPU telemetry on a thread of its own.
