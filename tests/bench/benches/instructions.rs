//! Instruction counts: `cargo bench -p hcq-bench --bench instructions`. They repeat; times do not.
#![allow(missing_docs, reason = "a benchmark")]

fn main() {}
