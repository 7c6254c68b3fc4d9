//! The chips that can be simulated, as data.
