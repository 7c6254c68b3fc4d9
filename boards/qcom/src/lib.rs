//! Boards with Adreno GPUs.
#![no_std]
#![forbid(unsafe_code)]

pub mod qcom;
