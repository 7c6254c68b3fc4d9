//! Submissions to a kernel's queue, in order. What is submitted beyond what the kernel takes at once waits here; a thread hands
//! it on.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hcq_nostd::fault::FaultRecord;

use super::driver::{Context, Refusal};
use crate::backend::Piece;
use crate::heap::lock;
use crate::seam::Errno;

/// Longest sleep of the thread that feeds the kernel, between two looks at whether it is still needed.
const FEED_NAP: Duration = Duration::from_millis(20);

/// A kernel's queue. It tells submissions apart by marks, numbers that go up.
pub(crate) trait Ring: fmt::Debug + Send + Sync + 'static {
    /// A submission as the kernel takes it.
    type List: fmt::Debug + Default + Send;
    /// Submissions that the kernel is given at once.
    const MOST: usize;

    /// Makes a list a submission of these words, whatever it was before.
    fn list(&self, pieces: &[Piece], list: &mut Self::List);
    /// Hands a submission to the kernel, after one with the mark `last`. Its mark.
    fn give(&self, last: u64, list: &mut Self::List) -> Result<u64, Errno>;
    /// How far the kernel is, at least `known`, looking at these marks. It does not sleep.
    fn done(&self, known: u64, queued: &VecDeque<u64>) -> Result<u64, Errno>;
    /// Sleeps until the kernel has come to a mark; `ETIMEDOUT` if it has not in that time.
    fn sleep(&self, mark: u64, limit: Duration) -> Result<(), Errno>;
    /// Whether an answer says that the queue is lost.
    fn is_lost(&self, errno: Errno) -> bool;
    /// What became of a lost queue.
    fn describe(&self, detail: u64) -> FaultRecord;
    /// Asks whether the queue is lost, and with which detail.
    fn look(&self) -> Result<Option<u64>, Errno>;
    /// Ends it, once. `last` is the last mark that is not known to be done. Returns when nothing of it runs.
    fn end(&self, last: Option<u64>);
}

/// Submissions. They count from 1.
#[derive(Debug)]
struct Counts<L> {
    submitted: u64,
    retired: u64,
    /// The last mark that the kernel gave out.
    given: u64,
    /// The last one that is done.
    done: u64,
    /// Marks of submissions that the kernel has and that are not known to be done.
    queued: VecDeque<u64>,
    /// Submissions that the kernel has no room for yet.
    waiting: VecDeque<L>,
    /// A list that is not in use: the next submission takes its memory.
    spare: L,
    /// Whether a thread sees to them.
    is_fed: bool,
}

/// A kernel's queue with what waits for it.
#[derive(Debug)]
pub(crate) struct Feed<R: Ring> {
    lane: Arc<Lane<R>>,
    feeder: Mutex<Option<JoinHandle<()>>>,
}

/// What a queue's users and its thread share.
#[derive(Debug)]
struct Lane<R: Ring> {
    ring: R,
    counts: Mutex<Counts<R::List>>,
    fault: Mutex<Option<FaultRecord>>,
    is_faulted: AtomicBool,
    has_ended: AtomicBool,
}

impl<R: Ring> Feed<R> {
    /// A queue of which nothing is known to be in flight; `first` is the mark that it is at.
    pub(crate) fn new(ring: R, first: u64) -> Self {
        let counts = Counts {
            submitted: 0,
            retired: 0,
            given: first,
            done: first,
            queued: VecDeque::with_capacity(R::MOST),
            waiting: VecDeque::new(),
            spare: R::List::default(),
            is_fed: false,
        };
        Self {
            lane: Arc::new(Lane {
                ring,
                counts: Mutex::new(counts),
                fault: Mutex::default(),
                is_faulted: AtomicBool::new(false),
                has_ended: AtomicBool::new(false),
            }),
            feeder: Mutex::default(),
        }
    }
}

impl<R: Ring> Lane<R> {
    /// What became of the queue, once: in error from the first fault on.
    fn fail(&self, detail: u64) -> FaultRecord {
        let mut fault = lock(&self.fault);
        let record = *fault.get_or_insert_with(|| self.ring.describe(detail));
        self.is_faulted.store(true, Ordering::Release);
        record
    }

