//! A worker thread: polls its engine, and sleeps when there is nothing to do.
#![allow(unsafe_code, reason = "polls an engine, which runs foreign code")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use hcq_cpu::abi::KernelFn;
use hcq_cpu::engine::{BlockedOn, Engine, EngineQueue, Platform, Poll};
use hcq_cpu::share::{Job, Share};
use hcq_nostd::fault::{Access, FaultKind, FaultRecord};
use hcq_nostd::mem::Region;

use super::Shared;
use super::memory::Cache;
use crate::Error;
use crate::backend::Memory;
use crate::wake::Event;

/// Packets and work-groups between two looks at the stop flag.
const BUDGET: u32 = 256;
/// Bytes of one step of a copy: large, since the machine copies faster what it sees whole.
const COPY_STEP: u64 = 256 << 20;
/// Longest sleep of a worker with nothing to do.
const IDLE_NAP: Duration = Duration::from_secs(1);
/// Longest sleep on a signal: kernels, other devices and the caller's own threads may write signals without telling anybody.
const SIGNAL_NAP: Duration = Duration::from_millis(10);
/// The first one, which doubles from time to time: what others write comes soon, or takes its time.
const FIRST_NAP: Duration = Duration::from_micros(50);
/// Longest sleep on a word of memory, and on helpers.
const WORD_NAP: Duration = Duration::from_millis(1);

/// What a thread is started with.
pub(super) struct Worker {
    shared: Arc<Shared>,
    jobs: Arc<[Job]>,
    queue: Option<usize>,
    local: Memory,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.space.give_back(&self.local);
    }
}

/// What the engine sees of the process.
struct Host<'a> {
    shared: &'a Shared,
    cache: Cache,
}

impl Platform for Host<'_> {
    fn now_ns(&mut self) -> u64 {
        self.shared.system.now_ns().max(1)
    }

    #[inline]
    fn translate(&mut self, address: u64, len: u64, access: Access) -> Option<NonNull<u8>> {
        self.cache
            .translate(&self.shared.space, address, len, access == Access::Write)
    }

    #[inline]
    fn kernel(&mut self, entry: u64) -> Option<KernelFn> {
        self.cache.kernel(&self.shared.space, entry)
    }

    #[inline]
    fn written(&mut self, address: u64, _notify: bool) {
        self.shared.event(address).notify(&self.shared.futex());
    }

    fn wake_helpers(&mut self) {
        self.shared.helpers.notify(&self.shared.futex());
    }
}

impl Worker {
    /// A worker of queue number `queue`, or a helper.
    pub(super) fn new(
        shared: &Arc<Shared>,
        jobs: &Arc<[Job]>,
        queue: Option<usize>,
    ) -> Result<Self, Error> {
        let local = shared.space.allocate(shared.local_memory.max(1))?;
        // Kernels get its address; packets do not name it.
        shared.space.hide(&local);
        Ok(Self {
            shared: Arc::clone(shared),
            jobs: Arc::clone(jobs),
            queue,
            local,
        })
    }

    /// The thread's life.
    pub(super) fn run(self) {
        let shared = &*self.shared;
        let mut queues = Vec::new();
        if let Some(index) = self.queue {
            let queue = shared.queue(index).ok().and_then(|(control, ring)| {
                EngineQueue::new(ring, control, u16::try_from(index).unwrap_or(u16::MAX)).ok()
            });
            let Some(queue) = queue else {
                shared.fail(FaultRecord::new(FaultKind::Hardware, 0, 0));
                return;
            };
            queues.push(queue);
        }
        // SAFETY: allocated for this worker, which outlives the engine; nobody else knows the address (M1, M2).
        let local = unsafe { Region::new(self.local.cpu, self.local.len, self.local.address) };
        let share = Share::new(&self.jobs, shared.local_memory);
        // Copy queues come after the jobs' queues, so theirs do not exist, and helpers have no queue.
        let first_job = self.queue.unwrap_or(0);
        let engine = Engine::new(&mut queues, local)
            .with_copy_step(COPY_STEP)
            .with_share(share, first_job);
        let Ok(engine) = engine else {
            shared.fail(FaultRecord::new(FaultKind::Hardware, 0, 0));
            return;
        };
        let bell = self
            .queue
            .and_then(|i| shared.bells.get(i))
            .unwrap_or(&shared.helpers);
        Loop {
            engine,
            share,
            host: Host {
                shared,
                cache: Cache::default(),
            },
            shared,
            bell,
            alone: self.queue.is_some(),
            naps: 0,
        }
        .run();
    }
}

