//! Copy queues: threads of the host.
//!
//! Adreno has no copy engine, and its memory is the host's. A copy queue is a ring of [`hcq_cpu`]'s packets, which one thread
//! per queue runs, on what [`Table`] says that the device knows. So copies overlap with the compute queue, wait for its
//! signals and signal it, as a copy engine would.
#![allow(unsafe_code, reason = "makes the two sides of a ring, polls an engine")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hcq_cpu::abi::KernelFn;
use hcq_cpu::control::Control;
use hcq_cpu::engine::{BlockedOn, Engine, EngineQueue, Platform, Poll};
use hcq_cpu::{PACKET_BYTES, PACKET_WORDS};
use hcq_nostd::fault::{Access, FaultRecord};
use hcq_nostd::mem::{AccessError, Region, publish_fence};
use hcq_nostd::ring::Ring;

use super::clock::HOST_TIME;
use super::memory::{Place, Table};
use crate::Error;
use crate::backend::{Body, PushError};
use crate::heap::lock;
use crate::seam::{Errno, System};
use crate::wake::{Event, Futex};

/// Bytes of a queue's control block, before its ring.
const CONTROL_BYTES: usize = Control::WORDS * 8;
/// Alignment of rings.
const ALIGN: usize = 64;
/// Packets between two looks at the stop flag.
const BUDGET: u32 = 64;
/// Bytes of one step of a copy.
const COPY_STEP: u64 = 16 << 20;
/// Longest sleep of a thread with nothing to do.
const IDLE_NAP: Duration = Duration::from_secs(1);
/// Longest sleep on memory: the GPU writes signals without telling anybody.
const SIGNAL_NAP: Duration = Duration::from_micros(500);
/// How long memory is looked at before the thread sleeps on it.
const SIGNAL_SPIN: Duration = Duration::from_micros(100);

/// A ring's memory: control block and entries.
#[derive(Debug)]
struct RingMemory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: owns its memory, as a box does.
unsafe impl Send for RingMemory {}
// SAFETY: both sides access it by the rules of a ring.
unsafe impl Sync for RingMemory {}

impl RingMemory {
    fn new(packets: usize) -> Result<Self, Error> {
        let out_of_memory = |bytes: usize| Error::OutOfMemory {
            bytes: bytes as u64,
            errno: Errno::NOMEM,
        };
        let bytes = packets
            .checked_mul(PACKET_BYTES)
            .and_then(|n| n.checked_add(CONTROL_BYTES));
        let bytes = bytes.ok_or_else(|| out_of_memory(usize::MAX))?;
        let layout = Layout::from_size_align(bytes, ALIGN).map_err(|_| out_of_memory(bytes))?;
        // SAFETY: the layout is not of zero bytes.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) });
        Ok(Self {
            start: start.ok_or_else(|| out_of_memory(bytes))?,
            layout,
        })
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; both sides are gone: they hold what holds this.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// What threads and host share.
#[derive(Debug)]
pub(super) struct Shared {
    system: Arc<dyn System>,
    table: Arc<Table>,
    /// Somebody wrote memory that others may sleep on.
    signals: Event,
    /// One per queue: who waits for packets.
    bells: Box<[Event]>,
    /// Who waits for room in a ring.
    room: Event,
    fault: Mutex<Option<FaultRecord>>,
    faulted: AtomicBool,
    stop: AtomicBool,
    rings: Box<[RingMemory]>,
    spin: Duration,
}

/// Sleeps through the system seam.
struct Sleep<'a>(&'a dyn System);

impl Futex for Sleep<'_> {
    fn wait(&self, word: &AtomicU32, expected: u32, timeout: Duration) {
        self.0.futex_wait(word, expected, timeout);
    }

    fn wake_all(&self, word: &AtomicU32) {
        self.0.futex_wake(word, u32::MAX);
    }
}

impl Shared {
    fn futex(&self) -> Sleep<'_> {
        Sleep(&*self.system)
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn is_faulted(&self) -> bool {
        self.faulted.load(Ordering::Acquire)
    }

    fn wake_everybody(&self) {
        for event in self.bells.iter().chain([&self.signals, &self.room]) {
            event.notify(&self.futex());
        }
    }

