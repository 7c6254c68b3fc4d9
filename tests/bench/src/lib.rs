//! Measuring: ratios of two things interleaved in one run, the C baselines, peers, and the goals' lines.
//!
//! A time alone means little on a shared machine, which changes its speed from one moment to the next. Module [`ratio`]
//! runs short slices of A and B in the order A B B A, hundreds of times, and gives the median of the pairs' ratios.
//! Instruction counts (bench `instructions`) repeat. `README.md` says how to read what is printed.
#![allow(unsafe_code, reason = "calls the baselines, which are C")]

pub mod alloc;
pub mod amd;
pub mod baseline;
pub mod cpus;
pub mod engine;
pub mod goal;
pub mod graph;
pub mod nv;
pub mod patch;
pub mod patched;
pub mod peer;
pub mod qcom;
pub mod queue;
pub mod ratio;
pub mod submit;
