//! Any packet.

use hcq_nostd::record::{Command, RecordError};

use super::copy_linear::CopyLinear;
use super::fence::Fence;
use super::indirect::Indirect;
use super::nop::Nop;
use super::poll_regmem::PollRegmem;
use super::timestamp::TimestampGetGlobal;
use super::trap::Trap;
use super::write_linear::WriteLinear;
use super::{Version, op};
use crate::malformed::Malformed;

/// Any packet that this driver records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Packet {
    /// NOP.
    Nop(Nop),
    /// COPY, linear.
    CopyLinear(CopyLinear),
    /// WRITE, linear.
    WriteLinear(WriteLinear),
    /// INDIRECT.
    Indirect(Indirect),
    /// FENCE.
    Fence(Fence),
    /// TRAP.
    Trap(Trap),
    /// POLL_REGMEM.
    PollRegmem(PollRegmem),
    /// TIMESTAMP, global.
    Timestamp(TimestampGetGlobal),
}

impl Packet {
    /// The packet that starts here, and its number of words.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32], version: Version) -> Result<(Self, usize), Malformed> {
        let header = *words
            .first()
            .ok_or(Malformed::Truncated { need: 1, have: 0 })?;
        let [operation, ..] = header.to_le_bytes();
        Ok(match operation {
            op::NOP => {
                let nop = Nop::decode(words)?;
                (Self::Nop(nop), nop.len())
            }
            op::COPY => (
                Self::CopyLinear(CopyLinear::decode(words, version)?),
                CopyLinear::WORDS,
            ),
            op::WRITE => {
                let (write, len) = WriteLinear::decode(words)?;
                (Self::WriteLinear(write), len)
            }
            op::INDIRECT => (Self::Indirect(Indirect::decode(words)?), Indirect::WORDS),
            op::FENCE => (Self::Fence(Fence::decode(words, version)?), Fence::WORDS),
            op::TRAP => (Self::Trap(Trap::decode(words)?), Trap::WORDS),
            op::POLL_REGMEM => (
                Self::PollRegmem(PollRegmem::decode(words)?),
                PollRegmem::WORDS,
            ),
            op::TIMESTAMP => (
                Self::Timestamp(TimestampGetGlobal::decode(words)?),
                TimestampGetGlobal::WORDS,
            ),
            _ => {
                return Err(Malformed::Opcode {
                    opcode: operation.into(),
                });
            }
        })
    }

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError`] for operands that its fields cannot hold.
    pub fn record(&self, c: &mut Command<'_, '_>, version: Version) -> Result<(), RecordError> {
        match self {
            Self::Nop(p) => p.record(c),
            Self::CopyLinear(p) => p.record(c, version)?,
            Self::WriteLinear(p) => p.record(c)?,
            Self::Indirect(p) => c.words(&p.words()),
            Self::Fence(p) => p.record(c, version)?,
            Self::Trap(p) => p.record(c)?,
            Self::PollRegmem(p) => p.record(c)?,
            Self::Timestamp(p) => p.record(c)?,
        }
        Ok(())
    }

    /// Words of the packet that starts here, from its header and count alone.
    pub(crate) fn len(words: &[u32]) -> usize {
        let Some(header) = words.first() else {
            return 1;
        };
        let [operation, ..] = header.to_le_bytes();
        match operation {
            op::COPY => CopyLinear::WORDS,
            op::WRITE => words
                .get(3)
                .map_or(usize::MAX, |n| (*n as usize).saturating_add(5)),
            op::INDIRECT => Indirect::WORDS,
            op::FENCE => Fence::WORDS,
            op::TRAP => Trap::WORDS,
            op::POLL_REGMEM => PollRegmem::WORDS,
            op::TIMESTAMP => TimestampGetGlobal::WORDS,
            op::NOP => (header >> 16 & 0x3fff) as usize + 1,
            _ => 1,
        }
    }
}

impl core::fmt::Display for Packet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Nop(p) => write!(f, "{p}"),
            Self::CopyLinear(p) => write!(f, "{p}"),
            Self::WriteLinear(p) => write!(f, "{p}"),
            Self::Indirect(p) => write!(f, "{p}"),
            Self::Fence(p) => write!(f, "{p}"),
            Self::Trap(p) => write!(f, "{p}"),
            Self::PollRegmem(p) => write!(f, "{p}"),
            Self::Timestamp(p) => write!(f, "{p}"),
        }
    }
}
