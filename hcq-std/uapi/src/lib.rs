//! What the kernels' drivers for GPUs take and answer: structs and numbers, as plain data that needs no operating system.
#![no_std]
#![forbid(unsafe_code)]

pub mod kfd;
