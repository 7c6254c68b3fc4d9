//! The GPU's rings: what is sent to them, in which order, and what comes of it (`adreno_dispatch.c`,
//! `adreno_a6xx_ringbuffer.c`, `adreno_a6xx_preempt.c`).

use std::collections::VecDeque;
use std::time::Instant;

use hcq_uapi::kgsl::{
    CmdbatchFlags, ContextFlags, KGSL_CONTEXT_PREEMPT_STYLE_MASK,
    KGSL_CONTEXT_PREEMPT_STYLE_RINGBUFFER, KGSL_CONTEXT_PREEMPT_STYLE_SHIFT,
};

use super::command::{Command, Queued};
use super::fault::Kind;
use super::timestamps::passed;
use super::{Kernel, MEMSTORE_MAX};
use crate::cache::{Levels, host};
use crate::engine::{Cause, Step};
use crate::exec::Executor;
use crate::machine::clock;
use crate::machine::order::Turned;
use crate::qcom::host::{Asked, ticks};
use crate::qcom::seam::{CommandProcessor, Submission};
use crate::vm::PageFault;

/// `_context_drawobj_burst`.
const BURST: u32 = 5;
/// `_dispatcher_q_inflight_hi` and `_dispatcher_q_inflight_lo`.
const ALONE: usize = 15;
const SHARED: usize = 4;
/// Priorities of contexts.
const PRIORITIES: u32 = 16;
/// One turn in so many lets the CPU's caches do something.
const WANDER: u8 = 8;
/// One look in so many lets a ring of a higher priority go first.
const PREEMPT: u8 = 4;

/// A command in a ring.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) context: u32,
    pub(super) command: Command,
}

/// `struct adreno_ringbuffer`.
pub(super) struct Ring {
    pub(super) processor: Box<dyn CommandProcessor>,
    pub(super) queue: VecDeque<Sent>,
    /// The first command is being executed.
    pub(super) running: bool,
    /// `drawctxt_active`: whose commands it executed last.
    active: Option<u32>,
    /// When it last retired something, or began to have something.
    pub(super) since: Instant,
    /// Turns that it sleeps through.
    pub(super) late: u32,
}

impl Ring {
    pub(super) fn new(processor: Box<dyn CommandProcessor>) -> Self {
        Self {
            processor,
            queue: VecDeque::new(),
            running: false,
            active: None,
            since: Instant::now(),
            late: 0,
        }
    }

    /// A context is no more.
    pub(super) fn forget(&mut self, context: u32) {
        self.active = self.active.filter(|&active| active != context);
    }
}

/// What is next in a context's queue.
enum Next {
    Nothing,
    Command(Command),
}

impl Kernel {
    /// A time stamp has come without the GPU's help (`_retire_timestamp`).
    pub(super) fn retire_timestamp(&mut self, id: u32, timestamp: u32) {
        self.set_consumed(id, timestamp);
        self.set_retired(id, timestamp);
        self.fire_frees(id, false);
    }

    /// `_adreno_dispatcher_issuecmds`: from contexts' queues to the rings. Whether anything moved.
    pub(super) fn issue(&mut self) -> bool {
        let mut moved = false;
        for priority in 0..PRIORITIES {
            let of = |id: &u32| self.contexts.get(id).map(|context| context.priority);
            let jobs = self.jobs.iter().copied();
            let ids: Vec<u32> = jobs.filter(|id| of(id) == Some(priority)).collect();
            for id in ids {
                if self.send_burst(id) {
                    moved = true;
                    // Others first next time.
                    self.jobs.retain(|&job| job != id);
                    self.jobs.push_back(id);
                }
            }
        }
        let contexts = &self.contexts;
        let waits = |id: &u32| contexts.get(id).is_some_and(|c| !c.queue.is_empty());
        self.jobs.retain(waits);
        moved
    }

