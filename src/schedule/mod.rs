//! Arrival laws as pure functions of n.