    /// What an answer says of the queue.
    fn judge(&self, errno: Errno) -> Option<FaultRecord> {
        let lost = self.ring.is_lost(errno);
        lost.then(|| self.fail(u64::from(errno.0.unsigned_abs())))
    }

    fn known_fault(&self) -> Option<FaultRecord> {
        if !self.is_faulted.load(Ordering::Acquire) {
            return None;
        }
        *lock(&self.fault)
    }

    fn is_over(&self) -> bool {
        self.has_ended.load(Ordering::Acquire) || self.is_faulted.load(Ordering::Acquire)
    }

    /// The kernel says that it has come to a mark.
    fn reached(counts: &mut Counts<R::List>, mark: u64) {
        // What it never gave out is not done.
        if mark <= counts.given {
            counts.done = counts.done.max(mark);
        }
        while counts.queued.front().is_some_and(|t| *t <= counts.done) {
            counts.queued.pop_front();
            counts.retired = counts.retired.saturating_add(1);
        }
    }

    /// Hands a list to the kernel.
    fn give(&self, counts: &mut Counts<R::List>, list: &mut R::List) -> Result<(), Errno> {
        let given = self.ring.give(counts.given, list)?;
        if given <= counts.given {
            // The kernel's count does not go on: nothing that is waited for would mean anything.
            return Err(Errno(libc::EPROTO));
        }
        counts.given = given;
        counts.queued.push_back(given);
        Ok(())
    }

    /// Looks how far the kernel is, and gives it what it has room for.
    fn pump(&self) {
        let mut counts = lock(&self.counts);
        match self.ring.done(counts.done, &counts.queued) {
            Ok(mark) => {
                Self::reached(&mut counts, mark);
                self.feed(counts);
            }
            Err(errno) => {
                drop(counts);
                self.judge(errno);
            }
        }
    }

    fn feed(&self, mut counts: MutexGuard<'_, Counts<R::List>>) {
        while counts.queued.len() < R::MOST && !self.is_over() {
            let Some(mut list) = counts.waiting.pop_front() else {
                return;
            };
            match self.give(&mut counts, &mut list) {
                Ok(()) => counts.spare = list,
                // Later, perhaps.
                Err(Errno::NOMEM | Errno(libc::EAGAIN)) => {
                    counts.waiting.push_front(list);
                    return;
                }
                Err(errno) => {
                    drop(counts);
                    if self.judge(errno).is_none() {
                        self.fail(u64::from(errno.0.unsigned_abs()));
                    }
                    return;
                }
            }
        }
    }

    /// Sleeps until the kernel has come to a mark; whether it has.
    fn sleep(&self, mark: u64, limit: Duration) -> bool {
        match self.ring.sleep(mark, limit) {
            Ok(()) => {
                let mut counts = lock(&self.counts);
                Self::reached(&mut counts, mark);
                self.feed(counts);
                true
            }
            Err(errno) => {
                let over = errno.0 == libc::ETIMEDOUT;
                if !over && self.judge(errno).is_none() {
                    // Time is to pass all the same.
                    std::thread::sleep(Duration::from_millis(1).min(limit));
                }
                false
            }
        }
    }

    /// The life of the thread that feeds the kernel.
    fn run(&self) {
        loop {
            let first = {
                let mut counts = lock(&self.counts);
                if self.is_over() || counts.waiting.is_empty() {
                    counts.is_fed = false;
                    return;
                }
                counts.queued.front().copied()
            };
            match first {
                Some(first) => {
                    self.sleep(first, FEED_NAP);
                }
                // What it refused a moment ago, it may take now.
                None => std::thread::sleep(Duration::from_millis(1)),
            }
            self.pump();
        }
    }
}

