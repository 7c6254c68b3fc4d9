//! hcq-cpu
