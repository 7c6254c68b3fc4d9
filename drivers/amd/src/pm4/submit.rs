//! Words into a compute ring, which counts 32-bit words.

use hcq_nostd::ring::{Doorbell, Ring, RingError, arith};
use hcq_nostd::value::{Fit, Misfit};

use super::indirect_buffer::IndirectBuffer;
use super::nop::Nop;
use super::{MAX_BODY, split};
use crate::device::ADDRESS_BITS;

/// Why words did not get into a ring. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SubmitError {
    /// No room now, or never; see [`RingError`].
    Ring(RingError),
    /// More words than a packet that runs or holds them can say.
    TooLong {
        /// Words.
        words: usize,
        /// The most there may be.
        max: u32,
    },
    /// Nothing to run.
    Empty,
    /// An address that the packet cannot hold.
    Address(Misfit),
}

impl core::fmt::Display for SubmitError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Ring(e) => write!(f, "{e}"),
            Self::TooLong { words, max } => write!(f, "{words} words; one packet takes {max}"),
            Self::Empty => f.write_str("there is nothing to run"),
            Self::Address(m) => write!(f, "{m}"),
        }
    }
}

impl core::error::Error for SubmitError {}

impl<E: Into<RingError>> From<E> for SubmitError {
    fn from(e: E) -> Self {
        Self::Ring(e.into())
    }
}

/// Reserves `n` words, or says whether waiting helps.
fn reserve<'r, 'm>(
    ring: &'r mut Ring<'m>,
    n: usize,
) -> Result<hcq_nostd::ring::Hole<'r, 'm>, SubmitError> {
    let (need, len) = (n as u64, ring.len());
    if need > len {
        return Err(RingError::TooLarge { need, len }.into());
    }
    Ok(ring.reserve(need)?)
}

/// Copies words into the ring. For queues on one XCC: PRED_EXEC does not work in the ring itself.
///
/// # Errors
/// [`SubmitError`]; nothing has changed.
pub fn submit(
    ring: &mut Ring<'_>,
    words: &[u32],
    doorbell: &mut impl Doorbell,
) -> Result<u64, SubmitError> {
    let mut hole = reserve(ring, words.len())?;
    hole.fill(0, words)?;
    Ok(hole.publish(doorbell))
}

/// The packet that runs `words` words at device address `address`: what [`submit_bound`] puts into a ring, for who submits
/// the same words often.
///
/// ```
/// use hcq_amd::pm4::submit::indirect;
/// use hcq_nostd::mem::Region;
/// use hcq_nostd::ring::Ring;
/// let packet = indirect(0x1000, 100)?;
/// let mut memory = [0u64; 4];
/// let mut ring = Ring::new(Region::from_words(&mut memory, 0), 4)?;
/// let mut rung = 0;
/// ring.push(4, &packet, &mut |put| rung = put)?;
/// assert_eq!(rung, 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`SubmitError`] as for [`submit_bound`], but for the ring's.
#[inline(always)]
pub fn indirect(address: u64, words: usize) -> Result<[u32; IndirectBuffer::WORDS], SubmitError> {
    let count = match IndirectBuffer::count(words) {
        Ok(count) if address >> ADDRESS_BITS == 0 && address & 3 == 0 => count,
        _ => return Err(refused(address, words)),
    };
    let ([header, size], [low, high]) = (IndirectBuffer::frame_of(count), split(address));
    Ok([header, low, high, size])
}

/// Why no packet runs this.
#[cold]
fn refused(address: u64, words: usize) -> SubmitError {
    match (Fit::aligned(ADDRESS_BITS, 2).check(address), words) {
        (Err(misfit), _) => SubmitError::Address(misfit),
        (Ok(()), 0) => SubmitError::Empty,
        (Ok(()), _) => SubmitError::TooLong {
            words,
            max: IndirectBuffer::MAX,
        },
    }
}

/// Puts a packet into the ring that runs `words` words at device address `address`: a bound queue.
///
/// # Errors
/// [`SubmitError`], also for more words than the size field's 20 bits count; nothing has changed.
pub fn submit_bound(
    ring: &mut Ring<'_>,
    address: u64,
    words: usize,
    doorbell: &mut impl Doorbell,
) -> Result<u64, SubmitError> {
    let packet = indirect(address, words)?;
    Ok(ring.push(IndirectBuffer::WORDS as u64, &packet, doorbell)?)
}

/// Copies words into the ring as the body of a NOP, and runs them from there as an indirect buffer, in one piece: for
/// queues on several XCCs. `base` is the device address of the ring.
///
/// # Errors
/// [`SubmitError`], also for more words than a NOP's count of 14 bits covers; nothing has changed.
pub fn submit_in_ring(
    ring: &mut Ring<'_>,
    base: u64,
    words: &[u32],
    doorbell: &mut impl Doorbell,
) -> Result<u64, SubmitError> {
    const FRAME: usize = IndirectBuffer::WORDS + 1;
    let too_long = SubmitError::TooLong {
        words: words.len(),
        max: MAX_BODY,
    };
    let len = ring.len();
    // Where the words go is a place in the ring; they do not wrap.
    let place = ring.put().wrapping_add(FRAME as u64) % len.max(1);
    let run = arith::to_end(place, len);
    let padding = if words.len() as u64 > run { run } else { 0 };
    let body = usize::try_from(padding)
        .ok()
        .and_then(|p| p.checked_add(words.len()))
        .ok_or(too_long)?;
    let nop = u32::try_from(body)
        .ok()
        .and_then(|b| Nop::new(b).ok())
        .ok_or(too_long)?;
    let at = (place + padding) % len.max(1);
    let address = base.saturating_add(at * 4);
    let packet = indirect(address, words.len())?;

    let mut hole = reserve(ring, FRAME + body)?;
    hole.fill(0, &packet)?;
    hole.fill(packet.len() as u64, &[nop.header()])?;
    for i in 0..padding {
        hole.fill(FRAME as u64 + i, &[0])?;
    }
    hole.fill(FRAME as u64 + padding, words)?;
    Ok(hole.publish(doorbell))
}

#[cfg(test)]
mod tests;
