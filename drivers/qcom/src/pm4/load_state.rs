//! CP_LOAD_STATE6_FRAG: loads state of the compute stage from memory.

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Field, Fit, Value};

use super::header::{body, command};
use super::{Text, join, op};
use crate::device::ADDRESS_BITS;
use crate::malformed::{Malformed, only};

/// NUM_UNIT.
const NUM_UNIT: Field = Field::new(22, 10);
const SS6_INDIRECT: u32 = 2 << 16;
const SB6_CS_TEX: u32 = 5 << 18;
const SB6_CS_SHADER: u32 = 0xd << 18;
/// STATE_TYPE: ST6_SHADER is 0.
const ST6_CONSTANTS: u32 = 1 << 14;
const ST6_UAV: u32 = 3 << 14;

/// What is loaded: STATE_BLOCK and STATE_TYPE, which mean something together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum State {
    /// Instructions, in units of 128 bytes.
    Instructions,
    /// Constants, in units of 16 bytes.
    Constants,
    /// Descriptors of storage images, 64 bytes each.
    Storage,
    /// Samplers, 16 bytes each.
    Samplers,
    /// Descriptors of textures, 64 bytes each.
    Textures,
}

impl State {
    const ALL: [Self; 5] = [
        Self::Instructions,
        Self::Constants,
        Self::Storage,
        Self::Samplers,
        Self::Textures,
    ];

    const fn bits(self) -> u32 {
        match self {
            Self::Instructions => SB6_CS_SHADER,
            Self::Constants => SB6_CS_SHADER | ST6_CONSTANTS,
            Self::Storage => SB6_CS_SHADER | ST6_UAV,
            Self::Samplers => SB6_CS_TEX,
            Self::Textures => SB6_CS_TEX | ST6_CONSTANTS,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Instructions => "SB6_CS_SHADER ST6_SHADER",
            Self::Constants => "SB6_CS_SHADER ST6_CONSTANTS",
            Self::Storage => "SB6_CS_SHADER ST6_UAV",
            Self::Samplers => "SB6_CS_TEX ST6_SHADER",
            Self::Textures => "SB6_CS_TEX ST6_CONSTANTS",
        }
    }
}

/// Loads state of the compute stage from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LoadState {
    /// What.
    pub state: State,
    /// NUM_UNIT: how many of its units; 1 to [`MAX_UNITS`](Self::MAX_UNITS).
    pub units: u32,
    /// Where from, at a 16-byte boundary below 2^49.
    pub address: Value,
}

impl LoadState {
    /// Words of the packet.
    pub const WORDS: usize = 4;
    /// Where the address is in it.
    pub(crate) const ADDRESS: usize = 2;
    /// Units that it loads at most. More would change the header's other fields.
    pub const MAX_UNITS: u32 = 0x3ff;

    /// Header and first word.
    pub(crate) fn frame(state: State, units: u32) -> Result<[u32; 2], RecordError> {
        if units == 0 || units > Self::MAX_UNITS {
            return Err(RecordError::Limit {
                operand: Operand::Length,
                value: units.into(),
                max: Self::MAX_UNITS.into(),
            });
        }
        let units = NUM_UNIT.place(units.into()).operand(Operand::Length)?;
        // A field of 32 bits at most.
        let units = (units & 0xffff_ffff) as u32;
        Ok([
            command::<{ Self::WORDS }>(op::LOAD_STATE6_FRAG),
            state.bits() | SS6_INDIRECT | units,
        ])
    }

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Limit`] for no unit or too many, [`RecordError::Misfit`] for an address that is misaligned or not
    /// below 2^49.
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        c.words(&Self::frame(self.state, self.units)?);
        c.pair(self.address, Fit::aligned(ADDRESS_BITS, 4))
            .operand(Operand::Address)
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let &[_, info, low, high] = body(words, op::LOAD_STATE6_FRAG)?;
        let state = State::ALL
            .into_iter()
            .find(|s| info & 0x3f_ffff == s.bits() | SS6_INDIRECT)
            .filter(|_| info >> 22 != 0)
            .ok_or(Malformed::Reserved {
                word: 1,
                value: info,
            })?;
        only(2, low, !0xf)?;
        only(3, high, 0x1_ffff)?;
        Ok(Self {
            state,
            units: info >> 22,
            address: join(low, high).into(),
        })
    }
}

impl core::fmt::Display for LoadState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (state, address) = (self.state.name(), Text(self.address));
        write!(
            f,
            "CP_LOAD_STATE6_FRAG {state} NUM_UNIT={} EXT_SRC_ADDR={address}",
            self.units
        )
    }
}
