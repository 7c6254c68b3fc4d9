//! A device's insides: submitting to it, waiting for it, faults.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hcq_nostd::fault::FaultRecord;
use hcq_nostd::mem::{Region, SharedWord};
use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::SignalAt;
use hcq_nostd::record::RecordError;
use hcq_nostd::signal::Signal as CoreSignal;
use hcq_nostd::timeline::{Point as CorePoint, Timeline, TimelineError, WaitFor};
use hcq_nostd::value::Value;
use hcq_nostd::wait::{Policy, WaitError};

use crate::backend::{
    Backend, Body, Command, Piece, Port, Prepared, Purpose, PushError, QueueId, QueueKind,
};
use crate::device::TimelineInfo;
use crate::heap::{Allocation, Heap, lock};
use crate::recording::{After, Chunk, Recording, encode_wait};
use crate::signal::Signals;
use crate::template::Template;
use crate::{Error, Options};

/// Recordings that a device keeps for later.
const POOLED: usize = 32;
/// How long new queues may take to show that they run.
const RECOVERY: Duration = Duration::from_millis(500);
/// Words that end a submission: a wait, a reset and a signal, with room to spare for any engine.
const TAIL_WORDS: usize = 256;

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What the submission lock holds.
pub(crate) struct Core {
    pub(crate) timeline: Timeline<'static>,
    pub(crate) port: Box<dyn Port>,
    /// The queue of the latest submission: the next one there needs no wait for it.
    pub(crate) last_queue: Option<QueueId>,
    tail: Box<[u32]>,
    /// The signal that ends a submission, for each kind of queue that there is and slot of the timeline.
    ends: [Option<Template>; 4],
}

/// A device's insides. Owned by its handles, buffers, signals and recordings.
pub(crate) struct Inner {
    pub(crate) name: String,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) heap: Arc<Heap>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) wait_timeout: Duration,
    pub(crate) arena_bytes: usize,
    /// Bytes that a command needs beside its words on a compute queue and on a copy queue.
    beside: [usize; 2],
    /// Bytes of a launch's descriptor.
    pub(crate) descriptor: usize,
    span_log2: u32,
    pub(crate) core: Mutex<Core>,
    slots: [CoreSignal<'static>; 2],
    /// Memory of the slots.
    _timeline: Arc<Allocation>,
    /// The fault, with the timeline's numbers, once it was seen.
    fault: Mutex<Option<FaultRecord>>,
    /// Points that were dropped by recoveries: after the first, up to the second.
    lost: Mutex<Vec<(u64, u64)>>,
    has_lost: AtomicBool,
    recoveries: AtomicU64,
    pool: Mutex<Vec<Recording>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("name", &self.name)
            .field("progress", self.heap.progress())
            .finish_non_exhaustive()
    }
}

/// Work for a queue.
pub(crate) struct Work<'a> {
    pub(crate) queue: QueueId,
    /// Goes into the ring.
    pub(crate) words: &'a mut [u32],
    /// What the words run, if they are a launch.
    pub(crate) pieces: &'a [Piece],
    /// Waits whose words are written now: in `chunks` for those beside the words, else in `body` if there is one, else
    /// in `words`.
    pub(crate) afters: &'a [After],
    pub(crate) body: Option<&'a mut Region<'static>>,
    pub(crate) chunks: &'a mut [Chunk],
}

impl Inner {
    pub(crate) fn open(name: &str, options: &Options) -> Result<Arc<Self>, Error> {
        options.check()?;
        let wait_timeout = crate::env::wait_timeout(options.wait_timeout_ms)?;
        let (backend, port) = crate::candidates::open(name, options)?;
        let heap = Arc::new(Heap::new(Arc::clone(&backend)));
        // A cache line of its own; both slots have the same event.
        let timeline = heap.allocate(64, Purpose::Signals)?;
        let words = crate::signal::shared_words(&timeline)?;
        let width = backend.width();
        let slot = |index| CoreSignal::at(words, index, width);
        let broken = |_| Error::Internal("the timeline does not fit its memory");
        let slots = [slot(0).map_err(broken)?, slot(1).map_err(broken)?];
        let most = Timeline::default_span_log2(width);
        let span_log2 = options.timeline_span_log2.unwrap_or(most).min(most);
        let timeline_state = Timeline::new(slots, span_log2).map_err(Error::Timeline)?;
        let counts = backend.queue_counts();
        let end = |kind, count: usize, slot| {
            let operand = timeline_state.operand(slot);
            let make = |value| Command::Signal(operand, value);
            let queue = QueueId { kind, index: 0 };
            let template = (count > 0).then(|| Template::new(&*backend, queue, make));
            template.transpose()
        };
        let (compute, copy) = (QueueKind::Compute, QueueKind::Copy);
        let ends = [
            end(compute, counts.0, 0)?,
            end(compute, counts.0, 1)?,
            end(copy, counts.1, 0)?,
            end(copy, counts.1, 1)?,
        ];
        let core = Core {
            timeline: timeline_state,
            port,
            last_queue: None,
            tail: vec![0; TAIL_WORDS].into(),
            ends,
        };
        Ok(Arc::new(Self {
            name: name.to_owned(),
            signals: Arc::new(Signals::new(&heap)),
            beside: [compute, copy].map(|kind| backend.beside(kind)),
            descriptor: backend.descriptor(),
            backend,
            heap,
            wait_timeout,
            arena_bytes: options.arena_bytes,
            span_log2,
            core: Mutex::new(core),
            slots,
            _timeline: timeline,
            fault: Mutex::new(None),
            lost: Mutex::default(),
            has_lost: AtomicBool::new(false),
            recoveries: AtomicU64::new(0),
            pool: Mutex::default(),
        }))
    }

