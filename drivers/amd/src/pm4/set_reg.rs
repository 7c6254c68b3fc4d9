//! SET_SH_REG and SET_UCONFIG_REG: write registers that follow each other.

use hcq_nostd::record::{Command, Operand, RecordError};

use super::{MAX_BODY, header, op, parse_header};
use crate::malformed::{Malformed, only};

/// A range of registers with a packet of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Space {
    /// SET_SH_REG: 0x2c00 to 0x3000.
    Sh,
    /// SET_UCONFIG_REG: 0xc000 to 0x10000.
    Uconfig,
}

impl Space {
    const fn opcode(self) -> u8 {
        match self {
            Self::Sh => op::SET_SH_REG,
            Self::Uconfig => op::SET_UCONFIG_REG,
        }
    }

    /// First register, and the first behind the range.
    const fn range(self) -> (u32, u32) {
        match self {
            Self::Sh => (crate::chips::SH_REG.start, crate::chips::SH_REG.end),
            Self::Uconfig => (0xc000, 0x1_0000),
        }
    }
}

/// Writes registers that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetReg<'v> {
    space: Space,
    first: u32,
    values: &'v [u32],
}

impl<'v> SetReg<'v> {
    /// Writes `values` to the registers from dword address `first` on.
    ///
    /// # Errors
    /// [`RecordError::Limit`] for registers out of the packet's range, none, or more than one packet holds.
    pub fn new(space: Space, first: u32, values: &'v [u32]) -> Result<Self, RecordError> {
        let (start, end) = space.range();
        let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
        let last = u64::from(first) + u64::from(count);
        let limit = |value, max: u32| RecordError::Limit {
            operand: Operand::Address,
            value,
            max: max.into(),
        };
        if first < start || last > end.into() {
            return Err(limit(last, end));
        }
        if count == 0 || count >= MAX_BODY {
            return Err(limit(count.into(), MAX_BODY - 1));
        }
        Ok(Self {
            space,
            first,
            values,
        })
    }

    /// The packet's range.
    pub const fn space(&self) -> Space {
        self.space
    }

    /// Dword address of the first register.
    pub const fn first(&self) -> u32 {
        self.first
    }

    /// What is written.
    pub const fn values(&self) -> &'v [u32] {
        self.values
    }

    /// Appends the packet. Returns the index of the first value in the command.
    pub fn record(&self, c: &mut Command<'_, '_>) -> usize {
        // One to `MAX_BODY - 1` values, and a register inside the range.
        let body = self.values.len() as u32 + 1;
        c.words(&[
            header(self.space.opcode(), body),
            self.first.wrapping_sub(self.space.range().0),
        ]);
        let at = c.position();
        c.words(self.values);
        at
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &'v [u32]) -> Result<Self, Malformed> {
        let first = *words
            .first()
            .ok_or(Malformed::Truncated { need: 3, have: 0 })?;
        let (opcode, len) = parse_header(first)?;
        let space = match opcode {
            op::SET_SH_REG => Space::Sh,
            op::SET_UCONFIG_REG => Space::Uconfig,
            _ => {
                return Err(Malformed::Opcode {
                    opcode: opcode.into(),
                });
            }
        };
        let packet = words.get(..len).ok_or(Malformed::Truncated {
            need: len,
            have: words.len(),
        })?;
        let [_, offset, values @ ..] = packet else {
            return Err(Malformed::Length {
                opcode: opcode.into(),
                need: 3,
                have: len,
            });
        };
        only(1, *offset, 0xffff)?;
        let first = space.range().0 + offset;
        Self::new(space, first, values).map_err(|_| Malformed::Reserved {
            word: 1,
            value: *offset,
        })
    }

    /// As text, with the registers' names.
    pub(crate) fn write(
        &self,
        f: &mut core::fmt::Formatter<'_>,
        register: impl Fn(u32, &mut core::fmt::Formatter<'_>) -> core::fmt::Result,
    ) -> core::fmt::Result {
        f.write_str(match self.space {
            Space::Sh => "SET_SH_REG ",
            Space::Uconfig => "SET_UCONFIG_REG ",
        })?;
        register(self.first, f)?;
        f.write_str(" =")?;
        self.values.iter().try_for_each(|v| write!(f, " {v:#x}"))
    }
}
