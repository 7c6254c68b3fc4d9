//! PRED_EXEC: runs the words behind it on some XCCs only. Works in an indirect buffer, not in the ring itself.

use hcq_nostd::record::{Command, Operand, RecordError};

use super::{body, op, type3};
use crate::malformed::{Malformed, only};

/// EXEC_COUNT, in words.
const COUNT: u32 = 0x3fff;

/// Runs the words behind it on some XCCs only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PredExec {
    /// VIRTUAL_XCC_ID_SELECT: a bit per XCC.
    pub xccs: u8,
    words: u16,
}

impl PredExec {
    /// Words of the packet.
    pub const WORDS: usize = 2;

    /// Predicates the next `words` words, at most 14 bits of them.
    ///
    /// # Errors
    /// [`RecordError::Limit`].
    pub fn new(xccs: u8, words: usize) -> Result<Self, RecordError> {
        match u16::try_from(words) {
            Ok(words) if u32::from(words) <= COUNT => Ok(Self { xccs, words }),
            _ => Err(RecordError::Limit {
                operand: Operand::Length,
                value: words as u64,
                max: COUNT.into(),
            }),
        }
    }

    /// Words that it predicates.
    pub const fn len(&self) -> u16 {
        self.words
    }

    /// Whether it predicates nothing.
    pub const fn is_empty(&self) -> bool {
        self.words == 0
    }

    const fn words(self) -> [u32; Self::WORDS] {
        let select = (self.xccs as u32) << 24 | self.words as u32;
        [type3::<{ Self::WORDS }>(op::PRED_EXEC), select]
    }

    /// Appends the packet.
    pub fn record(self, c: &mut Command<'_, '_>) {
        c.words(&self.words());
    }

    /// Appends the packet and what `encode` does, counted.
    ///
    /// # Errors
    /// What `encode` returns, [`RecordError::Limit`].
    #[inline]
    pub fn around(
        xccs: u8,
        c: &mut Command<'_, '_>,
        encode: impl FnOnce(&mut Command<'_, '_>) -> Result<(), RecordError>,
    ) -> Result<(), RecordError> {
        let at = c.position();
        c.words(&[0; Self::WORDS]);
        encode(c)?;
        let words = c.position().saturating_sub(at + Self::WORDS);
        for (i, word) in Self::new(xccs, words)?.words().into_iter().enumerate() {
            c.set(at + i, word);
        }
        Ok(())
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let &[_, select] = body(words, op::PRED_EXEC)?;
        only(1, select, 0xff << 24 | COUNT)?;
        let [count_low, count_high, _, xccs] = select.to_le_bytes();
        Ok(Self {
            xccs,
            words: u16::from_le_bytes([count_low, count_high]),
        })
    }
}

impl core::fmt::Display for PredExec {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "PRED_EXEC XCC_SELECT={:#x} EXEC_COUNT={}",
            self.xccs, self.words
        )
    }
}
