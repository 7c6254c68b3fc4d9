//! DISPATCH_DIRECT: starts the work-groups of one launch.

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use super::{Text, body, op, type3};
use crate::malformed::Malformed;

bitflags::bitflags! {
    /// COMPUTE_DISPATCH_INITIATOR.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Initiator: u32 {
        /// COMPUTE_SHADER_EN.
        const COMPUTE_SHADER_EN = 1;
        /// PARTIAL_TG_EN: the last work-groups are smaller.
        const PARTIAL_TG_EN = 1 << 1;
        /// FORCE_START_AT_000.
        const FORCE_START_AT_000 = 1 << 2;
        /// ORDERED_APPEND_ENBL.
        const ORDERED_APPEND_ENBL = 1 << 3;
        /// USE_THREAD_DIMENSIONS: sizes in work-items.
        const USE_THREAD_DIMENSIONS = 1 << 5;
        /// ORDER_MODE.
        const ORDER_MODE = 1 << 6;
        /// SCALAR_L1_INV_VOL.
        const SCALAR_L1_INV_VOL = 1 << 10;
        /// VECTOR_L1_INV_VOL.
        const VECTOR_L1_INV_VOL = 1 << 11;
        /// RESTORE.
        const RESTORE = 1 << 14;
        /// CS_W32_EN: waves of 32 lanes, gfx10 and later.
        const CS_W32_EN = 1 << 15;
    }
}

/// Starts the work-groups of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchDirect {
    /// Work-groups, x, y, z. Each at least 1.
    pub groups: [Value; 3],
    /// How.
    pub initiator: Initiator,
}

#[cfg(feature = "defmt")]
impl defmt::Format for DispatchDirect {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(
            f,
            "DispatchDirect({}, {=u32:#x})",
            self.groups,
            self.initiator.bits()
        );
    }
}

impl DispatchDirect {
    /// Words of the packet.
    pub const WORDS: usize = 5;
    /// The first size in the packet.
    pub(crate) const GROUPS: usize = 1;

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for a size of zero or of more than 32 bits.
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        let at = c.position();
        let header = type3::<{ Self::WORDS }>(op::DISPATCH_DIRECT);
        c.words(&[header, 0, 0, 0, self.initiator.bits()]);
        for (d, groups) in (0u8..).zip(self.groups) {
            c.set_value(at + Self::GROUPS + usize::from(d), groups, Fit::count(32))
                .operand(Operand::Groups(d))?;
        }
        Ok(())
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let &[_, x, y, z, initiator] = body(words, op::DISPATCH_DIRECT)?;
        for (word, value) in [(1, x), (2, y), (3, z)] {
            if value == 0 {
                return Err(Malformed::Reserved { word, value });
            }
        }
        let reserved = Malformed::Reserved {
            word: 4,
            value: initiator,
        };
        Ok(Self {
            groups: [x, y, z].map(Value::from),
            initiator: Initiator::from_bits(initiator).ok_or(reserved)?,
        })
    }
}

impl core::fmt::Display for DispatchDirect {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let [x, y, z] = self.groups.map(Text);
        write!(
            f,
            "DISPATCH_DIRECT DIM={x},{y},{z} INITIATOR={:#x}(",
            self.initiator.bits()
        )?;
        bitflags::parser::to_writer(&self.initiator, &mut *f)?;
        f.write_str(")")
    }
}
