//! Launching: one point of every device's timeline, submitted together or not at all.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use hcq_nostd::graph::{Busy, DeviceRecord, Entry, LaunchError, Timelines};
use hcq_nostd::mem::SharedWords;
use hcq_nostd::signal::{Signal, Width};
use hcq_nostd::timeline::{Point as CorePoint, Submission as Planned, TimelineError};
use hcq_nostd::wait::WaitError;
use zerocopy::IntoBytes;

use super::builder::MOST_DEVICES;
use super::memory::{Feed, Home, Submission};
use crate::Error;
use crate::backend::{Body, PushError, QueueId, QueueKind};
use crate::heap::lock;
use crate::inner::{Core, Inner};

/// Locked devices, in the order in which everybody locks them.
type Locked<'a> = heapless::Vec<(usize, MutexGuard<'a, Core>), MOST_DEVICES>;

/// What the waits of a launch failed with.
struct Waits<'a> {
    devices: &'a [Arc<Inner>],
    release: Option<Release<'a>>,
    failed: Option<Error>,
}

/// Lets go of queues that wait for a device which is in error, or has dropped its part of a launch: what they do then is of no
/// account, as the launch has failed, but they end.
struct Release<'a> {
    signals: SharedWords<'static>,
    count: usize,
    at: &'a [u64],
}

impl Release<'_> {
    fn now(&self, devices: &[Arc<Inner>]) {
        // No wait is for more, at any engine's width.
        const MOST: u64 = u32::MAX as u64;
        for slot in 0..self.count {
            let signal = Signal::at(self.signals, slot, Width::W64);
            if signal.is_ok_and(|s| s.set(MOST).is_ok()) {
                for (device, at) in devices.iter().zip(self.at) {
                    device.backend.written(at.wrapping_add(16 * slot as u64));
                }
            }
        }
    }
}

const NONE: WaitError = WaitError::Timeout {
    wanted: 0,
    seen: 0,
    waited_ns: 0,
};

impl Waits<'_> {
    fn let_go(&self) {
        if let Some(release) = &self.release {
            release.now(self.devices);
        }
    }

    /// Keeps the shell's error, which says more.
    fn keep<T>(&mut self, result: Result<T, Error>) -> Result<T, WaitError> {
        if let Err(Error::Fault(_)) = &result {
            self.let_go();
        }
        result.map_err(|e| {
            let bare = match &e {
                Error::Fault(record) => WaitError::Fault(*record),
                _ => NONE,
            };
            self.failed = Some(e);
            bare
        })
    }
}

impl Timelines for Waits<'_> {
    fn is_complete(&mut self, device: u16, point: CorePoint) -> Result<bool, WaitError> {
        let Some(device) = self.devices.get(usize::from(device)) else {
            return Ok(true);
        };
        // What a recovery has dropped does not run any more.
        let done = match device.is_complete(point) {
            Err(Error::Lost { .. }) => {
                self.let_go();
                Ok(true)
            }
            other => other,
        };
        self.keep(done)
    }

    fn wait(&mut self, device: u16, point: CorePoint, timeout_ns: u64) -> Result<(), WaitError> {
        let Some(device) = self.devices.get(usize::from(device)) else {
            return Ok(());
        };
        let limit = Duration::from_nanos(timeout_ns);
        let done = match device.wait_point(point, limit, "a wait for a graph's last launch") {
            Err(Error::Lost { .. }) => {
                self.let_go();
                Ok(())
            }
            other => other,
        };
        self.keep(done)
    }
}

/// Why nothing was submitted yet.
enum Blocked {
    /// A ring has no room.
    Ring {
        device: usize,
        queue: QueueId,
        need: u64,
        free: u64,
        get: u64,
    },
    /// A timeline is too far ahead.
    Timeline { device: usize, wait_for: CorePoint },
    /// A device's next point has to be a submission of its own.
    Reset { device: usize },
}

/// What a launch is made with.
pub(super) struct Launcher<'a> {
    pub(super) devices: &'a [Arc<Inner>],
    /// The devices' places in the order in which they are locked.
    pub(super) order: &'a [usize],
    /// Room for an entry of each device.
    pub(super) entries: &'a mut [Entry],
    pub(super) timeout: Duration,
}

/// What a launch did.
pub(super) struct Launched {
    /// Sites that were stored.
    pub(super) stored: usize,
}

