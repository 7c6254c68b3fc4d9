//! core
#![no_std]
#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

#[cfg(test)]
extern crate std;

#[cfg(target_endian = "big")]
compile_error!(
    "engines read little-endian words; recording them on a big-endian machine is not supported"
);

pub mod arena;
pub mod args;
pub mod fault;
pub mod mem;
pub mod patch;
pub mod profile;
pub mod queue;
pub mod record;
pub mod ring;
pub mod signal;
pub mod timeline;
pub mod value;
pub mod wait;
