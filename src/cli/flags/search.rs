//! The flags of a search for the load that a server bears.

use super::Flag;

#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
];
