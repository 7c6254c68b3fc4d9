//! TIMESTAMP: writes the GPU's clock.

use hcq_nostd::record::{Command, Operand, RecordError};
use hcq_nostd::value::Value;

use super::{address, body, op, read_address};
use crate::malformed::Malformed;
use crate::pm4::Text;

/// SUBOP_TIMESTAMP_GET_GLOBAL.
const GET_GLOBAL: u32 = 2 << 8;

/// Writes the GPU's clock, 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TimestampGetGlobal {
    /// Where, at an 8-byte boundary.
    pub address: Value,
}

impl TimestampGetGlobal {
    /// Words of the packet.
    pub const WORDS: usize = 3;

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for an address that is misaligned or not below 2^48.
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        c.word(u32::from(op::TIMESTAMP) | GET_GLOBAL);
        address(c, self.address, 3, Operand::Signal)
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let &[header, low, high] = body(words, op::TIMESTAMP, 0xff << 8)?;
        if header & !0xff != GET_GLOBAL {
            return Err(Malformed::Reserved {
                word: 0,
                value: header,
            });
        }
        Ok(Self {
            address: read_address(1, low, high, 3)?,
        })
    }
}

impl core::fmt::Display for TimestampGetGlobal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "TIMESTAMP GET_GLOBAL ADDR={}", Text(self.address))
    }
}
