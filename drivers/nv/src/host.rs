//! Methods of the host engine, which every channel has: semaphores, waiting for an engine to be idle, interrupts.
//!
//! Facts: `clc56f.h`, `clc86f.h`; `dev_pbdma.ref.txt` on SEM_EXECUTE and WFI.

use core::fmt;

use hcq_nostd::queue::{SignalAt, WriteWidth};
use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use crate::chips::Chip;
use crate::malformed::{Malformed, only};
use crate::method::{Run, incrementing, subchannel::HOST};
use crate::qmd::SIGNAL_ALIGN_LOG2;
use crate::text::Text;

/// Byte offsets of the methods.
pub mod method {
    /// NON_STALL_INTERRUPT.
    pub const NON_STALL_INTERRUPT: u16 = 0x20;
    /// SEM_ADDR_LO, and SEM_ADDR_HI, SEM_PAYLOAD_LO, SEM_PAYLOAD_HI, SEM_EXECUTE behind it.
    pub const SEM_ADDR_LO: u16 = 0x5c;
    /// WFI.
    pub const WFI: u16 = 0x78;
}

mod execute {
    pub(super) const OPERATION: u32 = 0x7;
    pub(super) const RELEASE_WFI: u32 = 1 << 20;
    pub(super) const PAYLOAD_SIZE_64BIT: u32 = 1 << 24;
    pub(super) const RELEASE_TIMESTAMP: u32 = 1 << 25;
}

/// What is done with a semaphore, SEM_EXECUTE.OPERATION and the fields that go with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Operation {
    /// RELEASE: writes the payload.
    Release {
        /// RELEASE_WFI: first waits until the engine is idle and its writes are visible.
        wait_for_idle: bool,
        /// RELEASE_TIMESTAMP: also writes the time in nanoseconds, 8 bytes behind the payload. Takes 16-byte alignment.
        timestamp: bool,
    },
    /// ACQ_STRICT_GEQ: holds the channel until value >= payload, unsigned.
    AcquireStrict,
    /// ACQ_CIRC_GEQ: holds the channel until value - payload, taken as signed, is not negative.
    AcquireCircular,
    /// ACQ_AND: holds the channel until value & payload is not zero.
    AcquireAnd,
    /// ACQ_NOR: holds the channel until !(value | payload) is not zero.
    AcquireNor,
}

impl Operation {
    const fn bits(self) -> u32 {
        match self {
            Self::Release {
                wait_for_idle,
                timestamp,
            } => {
                let wfi = if wait_for_idle {
                    execute::RELEASE_WFI
                } else {
                    0
                };
                let time = if timestamp {
                    execute::RELEASE_TIMESTAMP
                } else {
                    0
                };
                1 | wfi | time
            }
            Self::AcquireStrict => 2,
            Self::AcquireCircular => 3,
            Self::AcquireAnd => 4,
            Self::AcquireNor => 5,
        }
    }

    /// The operation of SEM_EXECUTE, and the bits of the word that belong to it.
    fn decode(word: u32) -> Option<(Self, u32)> {
        Some(match word & execute::OPERATION {
            1 => {
                let release = Self::Release {
                    wait_for_idle: word & execute::RELEASE_WFI != 0,
                    timestamp: word & execute::RELEASE_TIMESTAMP != 0,
                };
                (release, execute::RELEASE_WFI | execute::RELEASE_TIMESTAMP)
            }
            2 => (Self::AcquireStrict, 0),
            3 => (Self::AcquireCircular, 0),
            4 => (Self::AcquireAnd, 0),
            5 => (Self::AcquireNor, 0),
            _ => return None,
        })
    }
}

/// A semaphore operation: SEM_ADDR_LO to SEM_EXECUTE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Semaphore {
    /// Its address.
    pub address: Value,
    /// What is written or compared with.
    pub payload: Value,
    /// PAYLOAD_SIZE: 64 bits, or 32.
    pub wide: bool,
    /// What is done.
    pub operation: Operation,
}