    /// `dispatcher_context_sendcmds`.
    fn send_burst(&mut self, id: u32) -> bool {
        let mut moved = false;
        let Some(index) = self.contexts.get(&id).map(|context| context.ring) else {
            return false;
        };
        for _ in 0..BURST {
            let before = self.contexts.get(&id).map_or(0, |c| c.queue.len());
            let room = self.rings.get(index).is_some_and(|ring| {
                let shared = ring.queue.iter().any(|sent| sent.context != id);
                ring.queue.len() < if shared { SHARED } else { ALONE }
            });
            let next = self.next_object(id, room);
            let after = self.contexts.get(&id).map_or(0, |c| c.queue.len());
            moved |= before != after;
            match next {
                Next::Nothing => break,
                Next::Command(command) => self.send(id, index, command),
            }
        }
        moved
    }

    /// `_process_drawqueue_get_next_drawobj`: what does not need the GPU is done, up to the first command that does.
    fn next_object(&mut self, id: u32, room: bool) -> Next {
        loop {
            let retired = self.retired(id);
            let Some(front) = self.contexts.get(&id).and_then(|c| c.queue.front()) else {
                return Next::Nothing;
            };
            let mut marked = None;
            match front {
                Queued::Sync(points) => {
                    if !points.iter().all(|point| self.happened(point)) {
                        return Next::Nothing;
                    }
                }
                Queued::Command(command) => match command.marker {
                    // `_marker_expired`: only those that say that they are one.
                    Some(before)
                        if command.flags.contains(CmdbatchFlags::MARKER)
                            && passed(retired, before) =>
                    {
                        marked = Some(command.timestamp);
                    }
                    Some(_) if !command.skip => return Next::Nothing,
                    _ if !room => return Next::Nothing,
                    _ => {
                        let context = self.contexts.get_mut(&id);
                        let popped = context.and_then(|context| context.queue.pop_front());
                        return match popped {
                            Some(Queued::Command(command)) => Next::Command(command),
                            _ => Next::Nothing,
                        };
                    }
                },
            }
            if let Some(context) = self.contexts.get_mut(&id) {
                context.queue.pop_front();
            }
            if let Some(timestamp) = marked {
                self.retire_timestamp(id, timestamp);
            }
            self.news = true;
        }
    }

    /// Whether a sync point is behind us: a context that is gone or lost holds nobody up.
    fn happened(&self, &(id, serial, timestamp): &(u32, u64, u32)) -> bool {
        let context = self.contexts.get(&id);
        let context = context.filter(|context| context.serial == serial && !context.is_bad());
        context.is_none() || passed(self.retired(id), timestamp)
    }

    /// `sendcmd`, `adreno_ringbuffer_submitcmd`.
    fn send(&mut self, id: u32, index: usize, mut command: Command) {
        let Some(context) = self.contexts.get_mut(&id) else {
            return;
        };
        if !command.skip
            && let Some(policy) = context.skipped.take()
        {
            command.policy = policy;
            command.recovered = true;
            command.preamble = true;
        }
        context.in_flight += 1;
        let profile = command.profile;
        let kernel_time = command.flags.contains(CmdbatchFlags::PROFILING_KTIME);
        if let Some(ring) = self.rings.get_mut(index) {
            if ring.queue.is_empty() {
                ring.since = Instant::now();
            }
            ring.queue.push_back(Sent {
                context: id,
                command,
            });
        }
        if let Some(profile) = profile {
            // `adreno_profile_submit_time`.
            let ns = if kernel_time {
                clock::now_ns()
            } else {
                clock::real_ns()
            };
            let times = [ns / 1_000_000_000, ns % 1_000_000_000, ticks()];
            for (at, value) in (profile.address..).step_by(8).zip(times) {
                // The object is held as long as the command is.
                let _ = self.write_profile(at, value);
            }
        }
        self.news = true;
    }

    fn write_profile(&self, address: u64, value: u64) -> Result<(), PageFault> {
        match &self.process {
            None => Ok(()),
            Some(process) => host::write(&process.iommu.table, address, &value.to_le_bytes()),
        }
    }

