//! COPY_DATA: copies one number between memory, a register, the packet and the clock.

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use super::{Text, body, join, op, split, type3};
use crate::device::ADDRESS_BITS;
use crate::malformed::{Malformed, only};

/// SRC_SEL: where the number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Source {
    /// A register, dword address.
    Register(u32),
    /// Memory, through L2.
    Memory(Value),
    /// The packet.
    Immediate(Value),
    /// The GPU's clock.
    GpuClock,
}

/// DST_SEL: where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Destination {
    /// A register, dword address.
    Register(u32),
    /// Memory, through L2.
    Memory(Value),
}

const SRC_REGISTER: u32 = 0;
const SRC_MEMORY: u32 = 2;
const SRC_IMMEDIATE: u32 = 5;
const SRC_GPU_CLOCK: u32 = 9;
const DST_REGISTER: u32 = 0;
const DST_MEMORY: u32 = 2 << 8;
const COUNT_64: u32 = 1 << 16;
const WR_CONFIRM: u32 = 1 << 20;

/// Copies 32 or 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CopyData {
    /// From.
    pub source: Source,
    /// To.
    pub destination: Destination,
    /// 64 bits, not 32.
    pub wide: bool,
    /// Wait until it is written.
    pub confirm: bool,
}

impl CopyData {
    /// Words of the packet.
    pub const WORDS: usize = 6;

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for an address that is misaligned or not below 2^48, a register of more than 18 bits, or
    /// data of more than its width.
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        let width = if self.wide { 3 } else { 2 };
        let address = Fit::aligned(ADDRESS_BITS, width);
        let data = Fit::bits(if self.wide { 64 } else { 32 });
        let register = Fit::bits(18);
        let (source, from, fit, operand) = match self.source {
            Source::Register(r) => (SRC_REGISTER, r.into(), register, Operand::Source),
            Source::Memory(a) => (SRC_MEMORY, a, address, Operand::Source),
            Source::Immediate(v) => (SRC_IMMEDIATE, v, data, Operand::Data),
            Source::GpuClock => (SRC_GPU_CLOCK, Value::Imm(0), Fit::ANY, Operand::Data),
        };
        let (destination, to, to_fit) = match self.destination {
            Destination::Register(r) => (DST_REGISTER, r.into(), register),
            Destination::Memory(a) => (DST_MEMORY, a, address),
        };
        let control = source
            | destination
            | if self.wide { COUNT_64 } else { 0 }
            | if self.confirm { WR_CONFIRM } else { 0 };
        c.words(&[type3::<{ Self::WORDS }>(op::COPY_DATA), control]);
        c.pair(from, fit).operand(operand)?;
        c.pair(to, to_fit).operand(Operand::Destination)
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let &[_, control, low, high, to_low, to_high] = body(words, op::COPY_DATA)?;
        only(1, control, 0xf | 0xf << 8 | COUNT_64 | WR_CONFIRM)?;
        let wide = control & COUNT_64 != 0;
        let aligned = if wide { !7 } else { !3 };
        let address = |word, low, high| {
            only(word, low, aligned)?;
            only(word + 1, high, 0xffff)?;
            Ok(Value::from(join(low, high)))
        };
        let register = |word, low, high| {
            only(word, low, 0x3_ffff)?;
            only(word + 1, high, 0)?;
            Ok(low)
        };
        let reserved = Malformed::Reserved {
            word: 1,
            value: control,
        };
        let source = match control & 0xf {
            SRC_REGISTER => Source::Register(register(2, low, high)?),
            SRC_MEMORY => Source::Memory(address(2, low, high)?),
            SRC_IMMEDIATE if wide || high == 0 => Source::Immediate(join(low, high).into()),
            SRC_GPU_CLOCK if [low, high] == split(0) => Source::GpuClock,
            _ => return Err(reserved),
        };
        let destination = match control & 0xf << 8 {
            DST_REGISTER => Destination::Register(register(4, to_low, to_high)?),
            DST_MEMORY => Destination::Memory(address(4, to_low, to_high)?),
            _ => return Err(reserved),
        };
        Ok(Self {
            source,
            destination,
            wide,
            confirm: control & WR_CONFIRM != 0,
        })
    }

    /// As text, with the registers' names.
    pub(crate) fn write(
        &self,
        f: &mut core::fmt::Formatter<'_>,
        register: impl Fn(u32, &mut core::fmt::Formatter<'_>) -> core::fmt::Result,
    ) -> core::fmt::Result {
        write!(
            f,
            "COPY_DATA COUNT={} SRC=",
            if self.wide { 64 } else { 32 }
        )?;
        match self.source {
            Source::Register(r) => register(r, f)?,
            Source::Memory(a) => write!(f, "mem:{}", Text(a))?,
            Source::Immediate(v) => write!(f, "imm:{}", Text(v))?,
            Source::GpuClock => f.write_str("gpu_clock")?,
        }
        f.write_str(" DST=")?;
        match self.destination {
            Destination::Register(r) => register(r, f)?,
            Destination::Memory(a) => write!(f, "mem:{}", Text(a))?,
        }
        f.write_str(if self.confirm { " WR_CONFIRM" } else { "" })
    }
}
