//! hcq-bench