    /// The device's fault, with the timeline's numbers.
    pub(crate) fn fault(&self) -> Option<FaultRecord> {
        let mut record = self.backend.fault()?;
        // The submission lock comes first wherever both are taken.
        let mut core = lock(&self.core);
        let mut seen = lock(&self.fault);
        if seen.is_none() {
            let completed = core.timeline.completed().map_or(0, CorePoint::raw);
            record.last_signalled = completed;
            record.first_not_signalled = completed + 1;
            *seen = Some(record);
        }
        *seen
    }

    /// Takes the submission lock if there is a fault; not to be called under it.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.backend.fault() {
            None => Ok(()),
            Some(bare) => Err(Error::Fault(self.fault().unwrap_or(bare))),
        }
    }

    /// This device cannot reach another one's memory.
    pub(crate) fn unreachable(&self, from: &Self, cause: Error) -> Error {
        Error::Unreachable {
            from: from.name.clone(),
            to: self.name.clone(),
            cause: Box::new(cause),
        }
    }

    /// Looks how far the timeline has come.
    pub(crate) fn look(&self) -> Result<CorePoint, Error> {
        self.look_locked(&mut lock(&self.core))
    }

    fn look_locked(&self, core: &mut Core) -> Result<CorePoint, Error> {
        let completed = core.timeline.completed().map_err(Error::Timeline)?;
        let progress = self.heap.progress();
        if completed.raw() > progress.completed() {
            self.backend.reached();
        }
        progress.reached(completed.raw());
        Ok(completed)
    }

    pub(crate) fn is_lost(&self, point: CorePoint) -> bool {
        self.has_lost.load(Ordering::Acquire)
            && lock(&self.lost)
                .iter()
                .any(|l| l.0 < point.raw() && point.raw() <= l.1)
    }

    /// Whether a point is complete, without waiting.
    pub(crate) fn is_complete(&self, point: CorePoint) -> Result<bool, Error> {
        if self.is_lost(point) {
            return Err(Error::Lost { point: point.raw() });
        }
        if point.raw() <= self.heap.progress().completed() || self.look()? >= point {
            return Ok(true);
        }
        self.check()?;
        Ok(false)
    }

    /// Waits until a point is complete; the time starts anew with every point that is.
    pub(crate) fn wait_point(
        &self,
        point: CorePoint,
        timeout: Duration,
        what: &'static str,
    ) -> Result<(), Error> {
        let (mut last, mut since, mut round) = (None, 0, 0u32);
        loop {
            // What the slots hold before the look: a change after it ends the nap.
            let seen = self.slots.map(|s| (s.word(), s.value()));
            if self.is_complete(point)? {
                return Ok(());
            }
            let completed = self.heap.progress().completed();
            let now = self.backend.now_ns();
            if last != Some(completed) {
                (last, since) = (Some(completed), now);
            }
            let waited = Duration::from_nanos(now.saturating_sub(since));
            if waited >= timeout {
                return Err(Error::Timeout {
                    what,
                    wanted: point.raw(),
                    seen: completed,
                    waited,
                });
            }
            // After a change the next is likely near: spin again before sleeping.
            let changed = self.backend.relax(round, &seen, timeout - waited);
            round = if changed { 0 } else { round.saturating_add(1) };
        }
    }

    /// Waits until a point is complete, or was dropped by a recovery: nothing of it runs any more.
    pub(crate) fn settle(&self, point: CorePoint, what: &'static str) -> Result<(), Error> {
        match self.wait_point(point, self.wait_timeout, what) {
            Err(Error::Lost { .. }) => Ok(()),
            other => other,
        }
    }

    /// Runs something while the device is idle and nothing is submitted.
    pub(crate) fn while_idle(&self, run: impl FnOnce()) -> Result<(), Error> {
        let mut run = Some(run);
        // Other threads may submit between the wait and the lock; each turn waits for what they did.
        for _ in 0..1000 {
            let latest = CorePoint::from_raw(self.heap.progress().latest());
            self.settle(latest, "a wait for the device to be idle")?;
            let mut core = lock(&self.core);
            if self.look_locked(&mut core)? == core.timeline.latest() {
                if let Some(run) = run.take() {
                    run();
                }
                drop(core);
                self.heap.reap();
                return Ok(());
            }
        }
        Err(Error::WouldBlock {
            what: "a device to which other threads submit without a pause",
        })
    }

    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        let latest = CorePoint::from_raw(self.heap.progress().latest());
        self.settle(latest, "a wait for the device")?;
        self.heap.reap();
        Ok(())
    }

    /// Submits work as the next point of the timeline. Waits, for a bounded time, when a ring is full.
    #[inline]
    pub(crate) fn submit(&self, work: &mut Work<'_>) -> Result<CorePoint, SubmitError> {
        match self.attempt(work)? {
            Ok(point) => Ok(point),
            Err(full) => self.submit_later(work, full),
        }
    }

    fn attempt(&self, work: &mut Work<'_>) -> Result<Result<CorePoint, Full>, SubmitError> {
        self.check()?;
        self.try_submit(&mut lock(&self.core), work)
    }

    #[cold]
    fn submit_later(&self, work: &mut Work<'_>, mut full: Full) -> Result<CorePoint, SubmitError> {
        let (mut since, mut last, mut round) = (self.backend.now_ns(), None, 0u32);
        loop {
            // Progress of whatever is waited for restarts the time.
            let progress = match full {
                Full::Ring { get, .. } => get,
                Full::Timeline { .. } => self.heap.progress().completed(),
            };
            let now = self.backend.now_ns();
            if last != Some(progress) {
                (last, since) = (Some(progress), now);
            }
            let waited = Duration::from_nanos(now.saturating_sub(since));
            let left = self.wait_timeout.saturating_sub(waited);
            match full {
                Full::Ring { need, free, .. } if left.is_zero() => {
                    let what = "a wait for room in a queue's ring (entries)";
                    return Err(Error::Timeout {
                        what,
                        wanted: need,
                        seen: free,
                        waited,
                    }
                    .into());
                }
                Full::Ring { get, .. } => {
                    let changed = self.backend.relax_room(round, work.queue, get, left);
                    round = if changed { 0 } else { round.saturating_add(1) };
                }
                Full::Timeline { wait_for } => {
                    let what = "a wait for room in the timeline";
                    self.wait_point(wait_for, self.wait_timeout, what)?;
                }
            }
            full = match self.attempt(work)? {
                Ok(point) => return Ok(point),
                Err(full) => full,
            };
        }
    }

    /// One attempt under the lock.
    fn try_submit(
        &self,
        core: &mut Core,
        work: &mut Work<'_>,
    ) -> Result<Result<CorePoint, Full>, SubmitError> {
        let plan = match core.timeline.plan() {
            Ok(plan) => plan,
            Err(TimelineError::TooFarAhead { wait_for }) => {
                return Ok(Err(Full::Timeline { wait_for }));
            }
            Err(e) => return Err(Error::Timeline(e).into()),
        };
        let queue = work.queue;
        self.resolve_afters(&core.timeline, work)?;
        let mut len = 0;
        let same_queue = core.last_queue == Some(work.queue);
        if let (WaitFor::Slot(s), false) = (plan.previous, same_queue) {
            let command = Command::Wait(core.timeline.operand(s.slot), Value::Imm(s.value));
            len += self.encode_tail(&mut core.tail, len, queue, command)?;
        }
        if let Some(slot) = plan.reset {
            // Nobody else waits on this timeline: `readers` is for peers.
            let operand = SignalAt {
                notify: false,
                ..core.timeline.operand(slot)
            };
            len += self.encode_tail(
                &mut core.tail,
                len,
                queue,
                Command::Signal(operand, Value::Imm(0)),
            )?;
        }
        let end = core
            .ends
            .get(2 * usize::from(queue.kind == QueueKind::Copy) + plan.signal.slot);
        let written = end.and_then(|e| {
            e.as_ref()?
                .write(plan.signal.value, core.tail.get_mut(len..)?)
        });
        let Some(written) = written else {
            return Err(Error::Internal("a submission's end has no room").into());
        };
        len += written;
        let tail = core.tail.get(..len).unwrap_or_default();
        let progress = self.heap.progress();
        progress.submitting(plan.point.raw());
        let body = match work.pieces {
            [] => Body::Words(work.words),
            pieces => Body::Launch(work.words, pieces),
        };
        match core.port.push(work.queue, body, tail) {
            Ok(()) => {
                core.timeline.commit(&plan);
                core.last_queue = Some(work.queue);
                Ok(Ok(plan.point))
            }
            Err(e) => {
                progress.submitting(core.timeline.latest().raw());
                match e {
                    PushError::Full { need, free, get } => Ok(Err(Full::Ring { need, free, get })),
                    PushError::TooLarge => Err(SubmitError::TooLarge),
                    PushError::Stopped => Err(match self.backend.fault() {
                        Some(fault) => Error::Fault(fault).into(),
                        None => Error::Internal("the queue is gone").into(),
                    }),
                    PushError::Refused(operation, errno) => {
                        Err(Error::System { operation, errno }.into())
                    }
                }
            }
        }
    }

    #[inline]
    fn encode_tail(
        &self,
        tail: &mut [u32],
        at: usize,
        queue: QueueId,
        command: Command<'_>,
    ) -> Result<usize, Error> {
        let words = tail.get_mut(at..).unwrap_or_default();
        let encoded = self
            .backend
            .encode(queue, &command, None, words, PatchList::none());
        Ok(encoded.map_err(Error::record("timeline"))?.0)
    }

    /// Writes the words of waits for earlier submissions: what a point stands for is known under the lock only.
    fn resolve_afters(
        &self,
        timeline: &Timeline<'static>,
        work: &mut Work<'_>,
    ) -> Result<(), Error> {
        for after in work.afters {
            let (slot, value) = match timeline.wait_for(after.point) {
                WaitFor::Slot(s) => (s.slot, s.value),
                WaitFor::Nothing => (0, 0),
            };
            let mut words = [0; 64];
            let n = encode_wait(
                &*self.backend,
                work.queue,
                timeline.operand(slot),
                value,
                &mut words,
            );
            let n = n.map_err(Error::record("after"))?;
            let words = words.get(..n).unwrap_or_default();
            let broken = Error::Internal("a wait lies outside its recording");
            let written = match (after.beside, &mut work.body) {
                (Some(b), _) => {
                    let chunk = work.chunks.get_mut(b.chunk);
                    chunk.and_then(|c| c.region.write_words(b.offset, words).ok())
                }
                (None, Some(region)) => region.write_words(after.at * 4, words).ok(),
                (None, None) => {
                    let place = work.words.get_mut(after.at..after.at + n);
                    place.map(|to| to.copy_from_slice(words))
                }
            };
            written.ok_or(broken)?;
        }
        Ok(())
    }

    /// Leaves the error state: drops what was in flight.
    pub(crate) fn recover(&self) -> Result<(), Error> {
        let mut core = lock(&self.core);
        if self.backend.fault().is_none() {
            return Ok(());
        }
        // Also after a failure: what is gone must not be used any more.
        let recovered = self.backend.recover(self.wait_timeout);
        let renewed = core.port.renew(self.wait_timeout.min(RECOVERY));
        recovered.and(renewed)?;
        core.last_queue = None;
        let completed = core.timeline.completed().map_err(Error::Timeline)?.raw();
        let latest = core.timeline.latest().raw();
        if completed < latest {
            lock(&self.lost).push((completed, latest));
            self.has_lost.store(true, Ordering::Release);
        }
        // What was dropped counts as done, and the slot that its resets would have cleared is clear.
        if let WaitFor::Slot(s) = core.timeline.wait_for(core.timeline.latest()) {
            let order = if s.slot == 0 { [0, 1] } else { [1, 0] };
            for (n, index) in order.into_iter().enumerate() {
                let value = if n == 0 { s.value } else { 0 };
                let slot = self
                    .slots
                    .get(index)
                    .ok_or(Error::Internal("a timeline has two slots"))?;
                slot.set(value)
                    .map_err(|_| Error::Internal("a timeline's value does not fit"))?;
            }
        }
        self.look_locked(&mut core)?;
        self.backend.recovered();
        *lock(&self.fault) = None;
        self.recoveries.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// How often the device has recovered: each time it has dropped what was in its rings.
    pub(crate) fn recoveries(&self) -> u64 {
        self.recoveries.load(Ordering::Acquire)
    }

    /// The timeline's first slot, to hold the place of a wait.
    pub(crate) fn timeline_operand(&self) -> Value {
        let [first, _] = &self.slots;
        first.address().into()
    }

    /// How hosts wait on one word.
    pub(crate) fn policy(&self, timeout: Duration) -> HostPolicy<'_> {
        // Without a deadline of its own, a nap must be short against the time allowed.
        HostPolicy {
            inner: self,
            round: 0,
            nap: (timeout / 4).max(Duration::from_micros(50)),
        }
    }

    pub(crate) fn wait_error(&self, what: &'static str, e: WaitError) -> Error {
        match e {
            WaitError::Timeout {
                wanted,
                seen,
                waited_ns,
            } => Error::Timeout {
                what,
                wanted,
                seen,
                waited: Duration::from_nanos(waited_ns),
            },
            WaitError::Fault(bare) => Error::Fault(self.fault().unwrap_or(bare)),
        }
    }

    /// Sees to what a program needs before it is launched on a queue.
    pub(crate) fn make_ready(&self, program: &Prepared, queue: QueueId) -> Result<(), Error> {
        if self.backend.ready(program, queue, false)? {
            return Ok(());
        }
        let mut done = Ok(false);
        self.while_idle(|| done = self.backend.ready(program, queue, true))?;
        done.map(|_| ())
    }

    /// Bytes that a command needs beside its words.
    #[inline]
    pub(crate) fn beside(&self, kind: QueueKind) -> usize {
        let [compute, copy] = self.beside;
        match kind {
            QueueKind::Compute => compute,
            QueueKind::Copy => copy,
        }
    }

    /// A recording from the pool.
    pub(crate) fn take_recording(&self) -> Recording {
        let mut recording = lock(&self.pool).pop().unwrap_or_default();
        recording.set_chains(self.descriptor != 0);
        recording
    }

    /// An empty recording back to the pool.
    pub(crate) fn give_recording(&self, recording: Recording) {
        let mut pool = lock(&self.pool);
        if pool.len() < POOLED {
            pool.push(recording);
        }
    }

    pub(crate) fn timeline(&self) -> Result<TimelineInfo, Error> {
        let mut core = lock(&self.core);
        let completed = self.look_locked(&mut core)?.raw();
        Ok(TimelineInfo {
            submitted: core.timeline.latest().raw(),
            completed,
            span_log2: self.span_log2,
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Bounded: what is still running after the time without progress is given up.
        if self.backend.fault().is_none() {
            let _ = self.synchronize();
        }
        if self.backend.stop(Duration::from_secs(2)) {
            self.heap.progress().stop();
            self.heap.reap();
        } else {
            // A thread does not come back from a kernel. It may use anything, so everything stays.
            std::mem::forget(Arc::clone(&self.heap));
        }
    }
}

/// What a submission has to wait for.
enum Full {
    Ring { need: u64, free: u64, get: u64 },
    Timeline { wait_for: CorePoint },
}

/// Why nothing was submitted.
#[derive(Debug)]
pub(crate) enum SubmitError {
    /// More words than the ring can ever hold: launch them by reference.
    TooLarge,
    Other(Error),
}

impl From<Error> for SubmitError {
    fn from(e: Error) -> Self {
        Self::Other(e)
    }
}

impl From<SubmitError> for Error {
    fn from(e: SubmitError) -> Self {
        match e {
            SubmitError::TooLarge => Self::Internal("a launch by reference does not fit a ring"),
            SubmitError::Other(e) => e,
        }
    }
}

/// See [`Inner::policy`].
pub(crate) struct HostPolicy<'a> {
    inner: &'a Inner,
    /// Rounds since the last change.
    round: u32,
    nap: Duration,
}

impl Policy for HostPolicy<'_> {
    fn now_ns(&mut self) -> u64 {
        self.inner.backend.now_ns()
    }

    fn relax(&mut self, _: u32, word: SharedWord<'_>, seen: u64) {
        let changed = self
            .inner
            .backend
            .relax(self.round, &[(word, seen)], self.nap);
        self.round = if changed {
            0
        } else {
            self.round.saturating_add(1)
        };
    }

    fn check(&mut self) -> Result<(), FaultRecord> {
        self.inner.backend.fault().map_or(Ok(()), Err)
    }
}

/// The room that a command needs in words, as an error of the recording.
pub(crate) fn no_room(e: RecordError) -> Error {
    Error::Record {
        command: "bind",
        source: e,
    }
}
