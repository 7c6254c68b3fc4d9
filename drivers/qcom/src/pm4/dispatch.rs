//! CP_SET_MARKER, CP_RUN_OPENCL, CP_EXEC_CS.

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use super::header::{body, command};
use super::{Text, op};
use crate::malformed::{Malformed, only};

/// CP_SET_MARKER: what kind of work follows, which tells the command processor what to save when it is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SetMarker {
    mode: u8,
}

const MODE: u32 = 0xf;

impl SetMarker {
    /// RM6_COMPUTE.
    pub const COMPUTE: Self = Self { mode: 8 };
    /// Words of the packet.
    pub const WORDS: usize = 2;

    /// MODE, an `a6xx_marker`.
    pub const fn mode(self) -> u8 {
        self.mode
    }

    /// The packet.
    pub const fn words(self) -> [u32; Self::WORDS] {
        [command::<{ Self::WORDS }>(op::SET_MARKER), self.mode as u32]
    }

    /// Appends the packet.
    pub fn record(self, c: &mut Command<'_, '_>) {
        c.words(&self.words());
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let &[_, mode] = body(words, op::SET_MARKER)?;
        only(1, mode, MODE)?;
        Ok(Self {
            mode: (mode & MODE) as u8,
        })
    }
}

impl core::fmt::Display for SetMarker {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("CP_SET_MARKER MODE=")?;
        match self.mode {
            8 => f.write_str("RM6_COMPUTE"),
            mode => write!(f, "{mode:#x}"),
        }
    }
}

/// CP_RUN_OPENCL: runs the program over the range in HLSQ_CS_NDRANGE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RunOpenCl;

impl RunOpenCl {
    /// Words of the packet.
    pub const WORDS: usize = 2;

    /// The packet.
    pub const fn words(self) -> [u32; Self::WORDS] {
        [command::<{ Self::WORDS }>(op::RUN_OPENCL), 0]
    }

    /// Appends the packet.
    pub fn record(self, c: &mut Command<'_, '_>) {
        c.words(&self.words());
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let &[_, zero] = body(words, op::RUN_OPENCL)?;
        only(1, zero, 0)?;
        Ok(Self)
    }
}

/// CP_EXEC_CS: runs the program on this many work-groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ExecCs {
    /// Work-groups, x, y, z; each at least 1.
    pub groups: [Value; 3],
}

impl ExecCs {
    /// Words of the packet.
    pub const WORDS: usize = 5;
    /// Where the groups are in it.
    pub(crate) const GROUPS: usize = 2;

    /// The packet for one group.
    pub(crate) const fn one_group() -> [u32; Self::WORDS] {
        [command::<{ Self::WORDS }>(op::EXEC_CS), 0, 1, 1, 1]
    }

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for no group, or more than 32 bits hold.
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        let at = c.position() + Self::GROUPS;
        c.words(&Self::one_group());
        for (d, groups) in (0u8..).zip(self.groups) {
            c.set_value(at + usize::from(d), groups, Fit::count(32))
                .operand(Operand::Groups(d))?;
        }
        Ok(())
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let &[_, zero, x, y, z] = body(words, op::EXEC_CS)?;
        only(1, zero, 0)?;
        for (word, value) in (2..).zip([x, y, z]) {
            if value == 0 {
                return Err(Malformed::Reserved { word, value });
            }
        }
        Ok(Self {
            groups: [x, y, z].map(|g| u64::from(g).into()),
        })
    }
}

impl core::fmt::Display for ExecCs {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let [x, y, z] = self.groups.map(Text);
        write!(f, "CP_EXEC_CS NGROUPS={x},{y},{z}")
    }
}
