//! Methods of the compute engine, a program prepared for it, and the queue that records both.
//!
//! Offsets are the same in every class from `clc6c0.h` to `clcec0.h`.

pub mod program;
pub mod queue;

use core::fmt;

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use crate::malformed::{Malformed, only};
use crate::method::{self, Run, incrementing, subchannel::COMPUTE};
use crate::qmd::{ADDRESS_BITS, ALIGN_LOG2};
use crate::text::Text;

pub use program::{Program, ProgramError};
pub use queue::{NvCompute, Qmds, State};

/// Byte offsets of the methods.
pub mod offset {
    /// PM_TRIGGER.
    pub const PM_TRIGGER: u16 = 0x140;
    /// SET_SHADER_SHARED_MEMORY_WINDOW_A, and B behind it.
    pub const SET_SHADER_SHARED_MEMORY_WINDOW_A: u16 = 0x2a0;
    /// SEND_PCAS_A.
    pub const SEND_PCAS_A: u16 = 0x2b4;
    /// SEND_SIGNALING_PCAS2_B.
    pub const SEND_SIGNALING_PCAS2_B: u16 = 0x2c0;
    /// SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A, and B and C behind it.
    pub const SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A: u16 = 0x2e4;
    /// SET_SHADER_LOCAL_MEMORY_A, and B behind it.
    pub const SET_SHADER_LOCAL_MEMORY_A: u16 = 0x790;
    /// SET_SHADER_LOCAL_MEMORY_WINDOW_A, and B behind it.
    pub const SET_SHADER_LOCAL_MEMORY_WINDOW_A: u16 = 0x7b0;
    /// INVALIDATE_SHADER_CACHES_NO_WFI.
    pub const INVALIDATE_SHADER_CACHES_NO_WFI: u16 = 0x1698;
}

/// A compute method or a few that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Compute {
    /// PM_TRIGGER: a mark for performance monitors.
    PmTrigger,
    /// SET_SHADER_SHARED_MEMORY_WINDOW_A, B: where generic addresses of shared memory start.
    SharedWindow(Value),
    /// SET_SHADER_LOCAL_MEMORY_WINDOW_A, B: where generic addresses of local memory start.
    LocalWindow(Value),
    /// SET_SHADER_LOCAL_MEMORY_A, B: where local memory is.
    LocalMemory(Value),
    /// SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A, B, C: how much of it there is.
    LocalMemorySize {
        /// Bytes of a TPC.
        tpc_bytes: Value,
        /// SMs that may use it at once.
        max_sms: u16,
    },
    /// SEND_PCAS_A: the launch descriptor that SEND_SIGNALING_PCAS2_B is about.
    SendPcas(Value),
    /// SEND_SIGNALING_PCAS2_B: what is done with it.
    SignalingPcas(PcasAction),
    /// INVALIDATE_SHADER_CACHES_NO_WFI.
    InvalidateShaderCaches(ShaderCaches),
}

/// SEND_SIGNALING_PCAS2_B.PCAS_ACTION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum PcasAction {
    /// NOP.
    Nop = 0,
    /// INVALIDATE.
    Invalidate = 1,
    /// SCHEDULE.
    Schedule = 2,
    /// INVALIDATE_COPY_SCHEDULE.
    InvalidateCopySchedule = 3,
    /// PREFETCH.
    Prefetch = 8,
    /// PREFETCH_SCHEDULE.
    PrefetchSchedule = 9,
}

impl PcasAction {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Nop, "NOP"),
        (Self::Invalidate, "INVALIDATE"),
        (Self::Schedule, "SCHEDULE"),
        (Self::InvalidateCopySchedule, "INVALIDATE_COPY_SCHEDULE"),
        (Self::Prefetch, "PREFETCH"),
        (Self::PrefetchSchedule, "PREFETCH_SCHEDULE"),
    ];

    fn decode(word: u32) -> Option<Self> {
        let mut all = Self::ALL.iter();
        all.find(|(a, _)| u32::from(*a as u8) == word)
            .map(|(a, _)| *a)
    }

    fn name(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|(a, _)| *a == self).map_or("?", |(_, name)| name)
    }
}

bitflags::bitflags! {
    /// Fields of INVALIDATE_SHADER_CACHES_NO_WFI.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ShaderCaches: u32 {
        /// INSTRUCTION.
        const INSTRUCTION = 1;
        /// GLOBAL_DATA.
        const GLOBAL_DATA = 1 << 4;
        /// CONSTANT.
        const CONSTANT = 1 << 12;
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for ShaderCaches {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "ShaderCaches({=u32:#x})", self.bits());
    }
}

