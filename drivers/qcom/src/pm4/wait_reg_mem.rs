//! CP_WAIT_REG_MEM: holds the queue until a masked word compares.

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use super::header::{REGISTER, body, command};
use super::{Text, join, op, split};
use crate::device::ADDRESS_BITS;
use crate::malformed::{Malformed, only};

/// FUNCTION, `cp_cond_function`: how `word & mask` compares with the reference, 32 bits unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Function {
    /// Does not wait.
    Always = 0,
    /// Below.
    Less = 1,
    /// At most.
    LessEqual = 2,
    /// The same.
    Equal = 3,
    /// Another.
    NotEqual = 4,
    /// At least.
    GreaterEqual = 5,
    /// Above.
    Greater = 6,
}

impl Function {
    const fn from_bits(bits: u32) -> Option<Self> {
        Some(match bits {
            0 => Self::Always,
            1 => Self::Less,
            2 => Self::LessEqual,
            3 => Self::Equal,
            4 => Self::NotEqual,
            5 => Self::GreaterEqual,
            6 => Self::Greater,
            _ => return None,
        })
    }

    const fn symbol(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::GreaterEqual => ">=",
            Self::Greater => ">",
        }
    }
}

/// What is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Poll {
    /// A word of memory, at a 4-byte boundary below 2^49.
    Memory(Value),
    /// A register, 18 bits.
    Register(u32),
}

const POLL_MEMORY: u32 = 1 << 4;

/// Holds the queue until `word & mask` compares with the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WaitRegMem {
    /// How they compare.
    pub function: Function,
    /// What is polled.
    pub poll: Poll,
    /// The reference, 32 bits.
    pub reference: Value,
    /// The mask.
    pub mask: u32,
    /// DELAY_LOOP_CYCLES: time between polls.
    pub delay: u32,
}

impl WaitRegMem {
    /// Words of the packet.
    pub const WORDS: usize = 7;
    /// Time between polls where nothing else is asked for.
    pub const DELAY: u32 = 32;

    /// Appends the packet. The address is called `operand` in errors and must also be a multiple of `2^align_log2`.
    #[inline]
    pub(crate) fn record_as(
        &self,
        c: &mut Command<'_, '_>,
        operand: Operand,
        align_log2: u8,
    ) -> Result<(), RecordError> {
        let header = command::<{ Self::WORDS }>(op::WAIT_REG_MEM);
        let function = self.function as u32;
        let at = Fit::aligned(ADDRESS_BITS, align_log2.max(2));
        if let (Poll::Memory(Value::Imm(address)), Value::Imm(reference)) =
            (self.poll, self.reference)
        {
            at.check(address).operand(operand)?;
            Fit::bits(32).check(reference).operand(Operand::Data)?;
            let ([low, high], [reference, _]) = (split(address), split(reference));
            let info = function | POLL_MEMORY;
            c.words(&[header, info, low, high, reference, self.mask, self.delay]);
            return Ok(());
        }
        match self.poll {
            Poll::Memory(address) => {
                c.words(&[header, function | POLL_MEMORY]);
                c.pair(address, at).operand(operand)?;
            }
            Poll::Register(r) => {
                Fit::bits(18).check(r.into()).operand(operand)?;
                c.words(&[header, function, r, 0]);
            }
        }
        let at = c.position();
        c.words(&[0, self.mask, self.delay]);
        c.set_value(at, self.reference, Fit::bits(32))
            .operand(Operand::Data)
    }

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for an address that is misaligned or not below 2^49, a register of more than 18 bits, or a
    /// reference of more than 32.
    #[inline]
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        self.record_as(c, Operand::Address, 2)
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let &[_, info, low, high, reference, mask, delay] = body(words, op::WAIT_REG_MEM)?;
        let reserved = Malformed::Reserved {
            word: 1,
            value: info,
        };
        let function = Function::from_bits(info & 7).ok_or(reserved)?;
        let poll = match info & !7 {
            POLL_MEMORY => {
                only(2, low, !3)?;
                only(3, high, 0x1_ffff)?;
                Poll::Memory(join(low, high).into())
            }
            0 => {
                only(2, low, REGISTER)?;
                only(3, high, 0)?;
                Poll::Register(low)
            }
            _ => return Err(reserved),
        };
        Ok(Self {
            function,
            poll,
            reference: reference.into(),
            mask,
            delay,
        })
    }
}

impl core::fmt::Display for WaitRegMem {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("CP_WAIT_REG_MEM ")?;
        match self.poll {
            Poll::Memory(address) => write!(f, "POLL_ADDR={}", Text(address))?,
            Poll::Register(r) => write!(f, "REG={r:#x}")?,
        }
        let (function, reference) = (self.function.symbol(), Text(self.reference));
        write!(f, " FUNCTION={function} REF={reference}")?;
        write!(f, " MASK={:#x} DELAY_LOOP_CYCLES={}", self.mask, self.delay)
    }
}
