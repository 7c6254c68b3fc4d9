//! INDIRECT_BUFFER: runs words that are somewhere else.

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use super::{Text, body, join, op, type3};
use crate::device::ADDRESS_BITS;
use crate::malformed::{Malformed, only};

/// IB_SIZE, in words.
const SIZE: u32 = 0xf_ffff;
const VALID: u32 = 1 << 23;

/// Runs words that are somewhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct IndirectBuffer {
    /// Where, at a 4-byte boundary below 2^48.
    pub address: Value,
    words: u32,
}

impl IndirectBuffer {
    /// Words of the packet.
    pub const WORDS: usize = 4;
    /// Words that it runs at most.
    pub const MAX: u32 = SIZE;

    /// Runs `words` words at `address`: 1 to [`MAX`](Self::MAX). More would change the header's other fields.
    ///
    /// # Errors
    /// [`RecordError::Limit`], [`RecordError::Misfit`] for an address that is misaligned or not below 2^48.
    pub fn new(address: Value, words: usize) -> Result<Self, RecordError> {
        if let Some(a) = address.imm() {
            Fit::aligned(ADDRESS_BITS, 2)
                .check(a)
                .operand(Operand::Address)?;
        }
        Ok(Self {
            address,
            words: Self::count(words)?,
        })
    }

    /// The number of words, if the packet can say it.
    #[inline]
    pub(crate) fn count(words: usize) -> Result<u32, RecordError> {
        match u32::try_from(words) {
            Ok(words @ 1..=SIZE) => Ok(words),
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

    /// Header and size word.
    pub(crate) const fn frame(&self) -> [u32; 2] {
        Self::frame_of(self.words)
    }

    /// The same for a [count](Self::count) of words.
    pub(crate) const fn frame_of(words: u32) -> [u32; 2] {
        [type3::<{ Self::WORDS }>(op::INDIRECT_BUFFER), words | VALID]
    }

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`].
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        let [header, size] = self.frame();
        c.word(header);
        c.pair(self.address, Fit::aligned(ADDRESS_BITS, 2))
            .operand(Operand::Address)?;
        c.word(size);
        Ok(())
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let &[_, low, high, size] = body(words, op::INDIRECT_BUFFER)?;
        only(1, low, !3)?;
        only(2, high, 0xffff)?;
        if size & !SIZE != VALID || size == VALID {
            return Err(Malformed::Reserved {
                word: 3,
                value: size,
            });
        }
        Ok(Self {
            address: join(low, high).into(),
            words: size & SIZE,
        })
    }
}

impl core::fmt::Display for IndirectBuffer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "INDIRECT_BUFFER IB_BASE={} IB_SIZE={} VALID",
            Text(self.address),
            self.words
        )
    }
}
