//! Methods of the copy engines, and the queue that records them.
//!
//! Facts: `clc6b5.h`, `clc7b5.h`, `clc8b5.h`, `clcab5.h`.

pub mod launch;
pub mod queue;

use core::fmt;

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use crate::malformed::{Malformed, only};
use crate::method::{Run, incrementing, subchannel::COPY};
use crate::text::Text;

pub use launch::LaunchDma;
pub use queue::{Lines, NvCopy};

/// Byte offsets of the methods.
pub mod offset {
    /// SET_SEMAPHORE_A, and B, PAYLOAD and PAYLOAD_UPPER behind it.
    pub const SET_SEMAPHORE_A: u16 = 0x240;
    /// LAUNCH_DMA.
    pub const LAUNCH_DMA: u16 = 0x300;
    /// OFFSET_IN_UPPER, and OFFSET_IN_LOWER, OFFSET_OUT_UPPER, OFFSET_OUT_LOWER, PITCH_IN, PITCH_OUT, LINE_LENGTH_IN,
    /// LINE_COUNT behind it.
    pub const OFFSET_IN_UPPER: u16 = 0x400;
    /// LINE_LENGTH_IN.
    pub const LINE_LENGTH_IN: u16 = 0x418;
}

/// A copy method or a few that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Copy {
    /// SET_SEMAPHORE_A to PAYLOAD, or to PAYLOAD_UPPER: what a launch with a semaphore writes.
    Semaphore {
        /// Its address.
        address: Value,
        /// Its payload.
        payload: Value,
        /// Whether the upper word of the payload is set, too.
        wide: bool,
    },
    /// OFFSET_IN and OFFSET_OUT.
    Offsets {
        /// OFFSET_IN: where it copies from.
        from: Value,
        /// OFFSET_OUT: where it copies to.
        to: Value,
    },
    /// LINE_LENGTH_IN: bytes of a line.
    LineLength(Value),
    /// OFFSET_IN to LINE_COUNT: lines that lie apart.
    Lines {
        /// OFFSET_IN.
        from: Value,
        /// OFFSET_OUT.
        to: Value,
        /// PITCH_IN and PITCH_OUT: bytes from a line to the next one.
        pitch: [u32; 2],
        /// LINE_LENGTH_IN: bytes of a line.
        length: u32,
        /// LINE_COUNT.
        count: u32,
    },
    /// LAUNCH_DMA.
    Launch(LaunchDma),
}

/// Bits of the addresses that are checked here no narrower than the widest class takes them; a queue checks its chip's.
const WIDE: u8 = 57;
/// The upper word of an address.
const UPPER: u32 = (1 << (WIDE - 32)) - 1;