fn launch_error(e: LaunchError, waits: Option<Error>) -> Error {
    match (e, waits) {
        (LaunchError::Wait(_), Some(e)) => e,
        (LaunchError::Busy { .. }, _) => Error::WouldBlock {
            what: "the graph's last launch",
        },
        (e, _) => Error::Launch(e),
    }
}

impl Launcher<'_> {
    /// Waits until nothing of an instance is in flight, if asked to.
    pub(super) fn settle(&self, home: &mut Home, busy: Busy) -> Result<(), Error> {
        let release = Release {
            signals: home.signals,
            count: home.instance.graph().resets() as usize,
            at: &home.signals_at,
        };
        let mut waits = Waits {
            devices: self.devices,
            release: Some(release),
            failed: None,
        };
        match home.instance.idle(&mut waits, busy) {
            Ok(_) => Ok(()),
            Err(e) => Err(launch_error(e, waits.failed)),
        }
    }

    /// Launches an instance of which nothing is in flight. Waits, for a bounded time, when there is no room.
    pub(super) fn launch(&mut self, home: &mut Home) -> Result<Launched, Error> {
        let (mut round, mut since) = (0u32, None);
        loop {
            let blocked = match self.attempt(home)? {
                Ok(launched) => return Ok(launched),
                Err(blocked) => blocked,
            };
            match blocked {
                Blocked::Timeline { device, wait_for } => {
                    if let Some(device) = self.devices.get(device) {
                        let what = "a wait for room in the timeline";
                        device.wait_point(wait_for, self.timeout, what)?;
                    }
                }
                Blocked::Reset { device } => {
                    if let Some(device) = self.devices.get(device) {
                        device.submit_nothing()?;
                    }
                }
                Blocked::Ring {
                    device,
                    queue,
                    need,
                    free,
                    get,
                } => {
                    let Some(of) = self.devices.get(device) else {
                        return Err(Error::Internal("a ring of no device"));
                    };
                    let now = of.backend.now_ns();
                    // Progress of the ring restarts the time.
                    let start = match since {
                        Some((start, seen)) if seen == get => start,
                        _ => now,
                    };
                    since = Some((start, get));
                    let waited = Duration::from_nanos(now.saturating_sub(start));
                    let left = self.timeout.saturating_sub(waited);
                    if left.is_zero() {
                        return Err(Error::Timeout {
                            what: "a wait for room in a queue's ring (entries)",
                            wanted: need,
                            seen: free,
                            waited,
                        });
                    }
                    let changed = of.backend.relax_room(round, queue, get, left);
                    round = if changed { 0 } else { round.saturating_add(1) };
                }
            }
        }
    }

    /// One attempt, with all devices locked.
    fn attempt(&mut self, home: &mut Home) -> Result<Result<Launched, Blocked>, Error> {
        let devices = self.devices;
        let takes_part = |device: usize| {
            let record = home.instance.graph().devices().get(device);
            record.is_some_and(DeviceRecord::takes_part)
        };
        let mut locked = Locked::new();
        for &index in self.order.iter().filter(|&&d| takes_part(d)) {
            if let Some(device) = devices.get(index) {
                device.check()?;
                let _ = locked.push((index, lock(&device.core)));
            }
        }
        let mut plans: heapless::Vec<Planned, MOST_DEVICES> = heapless::Vec::new();
        for (index, core) in &mut locked {
            let plan = match core.timeline.plan() {
                Ok(plan) => plan,
                Err(TimelineError::TooFarAhead { wait_for }) => {
                    let device = *index;
                    return Ok(Err(Blocked::Timeline { device, wait_for }));
                }
                Err(e) => return Err(Error::Timeline(e)),
            };
            let Some(entry) = Entry::of(&core.timeline, &plan) else {
                return Ok(Err(Blocked::Reset { device: *index }));
            };
            if let Some(to) = self.entries.get_mut(*index) {
                *to = entry;
            }
            let _ = plans.push(plan);
        }
        // Room for everything, before anything is stored.
        let graph = *home.instance.graph();
        for (queue, feed) in graph.queues().iter().zip(&home.feeds) {
            if queue.words() == 0 {
                continue;
            }
            let device = usize::from(queue.device());
            let core = locked.iter_mut().find(|(d, _)| *d == device);
            let Some((_, core)) = core else { continue };
            match core.port.room(feed.id, feed.body(), &feed.end) {
                Ok(()) => {}
                Err(PushError::Full { need, free, get }) => {
                    return Ok(Err(Blocked::Ring {
                        device,
                        queue: feed.id,
                        need,
                        free,
                        get,
                    }));
                }
                Err(e) => return Err(refused(e, feed, devices.get(device))),
            }
        }

        let mut waits = Waits {
            devices: &[],
            release: None,
            failed: None,
        };
        // Nothing is in flight, as `settle` has seen: this waits for nothing.
        let idle = home.instance.idle(&mut waits, Busy::Refuse);
        let mut idle = idle.map_err(|e| launch_error(e, None))?;
        idle.clear_timestamps();
        let patched = idle.patch(self.entries);
        let mut launch = patched.map_err(|e| launch_error(e, None))?;
        let stored = launch.stored();
        for ((index, _), plan) in locked.iter().zip(&plans) {
            if let Some(device) = devices.get(*index) {
                device.heap.progress().submitting(plan.point.raw());
            }
        }
        let feeds = &mut home.feeds;
        let submitted = launch.submit(|run, words, _| {
            let feed = feeds.get_mut(run.queue as usize);
            let core = locked
                .iter_mut()
                .find(|(d, _)| *d == usize::from(run.device));
            let (Some(feed), Some((_, core))) = (feed, core) else {
                return Err(Error::Internal("a graph's queue has no device"));
            };
            if let Submission::Words { staged, current } = &mut feed.submission
                && (stored > 0 || !*current)
            {
                let read = words.read(0, staged.as_mut_bytes());
                read.map_err(|_| Error::Internal("a graph's words do not fit"))?;
                *current = true;
            }
            let pushed = core.port.push(feed.id, feed.body(), &feed.end);
            pushed.map_err(|e| refused(e, feed, devices.get(usize::from(run.device))))
        });
        if let Err(e) = submitted {
            // Some queues may hold their part: the instance knows, and is not launched until the devices have dropped it.
            for ((index, _), plan) in locked.iter().zip(&plans) {
                if let Some(device) = devices.get(*index) {
                    let before = plan.point.raw().saturating_sub(1);
                    device.heap.progress().submitting(before);
                }
            }
            return Err(e);
        }
        for ((_, core), plan) in locked.iter_mut().zip(&plans) {
            core.timeline.commit(plan);
            core.last_queue = None;
        }
        let signals_at = &home.signals_at;
        let first = signals_at.first().copied().unwrap_or(0);
        launch.kickoff(|signal| {
            let offset = signal.address().wrapping_sub(first);
            for (device, &at) in devices.iter().zip(signals_at) {
                device.backend.written(at.wrapping_add(offset));
            }
        });
        Ok(Ok(Launched { stored }))
    }
}

