//! The parts of the `hcq` command.

pub mod data;
pub mod exit;
pub mod failure;
pub mod job;
pub mod plan;
pub mod launch;
pub mod show;
pub mod args;
pub mod compile;
pub mod interrupt;
