//! CP_EVENT_WRITE of A6xx: an event, and a write when it is done.

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use super::header::{any_body, command};
use super::{Text, join, op};
use crate::device::ADDRESS_BITS;
use crate::malformed::{Malformed, only};

/// EVENT, a `vgt_event_type` that A6xx has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Event {
    /// CACHE_FLUSH_TS: writes back the unified cache (UCHE), then writes a number.
    CacheFlushTs,
    /// CACHE_INVALIDATE: invalidates the unified cache.
    CacheInvalidate,
}

impl Event {
    /// The field's value.
    pub const fn bits(self) -> u32 {
        match self {
            Self::CacheFlushTs => 4,
            Self::CacheInvalidate => 0x31,
        }
    }

    const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            4 => Some(Self::CacheFlushTs),
            0x31 => Some(Self::CacheInvalidate),
            _ => None,
        }
    }
}

const EVENT: u32 = 0xff;
const TIMESTAMP: u32 = 1 << 30;
const IRQ: u32 = 1 << 31;

/// What an event writes when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct EventValue {
    /// Where to, at a 4-byte boundary below 2^49.
    pub address: Value,
    /// The number, 32 bits.
    pub value: Value,
    /// TIMESTAMP: a timestamp is written in its place.
    pub timestamp: bool,
}

/// An event, and a write when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct EventWrite {
    /// The event.
    pub event: Event,
    /// What it writes.
    pub write: Option<EventValue>,
    /// Raises an interrupt.
    pub irq: bool,
}

impl EventWrite {
    /// Words of a packet that writes.
    pub const WORDS: usize = 5;
    /// CACHE_INVALIDATE, which writes nothing.
    pub const INVALIDATE: [u32; 2] = [command::<2>(op::EVENT_WRITE), Event::CacheInvalidate.bits()];

    /// Header and first word of a CACHE_FLUSH_TS that writes a number. The address and the number follow.
    pub(crate) const FLUSH: [u32; 2] = [
        command::<{ Self::WORDS }>(op::EVENT_WRITE),
        Event::CacheFlushTs.bits(),
    ];

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError::Misfit`] for an address that is misaligned or not below 2^49, or a number of more than 32 bits.
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        let irq = if self.irq { IRQ } else { 0 };
        let event = self.event.bits() | irq;
        let Some(write) = self.write else {
            c.words(&[command::<2>(op::EVENT_WRITE), event]);
            return Ok(());
        };
        let timestamp = if write.timestamp { TIMESTAMP } else { 0 };
        c.words(&[
            command::<{ Self::WORDS }>(op::EVENT_WRITE),
            event | timestamp,
        ]);
        c.pair(write.address, Fit::aligned(ADDRESS_BITS, 2))
            .operand(Operand::Address)?;
        let at = c.position();
        c.word(0);
        c.set_value(at, write.value, Fit::bits(32))
            .operand(Operand::Data)
    }

    /// The packet that starts here.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &[u32]) -> Result<Self, Malformed> {
        let (info, write) = match *any_body(words, op::EVENT_WRITE)? {
            [_, info] => {
                only(1, info, EVENT | IRQ)?;
                (info, None)
            }
            [_, info, low, high, value] => {
                only(1, info, EVENT | TIMESTAMP | IRQ)?;
                only(2, low, !3)?;
                only(3, high, 0x1_ffff)?;
                let write = EventValue {
                    address: join(low, high).into(),
                    value: value.into(),
                    timestamp: info & TIMESTAMP != 0,
                };
                (info, Some(write))
            }
            ref other => {
                let have = other.len();
                return Err(Malformed::Length { need: 5, have });
            }
        };
        let event = Event::from_bits(info & EVENT).ok_or(Malformed::Reserved {
            word: 1,
            value: info,
        })?;
        Ok(Self {
            event,
            write,
            irq: info & IRQ != 0,
        })
    }
}

impl core::fmt::Display for EventWrite {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("CP_EVENT_WRITE EVENT=")?;
        f.write_str(match self.event {
            Event::CacheFlushTs => "CACHE_FLUSH_TS",
            Event::CacheInvalidate => "CACHE_INVALIDATE",
        })?;
        if let Some(write) = self.write {
            write!(f, " ADDR={}", Text(write.address))?;
            if write.timestamp {
                f.write_str(" TIMESTAMP")?;
            }
            write!(f, " VALUE={}", Text(write.value))?;
        }
        f.write_str(if self.irq { " IRQ" } else { "" })
    }
}
