//! CP_EVENT_WRITE7 of A7xx: an event, and what it writes when it is done.
//!
//! The packet alone: compute registers of A7xx are others than those of A6xx, and no chip of that generation is in the
//! [table](crate::chips). Source: `adreno_pm4.xml` of Mesa, domain CP_EVENT_WRITE7.

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use super::header::{any_body, command};
use super::{Text, join, op};
use crate::device::ADDRESS_BITS;
use crate::malformed::{Malformed, only};

/// EVENT, a `vgt_event_type` that A7xx has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Event7 {
    /// CACHE_FLUSH_TS: writes back the unified cache.
    CacheFlushTs = 4,
    /// RB_DONE_TS: all earlier work of the render back ends is done.
    RbDoneTs = 22,
    /// CACHE_CLEAN: writes back the unified cache.
    CacheClean = 49,
    /// CACHE_FLUSH7: writes back and invalidates the unified cache.
    CacheFlush = 50,
    /// CACHE_INVALIDATE7: invalidates the unified cache.
    CacheInvalidate = 51,
}

impl Event7 {
    const fn from_bits(bits: u32) -> Option<Self> {
        Some(match bits {
            4 => Self::CacheFlushTs,
            22 => Self::RbDoneTs,
            49 => Self::CacheClean,
            50 => Self::CacheFlush,
            51 => Self::CacheInvalidate,
            _ => return None,
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::CacheFlushTs => "CACHE_FLUSH_TS",
            Self::RbDoneTs => "RB_DONE_TS",
            Self::CacheClean => "CACHE_CLEAN",
            Self::CacheFlush => "CACHE_FLUSH7",
            Self::CacheInvalidate => "CACHE_INVALIDATE7",
        }
    }
}

/// WRITE_SRC: what is written to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Source {
    /// EV_WRITE_USER_32B: a number of 32 bits.
    Word(Value),
    /// EV_WRITE_USER_64B: a number of 64 bits.
    Double(Value),
    /// EV_WRITE_ALWAYSON: the always-on counter, 64 bits.
    AlwaysOn,
}

const EVENT: u32 = 0xff;
const WRITE_SRC: u32 = 7 << 20;
const USER_64B: u32 = 1 << 20;
const ALWAYS_ON: u32 = 3 << 20;
const WRITE_ENABLED: u32 = 1 << 27;
const IRQ: u32 = 1 << 31;

/// An event, and what it writes to memory when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct EventWrite7 {
    /// The event.
    pub event: Event7,
    /// Where to, at a boundary of what is written, below 2^49; and what.
    pub write: Option<(Value, Source)>,
    /// Raises an interrupt.
    pub irq: bool,
}

impl EventWrite7 {
    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for an address that is misaligned or not below 2^49, or a number that its width cannot hold.
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        let info = self.event as u32 | if self.irq { IRQ } else { 0 };
        let Some((address, source)) = self.write else {
            c.words(&[command::<2>(op::EVENT_WRITE), info]);
            return Ok(());
        };
        let info = info | WRITE_ENABLED;
        let (header, src, align) = match source {
            Source::Word(_) => (command::<5>(op::EVENT_WRITE), 0, 2),
            Source::Double(_) => (command::<6>(op::EVENT_WRITE), USER_64B, 3),
            Source::AlwaysOn => (command::<4>(op::EVENT_WRITE), ALWAYS_ON, 3),
        };
        c.words(&[header, info | src]);
        c.pair(address, Fit::aligned(ADDRESS_BITS, align))
            .operand(Operand::Address)?;
        match source {
            Source::Word(value) => {
                let at = c.position();
                c.word(0);
                c.set_value(at, value, Fit::bits(32)).operand(Operand::Data)
            }
            Source::Double(value) => c.pair(value, Fit::ANY).operand(Operand::Data),
            Source::AlwaysOn => Ok(()),
        }
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let packet = any_body(words, op::EVENT_WRITE)?;
        let have = packet.len();
        let &[_, info, ref rest @ ..] = packet else {
            return Err(Malformed::Length { need: 2, have });
        };
        let reserved = Malformed::Reserved {
            word: 1,
            value: info,
        };
        only(1, info, EVENT | WRITE_SRC | WRITE_ENABLED | IRQ)?;
        let (low, high, align, source) = match (rest, info & (WRITE_SRC | WRITE_ENABLED)) {
            (&[], 0) => (0, 0, 0, None),
            (&[low, high, value], WRITE_ENABLED) => {
                (low, high, 3, Some(Source::Word(u64::from(value).into())))
            }
            (&[low, high, a, b], src) if src == WRITE_ENABLED | USER_64B => {
                (low, high, 7, Some(Source::Double(join(a, b).into())))
            }
            (&[low, high], src) if src == WRITE_ENABLED | ALWAYS_ON => {
                (low, high, 7, Some(Source::AlwaysOn))
            }
            _ => return Err(reserved),
        };
        only(2, low, !align)?;
        only(3, high, 0x1_ffff)?;
        Ok(Self {
            event: Event7::from_bits(info & EVENT).ok_or(reserved)?,
            write: source.map(|s| (join(low, high).into(), s)),
            irq: info & IRQ != 0,
        })
    }
}

impl core::fmt::Display for EventWrite7 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "CP_EVENT_WRITE7 EVENT={}", self.event.name())?;
        if let Some((address, source)) = self.write {
            write!(f, " ADDR={}", Text(address))?;
            match source {
                Source::Word(v) => write!(f, " PAYLOAD={} (32 bits)", Text(v))?,
                Source::Double(v) => write!(f, " PAYLOAD={} (64 bits)", Text(v))?,
                Source::AlwaysOn => f.write_str(" ALWAYSON")?,
            }
        }
        f.write_str(if self.irq { " IRQ" } else { "" })
    }
}
