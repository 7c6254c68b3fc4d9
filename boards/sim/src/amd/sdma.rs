//! The copy engines.
