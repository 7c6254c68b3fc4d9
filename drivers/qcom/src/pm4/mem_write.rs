//! CP_MEM_WRITE: writes a number to memory.

use hcq_nostd::queue::WriteWidth;
use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use super::header::{any_body, command};
use super::{Text, join, op};
use crate::device::ADDRESS_BITS;
use crate::malformed::{Malformed, only};

/// Writes a number to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MemWrite {
    /// Where to, at a boundary of its width, below 2^49.
    pub address: Value,
    /// What.
    pub value: Value,
    /// How wide.
    pub width: WriteWidth,
}

impl MemWrite {
    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for an address that is misaligned or not below 2^49, or a number that its width cannot hold.
    #[inline]
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        let (header, align) = match self.width {
            WriteWidth::W32 => (command::<4>(op::MEM_WRITE), 2),
            WriteWidth::W64 => (command::<5>(op::MEM_WRITE), 3),
        };
        c.word(header);
        c.pair(self.address, Fit::aligned(ADDRESS_BITS, align))
            .operand(Operand::Address)?;
        match self.width {
            WriteWidth::W32 => {
                let at = c.position();
                c.word(0);
                c.set_value(at, self.value, Fit::bits(32))
                    .operand(Operand::Data)
            }
            WriteWidth::W64 => c.pair(self.value, Fit::ANY).operand(Operand::Data),
        }
    }

    /// The packet that starts here, if it writes one number of 32 or 64 bits.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let (low, high, value, width) = match *any_body(words, op::MEM_WRITE)? {
            [_, low, high, value] => (low, high, value.into(), WriteWidth::W32),
            [_, low, high, a, b] => (low, high, join(a, b), WriteWidth::W64),
            ref other => {
                let have = other.len();
                return Err(Malformed::Length { need: 4, have });
            }
        };
        only(
            1,
            low,
            match width {
                WriteWidth::W32 => !3,
                WriteWidth::W64 => !7,
            },
        )?;
        only(2, high, 0x1_ffff)?;
        Ok(Self {
            address: join(low, high).into(),
            value: value.into(),
            width,
        })
    }
}

impl core::fmt::Display for MemWrite {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let bits = match self.width {
            WriteWidth::W32 => 32,
            WriteWidth::W64 => 64,
        };
        let (address, value) = (Text(self.address), Text(self.value));
        write!(f, "CP_MEM_WRITE ADDR={address} DATA={value} ({bits} bits)")
    }
}