struct Loop<'a> {
    engine: Engine<'a>,
    share: Share<'a>,
    host: Host<'a>,
    shared: &'a Shared,
    /// Where this thread sleeps when it is idle.
    bell: &'a Event,
    /// Nobody else sleeps there.
    alone: bool,
    /// Sleeps on a signal since something ran.
    naps: u32,
}

impl Loop<'_> {
    fn poll(&mut self) -> Poll {
        // SAFETY: `Host` answers from the table of live memory and registered kernels. Packets come from this crate's
        // encoders; whoever recorded an exec has promised, by its `unsafe`, what its kernel needs.
        unsafe { self.engine.poll(&mut self.host, BUDGET) }
    }

    fn run(&mut self) {
        let mut outcome = None;
        // When the thread ran out of work, to spin from there on.
        let mut idle_since = None;
        while !self.shared.is_stopping() {
            if self.shared.is_faulted() {
                self.nap(IDLE_NAP, |shared| {
                    shared.is_stopping() || !shared.is_faulted()
                });
                continue;
            }
            let held = match outcome.take().unwrap_or_else(|| self.poll()) {
                Poll::Ran(_) => {
                    (idle_since, self.naps) = (None, 0);
                    self.shared.room.notify(&self.shared.futex());
                    self.shared.helped.notify(&self.shared.futex());
                    continue;
                }
                Poll::Fault { record, .. } => {
                    self.shared.fail(record);
                    continue;
                }
                Poll::Idle => None,
                Poll::Blocked(blocked) => Some(blocked.on),
            };
            let now = self.shared.system.now_ns();
            let since = *idle_since.get_or_insert(now);
            if u128::from(now.saturating_sub(since)) < self.shared.spin.as_nanos() {
                for _ in 0..16 {
                    std::hint::spin_loop();
                }
                continue;
            }
            outcome = self.sleep(held);
            if outcome.is_some() {
                idle_since = None;
            }
        }
    }

    /// Sleeps until something may have changed. The outcome of a poll that was made on the way, if it was another one.
    fn sleep(&mut self, held: Option<BlockedOn>) -> Option<Poll> {
        let (address, limit) = match held {
            None => {
                let (engine, share) = (&self.engine, self.share);
                let helper = !self.alone;
                let ready = |shared: &Shared| {
                    engine.has_work()
                        || (helper && share.has_work())
                        || shared.is_stopping()
                        || shared.is_faulted()
                };
                let shared = self.shared;
                if self.alone {
                    self.bell
                        .sleep_alone(&shared.futex(), IDLE_NAP, || ready(shared));
                } else {
                    self.bell.sleep(&shared.futex(), IDLE_NAP, || ready(shared));
                }
                return None;
            }
            Some(BlockedOn::Signal { address, .. }) => {
                let nap = FIRST_NAP
                    .saturating_mul(1 << self.naps.min(8))
                    .min(SIGNAL_NAP);
                self.naps = self.naps.saturating_add(1);
                (Some(address), nap)
            }
            Some(BlockedOn::Word { address, .. }) => (Some(address), WORD_NAP),
            Some(BlockedOn::Helpers) => (None, WORD_NAP),
        };
        let shared = self.shared;
        let event = address.map_or(&shared.helped, |a| shared.event(a));
        let mut outcome = None;
        event.sleep(&shared.futex(), limit, || {
            // The condition is the engine's to judge.
            let again = self.poll();
            let still = matches!(again, Poll::Blocked(b) if Some(b.on) == held);
            if !still {
                outcome = Some(again);
            }
            !still || shared.is_stopping() || shared.is_faulted()
        });
        outcome
    }

    fn nap(&self, limit: Duration, ready: impl Fn(&Shared) -> bool) {
        self.bell
            .sleep(&self.shared.futex(), limit, || ready(self.shared));
    }
}
