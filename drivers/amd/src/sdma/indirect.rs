//! INDIRECT: runs words that are somewhere else.

use hcq_nostd::value::{Field, Fit, Misfit};

use super::{body, op};
use crate::device::ADDRESS_BITS;
use crate::malformed::{Malformed, only};
use crate::pm4::{join, split};

/// ib_size, in words.
const SIZE: Field = Field::new(0, 20);

/// Runs words that are somewhere else. In a ring it must end at a multiple of [`ALIGN`](Self::ALIGN) words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Indirect {
    address: u64,
    words: u32,
}

impl Indirect {
    /// Words of the packet.
    pub const WORDS: usize = 6;
    /// Words of a ring at a multiple of which it ends, and words of a multiple of which it runs.
    pub const ALIGN: usize = 8;
    /// Words that it runs at most.
    pub const MAX: u32 = (1 << SIZE.bits) - Self::ALIGN as u32;

    /// Runs `words` words at `address`.
    ///
    /// # Errors
    /// [`Misfit`] for an address that is not at a 32-byte boundary below 2^48, or for a number of words that is zero, more
    /// than [`MAX`](Self::MAX), or no multiple of [`ALIGN`](Self::ALIGN).
    pub fn new(address: u64, words: usize) -> Result<Self, Misfit> {
        Fit::aligned(ADDRESS_BITS, 5).check(address)?;
        let count = Fit {
            align_log2: 3,
            ..Fit::count(SIZE.bits)
        };
        count.check(words as u64)?;
        // 20 bits.
        Ok(Self {
            address,
            words: words as u32,
        })
    }

    /// The packet. Its virtual machine is the queue's own, and nothing is saved.
    pub const fn words(&self) -> [u32; Self::WORDS] {
        let [low, high] = split(self.address);
        [op::INDIRECT as u32, low, high, self.words, 0, 0]
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let &[_, low, high, size, save, save_hi] = body(words, op::INDIRECT, 0)?;
        only(1, low, !0x1f)?;
        only(2, high, 0xffff)?;
        only(4, save, 0)?;
        only(5, save_hi, 0)?;
        let reserved = Malformed::Reserved {
            word: 3,
            value: size,
        };
        Self::new(join(low, high), size as usize).map_err(|_| reserved)
    }
}

impl core::fmt::Display for Indirect {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "INDIRECT IB_BASE={:#x} IB_SIZE={}",
            self.address, self.words
        )
    }
}
