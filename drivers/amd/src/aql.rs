//! AQL: 64-byte packets in a ring.

pub mod dispatch;
