//! The parts of the `hcq` command.
