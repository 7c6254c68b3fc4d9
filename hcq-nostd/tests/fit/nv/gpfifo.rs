//! The ring of a channel: one 64-bit entry for each piece of words.

use hcq_nostd::ring::{Doorbell, Ring, RingError};
use hcq_nostd::value::{Field, Fit};

pub(crate) const ENTRY_BYTES: usize = 8;
const ADDRESS: Fit = Fit::aligned(40, 2);
const LEVEL_SUBROUTINE: u64 = 1 << 41;
/// In words. None at all would make it a control entry.
const LENGTH: Field = Field::new(42, 21);

/// Lets the channel run `words` words at `address`.
pub(crate) fn submit(
    ring: &mut Ring<'_>,
    address: u64,
    words: usize,
    doorbell: &mut impl Doorbell,
) -> Result<Option<u64>, RingError> {
    let need = words as u64;
    if need == 0 {
        return Ok(None);
    }
    let length = LENGTH.place(need).map_err(|_| RingError::TooLarge {
        need,
        len: LENGTH.mask(),
    })?;
    ADDRESS.check(address).map_err(|_| RingError::TooLarge {
        need: address,
        len: 1 << ADDRESS.bits,
    })?;
    let entry = address | LEVEL_SUBROUTINE | length;
    let mut hole = ring.reserve(1)?;
    hole.fill(0, &[entry as u32, (entry >> 32) as u32])?;
    Ok(Some(hole.publish(doorbell)))
}
