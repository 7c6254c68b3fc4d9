//! Channels with a ring, some memory and programs that are numbers.

pub(super) mod support;

mod random;

mod kernel;