/// Bits of the addresses that are checked here no narrower than the widest class takes them; a queue checks its chip's.
const WIDE: u8 = 57;
/// MAX_SM_COUNT has 9 bits.
const SM_COUNT_BITS: u8 = 9;

impl ShaderCaches {
    pub(crate) const fn words(self) -> [u32; 2] {
        let header = incrementing::<COMPUTE, { offset::INVALIDATE_SHADER_CACHES_NO_WFI }, 1>();
        [header, self.bits()]
    }
}

const SEND_PCAS: u32 = incrementing::<COMPUTE, { offset::SEND_PCAS_A }, 1>();
const SIGNALING_PCAS: u32 = incrementing::<COMPUTE, { offset::SEND_SIGNALING_PCAS2_B }, 1>();

/// The words that start the launch whose descriptor is at an address that [`QMD_ADDRESS`] allows: what
/// [`SendPcas`](Compute::SendPcas) and [`SignalingPcas`](Compute::SignalingPcas) append.
pub(crate) const fn prefetch_schedule(qmd: u64) -> [u32; 4] {
    let action = PcasAction::PrefetchSchedule as u32;
    // 40 bits that count 256 bytes.
    [
        SEND_PCAS,
        (qmd >> ALIGN_LOG2) as u32,
        SIGNALING_PCAS,
        action,
    ]
}

impl Compute {
    /// Appends it.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for operands that its fields cannot hold.
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        self.record_in(c, WIDE)
    }

    /// The same for a chip whose local memory has addresses of this many bits.
    pub(crate) fn record_in(
        &self,
        c: &mut Command<'_, '_>,
        local_memory_bits: u8,
    ) -> Result<(), RecordError> {
        let window = Fit::bits(crate::device::WINDOW_BITS);
        let mut pair = |header, value, fit| {
            c.word(header);
            c.pair_high_first(value, fit).operand(Operand::Address)
        };
        match *self {
            Self::PmTrigger => c.words(&[incrementing::<COMPUTE, { offset::PM_TRIGGER }, 1>(), 0]),
            Self::SharedWindow(at) => pair(
                incrementing::<COMPUTE, { offset::SET_SHADER_SHARED_MEMORY_WINDOW_A }, 2>(),
                at,
                window,
            )?,
            Self::LocalWindow(at) => pair(
                incrementing::<COMPUTE, { offset::SET_SHADER_LOCAL_MEMORY_WINDOW_A }, 2>(),
                at,
                window,
            )?,
            Self::LocalMemory(at) => pair(
                incrementing::<COMPUTE, { offset::SET_SHADER_LOCAL_MEMORY_A }, 2>(),
                at,
                Fit::bits(local_memory_bits),
            )?,
            Self::LocalMemorySize { tpc_bytes, max_sms } => {
                pair(
                    incrementing::<COMPUTE, { offset::SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A }, 3>(
                    ),
                    tpc_bytes,
                    Fit::bits(crate::local_memory::SIZE_BITS),
                )?;
                Fit::bits(SM_COUNT_BITS)
                    .check(max_sms.into())
                    .operand(Operand::Length)?;
                c.word(max_sms.into());
            }
            Self::SendPcas(qmd) => {
                c.word(SEND_PCAS);
                let field = hcq_nostd::value::Field::new(0, 32).unit(ALIGN_LOG2);
                c.field(0, qmd, field)?;
            }
            Self::SignalingPcas(action) => {
                c.words(&[SIGNALING_PCAS, action as u32]);
            }
            Self::InvalidateShaderCaches(caches) => c.words(&caches.words()),
        }
        Ok(())
    }

    /// The method or methods that a run is; `None` for others.
    pub(crate) fn decode(run: &Run<'_>) -> Option<Result<Self, Malformed>> {
        let one = |method| run.exactly::<1>(COMPUTE, method).map(|[v]| *v);
        let pair = |method, bits: u8| {
            let [high, low] = *run.exactly::<2>(COMPUTE, method)?;
            let value: Value = crate::host::join(low, high).into();
            Some(only(1, high, (1 << (bits - 32)) - 1).map(|()| value))
        };
        let window = crate::device::WINDOW_BITS;
        if let Some(v) = pair(offset::SET_SHADER_SHARED_MEMORY_WINDOW_A, window) {
            return Some(v.map(Self::SharedWindow));
        }
        if let Some(v) = pair(offset::SET_SHADER_LOCAL_MEMORY_WINDOW_A, window) {
            return Some(v.map(Self::LocalWindow));
        }
        if let Some(v) = pair(offset::SET_SHADER_LOCAL_MEMORY_A, WIDE) {
            return Some(v.map(Self::LocalMemory));
        }
        if let Some(&[high, low, sms]) =
            run.exactly::<3>(COMPUTE, offset::SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A)
        {
            let checked = only(1, high, 0xff).and_then(|()| only(3, sms, 0x1ff));
            return Some(checked.map(|()| Self::LocalMemorySize {
                tpc_bytes: crate::host::join(low, high).into(),
                max_sms: (sms & 0x1ff) as u16,
            }));
        }
        if let Some(v) = one(offset::PM_TRIGGER) {
            return Some(only(1, v, 0).map(|()| Self::PmTrigger));
        }
        if let Some(v) = one(offset::SEND_PCAS_A) {
            return Some(Ok(Self::SendPcas((u64::from(v) << ALIGN_LOG2).into())));
        }
        if let Some(value) = one(offset::SEND_SIGNALING_PCAS2_B) {
            let action = PcasAction::decode(value);
            return Some(
                action
                    .map(Self::SignalingPcas)
                    .ok_or(Malformed::Reserved { word: 1, value }),
            );
        }
        let value = one(offset::INVALIDATE_SHADER_CACHES_NO_WFI)?;
        let caches = ShaderCaches::from_bits(value);
        Some(
            caches
                .map(Self::InvalidateShaderCaches)
                .ok_or(Malformed::Reserved { word: 1, value }),
        )
    }
}