impl Semaphore {
    /// Appends it; `bits` is how many bits the chip's semaphore addresses have.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for an address that is misaligned or too high, or a payload that is too wide.
    pub fn record(&self, c: &mut Command<'_, '_>, bits: u8) -> Result<(), RecordError> {
        self.record_as(c, bits, (Operand::Address, 0), Fit::ANY)
    }

    /// The same with the operand's name, at least this alignment, and what the payload must satisfy.
    #[inline]
    fn record_as(
        &self,
        c: &mut Command<'_, '_>,
        bits: u8,
        (operand, align_log2): (Operand, u8),
        payload: Fit,
    ) -> Result<(), RecordError> {
        let align = match self.operation {
            Operation::Release {
                timestamp: true, ..
            } => 4,
            _ if self.wide => 3,
            _ => 2,
        };
        let header = incrementing::<HOST, { method::SEM_ADDR_LO }, 5>();
        let place = Fit::aligned(bits, align_log2.max(align));
        let payload = if self.wide { payload } else { Fit::bits(32) };
        let size = if self.wide {
            execute::PAYLOAD_SIZE_64BIT
        } else {
            0
        };
        let execute = self.operation.bits() | size;
        // What is nearly always given: numbers.
        if let (Value::Imm(address), Value::Imm(value)) = (self.address, self.payload) {
            place.check(address).operand(operand)?;
            payload.check(value).operand(Operand::Data)?;
            let ([low, high], [first, second]) = (halves(address), halves(value));
            c.words(&[header, low, high, first, second, execute]);
            return Ok(());
        }
        c.word(header);
        c.pair(self.address, place).operand(operand)?;
        c.pair(self.payload, payload).operand(Operand::Data)?;
        c.word(execute);
        Ok(())
    }

    pub(crate) fn decode(run: &Run<'_>) -> Option<Result<Self, Malformed>> {
        let [low, high, payload, payload_high, execute] =
            *run.exactly::<5>(HOST, method::SEM_ADDR_LO)?;
        Some((|| {
            only(1, low, !3)?;
            only(2, high, (1 << 25) - 1)?;
            let (operation, bits) = Operation::decode(execute).ok_or(Malformed::Reserved {
                word: 5,
                value: execute,
            })?;
            only(
                5,
                execute,
                execute::OPERATION | execute::PAYLOAD_SIZE_64BIT | bits,
            )?;
            let wide = execute & execute::PAYLOAD_SIZE_64BIT != 0;
            if !wide {
                only(4, payload_high, 0)?;
            }
            Ok(Self {
                address: join(low, high).into(),
                payload: join(payload, payload_high).into(),
                wide,
                operation,
            })
        })())
    }
}

/// The two words of a 64-bit number, the low one first.
const fn halves(n: u64) -> [u32; 2] {
    [(n & 0xffff_ffff) as u32, (n >> 32) as u32]
}

/// The 64-bit number in two words.
pub(crate) const fn join(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

impl fmt::Display for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.operation {
            Operation::Release { .. } => "RELEASE",
            Operation::AcquireStrict => "ACQ_STRICT_GEQ",
            Operation::AcquireCircular => "ACQ_CIRC_GEQ",
            Operation::AcquireAnd => "ACQ_AND",
            Operation::AcquireNor => "ACQ_NOR",
        };
        let size = if self.wide { 64 } else { 32 };
        let (address, payload) = (Text(self.address), Text(self.payload));
        write!(
            f,
            "SEM_EXECUTE {name} ADDR={address} PAYLOAD={payload} {size}BIT"
        )?;
        if let Operation::Release {
            wait_for_idle,
            timestamp,
        } = self.operation
        {
            f.write_str(if wait_for_idle { " RELEASE_WFI" } else { "" })?;
            f.write_str(if timestamp { " RELEASE_TIMESTAMP" } else { "" })?;
        }
        Ok(())
    }
}

/// WFI: holds the channel until the engine that it sent methods to last is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WaitForIdle {
    /// SCOPE_ALL, and not only this channel's share of the engine.
    pub all: bool,
}

impl WaitForIdle {
    /// Words that it takes.
    pub(crate) const WORDS: [u32; 2] = [incrementing::<HOST, { method::WFI }, 1>(), 0];