/// A push that was refused although there was room.
fn refused(e: PushError, feed: &Feed, device: Option<&Arc<Inner>>) -> Error {
    match e {
        PushError::Full { .. } => Error::Internal("a ring with room was full"),
        PushError::Stopped => match device.and_then(|device| device.backend.fault()) {
            Some(fault) => Error::Fault(fault),
            None => Error::Internal("the queue is gone"),
        },
        PushError::Refused(operation, errno) => Error::System { operation, errno },
        PushError::TooLarge => Error::TooLarge {
            what: "words of a graph's queue (Options::ring_packets makes rings larger)",
            size: feed.body().words().len() as u64,
            most: 0,
        },
    }
}

impl Feed {
    fn body(&self) -> Body<'_> {
        match &self.submission {
            Submission::Launch { words, pieces } => Body::Launch(words, pieces),
            Submission::Words { staged, .. } => Body::Words(staged),
        }
    }
}

impl Inner {
    /// A submission of nothing but what the timeline asks for, on the first queue that there is.
    fn submit_nothing(&self) -> Result<(), Error> {
        let kind = match self.backend.queue_counts() {
            (0, _) => QueueKind::Copy,
            _ => QueueKind::Compute,
        };
        let mut work = crate::inner::Work {
            queue: QueueId { kind, index: 0 },
            words: &mut [],
            pieces: &[],
            afters: &[],
            body: None,
            chunks: &mut [],
        };
        self.submit(&mut work)?;
        Ok(())
    }
}
