//! RELEASE_MEM: at the end of the pipe, writes caches back, then a number or the clock, then raises an interrupt.

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use super::{Text, body, join, op, split, type3};
use crate::chips::Generation;
use crate::device::ADDRESS_BITS;
use crate::malformed::{Malformed, only};

bitflags::bitflags! {
    /// Cache bits of the event word on gfx9.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FlushGfx9: u32 {
        /// EOP_TCL1_VOL_ACTION_EN.
        const TCL1_VOL = 1 << 12;
        /// EOP_TC_VOL_ACTION_EN.
        const TC_VOL = 1 << 13;
        /// EOP_TC_WB_ACTION_EN: write L2 back.
        const TC_WB = 1 << 15;
        /// EOP_TCL1_ACTION_EN.
        const TCL1 = 1 << 16;
        /// EOP_TC_ACTION_EN.
        const TC = 1 << 17;
        /// EOP_TC_NC_ACTION_EN: lines that are not coherent.
        const TC_NC = 1 << 19;
        /// EOP_TC_WC_ACTION_EN.
        const TC_WC = 1 << 20;
        /// EOP_TC_MD_ACTION_EN.
        const TC_MD = 1 << 21;
    }

    /// Cache bits of the event word on gfx10 and later.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FlushGfx10: u32 {
        /// GLM_WB.
        const GLM_WB = 1 << 12;
        /// GLM_INV.
        const GLM_INV = 1 << 13;
        /// GLV_INV.
        const GLV_INV = 1 << 14;
        /// GL1_INV.
        const GL1_INV = 1 << 15;
        /// GL2_US.
        const GL2_US = 1 << 16;
        /// GL2_RANGE, low bit.
        const GL2_RANGE_0 = 1 << 17;
        /// GL2_RANGE, high bit.
        const GL2_RANGE_1 = 1 << 18;
        /// GL2_DISCARD.
        const GL2_DISCARD = 1 << 19;
        /// GL2_INV.
        const GL2_INV = 1 << 20;
        /// GL2_WB.
        const GL2_WB = 1 << 21;
        /// SEQ = 1.
        const SEQ_FORWARD = 1 << 22;
        /// SEQ = 2.
        const SEQ_REVERSE = 1 << 23;
    }
}

/// Cache bits of the event word, 23:12. What each means depends on the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Flush(u32);

impl Flush {
    const MASK: u32 = 0xfff << 12;

    /// Leaves the caches alone.
    pub const NONE: Self = Self(0);
    /// Everything written is visible to everybody.
    pub const GFX9_WRITE_BACK: Self = Self::gfx9(FlushGfx9::TC_WB.union(FlushGfx9::TC_NC));
    /// Everything written is visible to everybody.
    pub const GFX10_WRITE_BACK: Self = Self::gfx10(
        FlushGfx10::GLM_WB
            .union(FlushGfx10::GLM_INV)
            .union(FlushGfx10::GLV_INV)
            .union(FlushGfx10::GL1_INV)
            .union(FlushGfx10::GL2_INV)
            .union(FlushGfx10::GL2_WB)
            .union(FlushGfx10::SEQ_FORWARD),
    );

    /// Bits of gfx9.
    pub const fn gfx9(bits: FlushGfx9) -> Self {
        Self(bits.bits())
    }

    /// Bits of gfx10 and later.
    pub const fn gfx10(bits: FlushGfx10) -> Self {
        Self(bits.bits())
    }

    /// The bits in place.
    pub const fn bits(self) -> u32 {
        self.0
    }
}

/// EVENT_TYPE: CACHE_FLUSH_AND_INV_TS_EVENT.
pub const CACHE_FLUSH_AND_INV_TS: u8 = 0x14;
/// EVENT_INDEX of events at the end of the pipe.
const INDEX_EOP: u32 = 5 << 8;
const EVENT_TYPE: u32 = 0x3f;

/// DATA_SEL: what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum DataSel {
    /// Nothing.
    None,
    /// The low 32 bits of the data, at a 4-byte boundary.
    Low32(Value),
    /// The data, at an 8-byte boundary.
    Data64(Value),
    /// The GPU's clock, 64 bits, at an 8-byte boundary.
    GpuClock,
}

impl DataSel {
    const fn bits(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Low32(_) => 1 << 29,
            Self::Data64(_) => 2 << 29,
            Self::GpuClock => 3 << 29,
        }
    }

    const fn align_log2(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Low32(_) => 2,
            Self::Data64(_) | Self::GpuClock => 3,
        }
    }

    const fn data(self) -> (Value, Fit) {
        match self {
            Self::Low32(v) => (v, Fit::bits(32)),
            Self::Data64(v) => (v, Fit::ANY),
            Self::None | Self::GpuClock => (Value::Imm(0), Fit::ANY),
        }
    }
}

/// INT_SEL: when an interrupt is raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum IntSel {
    /// Never.
    None,
    /// At once.
    Now,
    /// When the write is confirmed.
    AfterWrite,
}

