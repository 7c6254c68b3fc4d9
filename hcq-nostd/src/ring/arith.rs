//! Ring arithmetic on numbers alone. Put and get are monotonic 64-bit entry counts; a place is a count modulo the length.

/// Entries that may be written. The counts may have gone past 2^64 in between.
pub const fn free(put: u64, get: u64, len: u64) -> u64 {
    len.saturating_sub(put.wrapping_sub(get))
}

/// Entries from `put`'s place to the end of the ring.
pub const fn to_end(put: u64, len: u64) -> u64 {
    if len == 0 { 0 } else { len - put % len }
}

/// Entries to skip before `n` entries that must not wrap.
pub const fn padding(put: u64, n: u64, len: u64) -> u64 {
    let run = to_end(put, len);
    if n > run { run } else { 0 }
}

/// The monotonic count whose low `bits` bits an engine reports, given the last one known. Engines report a place in the
/// ring or a count that wraps; between two reads it must not advance by a full turn.
///
/// An engine that reports a place in a ring of `2^bits` entries cannot tell a full ring from an empty one: with
/// [`Ring::keep_free`](super::Ring::keep_free) one entry stays free, and no full turn can happen.
pub const fn extend(raw: u64, bits: u32, last: u64) -> u64 {
    if bits >= 64 {
        return raw;
    }
    let mask = (1u64 << bits) - 1;
    let step = raw.wrapping_sub(last) & mask;
    last.wrapping_add(step)
}
