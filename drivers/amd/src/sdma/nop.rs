//! NOP: skips words.

use hcq_nostd::record::Command;

use super::op;
use crate::malformed::{Malformed, only};

/// Skips itself and the words behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Nop {
    /// count: words behind it that are skipped too, 14 bits.
    count: u16,
}

impl Nop {
    /// One word, which is zero.
    pub const ONE: Self = Self { count: 0 };

    /// Words of the packet, those that are skipped included.
    pub const fn len(self) -> usize {
        self.count as usize + 1
    }

    /// It is never empty.
    pub const fn is_empty(self) -> bool {
        false
    }

    /// Appends the packet, with zeros behind it.
    pub fn record(self, c: &mut Command<'_, '_>) {
        c.word(u32::from(op::NOP) | u32::from(self.count) << 16);
        for _ in 0..self.count {
            c.word(0);
        }
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let header = *words
            .first()
            .ok_or(Malformed::Truncated { need: 1, have: 0 })?;
        only(0, header, 0x3fff << 16)?;
        let [_, _, low, high] = header.to_le_bytes();
        let nop = Self {
            count: u16::from_le_bytes([low, high]),
        };
        if nop.len() > words.len() {
            return Err(Malformed::Truncated {
                need: nop.len(),
                have: words.len(),
            });
        }
        Ok(nop)
    }
}

impl core::fmt::Display for Nop {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "NOP count={}", self.count)
    }
}
