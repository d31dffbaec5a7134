//! The flags that make many runs of one command: sweeps, repeats, a checkpoint.

use super::Flag;

#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
];