    /// The ring whose commands are executed next; `None` if all are empty.
    fn choose(&mut self) -> Option<usize> {
        let full = |ring: &Ring| !ring.queue.is_empty();
        let first = self.rings.iter().position(full)?;
        let current = self.rings.get(self.current).filter(|ring| full(ring));
        let Some(ring) = current else {
            self.current = first;
            return Some(first);
        };
        if first < self.current {
            let front = ring.queue.front().map(|sent| sent.context);
            let style = front
                .and_then(|id| self.contexts.get(&id))
                .map(|context| context.flags.bits() & KGSL_CONTEXT_PREEMPT_STYLE_MASK)
                .map(|style| style >> KGSL_CONTEXT_PREEMPT_STYLE_SHIFT);
            let whole = style == Some(KGSL_CONTEXT_PREEMPT_STYLE_RINGBUFFER) && ring.running;
            if !whole && self.random.u8(..PREEMPT) == 0 {
                self.current = first;
            }
        }
        Some(self.current)
    }

    /// Wakes the GPU; `false` while it is not awake. A GPU that was idle may have lost what it knew.
    fn wake(&mut self) -> bool {
        let idle_ms = self.settings.options.idle_ms;
        if self.power.begin(idle_ms, &mut self.random) {
            self.collapse();
        }
        self.power.is_awake()
    }

    /// The GPU's power goes: its caches have been written back, its registers are lost.
    fn collapse(&mut self) {
        if let Some(process) = &self.process {
            // What cannot be written has nowhere to go.
            let _ = self
                .caches
                .write_back(0, Levels::all(), &process.iommu.table);
        }
        self.caches.forget(0, u64::MAX);
        for ring in &mut self.rings {
            ring.processor.reset();
        }
    }

    /// One turn.
    pub(super) fn step(&mut self, executor: &mut dyn Executor) -> Turned {
        if self.halted {
            return Turned::Idle;
        }
        if self.random.u8(..WANDER) == 0 {
            self.wander();
        }
        let issued = self.issue();
        let Some(index) = self.choose() else {
            self.power.rest();
            return if issued { Turned::Moved } else { Turned::Idle };
        };
        if let Some(ring) = self.rings.get_mut(index)
            && let Some(late) = ring.late.checked_sub(1)
        {
            ring.late = late;
            return Turned::Moved;
        }
        if !self.wake() {
            return Turned::Moved;
        }
        let running = self.rings.get(index).is_some_and(|ring| ring.running);
        if !running {
            self.begin(index);
            return Turned::Moved;
        }
        let (Some(ring), Some(process)) = (self.rings.get_mut(index), &self.process) else {
            return Turned::Idle;
        };
        let mut asked = Asked {
            table: &process.iommu.table,
            caches: &mut self.caches,
            executor,
            random: &mut self.random,
        };
        match ring.processor.step(&mut asked) {
            Step::Idle => {
                self.retire(index);
                Turned::Moved
            }
            Step::Progress => {
                self.check_time(index);
                Turned::Moved
            }
            Step::Waiting => {
                // Another ring may go first the next time.
                let others = self.rings.iter().take(index);
                let waited = others.into_iter().all(|ring| ring.queue.is_empty());
                if self.check_time(index) || !waited {
                    Turned::Moved
                } else {
                    Turned::Waiting
                }
            }
            Step::Fault(fault) => {
                let kind = match &fault.cause {
                    Cause::Memory(fault) => Kind::Page(*fault),
                    Cause::Packet(_) => Kind::Hard,
                    Cause::Launch(_) | Cause::Program(_) => Kind::Timeout,
                };
                self.recover(index, kind, &fault.to_string());
                Turned::Moved
            }
        }
    }

