//! WAIT_REG_MEM: holds the queue until a masked word compares.

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use super::{Text, body, join, op, split, type3};
use crate::device::ADDRESS_BITS;
use crate::malformed::{Malformed, only};

/// FUNCTION: how `word & mask` compares with the reference, 32 bits unsigned.
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
    /// A word of memory, at a 4-byte boundary below 2^48.
    Memory(Value),
    /// A register. Dword address, 18 bits.
    Register(u32),
    /// `wr_wait_wr_reg`: writes the reference to one register, then polls another. Dword addresses, 18 bits.
    Request {
        /// Written first.
        request: u32,
        /// Polled.
        done: u32,
    },
}

const MEM_SPACE_MEMORY: u32 = 1 << 4;
const OPERATION_WR_WAIT_WR_REG: u32 = 1 << 6;
const REGISTER: u32 = 0x3_ffff;

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
    /// Time between polls, in units of 16 clocks.
    pub poll_interval: u16,
}

impl WaitRegMem {
    /// Words of the packet.
    pub const WORDS: usize = 7;
    /// Time between polls where nothing else is asked for.
    pub const POLL_INTERVAL: u16 = 4;

    /// `wr_wait_wr_reg` of one bit: writes it to one register, and waits until another has it. For registers of 18 bits.
    pub(crate) const fn request(request: u32, done: u32, bit: u32) -> [u32; Self::WORDS] {
        let info = Function::GreaterEqual as u32 | OPERATION_WR_WAIT_WR_REG;
        let interval = Self::POLL_INTERVAL as u32;
        [
            type3::<{ Self::WORDS }>(op::WAIT_REG_MEM),
            info,
            request,
            done,
            bit,
            bit,
            interval,
        ]
    }

    /// Appends the packet. The address is called `operand` in errors and must also be a multiple of `2^align_log2`.
    #[inline]
    pub(crate) fn record_as(
        &self,
        c: &mut Command<'_, '_>,
        operand: Operand,
        align_log2: u8,
    ) -> Result<(), RecordError> {
        let header = type3::<{ Self::WORDS }>(op::WAIT_REG_MEM);
        let function = self.function as u32;
        let register = |r: u32| Fit::bits(18).check(r.into()).operand(operand).map(|()| r);
        match self.poll {
            Poll::Memory(address) => {
                let at = Fit::aligned(ADDRESS_BITS, align_log2.max(2));
                if let (Value::Imm(address), Value::Imm(reference)) = (address, self.reference) {
                    at.check(address).operand(operand)?;
                    Fit::bits(32).check(reference).operand(Operand::Data)?;
                    let ([low, high], [reference, _]) = (split(address), split(reference));
                    let interval = self.poll_interval.into();
                    let info = function | MEM_SPACE_MEMORY;
                    c.words(&[header, info, low, high, reference, self.mask, interval]);
                    return Ok(());
                }
                c.words(&[header, function | MEM_SPACE_MEMORY]);
                c.pair(address, at).operand(operand)?;
            }
            Poll::Register(r) => c.words(&[header, function, register(r)?, 0]),
            Poll::Request { request, done } => {
                let info = function | OPERATION_WR_WAIT_WR_REG;
                c.words(&[header, info, register(request)?, register(done)?]);
            }
        }
        let at = c.position();
        c.words(&[0, self.mask, self.poll_interval.into()]);
        c.set_value(at, self.reference, Fit::bits(32))
            .operand(Operand::Data)
    }

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for an address that is misaligned or not below 2^48, a register of more than 18 bits, or a
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
        let &[_, info, first, second, reference, mask, interval] = body(words, op::WAIT_REG_MEM)?;
        let reserved = Malformed::Reserved {
            word: 1,
            value: info,
        };
        let function = Function::from_bits(info & 7).ok_or(reserved)?;
        let poll = match info & !7 {
            MEM_SPACE_MEMORY => {
                only(2, first, !3)?;
                only(3, second, 0xffff)?;
                Poll::Memory(join(first, second).into())
            }
            0 => {
                only(2, first, REGISTER)?;
                only(3, second, 0)?;
                Poll::Register(first)
            }
            OPERATION_WR_WAIT_WR_REG => {
                only(2, first, REGISTER)?;
                only(3, second, REGISTER)?;
                Poll::Request {
                    request: first,
                    done: second,
                }
            }
            _ => return Err(reserved),
        };
        let poll_interval = u16::try_from(interval).map_err(|_| Malformed::Reserved {
            word: 6,
            value: interval,
        })?;
        Ok(Self {
            function,
            poll,
            reference: reference.into(),
            mask,
            poll_interval,
        })
    }

    /// As text, with the registers' names.
    pub(crate) fn write(
        &self,
        f: &mut core::fmt::Formatter<'_>,
        register: impl Fn(u32, &mut core::fmt::Formatter<'_>) -> core::fmt::Result,
    ) -> core::fmt::Result {
        f.write_str("WAIT_REG_MEM ")?;
        match self.poll {
            Poll::Memory(address) => write!(f, "MEM ADDR={}", Text(address))?,
            Poll::Register(r) => {
                f.write_str("REG ")?;
                register(r, f)?;
            }
            Poll::Request { request, done } => {
                f.write_str("WR_WAIT_WR_REG REQ=")?;
                register(request, f)?;
                f.write_str(" DONE=")?;
                register(done, f)?;
            }
        }
        let (function, reference) = (self.function.symbol(), Text(self.reference));
        write!(
            f,
            " FUNCTION={function} REFERENCE={reference} MASK={:#x}",
            self.mask
        )?;
        write!(f, " POLL_INTERVAL={}", self.poll_interval)
    }
}
