//! FENCE: writes a word when all earlier work is complete.

use hcq_nostd::record::{Command, Operand, RecordError};
use hcq_nostd::value::{Field, Value};

use super::copy_linear::limits;
use super::{Unsupported, Version, address, body, op, read_address};
use crate::malformed::Malformed;
use crate::pm4::Text;

/// Writes a word when all earlier work is complete. Versions from 5 on say that its memory is not cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Fence {
    /// Where, at a 4-byte boundary.
    pub address: Value,
    /// What, 32 bits.
    pub data: Value,
}

impl Fence {
    /// Words of the packet.
    pub const WORDS: usize = 4;

    /// Appends the packet. The address is called `operand` in errors and must also be a multiple of `2^align_log2`.
    pub(crate) fn record_as(
        &self,
        c: &mut Command<'_, '_>,
        mtype: u32,
        operand: Operand,
        align_log2: u8,
    ) -> Result<(), RecordError> {
        c.word(u32::from(op::FENCE) | mtype);
        address(c, self.address, align_log2, operand)?;
        c.field(0, self.data, Field::new(0, 32))
    }

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for an address that is misaligned or not below 2^48, or data of more than 32 bits.
    pub fn record(&self, c: &mut Command<'_, '_>, version: Version) -> Result<(), RecordError> {
        self.record_as(c, limits(version)?.fence_mtype, Operand::Address, 2)
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`], also for another memory type than the version's.
    pub fn decode(words: &[u32], version: Version) -> Result<Self, Malformed> {
        let &[header, low, high, data] = body(words, op::FENCE, 7 << 16)?;
        let limits = version
            .limits()
            .map_err(|Unsupported(_)| Malformed::Header { word: header })?;
        if header & !0xff != limits.fence_mtype {
            return Err(Malformed::Reserved {
                word: 0,
                value: header,
            });
        }
        Ok(Self {
            address: read_address(1, low, high, 2)?,
            data: data.into(),
        })
    }
}

impl core::fmt::Display for Fence {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "FENCE ADDR={} DATA={}",
            Text(self.address),
            Text(self.data)
        )
    }
}
