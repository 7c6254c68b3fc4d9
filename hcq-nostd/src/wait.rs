//! Waiting for a word in memory: with the caller's clock and the caller's way to relax, and never without an end.
//!
//! ```
//! use hcq_nostd::mem::SharedWord;
//! use hcq_nostd::wait::{Policy, WaitError, wait};
//!
//! struct Ticks(u64);
//! impl Policy for Ticks {
//!     fn now_ns(&mut self) -> u64 { self.0 }
//!     fn relax(&mut self, _round: u32, _word: SharedWord<'_>, _seen: u64) { self.0 += 10 }
//! }
//!
//! let mut cell = 3u64;
//! let word = SharedWord::from_mut(&mut cell);
//! assert_eq!(wait(word, u64::MAX, 3, 1000, &mut Ticks(0)), Ok(3));
//! let late = wait(word, u64::MAX, 4, 1000, &mut Ticks(0));
//! assert_eq!(late, Err(WaitError::Timeout { wanted: 4, seen: 3, waited_ns: 1000 }));
//! ```

use crate::fault::FaultRecord;
use crate::mem::{SharedWord, consume_fence};

/// How to wait: what the clock says, what to do in between, and whether the device is still well.
pub trait Policy {
    /// Nanoseconds of a clock that never goes back.
    fn now_ns(&mut self) -> u64;

    /// Passes time: a spin hint, a yield, a park, a wait in the kernel. It returns after a bounded time, whatever
    /// happens. `round` counts from zero for each wait; `seen` is the value of `word` that was not enough.
    fn relax(&mut self, round: u32, word: SharedWord<'_>, seen: u64);

    /// Whether the device can still make progress.
    ///
    /// # Errors
    /// The device's fault, which ends the wait at once.
    fn check(&mut self) -> Result<(), FaultRecord> {
        Ok(())
    }
}

/// Why a wait ended without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum WaitError {
    /// Nothing moved for the whole time allowed.
    Timeout {
        /// The least value that would have done.
        wanted: u64,
        /// The last value seen.
        seen: u64,
        /// Nanoseconds without progress.
        waited_ns: u64,
    },
    /// The device is in error.
    Fault(FaultRecord),
}

impl core::fmt::Display for WaitError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Timeout {
                wanted,
                seen,
                waited_ns,
            } => {
                let ms = waited_ns / 1_000_000;
                write!(
                    f,
                    "wait timed out: wanted {wanted}, seen {seen}, no progress for {ms} ms"
                )
            }
            Self::Fault(fault) => write!(f, "{fault}"),
        }
    }
}

impl core::error::Error for WaitError {}

/// Waits until `word & mask` is at least `wanted`, unsigned. Returns the value seen.
///
/// `timeout_ns` is the time without progress: it starts anew whenever the value changes. A value that is there already
/// is returned whatever the state of the device.
///
/// # Errors
/// [`WaitError`].
pub fn wait(
    word: SharedWord<'_>,
    mask: u64,
    wanted: u64,
    timeout_ns: u64,
    policy: &mut impl Policy,
) -> Result<u64, WaitError> {
    let mut seen = word.load() & mask;
    if seen >= wanted {
        consume_fence();
        return Ok(seen);
    }
    let mut since = policy.now_ns();
    let mut round = 0u32;
    loop {
        let checked = policy.check();
        policy.relax(round, word, seen);
        round = round.saturating_add(1);
        let value = word.load() & mask;
        if value >= wanted {
            consume_fence();
            return Ok(value);
        }
        checked.map_err(WaitError::Fault)?;
        let now = policy.now_ns();
        if value != seen {
            seen = value;
            since = now;
        }
        let waited_ns = now.saturating_sub(since);
        if waited_ns >= timeout_ns {
            return Err(WaitError::Timeout {
                wanted,
                seen,
                waited_ns,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultKind;

    /// A clock that moves 10 ns a turn and runs a script of stores.
    struct Script<'a> {
        now: u64,
        stores: &'a [(u64, u64)],
        fault_at: Option<u64>,
    }

    impl Policy for Script<'_> {
        fn now_ns(&mut self) -> u64 {
            self.now
        }
        fn relax(&mut self, _: u32, word: SharedWord<'_>, _: u64) {
            self.now += 10;
            for &(_, value) in self.stores.iter().filter(|(at, _)| *at == self.now) {
                word.store(value);
            }
        }
        fn check(&mut self) -> Result<(), FaultRecord> {
            match self.fault_at {
                Some(at) if self.now >= at => Err(FaultRecord::new(FaultKind::Memory, 1, 0x10)),
                _ => Ok(()),
            }
        }
    }

    fn run(stores: &[(u64, u64)], fault_at: Option<u64>, wanted: u64) -> Result<u64, WaitError> {
        let mut cell = 0;
        wait(
            SharedWord::from_mut(&mut cell),
            u64::MAX,
            wanted,
            100,
            &mut Script {
                now: 0,
                stores,
                fault_at,
            },
        )
    }

    #[test]
    fn progress_restarts_the_deadline() {
        assert_eq!(run(&[(90, 1), (180, 2), (270, 3)], None, 3), Ok(3));
        assert_eq!(
            run(&[(90, 1), (200, 2)], None, 2),
            Err(WaitError::Timeout {
                wanted: 2,
                seen: 1,
                waited_ns: 100
            })
        );
    }

    #[test]
    fn a_fault_ends_the_wait_at_once() {
        let fault = FaultRecord::new(FaultKind::Memory, 1, 0x10);
        assert_eq!(run(&[], Some(30), 1), Err(WaitError::Fault(fault)));
        // A value that arrives together with the fault counts.
        assert_eq!(run(&[(40, 1)], Some(30), 1), Ok(1));
    }

    #[test]
    fn the_mask_is_the_engines_width() {
        let mut cell = 0x5_0000_0001;
        let word = SharedWord::from_mut(&mut cell);
        let mut policy = Script {
            now: 0,
            stores: &[],
            fault_at: None,
        };
        assert_eq!(wait(word, 0xffff_ffff, 1, 100, &mut policy), Ok(1));
        assert!(wait(word, 0xffff_ffff, 2, 100, &mut policy).is_err());
    }
}
