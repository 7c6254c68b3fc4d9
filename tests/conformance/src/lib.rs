//! hcq-conformance
