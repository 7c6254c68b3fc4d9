//! Profiles: where a device writes when a task began and ended, what that is by the host's clock, and what it says.
//!
//! [`ProfileSlots`] are for single commands. A [graph](crate::graph)'s slots are planned with it and lie behind its
//! signals: [`Instance::times`](crate::graph::Instance::times). A [`ClockMap`] puts a device's clock beside the host's, and
//! [`Launched`] tells the critical path and who had nothing to do.
//!
//! A slot is two signals, one after the other: the device's clock at the start is the first one's timestamp, at the end
//! the second one's. Slots are memory that the caller supplies; nothing is recorded that was not asked for.
//!
//! ```
//! use hcq_nostd::mem::{Region, SharedWords};
//! use hcq_nostd::profile::ProfileSlots;
//!
//! let mut memory = [0u128; 4];                                       // two slots
//! let words: &mut [u64] = zerocopy::transmute_mut!(&mut memory);
//! let words = SharedWords::new(Region::from_words(words, 0x1000))?;
//! let slots = ProfileSlots::new(words)?;
//! let (start, end) = slots.operands(1)?;                             // q.timestamp(start)?.exec(..)?.timestamp(end)?
//! assert_eq!(slots.times(1)?, None);                                 // nothing has run yet
//! words.get(5).unwrap().0.store(100);                                // what the device does
//! words.get(7).unwrap().0.store(350);
//! assert_eq!(slots.times(1)?.map(|t| t.duration()), Some(250));
//! # let _ = (start, end);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clock;
mod summary;

pub use clock::{ClockMap, ClockSample};
pub use summary::{Launched, QueueTimes, Span, Summary};

use crate::mem::SharedWords;
use crate::queue::SignalAt;
use crate::signal::{Signal, SignalError, Width};

/// When a task began and ended, in ticks of the device's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Times {
    /// Start.
    pub start: u64,
    /// End.
    pub end: u64,
}

impl Times {
    /// Ticks between the two; zero if the clock went back.
    pub const fn duration(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// The frequency of a device's timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TickRate {
    /// Ticks per second, at least 1.
    pub hz: u64,
}

impl TickRate {
    /// Ticks are nanoseconds.
    pub const NANOSECONDS: Self = Self { hz: 1_000_000_000 };

    /// Nanoseconds that `ticks` take, without overflow for any count.
    pub const fn to_ns(self, ticks: u64) -> u64 {
        let hz = if self.hz == 0 { 1 } else { self.hz };
        let (whole, rest) = (ticks / hz, ticks % hz);
        // `rest` is below `hz`; for clocks above 18 GHz the split below would overflow, and there are none.
        let part = match rest.checked_mul(1_000_000_000) {
            Some(n) => n / hz,
            None => match rest.checked_div(hz / 1_000_000_000) {
                Some(n) => n,
                None => 0,
            },
        };
        whole.saturating_mul(1_000_000_000).saturating_add(part)
    }
}

/// Profile slots in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct ProfileSlots<'m> {
    words: SharedWords<'m>,
}

impl<'m> ProfileSlots<'m> {
    /// Bytes of a slot.
    pub const BYTES: usize = 2 * Signal::BYTES;

    /// Slots over all of the memory.
    ///
    /// # Errors
    /// [`SignalError::Misaligned`] if it does not start at a 16-byte boundary.
    pub fn new(words: SharedWords<'m>) -> Result<Self, SignalError> {
        if !words.is_empty() {
            Signal::at(words, 0, Width::W64)?;
        }
        Ok(Self { words })
    }

    /// Slots in all.
    pub const fn len(&self) -> usize {
        self.words.len() / 4
    }

    /// Whether there is no slot.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn signals(&self, slot: usize) -> Result<(Signal<'m>, Signal<'m>), SignalError> {
        let first = slot.checked_mul(2).ok_or(SignalError::TooSmall {
            need: slot,
            have: self.len(),
        })?;
        Ok((
            Signal::at(self.words, first, Width::W64)?,
            Signal::at(self.words, first + 1, Width::W64)?,
        ))
    }

    /// Operands of the two `timestamp` commands around a task.
    ///
    /// # Errors
    /// [`SignalError::TooSmall`] if there is no such slot.
    pub fn operands(&self, slot: usize) -> Result<(SignalAt, SignalAt), SignalError> {
        let (start, end) = self.signals(slot)?;
        Ok((start.operand(), end.operand()))
    }

    /// The times of a task, if it has run since the slot was cleared.
    ///
    /// # Errors
    /// [`SignalError::TooSmall`] if there is no such slot.
    pub fn times(&self, slot: usize) -> Result<Option<Times>, SignalError> {
        let (start, end) = self.signals(slot)?;
        let times = Times {
            start: start.timestamp(),
            end: end.timestamp(),
        };
        Ok((times.start != 0 && times.end != 0).then_some(times))
    }

    /// Forgets the times of a slot.
    ///
    /// # Errors
    /// [`SignalError::TooSmall`] if there is no such slot.
    pub fn clear(&self, slot: usize) -> Result<(), SignalError> {
        let (start, end) = self.signals(slot)?;
        start.clear_timestamp();
        end.clear_timestamp();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_to_nanoseconds() {
        assert_eq!(TickRate::NANOSECONDS.to_ns(u64::MAX), u64::MAX);
        assert_eq!(
            TickRate { hz: 19_200_000 }.to_ns(19_200_000 * 3 + 96),
            3_000_005_000
        );
        assert_eq!(TickRate { hz: 100_000_000 }.to_ns(7), 70);
        assert_eq!(TickRate { hz: 1 }.to_ns(u64::MAX), u64::MAX);
        assert_eq!(TickRate { hz: 0 }.to_ns(1), 1_000_000_000);
    }
}
