//! COPY, linear: copies bytes.

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Field, Value};

use super::version::Limits;
use super::{Unsupported, Version, address, body, op, read_address};
use crate::malformed::{Malformed, only};
use crate::pm4::Text;

/// Copies bytes between ranges that do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CopyLinear {
    /// Where to.
    pub destination: Value,
    /// Where from.
    pub source: Value,
    /// How many: at least 1, at most the version's [`max_copy`](Version::max_copy). The packet counts them less one.
    pub bytes: Value,
}

impl CopyLinear {
    /// Words of the packet.
    pub const WORDS: usize = 7;

    pub(crate) fn record_in(
        &self,
        c: &mut Command<'_, '_>,
        count: Field,
    ) -> Result<(), RecordError> {
        c.word(op::COPY.into());
        let at = c.position();
        c.words(&[0, 0]);
        c.set_field(at, 0, self.bytes - 1, count)
            .operand(Operand::Length)?;
        address(c, self.source, 0, Operand::Source)?;
        address(c, self.destination, 0, Operand::Destination)
    }

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for an address that is not below 2^48, or a length that the version's field cannot hold.
    pub fn record(&self, c: &mut Command<'_, '_>, version: Version) -> Result<(), RecordError> {
        let Limits { count, .. } = limits(version)?;
        self.record_in(c, count)
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32], version: Version) -> Result<Self, Malformed> {
        let &[header, count, parameters, source, source_hi, to, to_hi] = body(words, op::COPY, 0)?;
        let limits = version
            .limits()
            .map_err(|Unsupported(_)| Malformed::Header { word: header })?;
        only(
            1,
            count,
            u32::try_from(limits.count.mask()).unwrap_or(u32::MAX),
        )?;
        only(2, parameters, 0)?;
        Ok(Self {
            destination: read_address(5, to, to_hi, 0)?,
            source: read_address(3, source, source_hi, 0)?,
            bytes: Value::from(count) + 1,
        })
    }
}

/// The limits of a version, for packets that are recorded one by one.
pub(crate) fn limits(version: Version) -> Result<Limits, RecordError> {
    version
        .limits()
        .map_err(|Unsupported(_)| RecordError::Unsupported {
            operand: Operand::Length,
        })
}

impl core::fmt::Display for CopyLinear {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (from, to, bytes) = (Text(self.source), Text(self.destination), Text(self.bytes));
        write!(f, "COPY LINEAR count={bytes} SRC_ADDR={from} DST_ADDR={to}")
    }
}
