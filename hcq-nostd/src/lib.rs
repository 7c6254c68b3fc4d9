//! hcq-nostd