    pub(crate) fn record(self, c: &mut Command<'_, '_>) {
        let [header, _] = Self::WORDS;
        c.words(&[header, self.all.into()]);
    }

    pub(crate) fn decode(run: &Run<'_>) -> Option<Result<Self, Malformed>> {
        let [scope] = *run.exactly::<1>(HOST, method::WFI)?;
        Some(only(1, scope, 1).map(|()| Self { all: scope != 0 }))
    }
}

/// NON_STALL_INTERRUPT: wakes who sleeps on the channel's event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NonStallInterrupt;

impl NonStallInterrupt {
    pub(crate) fn record(self, c: &mut Command<'_, '_>) {
        c.words(&[
            incrementing::<HOST, { method::NON_STALL_INTERRUPT }, 1>(),
            0,
        ]);
    }

    pub(crate) fn decode(run: &Run<'_>) -> Option<Result<Self, Malformed>> {
        let [handle] = *run.exactly::<1>(HOST, method::NON_STALL_INTERRUPT)?;
        Some(only(1, handle, 0).map(|()| Self))
    }
}

/// A signal's name and alignment.
pub(crate) const SIGNAL: (Operand, u8) = (Operand::Signal, SIGNAL_ALIGN_LOG2);

/// Values that can be waited for. An acquire looks at the sign of the difference, so that beyond 2^63 an early value would
/// pass for a late one; below it is the unsigned comparison that a wait asks for, of a signal whose values are below it,
/// too.
const AWAITED: Fit = Fit::bits(63);

const RELEASE: Operation = Operation::Release {
    wait_for_idle: true,
    timestamp: false,
};

/// Value and timestamp of a signal, when the engine is idle.
#[inline]
pub(crate) fn release(
    chip: &Chip,
    c: &mut Command<'_, '_>,
    signal: SignalAt,
    value: Value,
) -> Result<(), RecordError> {
    let semaphore = Semaphore {
        address: signal.address,
        payload: value,
        wide: true,
        operation: Operation::Release {
            wait_for_idle: true,
            timestamp: true,
        },
    };
    semaphore.record_as(c, chip.semaphore_bits, SIGNAL, Fit::ANY)?;
    if signal.notify {
        NonStallInterrupt.record(c);
    }
    Ok(())
}

#[inline]
pub(crate) fn wait(
    chip: &Chip,
    c: &mut Command<'_, '_>,
    signal: SignalAt,
    value: Value,
) -> Result<(), RecordError> {
    let semaphore = Semaphore {
        address: signal.address,
        payload: value,
        wide: true,
        operation: Operation::AcquireCircular,
    };
    semaphore.record_as(c, chip.semaphore_bits, SIGNAL, AWAITED)
}

pub(crate) fn write(
    chip: &Chip,
    c: &mut Command<'_, '_>,
    address: Value,
    value: Value,
    width: WriteWidth,
) -> Result<(), RecordError> {
    let semaphore = Semaphore {
        address,
        payload: value,
        wide: matches!(width, WriteWidth::W64),
        operation: RELEASE,
    };
    semaphore.record(c, chip.semaphore_bits)
}

/// One bit, and known now: an acquire tests whether any bit of a mask is set, or any is clear.
pub(crate) fn poll_bit(
    chip: &Chip,
    c: &mut Command<'_, '_>,
    address: Value,
    mask: u32,
    expect: Value,
) -> Result<(), RecordError> {
    let expect = expect.imm().ok_or(RecordError::NotConstant {
        operand: Operand::Data,
    })?;
    let unsupported = |operand| RecordError::Unsupported { operand };
    if !mask.is_power_of_two() {
        return Err(unsupported(Operand::Mask));
    }
    let (payload, operation) = match expect {
        0 => (!mask, Operation::AcquireNor),
        e if e == u64::from(mask) => (mask, Operation::AcquireAnd),
        _ => return Err(unsupported(Operand::Data)),
    };
    let semaphore = Semaphore {
        address,
        payload: payload.into(),
        wide: false,
        operation,
    };
    semaphore.record(c, chip.semaphore_bits)
}
