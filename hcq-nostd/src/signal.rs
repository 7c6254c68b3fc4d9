//! Signals and pools of them.
//!
//! A signal is 16 bytes at a 16-byte boundary: a value at 0 and a timestamp at 8, both 64 bits, written by devices and by
//! hosts. Engines write and compare 32 or 64 bits of the value; the signal knows which ([`Width`]).
//!
//! ```
//! use hcq_nostd::mem::{Region, SharedWords};
//! use hcq_nostd::signal::{SignalPool, SlotState, Width};
//! use hcq_nostd::timeline::Point;
//!
//! let mut memory = [0u128; 2];                                    // two slots, 16-byte aligned
//! let mut states = [SlotState::EMPTY; 2];
//! let words: &mut [u64] = zerocopy::transmute_mut!(&mut memory);
//! let mut pool = SignalPool::new(SharedWords::new(Region::from_words(words, 0x1000))?, &mut states, Width::W64)?;
//! let a = pool.alloc(Point::ZERO)?;
//! let b = pool.alloc(Point::ZERO)?;
//! a.set(7)?;
//! assert_eq!((a.value(), a.address(), b.address()), (7, 0x1000, 0x1010));
//! pool.free(a, Point::from_raw(3));                               // work up to timeline point 3 may still write it
//! assert!(pool.alloc(Point::from_raw(2)).is_err());
//! assert_eq!(pool.alloc(Point::from_raw(3))?.address(), 0x1000);  // now it is safe to use again
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::mem::{SharedWord, SharedWords};
use crate::queue::SignalAt;
use crate::timeline::Point;
use crate::value::Value;
use crate::wait::{Policy, WaitError, wait};

/// How many bits of a signal's value an engine writes and compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Width {
    /// The low 32 bits, unsigned.
    W32,
    /// All 64 bits, unsigned.
    W64,
}

impl Width {
    /// The bits in use.
    pub const fn mask(self) -> u64 {
        match self {
            Self::W32 => u32::MAX as u64,
            Self::W64 => u64::MAX,
        }
    }
}

/// What is wrong with a signal, its pool, or a value for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SignalError {
    /// The memory does not start at a 16-byte boundary on the device's side.
    Misaligned {
        /// Device address.
        address: u64,
    },
    /// The memory or the states hold fewer slots than needed.
    TooSmall {
        /// Slots needed.
        need: usize,
        /// Slots given.
        have: usize,
    },
    /// The value needs more bits than the engine compares.
    Width {
        /// The value.
        value: u64,
        /// The engine's mask.
        mask: u64,
    },
    /// Every slot is in use, or was given back and may still be written by work in flight.
    Exhausted {
        /// Slots in all.
        slots: usize,
        /// The earliest timeline point that frees one, if any was given back.
        frees_at: Option<Point>,
    },
}

impl core::fmt::Display for SignalError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Misaligned { address } => {
                write!(f, "signals at {address:#x} are not at a 16-byte boundary")
            }
            Self::TooSmall { need, have } => write!(f, "{need} signal slots needed, {have} given"),
            Self::Width { value, mask } => {
                write!(f, "signal value {value:#x} exceeds the engine's {mask:#x}")
            }
            Self::Exhausted {
                slots,
                frees_at: Some(p),
            } => {
                write!(
                    f,
                    "all {slots} signals are in use; one comes back at point {}",
                    p.raw()
                )
            }
            Self::Exhausted {
                slots,
                frees_at: None,
            } => write!(f, "all {slots} signals are in use"),
        }
    }
}

impl core::error::Error for SignalError {}

/// A signal's slot as both sides see it.
#[derive(Clone, Copy, Debug)]
pub struct Signal<'m> {
    value: SharedWord<'m>,
    timestamp: SharedWord<'m>,
    address: u64,
    width: Width,
}

impl<'m> Signal<'m> {
    /// Bytes of a slot, and its alignment.
    pub const BYTES: usize = 16;

    /// The slot at word `2 * index` of `words`.
    ///
    /// # Errors
    /// [`SignalError::Misaligned`], [`SignalError::TooSmall`].
    #[inline]
    pub fn at(words: SharedWords<'m>, index: usize, width: Width) -> Result<Self, SignalError> {
        let have = words.len() / 2;
        let too_small = SignalError::TooSmall {
            need: index.saturating_add(1),
            have,
        };
        let first = index.checked_mul(2).ok_or(too_small)?;
        let (value, address) = words.get(first).ok_or(too_small)?;
        let (timestamp, _) = words.get(first + 1).ok_or(too_small)?;
        if address % Self::BYTES as u64 != 0 {
            return Err(SignalError::Misaligned { address });
        }
        Ok(Self {
            value,
            timestamp,
            address,
            width,
        })
    }

    /// Device address.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// As a command's operand.
    pub fn operand(&self) -> SignalAt {
        Value::Imm(self.address).into()
    }

