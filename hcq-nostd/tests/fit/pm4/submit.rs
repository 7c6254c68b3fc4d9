//! The three ways of PM4 words into a ring.

use hcq_nostd::ring::{Doorbell, Hole, Ring, RingError, arith};
use hcq_nostd::value::Field;

use super::chip::type3;

const NOP: u32 = 0x10;
/// The body of a NOP, less one; of a buffer, in words.
const NOP_COUNT: Field = Field::new(16, 14);
const BUFFER_WORDS: Field = Field::new(0, 20);
const BUFFER_VALID: u32 = 1 << 23;

/// Runs `words` words at `buffer`.
pub(crate) fn indirect_buffer(buffer: u64, words: usize) -> Result<[u32; 4], RingError> {
    let need = words as u64;
    let words = BUFFER_WORDS.place(need).map_err(|_| RingError::TooLarge {
        need,
        len: BUFFER_WORDS.mask(),
    })?;
    let header = type3(super::INDIRECT_BUFFER, 3);
    Ok([
        header,
        buffer as u32,
        (buffer >> 32) as u32,
        words as u32 | BUFFER_VALID,
    ])
}

/// The words themselves. They may wrap anywhere.
pub(crate) fn submit(
    ring: &mut Ring<'_>,
    words: &[u32],
    doorbell: &mut impl Doorbell,
) -> Result<u64, RingError> {
    let mut hole = ring.reserve(words.len() as u64)?;
    hole.fill(0, words)?;
    Ok(hole.publish(doorbell))
}

/// The words, where some are predicated: that works in indirect buffers alone, so the ring holds one, in a NOP that
/// skips it, behind the packet that runs it. `base` is the ring's device address.
pub(crate) fn submit_predicated(
    ring: &mut Ring<'_>,
    base: u64,
    words: &[u32],
    doorbell: &mut impl Doorbell,
) -> Result<u64, RingError> {
    const BEFORE: u64 = 5;
    let need = words.len() as u64;
    // The buffer is one piece; the packets before it may wrap.
    let at = ring.put() + BEFORE;
    let padding = arith::padding(at, need, ring.len());
    let body = padding + need;
    let count = NOP_COUNT
        .place(body.saturating_sub(1))
        .map_err(|_| RingError::TooLarge {
            need: body,
            len: NOP_COUNT.mask() + 1,
        })?;
    let place = (at + padding) % ring.len();
    let packet = indirect_buffer(base + 4 * place, words.len())?;
    let mut hole: Hole<'_, '_> = ring.reserve(BEFORE + body)?;
    hole.fill(0, &packet)?;
    hole.fill(BEFORE - 1, &[type3(NOP, 1) | count as u32])?;
    for i in 0..padding {
        hole.fill(BEFORE + i, &[0])?;
    }
    hole.fill(BEFORE + padding, words)?;
    Ok(hole.publish(doorbell))
}
