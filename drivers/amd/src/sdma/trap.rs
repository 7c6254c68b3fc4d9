//! TRAP: raises an interrupt.

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::Fit;

use super::{body, op};
use crate::malformed::{Malformed, only};

/// Raises an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Trap {
    /// INT_CONTEXT: what it carries, 28 bits.
    pub context: u32,
}

impl Trap {
    /// Words of the packet.
    pub const WORDS: usize = 2;

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for a context of more than 28 bits.
    pub fn record(self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        Fit::bits(28)
            .check(self.context.into())
            .operand(Operand::Data)?;
        c.words(&[op::TRAP.into(), self.context]);
        Ok(())
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let &[_, context] = body(words, op::TRAP, 0)?;
        only(1, context, 0x0fff_ffff)?;
        Ok(Self { context })
    }
}

impl core::fmt::Display for Trap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "TRAP INT_CONTEXT={:#x}", self.context)
    }
}
