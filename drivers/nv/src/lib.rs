//! NVIDIA GPUs as devices of hardware command queues: methods, QMDs, the copy engine, cubins, decoders.
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

pub mod chips;
pub mod compute;
pub mod copy;
pub mod cubin;
pub mod device;
pub mod dump;
pub mod gpfifo;
pub mod host;
pub mod kernel;
pub mod local_memory;
pub mod malformed;
pub mod method;
pub mod packet;
pub mod qmd;
pub mod setup;
mod text;
