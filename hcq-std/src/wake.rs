//! Sleeping until something happens, and waking at the cost of one fence when nobody sleeps.
//!
//! An [`Event`] is one 32-bit word: odd while somebody sleeps or is about to, with a count above that bit. It carries
//! no condition of its own: the sleeper says what it waits for, the notifier has made it true before.
//!
//! ```text
//! sleeper                                   notifier
//! S1  word |= 1                             N1  make the condition true
//! S2  fence                                 N2  fence
//! S3  condition true? then do not sleep     N3  word even? then nobody sleeps
//! S4  futex_wait while word is as in S1     N4  word += 1, if it is still the one of N3
//!                                           N5  futex_wake all
//! ```
//!
//! No wake-up is lost: of the two fences one comes first. If S2 does, N3 sees the odd word, and N4 either changes it
//! before S4, which then does not sleep, or wakes the sleeper in N5. If N2 does, S3 sees the condition.
//! N4 makes the word even, so that of any number of notifiers one makes the system call for all who sleep by then.

use std::time::Duration;

// The crate's root says whose atomics: this file is also part of a test that runs every interleaving.
use super::atomics::{AtomicU32, Ordering, fence};

/// How a thread sleeps on a word, and how it is woken.
pub(crate) trait Futex {
    /// Sleeps while the word holds `expected`; returns when woken, when the time is over, or early.
    fn wait(&self, word: &AtomicU32, expected: u32, timeout: Duration);
    /// Wakes all who sleep on the word.
    fn wake_all(&self, word: &AtomicU32);
}

/// Something that may happen. See the [module](self).
#[derive(Debug)]
pub(crate) struct Event {
    word: AtomicU32,
}

impl Event {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
        }
    }

    /// Sleeps unless `ready`, until notified or the time is over. It may return early; the caller looks again.
    pub(crate) fn sleep(
        &self,
        futex: &impl Futex,
        timeout: Duration,
        ready: impl FnOnce() -> bool,
    ) {
        let expected = self.word.fetch_or(1, Ordering::SeqCst) | 1;
        // ORDER: S2, pairs with N2 in `notify`.
        fence(Ordering::SeqCst);
        if !ready() {
            futex.wait(&self.word, expected, timeout);
        }
    }

    /// The same for the only thread that ever sleeps on this event: a sleep that nobody ended costs the next notifier
    /// nothing.
    pub(crate) fn sleep_alone(
        &self,
        futex: &impl Futex,
        timeout: Duration,
        ready: impl FnOnce() -> bool,
    ) {
        self.sleep(futex, timeout, ready);
        let odd = self.word.load(Ordering::Relaxed);
        if odd & 1 == 1 {
            // A notifier that was faster has made it even; either way nobody sleeps.
            let _ = self.word.compare_exchange(
                odd,
                odd.wrapping_add(1),
                Ordering::SeqCst,
                Ordering::Relaxed,
            );
        }
    }

    /// Wakes all who sleep. What they wait for was stored before. Whether anybody slept.
    #[inline]
    pub(crate) fn notify(&self, futex: &impl Futex) -> bool {
        // ORDER: N2, pairs with S2 in `sleep`.
        fence(Ordering::SeqCst);
        let seen = self.word.load(Ordering::Relaxed);
        if seen & 1 == 0 {
            return false;
        }
        self.wake(futex, seen)
    }

    #[cold]
    fn wake(&self, futex: &impl Futex, seen: u32) -> bool {
        // When the exchange fails, another notifier has made the word even after our condition was stored, and wakes
        // all who sleep by then; or a later sleeper made it odd again after that, and has seen our condition.
        let claimed = self.word.compare_exchange(
            seen,
            seen.wrapping_add(1),
            Ordering::SeqCst,
            Ordering::Relaxed,
        );
        if claimed.is_ok() {
            futex.wake_all(&self.word);
        }
        claimed.is_ok()
    }
}
