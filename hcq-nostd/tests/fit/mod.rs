//! Sketches of the drivers to come, over the core as it is, against golden words: proof that the core's traits, values,
//! patch tables and rings fit them. They show the shape that the drivers take and are no drivers themselves.
//!
//! AMD's, NVIDIA's and Adreno's queues are drivers by now, with golden tests of their own; what sketches need to ring
//! network cards' doorbells from GPU queues stays.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test takes the sketches that it needs"
)]

pub(crate) mod amd;
pub(crate) use hcq_golden as golden;
pub(crate) mod lab;
pub(crate) mod mlx5;
pub(crate) mod nv;
pub(crate) mod pm4;
