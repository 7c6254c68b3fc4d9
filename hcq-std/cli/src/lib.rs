//! The parts of the `hcq` command.

pub mod args;
pub mod compile;
pub mod data;
pub mod exit;
pub mod failure;
pub mod interrupt;
pub mod job;
pub mod launch;
pub mod plan;
pub mod show;