impl Copy {
    /// Appends it.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for operands that its fields cannot hold.
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        let offsets = |c: &mut Command<'_, '_>, from, to| {
            c.pair_high_first(from, Fit::bits(WIDE))
                .operand(Operand::Source)?;
            c.pair_high_first(to, Fit::bits(WIDE))
                .operand(Operand::Destination)
        };
        match *self {
            Self::Semaphore {
                address,
                payload,
                wide,
            } => semaphore(c, (address, Fit::bits(WIDE)), payload, wide)?,
            Self::Offsets { from, to } => {
                c.word(incrementing::<COPY, { offset::OFFSET_IN_UPPER }, 4>());
                offsets(c, from, to)?;
            }
            Self::LineLength(bytes) => {
                c.word(incrementing::<COPY, { offset::LINE_LENGTH_IN }, 1>());
                let at = c.position();
                c.word(0);
                c.set_value(at, bytes, Fit::bits(32))
                    .operand(Operand::Length)?;
            }
            Self::Lines {
                from,
                to,
                pitch: [pitch_in, pitch_out],
                length,
                count,
            } => {
                c.word(incrementing::<COPY, { offset::OFFSET_IN_UPPER }, 8>());
                offsets(c, from, to)?;
                c.words(&[pitch_in, pitch_out, length, count]);
            }
            Self::Launch(launch) => {
                c.words(&[
                    incrementing::<COPY, { offset::LAUNCH_DMA }, 1>(),
                    launch.bits(),
                ]);
            }
        }
        Ok(())
    }

    /// The method or methods that a run is; `None` for others.
    pub(crate) fn decode(run: &Run<'_>) -> Option<Result<Self, Malformed>> {
        let join = |high, low| -> Value { crate::host::join(low, high).into() };
        if let Some(&[high, low, payload]) = run.exactly::<3>(COPY, offset::SET_SEMAPHORE_A) {
            return Some(only(1, high, UPPER).map(|()| Self::Semaphore {
                address: join(high, low),
                payload: payload.into(),
                wide: false,
            }));
        }
        if let Some(&[high, low, payload, upper]) = run.exactly::<4>(COPY, offset::SET_SEMAPHORE_A)
        {
            return Some(only(1, high, UPPER).map(|()| Self::Semaphore {
                address: join(high, low),
                payload: join(upper, payload),
                wide: true,
            }));
        }
        if let Some(&[in_high, in_low, out_high, out_low]) =
            run.exactly::<4>(COPY, offset::OFFSET_IN_UPPER)
        {
            let checked = only(1, in_high, UPPER).and_then(|()| only(3, out_high, UPPER));
            return Some(checked.map(|()| Self::Offsets {
                from: join(in_high, in_low),
                to: join(out_high, out_low),
            }));
        }
        if let Some(
            &[
                in_high,
                in_low,
                out_high,
                out_low,
                pitch_in,
                pitch_out,
                length,
                count,
            ],
        ) = run.exactly::<8>(COPY, offset::OFFSET_IN_UPPER)
        {
            let checked = only(1, in_high, UPPER).and_then(|()| only(3, out_high, UPPER));
            return Some(checked.map(|()| Self::Lines {
                from: join(in_high, in_low),
                to: join(out_high, out_low),
                pitch: [pitch_in, pitch_out],
                length,
                count,
            }));
        }
        if let Some(&[bytes]) = run.exactly::<1>(COPY, offset::LINE_LENGTH_IN) {
            return Some(Ok(Self::LineLength(bytes.into())));
        }
        let [word] = *run.exactly::<1>(COPY, offset::LAUNCH_DMA)?;
        Some(LaunchDma::decode(word).map(Self::Launch))
    }
}

/// SET_SEMAPHORE_A and what follows, with the address's fit.
#[inline]
pub(crate) fn semaphore(
    c: &mut Command<'_, '_>,
    (address, fit): (Value, Fit),
    payload: Value,
    wide: bool,
) -> Result<(), RecordError> {
    let count = |wide: bool| {
        if wide {
            incrementing::<COPY, { offset::SET_SEMAPHORE_A }, 4>()
        } else {
            incrementing::<COPY, { offset::SET_SEMAPHORE_A }, 3>()
        }
    };
    c.word(count(wide));
    c.pair_high_first(address, fit).operand(Operand::Signal)?;
    if wide {
        return c.pair(payload, Fit::ANY).operand(Operand::Data);
    }
    let at = c.position();
    c.word(0);
    c.set_value(at, payload, Fit::bits(32))
        .operand(Operand::Data)
}

impl fmt::Display for Copy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Semaphore {
                address,
                payload,
                wide,
            } => {
                let bits = if wide { 64 } else { 32 };
                let (address, payload) = (Text(address), Text(payload));
                write!(
                    f,
                    "SET_SEMAPHORE ADDR={address} PAYLOAD={payload} {bits}BIT"
                )
            }
            Self::Offsets { from, to } => {
                write!(f, "OFFSET_IN={} OFFSET_OUT={}", Text(from), Text(to))
            }
            Self::LineLength(bytes) => write!(f, "LINE_LENGTH_IN={}", Text(bytes)),
            Self::Lines {
                from,
                to,
                pitch: [pitch_in, pitch_out],
                length,
                count,
            } => {
                write!(f, "OFFSET_IN={} OFFSET_OUT={}", Text(from), Text(to))?;
                write!(f, " PITCH_IN={pitch_in:#x} PITCH_OUT={pitch_out:#x}")?;
                write!(f, " LINE_LENGTH_IN={length:#x} LINE_COUNT={count:#x}")
            }
            Self::Launch(launch) => write!(f, "{launch}"),
        }
    }
}
