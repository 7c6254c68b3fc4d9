//! WRITE, linear: writes words from the packet.

use hcq_nostd::queue::WriteWidth;
use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Field, Fit, Value};

use super::{address, op, read_address};
use crate::malformed::{Malformed, only};
use crate::pm4::{Text, join};

/// Writes one or two words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WriteLinear {
    /// Where, aligned as `width` says.
    pub destination: Value,
    /// What.
    pub data: Value,
    /// 32 or 64 bits.
    pub width: WriteWidth,
}

impl WriteLinear {
    /// Words of a packet that writes `n` words.
    const fn words(n: usize) -> usize {
        4 + n
    }

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for an address that is misaligned or not below 2^48, or data of more than its width.
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        c.word(op::WRITE.into());
        // The count is stored less one.
        match self.width {
            WriteWidth::W32 => {
                address(c, self.destination, 2, Operand::Address)?;
                c.word(0);
                c.field(0, self.data, Field::new(0, 32))
            }
            WriteWidth::W64 => {
                address(c, self.destination, 3, Operand::Address)?;
                c.word(1);
                c.pair(self.data, Fit::ANY).operand(Operand::Data)
            }
        }
    }

    /// The packet that starts here, and its number of words.
    ///
    /// # Errors
    /// [`Malformed`], also for one that writes more than two words.
    pub fn decode(words: &[u32]) -> Result<(Self, usize), Malformed> {
        let truncated = |n| Malformed::Truncated {
            need: Self::words(n),
            have: words.len(),
        };
        let &[header, low, high, count] = words.first_chunk().ok_or(truncated(1))?;
        if header & 0xff != u32::from(op::WRITE) {
            return Err(Malformed::Opcode {
                opcode: header & 0xff,
            });
        }
        only(0, header, 0xff)?;
        let data = words.get(4..).unwrap_or_default();
        let (data, width, align_log2, n) = match (count, data) {
            (0, &[data, ..]) => (data.into(), WriteWidth::W32, 2, 1),
            (1, &[low, high, ..]) => (join(low, high).into(), WriteWidth::W64, 3, 2),
            (0 | 1, _) => return Err(truncated(count as usize + 1)),
            _ => {
                return Err(Malformed::Reserved {
                    word: 3,
                    value: count,
                });
            }
        };
        let destination = read_address(1, low, high, align_log2)?;
        Ok((
            Self {
                destination,
                data,
                width,
            },
            Self::words(n),
        ))
    }
}

impl core::fmt::Display for WriteLinear {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let count = match self.width {
            WriteWidth::W32 => 1,
            WriteWidth::W64 => 2,
        };
        let (to, data) = (Text(self.destination), Text(self.data));
        write!(f, "WRITE LINEAR count={count} DST_ADDR={to} DATA={data}")
    }
}
