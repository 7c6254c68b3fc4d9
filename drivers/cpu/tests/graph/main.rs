//! Graphs from end to end: planned, recorded by this driver, launched on its engine.
#![allow(unsafe_code, reason = "kernels, and memory that engines share")]

mod images;
mod lab;
mod random;
mod runs;
