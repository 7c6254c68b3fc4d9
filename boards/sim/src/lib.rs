//! Simulated GPUs with their kernel drivers in front of them, strict enough to be believed.
//!
//! Nothing here comes from this project's drivers: registers, packets and layouts are written from the vendors' facts, so
//! that a mistake on one side cannot cancel itself out on the other.
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

pub mod amd;
pub mod cache;
pub mod config;
pub mod engine;
pub mod exec;
pub mod machine;
pub mod nv;
pub(crate) mod qcom;
pub mod standin;
pub mod vm;
