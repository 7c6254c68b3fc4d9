//! The `hcq` command.
fn main() {}
