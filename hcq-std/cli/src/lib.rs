//! The parts of the `hcq` command.

pub mod data;
pub mod exit;
pub mod failure;
pub mod job;
pub mod plan;
