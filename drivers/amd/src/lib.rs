//! AMD GPUs as devices of hardware command queues.
//!
//! | module | what |
//! |---|---|
//! | [`chips`] | the chips that this driver knows, and how they differ, as data |
//! | [`device`] | one GPU as a process uses it: chip, register addresses, XCCs, event |
//! | [`kernel`] | what a launch needs to know of a loaded kernel: registers, properties, arguments |
//! | [`hidden`] | arguments that the compiler adds and a launch fills in |
//! | [`code_object`] | ELF files with kernels: images, relocations, descriptors, metadata |
//! | [`scratch`] | scratch memory: how much, its registers and descriptors |
//! | [`pm4`] | packets of the compute engines' command processor, and the compute queue that records them |
//! | [`aql`] | 64-byte packets for the packet processor, and the compute queue that records them |
//! | [`sdma`] | packets of the copy engines, and the copy queue that records them |
//! | [`dump`] | words as text, with the vendor's names |
//! | [`malformed`] | words that are no packet |
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

pub mod aql;
pub mod chips;
pub mod code_object;
pub mod device;
pub mod dump;
pub mod hidden;
pub mod kernel;
pub mod malformed;
pub mod pm4;
pub mod scratch;
pub mod sdma;
