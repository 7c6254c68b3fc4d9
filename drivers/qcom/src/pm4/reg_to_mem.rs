//! CP_REG_TO_MEM: writes registers to memory.

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use super::header::{REGISTER, body, command};
use super::registers::Register;
use super::{Text, join, op};
use crate::device::ADDRESS_BITS;
use crate::malformed::{Malformed, only};

const CNT_SHIFT: u32 = 18;
const CNT: u32 = 0xfff;
const WIDE: u32 = 1 << 30;

/// Writes registers to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RegToMem {
    /// Number of the first register, 18 bits.
    pub register: u32,
    /// CNT: registers, 12 bits.
    pub count: u16,
    /// 64B: two registers are one number, which is read at once.
    pub wide: bool,
    /// Where to, at a 4-byte boundary (8 for a wide one) below 2^49.
    pub address: Value,
}

impl RegToMem {
    /// Words of the packet.
    pub const WORDS: usize = 4;

    /// Header and first word of a packet whose register and count fit.
    pub(crate) const fn frame(register: u32, count: u32, wide: bool) -> [u32; 2] {
        let wide = if wide { WIDE } else { 0 };
        [
            command::<{ Self::WORDS }>(op::REG_TO_MEM),
            register | count << CNT_SHIFT | wide,
        ]
    }

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for an address that is misaligned or not below 2^49, a register of more than 18 bits, or no
    /// register or more than 12 bits count.
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        let (count, align) = (self.count.into(), if self.wide { 3 } else { 2 });
        Fit::bits(18)
            .check(self.register.into())
            .operand(Operand::Source)?;
        Fit::count(12).check(count).operand(Operand::Length)?;
        c.words(&Self::frame(self.register, self.count.into(), self.wide));
        c.pair(self.address, Fit::aligned(ADDRESS_BITS, align))
            .operand(Operand::Address)
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let &[_, info, low, high] = body(words, op::REG_TO_MEM)?;
        only(1, info, REGISTER | CNT << CNT_SHIFT | WIDE)?;
        let (count, wide) = (info >> CNT_SHIFT & CNT, info & WIDE != 0);
        if count == 0 {
            return Err(Malformed::Reserved {
                word: 1,
                value: info,
            });
        }
        only(2, low, if wide { !7 } else { !3 })?;
        only(3, high, 0x1_ffff)?;
        Ok(Self {
            register: info & REGISTER,
            count: (count & CNT) as u16,
            wide,
            address: join(low, high).into(),
        })
    }
}

impl core::fmt::Display for RegToMem {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("CP_REG_TO_MEM REG=")?;
        if let Some((register, 0)) = Register::at(self.register) {
            write!(f, "{}", register.name)?;
        }
        write!(f, "({:#x}) CNT={}", self.register, self.count)?;
        if self.wide {
            f.write_str(" 64B")?;
        }
        write!(f, " DEST={}", Text(self.address))
    }
}
