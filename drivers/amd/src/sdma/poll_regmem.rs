//! POLL_REGMEM: holds the queue until a masked word compares.

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use super::{address, body, op, read_address};
use crate::malformed::Malformed;
use crate::pm4::Text;

/// func: how `word & mask` compares with the value, 32 bits unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Function {
    /// The same.
    Equal = 3,
    /// At least.
    GreaterEqual = 5,
}

/// mem_poll: memory, not a register.
const MEM_POLL: u32 = 1 << 31;
const FUNC_SHIFT: u32 = 28;
/// interval 15:0, and retry_count 27:16, all ones for ever.
const POLLING: u32 = 4 | 0xfff << 16;

/// Holds the queue until `word & mask` compares with the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PollRegmem {
    /// How they compare.
    pub function: Function,
    /// The word, at a 4-byte boundary.
    pub address: Value,
    /// The value, 32 bits.
    pub value: Value,
    /// The mask.
    pub mask: u32,
}

impl PollRegmem {
    /// Words of the packet.
    pub const WORDS: usize = 6;

    /// Appends the packet. The address is called `operand` in errors and must also be a multiple of `2^align_log2`.
    pub(crate) fn record_as(
        &self,
        c: &mut Command<'_, '_>,
        operand: Operand,
        align_log2: u8,
    ) -> Result<(), RecordError> {
        c.word(u32::from(op::POLL_REGMEM) | (self.function as u32) << FUNC_SHIFT | MEM_POLL);
        address(c, self.address, align_log2, operand)?;
        let at = c.position();
        c.words(&[0, self.mask, POLLING]);
        c.set_value(at, self.value, Fit::bits(32))
            .operand(Operand::Data)
    }

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for an address that is misaligned or not below 2^48, or a value of more than 32 bits.
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        self.record_as(c, Operand::Address, 2)
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`], also for one that gives up.
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let &[header, low, high, value, mask, polling] =
            body(words, op::POLL_REGMEM, 0xf << FUNC_SHIFT)?;
        let function = match header >> FUNC_SHIFT {
            0b1011 => Function::Equal,
            0b1101 => Function::GreaterEqual,
            _ => {
                return Err(Malformed::Reserved {
                    word: 0,
                    value: header,
                });
            }
        };
        if polling != POLLING {
            return Err(Malformed::Reserved {
                word: 5,
                value: polling,
            });
        }
        Ok(Self {
            function,
            address: read_address(1, low, high, 2)?,
            value: value.into(),
            mask,
        })
    }
}

impl core::fmt::Display for PollRegmem {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let function = match self.function {
            Function::Equal => "==",
            Function::GreaterEqual => ">=",
        };
        let (address, value) = (Text(self.address), Text(self.value));
        write!(
            f,
            "POLL_REGMEM MEM func={function} ADDR={address} VALUE={value} MASK={:#x}",
            self.mask
        )
    }
}
