//! No wake-up is lost: every interleaving of sleepers and notifiers.
//!
//! Runs with `RUSTFLAGS="--cfg loom" cargo test --release -p hcq-std --test loom_wake`. A lost wake-up is a deadlock
//! here: nobody's time is ever over.
#![cfg(loom)]
#![allow(
    dead_code,
    unreachable_pub,
    reason = "the shell's own file, of which the test uses what it needs"
)]

mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};
}
#[path = "../src/wake.rs"]
mod wake;

use std::time::Duration;

use atomics::{AtomicU32, Ordering};
use loom::sync::atomic::{AtomicU64, AtomicUsize};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use wake::{Event, Futex};

const FOREVER: Duration = Duration::MAX;

/// The kernel's futex: comparing and falling asleep are one step.
struct Kernel {
    queue: Mutex<()>,
    woken: Condvar,
    wakes: AtomicUsize,
}

impl Kernel {
    fn new() -> Self {
        Self {
            queue: Mutex::new(()),
            woken: Condvar::new(),
            wakes: AtomicUsize::new(0),
        }
    }
}

impl Futex for &Kernel {
    fn wait(&self, word: &AtomicU32, expected: u32, _: Duration) {
        let queue = self.queue.lock().unwrap();
        if word.load(Ordering::SeqCst) == expected {
            drop(self.woken.wait(queue).unwrap());
        }
    }

    fn wake_all(&self, _: &AtomicU32) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        let _queue = self.queue.lock().unwrap();
        self.woken.notify_all();
    }
}

struct World {
    kernel: Kernel,
    event: Event,
    signals: [AtomicU64; 2],
}

impl World {
    fn new() -> Arc<Self> {
        let signals = [AtomicU64::new(0), AtomicU64::new(0)];
        Arc::new(Self {
            kernel: Kernel::new(),
            event: Event::new(),
            signals,
        })
    }

    fn is_set(&self, signal: usize) -> bool {
        self.signals[signal].load(Ordering::Acquire) != 0
    }

    fn set(&self, signal: usize) {
        self.signals[signal].store(1, Ordering::Release);
        self.event.notify(&&self.kernel);
    }

    fn wait(&self, signal: usize) {
        while !self.is_set(signal) {
            self.event
                .sleep(&&self.kernel, FOREVER, || self.is_set(signal));
        }
    }
}

fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(run);
}

#[test]
fn one_waits_one_signals() {
    model(|| {
        let world = World::new();
        let other = Arc::clone(&world);
        let waiter = thread::spawn(move || other.wait(0));
        world.set(0);
        waiter.join().unwrap();
        assert!(world.kernel.wakes.load(Ordering::SeqCst) <= 1);
    });
}

#[test]
fn two_wait_for_different_signals_of_one_event() {
    model(|| {
        let world = World::new();
        let waiters: Vec<_> = (0..2)
            .map(|n| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.wait(n))
            })
            .collect();
        world.set(0);
        world.set(1);
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

#[test]
fn two_signal_at_once() {
    model(|| {
        let world = World::new();
        let others: Vec<_> = (0..2)
            .map(|n| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.set(n))
            })
            .collect();
        world.wait(1);
        world.wait(0);
        for other in others {
            other.join().unwrap();
        }
    });
}

#[test]
fn a_bell_with_one_sleeper_wakes_it_for_each_of_two_submitters() {
    model(|| {
        let world = World::new();
        let submitters: Vec<_> = (0..2)
            .map(|n| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.set(n))
            })
            .collect();
        for n in 0..2 {
            while !world.is_set(n) {
                world
                    .event
                    .sleep_alone(&&world.kernel, FOREVER, || world.is_set(n));
            }
        }
        for submitter in submitters {
            submitter.join().unwrap();
        }
        assert!(world.kernel.wakes.load(Ordering::SeqCst) <= 2);
    });
}