    /// The control block and the ring's memory of a queue.
    fn queue(&self, index: usize) -> Result<(Control<'static>, Region<'static>), AccessError> {
        let none = AccessError::OutOfBounds {
            offset: index as u64,
            len: 1,
            region: self.rings.len() as u64,
        };
        let memory = self.rings.get(index).ok_or(none)?;
        // SAFETY: the memory lives as long as `self`, which outlives both sides. All access to the control block is
        // atomic; the host stores to ring entries that the engine has consumed, which the pointers order (M2).
        let region = unsafe { Region::new(memory.start, memory.layout.size(), 0) };
        let (control, ring) = region.split_at(CONTROL_BYTES)?;
        Ok((Control::in_region(control)?, ring))
    }
}

/// What a thread's engine sees of the device.
struct Host<'a> {
    shared: &'a Shared,
    /// What the packet is on: mapped while this holds it.
    held: Vec<Place>,
    /// What was written and the GPU does not see yet, and its bytes.
    written: Vec<(Place, u64)>,
}

impl Platform for Host<'_> {
    fn now_ns(&mut self) -> u64 {
        self.shared.system.now_ns() | HOST_TIME
    }

    fn translate(&mut self, address: u64, len: u64, access: Access) -> Option<NonNull<u8>> {
        let place = self
            .shared
            .table
            .find(address, len, access == Access::Write)?;
        let at = place.cpu()?;
        if place.block.is_coherent() {
            if access == Access::Write {
                // It may be a signal: what was copied before goes first.
                self.give_out();
                publish_fence();
            }
        } else {
            // What the GPU wrote is in memory, and what the host wrote goes there.
            place.block.flush(place.offset, len as usize).ok()?;
            if access == Access::Write {
                self.written.push((place.clone(), len));
            }
        }
        self.held.push(place);
        Some(at)
    }

    fn kernel(&mut self, _: u64) -> Option<KernelFn> {
        None
    }

    fn written(&mut self, _address: u64, _notify: bool) {
        self.shared.signals.notify(&self.shared.futex());
    }
}

impl Host<'_> {
    /// Sees to the cache lines of what was written.
    fn give_out(&mut self) {
        for (place, len) in self.written.drain(..) {
            // What is refused here was found good when it was found.
            let _ = place.block.flush(place.offset, len as usize);
        }
    }
}

/// A thread's life.
fn run(shared: &Shared, index: usize) {
    let queue = shared.queue(index).ok().and_then(|(control, ring)| {
        EngineQueue::new(ring, control, u16::try_from(index).unwrap_or(u16::MAX)).ok()
    });
    let Some(queue) = queue else {
        return;
    };
    let (mut queues, mut none) = ([queue], [0u64; 1]);
    let local = Region::from_words(&mut none, 0);
    let mut engine = Engine::new(&mut queues, local).with_copy_step(COPY_STEP);
    let mut host = Host {
        shared,
        held: Vec::new(),
        written: Vec::new(),
    };
    let Some(bell) = shared.bells.get(index) else {
        return;
    };
    let mut blocked_since: Option<Instant> = None;
    while !shared.is_stopping() {
        if shared.is_faulted() {
            bell.sleep_alone(&shared.futex(), IDLE_NAP, || {
                shared.is_stopping() || !shared.is_faulted()
            });
            continue;
        }
        // SAFETY: `Host` answers from the table of live memory, and holds what it found until the next poll. There are no
        // kernels.
        let polled = unsafe { engine.poll(&mut host, BUDGET) };
        host.give_out();
        host.held.clear();
        match polled {
            Poll::Ran(_) => {
                blocked_since = None;
                shared.room.notify(&shared.futex());
            }
            Poll::Fault { record, .. } => {
                let engine = record.engine.saturating_add(1);
                lock(&shared.fault).get_or_insert(FaultRecord { engine, ..record });
                shared.faulted.store(true, Ordering::SeqCst);
                shared.wake_everybody();
            }
            Poll::Idle => {
                blocked_since = None;
                bell.sleep_alone(&shared.futex(), IDLE_NAP, || {
                    engine.has_work() || shared.is_stopping() || shared.is_faulted()
                });
            }
            Poll::Blocked(blocked) => {
                let since = *blocked_since.get_or_insert_with(Instant::now);
                if since.elapsed() < SIGNAL_SPIN {
                    for _ in 0..16 {
                        std::hint::spin_loop();
                    }
                    continue;
                }
                let on = blocked.on;
                shared.signals.sleep(&shared.futex(), SIGNAL_NAP, || {
                    shared.is_stopping() || shared.is_faulted() || has_changed(shared, &on)
                });
            }
        }
    }
}

