//! hcq-std
