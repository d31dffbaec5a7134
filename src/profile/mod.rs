//! One benchmark: build, phases, record thread, verdict.
