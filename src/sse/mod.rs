//! Server-sent events by the WHATWG rules: bytes to events and back, no I/O.
