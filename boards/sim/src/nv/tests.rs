//! Channels with a ring, some memory and programs that are numbers.

pub(super) mod support;

mod golden;
mod random;

mod kernel;
