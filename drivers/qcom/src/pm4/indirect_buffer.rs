//! CP_INDIRECT_BUFFER: runs words that are somewhere else. The kernel driver writes these into the ring; a process has no
//! need to.

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use super::header::{body, command};
use super::{Text, join, op};
use crate::device::ADDRESS_BITS;
use crate::malformed::{Malformed, only};

/// IB_SIZE, in words.
const SIZE: u32 = 0xf_ffff;

/// Runs words that are somewhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct IndirectBuffer {
    /// Where, at a 4-byte boundary below 2^49.
    pub address: Value,
    words: u32,
}

impl IndirectBuffer {
    /// Words of the packet.
    pub const WORDS: usize = 4;
    /// Words that it runs at most.
    pub const MAX: u32 = SIZE;

    /// Runs `words` words at `address`: 1 to [`MAX`](Self::MAX).
    ///
    /// # Errors
    /// [`RecordError::Limit`].
    pub fn new(address: Value, words: usize) -> Result<Self, RecordError> {
        match u32::try_from(words) {
            Ok(words @ 1..=SIZE) => Ok(Self { address, words }),
            _ => Err(RecordError::Limit {
                operand: Operand::Length,
                value: words as u64,
                max: SIZE.into(),
            }),
        }
    }

    /// Words that it runs.
    pub const fn len(&self) -> u32 {
        self.words
    }

    /// It is never empty.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for an address that is misaligned or not below 2^49.
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        c.word(command::<{ Self::WORDS }>(op::INDIRECT_BUFFER));
        c.pair(self.address, Fit::aligned(ADDRESS_BITS, 2))
            .operand(Operand::Address)?;
        c.word(self.words);
        Ok(())
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let &[_, low, high, size] = body(words, op::INDIRECT_BUFFER)?;
        only(1, low, !3)?;
        only(2, high, 0x1_ffff)?;
        Self::new(join(low, high).into(), size as usize).map_err(|_| Malformed::Reserved {
            word: 3,
            value: size,
        })
    }
}

impl core::fmt::Display for IndirectBuffer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (address, size) = (Text(self.address), self.words);
        write!(f, "CP_INDIRECT_BUFFER IB_BASE={address} IB_SIZE={size}")
    }
}
