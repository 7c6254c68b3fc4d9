//! NOP: skips words.

use hcq_nostd::record::{Command, Operand, RecordError};

use super::{MAX_BODY, header, op, parse_header};
use crate::malformed::Malformed;

/// Skips the words behind it. They may hold anything, such as an indirect buffer that lives in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Nop {
    body: u32,
}

impl Nop {
    /// A NOP that skips `body` words, 0 to [`MAX_BODY`]. (A count of 0x3fff skips none.)
    ///
    /// # Errors
    /// [`RecordError::Limit`].
    pub fn new(body: u32) -> Result<Self, RecordError> {
        if body > MAX_BODY {
            return Err(RecordError::Limit {
                operand: Operand::Length,
                value: body.into(),
                max: MAX_BODY.into(),
            });
        }
        Ok(Self { body })
    }

    /// Words that it skips.
    pub const fn body(self) -> u32 {
        self.body
    }

    /// Its header, which is all of it but the words that it skips.
    pub const fn header(self) -> u32 {
        match self.body {
            0 => header(op::NOP, MAX_BODY + 1),
            body => header(op::NOP, body),
        }
    }

    /// Appends the header and as many zeros as it skips.
    pub fn record(self, c: &mut Command<'_, '_>) {
        c.word(self.header());
        for _ in 0..self.body {
            c.word(0);
        }
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let first = *words
            .first()
            .ok_or(Malformed::Truncated { need: 1, have: 0 })?;
        let (opcode, len) = parse_header(first)?;
        if opcode != op::NOP {
            return Err(Malformed::Opcode {
                opcode: opcode.into(),
            });
        }
        if len > words.len() {
            return Err(Malformed::Truncated {
                need: len,
                have: words.len(),
            });
        }
        // At most 2^14 words.
        Ok(Self {
            body: (len - 1) as u32,
        })
    }
}

impl core::fmt::Display for Nop {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "NOP skip={}", self.body)
    }
}