/// What a launch descriptor's address must satisfy.
pub(crate) const QMD_ADDRESS: Fit = Fit::aligned(ADDRESS_BITS, ALIGN_LOG2);

impl fmt::Display for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::PmTrigger => f.write_str("PM_TRIGGER"),
            Self::SharedWindow(at) => {
                write!(
                    f,
                    "SET_SHADER_SHARED_MEMORY_WINDOW BASE_ADDRESS={}",
                    Text(at)
                )
            }
            Self::LocalWindow(at) => {
                write!(
                    f,
                    "SET_SHADER_LOCAL_MEMORY_WINDOW BASE_ADDRESS={}",
                    Text(at)
                )
            }
            Self::LocalMemory(at) => write!(f, "SET_SHADER_LOCAL_MEMORY ADDRESS={}", Text(at)),
            Self::LocalMemorySize { tpc_bytes, max_sms } => write!(
                f,
                "SET_SHADER_LOCAL_MEMORY_NON_THROTTLED SIZE={} MAX_SM_COUNT={max_sms:#x}",
                Text(tpc_bytes)
            ),
            Self::SendPcas(qmd) => write!(f, "SEND_PCAS_A QMD_ADDRESS={}", Text(qmd)),
            Self::SignalingPcas(action) => {
                write!(f, "SEND_SIGNALING_PCAS2_B PCAS_ACTION={}", action.name())
            }
            Self::InvalidateShaderCaches(caches) => {
                f.write_str("INVALIDATE_SHADER_CACHES_NO_WFI ")?;
                bitflags::parser::to_writer(&caches, f)
            }
        }
    }
}

/// SET_OBJECT: the class that a subchannel's methods are of from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SetObject {
    /// The subchannel.
    pub subchannel: u8,
    /// CLASS_ID.
    pub class: u16,
}

impl SetObject {
    pub(crate) fn record(self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        let kind = method::Kind::Incrementing;
        let header = method::Header::new(kind, self.subchannel, method::SET_OBJECT, 1);
        let unsupported = RecordError::Unsupported {
            operand: Operand::Data,
        };
        c.words(&[header.map_err(|_| unsupported)?.word(), self.class.into()]);
        Ok(())
    }

    pub(crate) fn decode(run: &Run<'_>) -> Option<Result<Self, Malformed>> {
        let subchannel = run.header.subchannel();
        let [class] = *run.exactly::<1>(subchannel, method::SET_OBJECT)?;
        Some(only(1, class, 0xffff).map(|()| Self {
            subchannel,
            class: (class & 0xffff) as u16,
        }))
    }
}

impl fmt::Display for SetObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SET_OBJECT CLASS_ID={:#x}", self.class)
    }
}