    /// The engine's width.
    pub const fn width(&self) -> Width {
        self.width
    }

    /// The value, in the engine's width.
    #[inline]
    pub fn value(&self) -> u64 {
        self.value.load() & self.width.mask()
    }

    /// Sets the value from this side. What was stored before is visible to who sees it.
    ///
    /// # Errors
    /// [`SignalError::Width`].
    #[inline]
    pub fn set(&self, value: u64) -> Result<(), SignalError> {
        if value & !self.width.mask() != 0 {
            return Err(SignalError::Width {
                value,
                mask: self.width.mask(),
            });
        }
        crate::mem::publish_fence();
        self.value.store(value);
        Ok(())
    }

    /// The last timestamp that a device wrote, in its own unit; 0 if none.
    pub fn timestamp(&self) -> u64 {
        self.timestamp.load()
    }

    /// Forgets the timestamp.
    pub fn clear_timestamp(&self) {
        self.timestamp.store(0);
    }

    /// The value's word, for policies that sleep on it.
    pub const fn word(&self) -> SharedWord<'m> {
        self.value
    }

    /// Waits until the value is at least `wanted`; see [`wait()`]. A value beyond the engine's width never comes.
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn wait(
        &self,
        wanted: u64,
        timeout_ns: u64,
        policy: &mut impl Policy,
    ) -> Result<u64, WaitError> {
        wait(self.value, self.width.mask(), wanted, timeout_ns, policy)
    }
}

/// A pool's note about one slot, in caller memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SlotState(u64);

impl SlotState {
    /// Fills the memory before use: free.
    pub const EMPTY: Self = Self(0);
    const USED: Self = Self(u64::MAX);
}

/// Hands out signals of a piece of memory and takes them back when nothing in flight writes them any more.
#[derive(Debug)]
pub struct SignalPool<'m> {
    words: SharedWords<'m>,
    states: &'m mut [SlotState],
    width: Width,
    next: usize,
}

impl<'m> SignalPool<'m> {
    /// A pool of `states.len()` slots, all free.
    ///
    /// # Errors
    /// [`SignalError::TooSmall`] if the memory holds fewer, [`SignalError::Misaligned`].
    pub fn new(
        words: SharedWords<'m>,
        states: &'m mut [SlotState],
        width: Width,
    ) -> Result<Self, SignalError> {
        let (need, have) = (states.len(), words.len() / 2);
        if need > have {
            return Err(SignalError::TooSmall { need, have });
        }
        if need > 0 {
            Signal::at(words, 0, width)?;
        }
        states.fill(SlotState::EMPTY);
        Ok(Self {
            words,
            states,
            width,
            next: 0,
        })
    }

    /// Slots in all.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether the pool has no slot at all.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// A signal with value and timestamp 0. `completed` is how far the timeline has come.
    ///
    /// # Errors
    /// [`SignalError::Exhausted`].
    pub fn alloc(&mut self, completed: Point) -> Result<Signal<'m>, SignalError> {
        let slots = self.states.len();
        let (after, before) = (self.next..slots, 0..self.next.min(slots));
        for index in after.chain(before) {
            let free = |s: &&mut SlotState| **s != SlotState::USED && s.0 <= completed.raw();
            let Some(state) = self.states.get_mut(index).filter(free) else {
                continue;
            };
            let signal = Signal::at(self.words, index, self.width)?;
            *state = SlotState::USED;
            self.next = index + 1;
            signal.value.store(0);
            signal.clear_timestamp();
            return Ok(signal);
        }
        let frees_at = self
            .states
            .iter()
            .filter(|s| **s != SlotState::USED)
            .map(|s| s.0)
            .min()
            .map(Point::from_raw);
        Err(SignalError::Exhausted { slots, frees_at })
    }

    /// Takes a signal back. It is handed out again when the timeline has reached `last_use`, the last submission whose
    /// commands name it. A signal of another pool is ignored; of one that is given back twice the later use counts.
    pub fn free(&mut self, signal: Signal<'m>, last_use: Point) {
        let base = self.words.get(0).map_or(0, |(_, address)| address);
        let index = usize::try_from(signal.address.wrapping_sub(base) / Signal::BYTES as u64).ok();
        let Some(index) = index.filter(|&i| i < self.states.len()) else {
            return;
        };
        let own = Signal::at(self.words, index, self.width);
        if own.is_ok_and(|own| own.value.as_ptr() == signal.value.as_ptr())
            && let Some(state) = self.states.get_mut(index)
        {
            // A point that large cannot be reached; keep it apart from the mark for used slots.
            let last_use = last_use.raw().min(u64::MAX - 1);
            *state = match *state {
                SlotState::USED => SlotState(last_use),
                SlotState(earlier) => SlotState(earlier.max(last_use)),
            };
        }
    }
}

#[cfg(test)]
mod tests;
