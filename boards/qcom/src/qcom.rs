//! Qualcomm's boards.

/// Bytes of a cache line of the processors.
pub const CACHE_LINE: u32 = 64;