    /// `_adreno_dispatch_check_timeout`: whether the GPU hangs.
    fn check_time(&mut self, index: usize) -> bool {
        let limit = self.settings.options.hang();
        let Some(ring) = self.rings.get(index) else {
            return false;
        };
        if ring.since.elapsed() < limit {
            return false;
        }
        let front = ring.queue.front().map(|sent| sent.context);
        let patient = front
            .and_then(|id| self.contexts.get(&id))
            .is_some_and(|c| c.flags.contains(ContextFlags::NO_FAULT_TOLERANCE));
        if patient {
            return false;
        }
        self.recover(index, Kind::Timeout, "it takes too long");
        true
    }

    /// The kernel's packets before a command's own.
    fn begin(&mut self, index: usize) {
        let Some(ring) = self.rings.get_mut(index) else {
            return;
        };
        let Some(sent) = ring.queue.front() else {
            return;
        };
        let (context, command) = (sent.context, &sent.command);
        let timestamp = command.timestamp;
        let switched = ring.active != Some(context);
        let profile = command.profile;
        // `a6xx_ringbuffer_submitcmd`.
        let preamble = switched || command.preamble;
        let ibs: Vec<(u64, u64)> = command
            .ibs
            .iter()
            .filter(|&&(_, _, only)| !command.skip && (!only || preamble))
            .map(|&(address, bytes, _)| (address, bytes))
            .collect();
        ring.active = Some(context);
        ring.running = true;
        let empty = ibs.is_empty();
        if !empty {
            ring.processor.begin(Submission {
                ibs,
                timestamp,
                context,
                switched,
            });
        }
        if switched && let Some(process) = &self.process {
            // `a6xx_rb_context_switch`: CACHE_INVALIDATE.
            let _ = self
                .caches
                .invalidate(0, Levels::all(), &process.iommu.table);
        }
        let number = MEMSTORE_MAX + u32::try_from(index).unwrap_or(0);
        self.set_running(number, context);
        self.set_running(0, context);
        self.set_consumed(context, timestamp);
        if let Some(profile) = profile
            && let Err(fault) = self.write_profile(profile.address + 24, ticks())
        {
            self.recover(index, Kind::Page(fault), "the command's time");
            return;
        }
        if empty {
            self.retire(index);
        }
    }

    /// The kernel's packets after a command's own, and the interrupt that they raise.
    fn retire(&mut self, index: usize) {
        if let Some(process) = &self.process {
            // CACHE_FLUSH_TS.
            let flushed = self
                .caches
                .write_back(0, Levels::all(), &process.iommu.table);
            if let Err(fault) = flushed {
                self.recover(index, Kind::Page(fault), "a store in the cache");
                return;
            }
        }
        let front = self.rings.get(index).and_then(|ring| ring.queue.front());
        let profile = front.and_then(|sent| sent.command.profile);
        if let Some(profile) = profile
            && let Err(fault) = self.write_profile(profile.address + 32, ticks())
        {
            self.recover(index, Kind::Page(fault), "the command's time");
            return;
        }
        let Some(ring) = self.rings.get_mut(index) else {
            return;
        };
        ring.running = false;
        ring.since = Instant::now();
        let Some(Sent { context, command }) = ring.queue.pop_front() else {
            return;
        };
        self.done_with(context, &command, true);
        self.issue();
    }

    /// A command has left its ring. `retired`: its time stamp has come.
    pub(super) fn done_with(&mut self, id: u32, command: &Command, retired: bool) {
        self.release(&Queued::Command(command.clone()));
        if let Some(context) = self.contexts.get_mut(&id) {
            context.in_flight = context.in_flight.saturating_sub(1);
            context.faulted |= retired && command.recovered;
        }
        if retired {
            self.set_retired(id, command.timestamp);
            self.fire_frees(id, false);
        }
        self.end_context(id);
    }

    /// Whether the GPU or a queue has something to do.
    pub(super) fn has_work(&self) -> bool {
        !self.halted && (!self.jobs.is_empty() || self.rings.iter().any(|r| !r.queue.is_empty()))
    }
}
