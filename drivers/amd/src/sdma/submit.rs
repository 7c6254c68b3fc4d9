//! Words into an SDMA ring.
//!
//! The ring here counts words; the engine's pointers and doorbell count bytes, so a doorbell multiplies by
//! [`BYTES`]. A packet never wraps, and none ends exactly at the ring's end.

use hcq_nostd::ring::{Doorbell, Ring, RingError, arith};

use super::Packet;
use super::indirect::Indirect;
use crate::pm4::submit::SubmitError;

/// Bytes of a ring's entry.
pub const BYTES: u64 = 4;

const NOP: [u32; 1] = [0];

/// Words that a bound queue of `words` words takes: what is behind the words must be zero, which is NOPs.
pub const fn bound_words(words: usize) -> usize {
    words.next_multiple_of(Indirect::ALIGN)
}

fn reserve<'r, 'm>(
    ring: &'r mut Ring<'m>,
    n: u64,
) -> Result<hcq_nostd::ring::Hole<'r, 'm>, SubmitError> {
    let len = ring.len();
    if n > len {
        return Err(RingError::TooLarge { need: n, len }.into());
    }
    Ok(ring.reserve(n)?)
}

/// Copies packets into the ring. A packet that would not end before the ring's end starts at the beginning, and what is
/// left is filled with NOPs, which need room too.
///
/// # Errors
/// [`SubmitError::Ring`]; nothing has changed.
pub fn submit(
    ring: &mut Ring<'_>,
    words: &[u32],
    doorbell: &mut impl Doorbell,
) -> Result<u64, SubmitError> {
    let run = usize::try_from(arith::to_end(ring.put(), ring.len())).unwrap_or(usize::MAX);
    let mut before = 0usize;
    while let Some(rest @ [_, ..]) = words.get(before..) {
        let end = before.saturating_add(Packet::len(rest));
        if end >= run {
            break;
        }
        before = end.min(words.len());
    }
    let (head, tail) = words.split_at_checked(before).unwrap_or((words, &[]));
    let padding = if tail.is_empty() {
        0
    } else {
        run.saturating_sub(before)
    };
    if tail.len() as u64 >= ring.len() {
        // No lap of the ring has room for the packets that follow.
        return Err(RingError::TooLarge {
            need: words.len() as u64,
            len: ring.len(),
        }
        .into());
    }
    let mut hole = reserve(ring, words.len() as u64 + padding as u64)?;
    hole.fill(0, head)?;
    for i in 0..padding {
        hole.fill((before + i) as u64, &NOP)?;
    }
    hole.fill((before + padding) as u64, tail)?;
    Ok(hole.publish(doorbell))
}

/// Puts a packet into the ring that runs the `words` words of a bound queue at device address `address`, rounded up to
/// [`bound_words`]. NOPs before it make it end where it has to.
///
/// # Errors
/// [`SubmitError`], also for more words than the size field's 20 bits count; nothing has changed.
pub fn submit_bound(
    ring: &mut Ring<'_>,
    address: u64,
    words: usize,
    doorbell: &mut impl Doorbell,
) -> Result<u64, SubmitError> {
    if words == 0 {
        return Err(SubmitError::Empty);
    }
    if words > Indirect::MAX as usize {
        return Err(SubmitError::TooLong {
            words,
            max: Indirect::MAX,
        });
    }
    let packet = Indirect::new(address, bound_words(words))
        .map_err(SubmitError::Address)?
        .words();
    let (align, len) = (Indirect::ALIGN as u64, packet.len() as u64);
    let before = |place: u64| place.saturating_add(len).next_multiple_of(align) - len - place;
    let run = arith::to_end(ring.put(), ring.len());
    let mut padding = before(ring.len().saturating_sub(run));
    if padding + len >= run {
        padding = run + before(0);
    }
    let mut hole = reserve(ring, padding + len)?;
    for i in 0..padding {
        hole.fill(i, &NOP)?;
    }
    hole.fill(padding, &packet)?;
    Ok(hole.publish(doorbell))
}