/// Whether what holds a queue is another value now.
fn has_changed(shared: &Shared, on: &BlockedOn) -> bool {
    let (address, seen, len) = match *on {
        BlockedOn::Signal { address, seen, .. } => (address, seen, 8),
        BlockedOn::Word { address, seen, .. } => (address, seen.into(), 4),
        BlockedOn::Helpers => return true,
    };
    let place = shared.table.find(address, len, false);
    let Some((cpu, _place)) = place.and_then(|p| Some((p.cpu()?, p))) else {
        return true;
    };
    let now = if len == 8 && cpu.cast::<u64>().is_aligned() {
        // SAFETY: eight bytes of live memory, aligned, held by `_place`.
        unsafe { cpu.cast::<u64>().read_volatile() }
    } else if len == 4 && cpu.cast::<u32>().is_aligned() {
        // SAFETY: four bytes, as above.
        u64::from(unsafe { cpu.cast::<u32>().read_volatile() })
    } else {
        return true;
    };
    now != seen
}

/// The copy queues of a device.
#[derive(Debug)]
pub(super) struct Copies {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Copies {
    pub(super) fn new(
        system: &Arc<dyn System>,
        table: &Arc<Table>,
        queues: usize,
        packets: usize,
        spin: Duration,
    ) -> Result<Self, Error> {
        let rings = (0..queues).map(|_| RingMemory::new(packets));
        let copies = Self {
            shared: Arc::new(Shared {
                system: Arc::clone(system),
                table: Arc::clone(table),
                signals: Event::new(),
                bells: (0..queues).map(|_| Event::new()).collect(),
                room: Event::new(),
                fault: Mutex::default(),
                faulted: AtomicBool::new(false),
                stop: AtomicBool::new(false),
                rings: rings.collect::<Result<_, Error>>()?,
                spin,
            }),
            threads: Mutex::default(),
        };
        copies.start(false)?;
        Ok(copies)
    }

    pub(super) fn queues(&self) -> usize {
        self.shared.rings.len()
    }

    /// Starts the threads, all of them or none. With `afresh` queues drop what was published.
    fn start(&self, afresh: bool) -> Result<(), Error> {
        for index in 0..self.queues() {
            if afresh {
                let queue = self
                    .shared
                    .queue(index)
                    .ok()
                    .and_then(|(control, ring)| EngineQueue::new(ring, control, 0).ok());
                queue
                    .ok_or(Error::Internal("a ring does not fit its memory"))?
                    .reset();
            }
            let shared = Arc::clone(&self.shared);
            let started = std::thread::Builder::new()
                .name(format!("hcq-copy-{index}"))
                .spawn(move || run(&shared, index));
            match started {
                Ok(thread) => lock(&self.threads).push(thread),
                Err(e) => {
                    // They have nothing to do yet, so they come back.
                    self.halt(Duration::from_secs(10));
                    return Err(Error::Thread(e));
                }
            }
        }
        Ok(())
    }

