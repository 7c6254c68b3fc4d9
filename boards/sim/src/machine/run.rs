//! The thread that makes engines move.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::Shared;
use super::order::Turned;

/// Turns of one hold of the lock.
const TURNS: u32 = 64;
/// Looks at the doorbells before the first nap.
const SPINS: u32 = 50;
/// Times that the engines let a caller go first.
const PATIENCE: u32 = 100;
const FIRST_NAP: Duration = Duration::from_micros(20);
const LONGEST_NAP: Duration = Duration::from_micros(200);
/// After this long without a doorbell, naps may be longer.
const IDLE: Duration = Duration::from_millis(100);
const IDLE_NAP: Duration = Duration::from_millis(2);

pub(super) fn run(shared: &Arc<Shared>) {
    let mut quiet = 0u32;
    let mut nap = FIRST_NAP;
    let mut since = Instant::now();
    let mut state = shared.lock();
    loop {
        if state.stop {
            return;
        }
        #[cfg(test)]
        {
            state.looks += 1;
        }
        let mut turned = Turned::Idle;
        for _ in 0..TURNS {
            turned = state.turn();
            if turned != Turned::Moved {
                break;
            }
            quiet = 0;
            nap = FIRST_NAP;
            since = Instant::now();
        }
        shared.tell(&mut state);
        if turned == Turned::Moved || quiet < SPINS {
            quiet = quiet.saturating_add(1);
            drop(state);
            for _ in 0..PATIENCE {
                std::thread::yield_now();
                if shared.callers.load(Ordering::Relaxed) == 0 {
                    break;
                }
            }
            state = shared.lock();
            continue;
        }
        let woken;
        if state.has_queues() {
            let limit = if since.elapsed() > IDLE {
                IDLE_NAP
            } else {
                LONGEST_NAP
            };
            nap = (nap * 2).min(limit);
            let waited = shared.wake.wait_timeout(state, nap);
            let time;
            (state, time) = waited.unwrap_or_else(PoisonError::into_inner);
            woken = !time.timed_out();
        } else {
            state = shared
                .wake
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            woken = true;
        }
        if woken {
            quiet = 0;
            nap = FIRST_NAP;
            since = Instant::now();
        }
    }
}
