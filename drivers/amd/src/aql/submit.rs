//! Packets into an AQL ring, which counts packets.

use hcq_nostd::ring::{Doorbell, Ring, RingError};

use super::PACKET_WORDS;
use super::header::Kind;
use crate::pm4::submit::SubmitError;

/// What the doorbell takes for `put` packets published: the index of the last one. The write index in memory is `put`
/// itself.
pub const fn doorbell_index(put: u64) -> u64 {
    put.wrapping_sub(1)
}

/// Copies packets into the ring: bodies first, then the headers that make them valid, then the doorbell.
///
/// # Errors
/// [`SubmitError::Ring`] if the ring has no room for all of them, now or ever, or if the words are no whole packets;
/// nothing has changed.
pub fn submit(
    ring: &mut Ring<'_>,
    packets: &[u32],
    doorbell: &mut impl Doorbell,
) -> Result<u64, SubmitError> {
    let (packets, rest) = packets.as_chunks::<PACKET_WORDS>();
    if !rest.is_empty() {
        let (bytes, entry) = (rest.len() * 4, super::PACKET_BYTES);
        return Err(RingError::Shape { bytes, entry }.into());
    }
    let (need, len) = (packets.len() as u64, ring.len());
    if need > len {
        return Err(RingError::TooLarge { need, len }.into());
    }
    let mut hole = ring.reserve(need)?;
    for (i, packet) in (0..).zip(packets) {
        let mut body = *packet;
        let [first, ..] = &mut body;
        // Whoever reads it meanwhile finds a packet that is not there yet.
        *first = *first & !0xff | Kind::Invalid as u32;
        hole.fill(i, &body)?;
    }
    for (i, [first, ..]) in (0..).zip(packets) {
        hole.fill_header(i, *first)?;
    }
    Ok(hole.publish(doorbell))
}

#[cfg(test)]
mod tests;