impl<R: Ring> Context for Feed<R> {
    fn submit(&self, pieces: &[Piece]) -> Result<u64, Refusal> {
        let lane = &self.lane;
        if lane.is_over() {
            return Err(Refusal::Fault);
        }
        // Held over the call: marks are in the order of submissions.
        let mut counts = lock(&lane.counts);
        if counts.waiting.is_empty() && counts.queued.len() >= R::MOST {
            // Whoever waits looks at memory: the kernel may have been done for long, and nobody has asked it.
            match lane.ring.done(counts.done, &counts.queued) {
                Ok(mark) => Lane::<R>::reached(&mut counts, mark),
                Err(errno) => {
                    drop(counts);
                    if lane.judge(errno).is_some() {
                        return Err(Refusal::Fault);
                    }
                    counts = lock(&lane.counts);
                }
            }
        }
        let mut list = std::mem::take(&mut counts.spare);
        lane.ring.list(pieces, &mut list);
        if counts.waiting.is_empty() && counts.queued.len() < R::MOST {
            let given = lane.give(&mut counts, &mut list);
            counts.spare = list;
            match given {
                Ok(()) => {
                    counts.submitted = counts.submitted.saturating_add(1);
                    return Ok(counts.submitted);
                }
                Err(errno) => {
                    drop(counts);
                    return Err(match lane.judge(errno) {
                        Some(_) => Refusal::Fault,
                        None => Refusal::Driver(errno),
                    });
                }
            }
        }
        if !counts.is_fed {
            let (feeds, mut feeder) = (Arc::clone(lane), lock(&self.feeder));
            let thread = std::thread::Builder::new().name("hcq-feed".into());
            let started = thread.spawn(move || feeds.run());
            let refused = |_| Refusal::Driver(Errno(libc::EAGAIN));
            // The one before has nothing more to do.
            *feeder = Some(started.map_err(refused)?);
            counts.is_fed = true;
        }
        counts.waiting.push_back(list);
        counts.submitted = counts.submitted.saturating_add(1);
        let submitted = counts.submitted;
        drop(counts);
        lane.pump();
        Ok(submitted)
    }

    fn submitted(&self) -> u64 {
        lock(&self.lane.counts).submitted
    }

    fn known(&self) -> u64 {
        lock(&self.lane.counts).retired
    }

    fn retired(&self) -> u64 {
        self.lane.pump();
        self.known()
    }

    fn wait(&self, number: u64, limit: Duration) -> bool {
        let lane = &self.lane;
        let end = Instant::now() + limit;
        loop {
            let next = {
                let counts = lock(&lane.counts);
                if counts.retired >= number {
                    return true;
                }
                if number > counts.submitted || lane.is_over() {
                    return false;
                }
                // The submission's own mark, or the last one that the kernel has given out before it.
                let ahead = usize::try_from(number - counts.retired - 1).unwrap_or(usize::MAX);
                let own = counts.queued.get(ahead).or(counts.queued.back());
                own.copied()
            };
            let left = end.saturating_duration_since(Instant::now());
            let came = match next {
                Some(mark) => {
                    let came = lane.sleep(mark, left);
                    if !came {
                        lane.pump();
                    }
                    came
                }
                None => {
                    std::thread::sleep(Duration::from_millis(1).min(left));
                    lane.pump();
                    false
                }
            };
            if !came && Instant::now() >= end {
                return self.known() >= number;
            }
        }
    }

    fn fault(&self) -> Option<FaultRecord> {
        self.lane.known_fault()
    }

    fn look(&self) -> Option<FaultRecord> {
        let lane = &self.lane;
        if let Some(fault) = lane.known_fault() {
            return Some(fault);
        }
        match lane.ring.look() {
            Ok(lost) => lost.map(|detail| lane.fail(detail)),
            Err(errno) => lane.judge(errno),
        }
    }

    fn end(&self) {
        let lane = &self.lane;
        if lane.has_ended.swap(true, Ordering::AcqRel) {
            return;
        }
        let last = {
            let mut counts = lock(&lane.counts);
            counts.waiting.clear();
            counts.queued.back().copied()
        };
        lane.ring.end(last);
        let feeder = lock(&self.feeder).take();
        if let Some(feeder) = feeder {
            // It looks at least every few milliseconds, and then has nothing to do.
            let _ = feeder.join();
        }
    }
}

impl<R: Ring> Drop for Feed<R> {
    fn drop(&mut self) {
        self.end();
    }
}