    /// Stops the threads; returns how many did not come back.
    pub(super) fn halt(&self, limit: Duration) -> usize {
        self.shared.stop.store(true, Ordering::SeqCst);
        let end = Instant::now() + limit;
        let mut threads = lock(&self.threads);
        while threads.iter().any(|t| !t.is_finished()) {
            self.shared.wake_everybody();
            if Instant::now() >= end {
                break;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        let (done, stuck) = threads.drain(..).partition(JoinHandle::is_finished);
        *threads = stuck;
        let done: Vec<JoinHandle<()>> = done;
        for thread in done {
            // A thread does not panic; if it did, the device is going away anyhow.
            let _ = thread.join();
        }
        threads.len()
    }

    /// Starts afresh: what was published and not run is dropped.
    pub(super) fn recover(&self, limit: Duration) -> Result<(), Error> {
        let threads = self.halt(limit);
        if threads > 0 {
            return Err(Error::Stuck {
                threads,
                waited: limit,
            });
        }
        *lock(&self.shared.fault) = None;
        self.shared.faulted.store(false, Ordering::SeqCst);
        self.shared.stop.store(false, Ordering::SeqCst);
        self.start(true)
    }

    /// The fault that a queue stopped with.
    pub(super) fn fault(&self) -> Option<FaultRecord> {
        if !self.shared.is_faulted() {
            return None;
        }
        *lock(&self.shared.fault)
    }

    /// The device is in error: nothing more runs.
    pub(super) fn fail(&self, record: FaultRecord) {
        if self.shared.is_faulted() {
            return;
        }
        lock(&self.shared.fault).get_or_insert(record);
        self.shared.faulted.store(true, Ordering::SeqCst);
        self.shared.wake_everybody();
    }

    /// Somebody wrote memory that a queue may wait for.
    pub(super) fn notify(&self) {
        self.shared.signals.notify(&self.shared.futex());
    }

    /// Whether a queue has packets that it has not run.
    pub(super) fn are_busy(&self) -> bool {
        (0..self.queues()).any(|index| {
            let queue = self.shared.queue(index);
            queue.is_ok_and(|(control, _)| control.put() != control.get())
        })
    }

    /// Sleeps until a queue writes memory, for a limited time.
    pub(super) fn sleep(&self, limit: Duration, ready: impl Fn() -> bool) {
        self.shared.signals.sleep(&self.shared.futex(), limit, || {
            ready() || self.shared.is_faulted()
        });
    }

    /// Passes time until a queue's get is another one than it was.
    pub(super) fn relax_room(&self, round: u32, index: usize, get: u64, limit: Duration) -> bool {
        let changed = || {
            let queue = self.shared.queue(index);
            queue.is_ok_and(|(control, _)| control.get() != get)
        };
        if round == 0 {
            super::spin_until(self.shared.spin, changed);
        } else {
            let ready = || changed() || self.shared.is_faulted();
            let nap = limit.min(Duration::from_millis(100));
            self.shared.room.sleep(&self.shared.futex(), nap, ready);
        }
        changed()
    }

    /// The host's half of the rings.
    pub(super) fn rings(&self) -> Result<CopyRings, Error> {
        let broken = |_| Error::Internal("a ring does not fit its memory");
        let mut rings = Vec::with_capacity(self.queues());
        for index in 0..self.queues() {
            let (control, memory) = self.shared.queue(index).map_err(broken)?;
            let ring = Ring::new(memory, PACKET_BYTES)
                .map_err(|_| Error::Internal("a ring has no room"))?;
            rings.push((ring, control));
        }
        Ok(CopyRings {
            rings,
            shared: Arc::clone(&self.shared),
        })
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        self.halt(Duration::from_millis(100));
    }
}

/// The host's half of the rings.
pub(super) struct CopyRings {
    rings: Vec<(Ring<'static>, Control<'static>)>,
    /// Keeps the memory that the rings are in; dropped after them.
    shared: Arc<Shared>,
}

impl CopyRings {
    /// Room for so many words in a queue's ring.
    pub(super) fn room(&mut self, index: usize, words: usize) -> Result<(), PushError> {
        let (ring, control) = self.rings.get_mut(index).ok_or(PushError::Stopped)?;
        let need = (words / PACKET_WORDS) as u64;
        if need > ring.len() {
            return Err(PushError::TooLarge);
        }
        if need > ring.free() {
            let get = control.get();
            // A count that cannot be leaves the ring as it was, and so as full as it was.
            let _ = ring.consumed(get);
            let free = ring.free();
            if need > free {
                return Err(PushError::Full { need, free, get });
            }
        }
        Ok(())
    }

    pub(super) fn push(
        &mut self,
        index: usize,
        body: Body<'_>,
        end: &[u32],
    ) -> Result<(), PushError> {
        let body = body.words();
        self.room(index, body.len() + end.len())?;
        let (ring, control) = self.rings.get_mut(index).ok_or(PushError::Stopped)?;
        let first = (body.len() / PACKET_WORDS) as u64;
        let need = ((body.len() + end.len()) / PACKET_WORDS) as u64;
        let Ok(mut hole) = ring.reserve(need) else {
            return Err(PushError::TooLarge);
        };
        if (!body.is_empty() && hole.fill(0, body).is_err())
            || (!end.is_empty() && hole.fill(first, end).is_err())
        {
            return Err(PushError::TooLarge);
        }
        hole.publish(control);
        if let Some(bell) = self.shared.bells.get(index) {
            bell.notify(&self.shared.futex());
        }
        Ok(())
    }
}