impl IntSel {
    const fn bits(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Now => 1 << 24,
            Self::AfterWrite => 2 << 24,
        }
    }
}

/// When all earlier work is complete: write caches back, write a number or the clock, raise an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ReleaseMem {
    /// Which caches are written back.
    pub flush: Flush,
    /// What is written.
    pub data: DataSel,
    /// Whether an interrupt is raised.
    pub interrupt: IntSel,
    /// Where, below 2^48.
    pub address: Value,
    /// INT_CTXID: what the interrupt carries, 28 bits.
    pub context: u32,
}

impl ReleaseMem {
    /// Words of the packet.
    pub const WORDS: usize = 8;

    /// Appends the packet. The address is called `operand` in errors and must also be a multiple of `2^align_log2`.
    #[inline]
    pub(crate) fn record_as(
        &self,
        c: &mut Command<'_, '_>,
        operand: Operand,
        align_log2: u8,
    ) -> Result<(), RecordError> {
        let align_log2 = self.data.align_log2().max(align_log2);
        let (at, (data, fit)) = (Fit::aligned(ADDRESS_BITS, align_log2), self.data.data());
        let header = [
            type3::<{ Self::WORDS }>(op::RELEASE_MEM),
            CACHE_FLUSH_AND_INV_TS as u32 | INDEX_EOP | self.flush.0,
            self.data.bits() | self.interrupt.bits(),
        ];
        Fit::bits(28)
            .check(self.context.into())
            .operand(Operand::Data)?;
        if let (Value::Imm(address), Value::Imm(data)) = (self.address, data) {
            at.check(address).operand(operand)?;
            fit.check(data).operand(Operand::Data)?;
            let ([a, b, c0], [low, high], [data, data_hi]) = (header, split(address), split(data));
            c.words(&[a, b, c0, low, high, data, data_hi, self.context]);
            return Ok(());
        }
        c.words(&header);
        c.pair(self.address, at).operand(operand)?;
        c.pair(data, fit).operand(Operand::Data)?;
        c.word(self.context);
        Ok(())
    }

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for an address that is misaligned or not below 2^48, data of more than its width, or a
    /// context of more than 28 bits.
    #[inline]
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        self.record_as(c, Operand::Address, 0)
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let &[_, event, select, low, high, data_low, data_high, context] =
            body(words, op::RELEASE_MEM)?;
        let reserved = |word, value| Malformed::Reserved { word, value };
        if event & !Flush::MASK != CACHE_FLUSH_AND_INV_TS as u32 & EVENT_TYPE | INDEX_EOP {
            return Err(reserved(1, event));
        }
        only(2, select, 7 << 29 | 7 << 24)?;
        let data = join(data_low, data_high);
        let data = match select >> 29 {
            1 if data_high == 0 => DataSel::Low32(data.into()),
            2 => DataSel::Data64(data.into()),
            0 if data == 0 => DataSel::None,
            3 if data == 0 => DataSel::GpuClock,
            0 | 1 | 3 => return Err(reserved(5, data_low)),
            _ => return Err(reserved(2, select)),
        };
        let interrupt = match select >> 24 & 7 {
            0 => IntSel::None,
            1 => IntSel::Now,
            2 => IntSel::AfterWrite,
            _ => return Err(reserved(2, select)),
        };
        only(3, low, !((1 << data.align_log2()) - 1))?;
        only(4, high, 0xffff)?;
        only(7, context, 0x0fff_ffff)?;
        Ok(Self {
            flush: Flush(event & Flush::MASK),
            data,
            interrupt,
            address: join(low, high).into(),
            context,
        })
    }

    /// As text, with the generation's names for the cache bits.
    pub(crate) fn write(
        &self,
        f: &mut core::fmt::Formatter<'_>,
        generation: Generation,
    ) -> core::fmt::Result {
        write!(
            f,
            "RELEASE_MEM EVENT=CACHE_FLUSH_AND_INV_TS FLUSH={:#x}(",
            self.flush.0
        )?;
        match generation {
            Generation::Gfx9 => {
                bitflags::parser::to_writer(&FlushGfx9::from_bits_retain(self.flush.0), &mut *f)
            }
            _ => bitflags::parser::to_writer(&FlushGfx10::from_bits_retain(self.flush.0), &mut *f),
        }?;
        let address = Text(self.address);
        match self.data {
            DataSel::None => f.write_str(") DATA_SEL=none")?,
            DataSel::Low32(v) => write!(f, ") DATA_SEL=32 ADDR={address} DATA={}", Text(v))?,
            DataSel::Data64(v) => write!(f, ") DATA_SEL=64 ADDR={address} DATA={}", Text(v))?,
            DataSel::GpuClock => write!(f, ") DATA_SEL=gpu_clock ADDR={address}")?,
        }
        match self.interrupt {
            IntSel::None => Ok(()),
            IntSel::Now => write!(f, " INT_SEL=now INT_CTXID={:#x}", self.context),
            IntSel::AfterWrite => write!(f, " INT_SEL=after_write INT_CTXID={:#x}", self.context),
        }
    }
}
