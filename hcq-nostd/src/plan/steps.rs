//! The plan as each queue's list of steps.

use super::PlanError;
use super::explain::{Explained, explained};
use super::order::Planner;
use super::problem::Engine;
use super::scratch::{DeviceRec, ENTRY, LaneRec, NONE, QueueRec, WaitRec, WorkRec, token_of};
use core::ops::Range;

/// A signal, and the value to wait for or to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Signal {
    /// One of the graph's own, which starts every launch at zero.
    Queue {
        /// Its number, below [`Plan::signals`].
        signal: u32,
        /// The value, greater from step to step.
        value: u32,
    },
    /// A device's timeline: its newest point in a wait, the next one in a signal.
    Timeline {
        /// The device.
        device: u16,
    },
    /// The launch of a peer group.
    Kickoff {
        /// The group.
        group: u16,
    },
}

/// Something that a queue does, in this order.
///
/// In a queue with several works in flight, a work starts when the step before it has passed; the timestamp and the
/// signal behind a work belong to that work and happen when it has ended, without holding up what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Step {
    /// What others have written before the waits above is seen by the works below. On compute queues only.
    Barrier,
    /// Waits until a signal has at least a value.
    Wait {
        /// The signal.
        on: Signal,
        /// Its number for [`Plan::why`]; `None` for the waits that each device starts with.
        why: Option<u32>,
    },
    /// Runs a work.
    Work {
        /// Its number, below [`Plan::works`].
        work: u32,
    },
    /// Writes a value to a signal.
    Signal(Signal),
    /// Writes the device's clock.
    Timestamp {
        /// Where to, below [`Plan::timestamps`].
        slot: u32,
    },
}

/// Which bytes a work moves for its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Part {
    /// It is the whole task.
    Whole,
    /// It copies the task's source into staging bytes.
    IntoStage {
        /// The staging allocation.
        allocation: u32,
        /// Byte offset in it.
        offset: u64,
    },
    /// It copies staging bytes to the task's destination.
    OutOfStage {
        /// The staging allocation.
        allocation: u32,
        /// Byte offset in it.
        offset: u64,
    },
}

/// What a queue does for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Work {
    /// The task.
    pub task: u32,
    /// All of it, or one half of a staged copy.
    pub part: Part,
    /// The queue.
    pub queue: u32,
    /// Timestamp slots of its start and end. The start may be the end of the work before it.
    pub timestamps: Option<(u32, u32)>,
}

/// A queue of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PlanQueue {
    /// Its device.
    pub device: u16,
    /// Its kind.
    pub engine: Engine,
    /// Its number among those of its kind.
    pub index: u16,
    /// Its steps among those that [`Plan::lay_out`] writes; none if the queue is not used.
    pub steps: Range<usize>,
}

/// A plan, in the scratch that it was made in.
#[derive(Debug)]
pub struct Plan<'s> {
    pub(super) works: &'s mut [WorkRec],
    lanes: &'s mut [LaneRec],
    queues: &'s mut [QueueRec],
    devices: &'s mut [DeviceRec],
    waits: &'s mut [WaitRec],
    timestamps: u32,
    signals: u32,
    steps: usize,
    exact: bool,
    effort: u64,
}

/// Steps of a device's entry: two waits, on compute a barrier, and a signal if somebody waits for it.
fn entry_steps(d: &DeviceRec, q: &QueueRec) -> u32 {
    2 + u32::from(q.copy == 0) + d.entry_signalled
}

/// Steps of a work: its waits and on compute one barrier behind them, a timestamp where there is a new one, the work,
/// another timestamp, and a signal if somebody waits for it.
fn work_steps(w: &WorkRec, q: &QueueRec, begins: bool) -> u32 {
    let barrier = u32::from(w.waits > 0 && q.copy == 0);
    w.waits + barrier + u32::from(begins) + 1 + u32::from(w.end != NONE) + w.signalled
}

impl<'s> Plan<'s> {
    /// Numbers signals and timestamp slots, and counts steps.
    pub(super) fn new(planner: Planner<'_, 's>, timestamps: bool) -> Option<Self> {
        let (exact, effort) = (planner.exact(), planner.effort());
        let waits = planner.waits.get_mut(..planner.waits_len)?;
        let mut plan = Self {
            works: planner.works,
            lanes: planner.lanes,
            queues: planner.queues,
            devices: planner.devices,
            waits,
            timestamps: 0,
            signals: 0,
            steps: 0,
            exact,
            effort,
        };
        for l in plan.lanes.iter_mut().filter(|l| l.signal != NONE) {
            l.signal = plan.signals;
            plan.signals += 1;
        }
        for d in plan.devices.iter().filter(|d| d.starts()) {
            let q = plan.queues.get_mut(d.home as usize)?;
            let end = d.waits.checked_add(1)?;
            q.steps = entry_steps(d, q).checked_add(end)?;
        }
        for w in plan.works.iter_mut() {
            let q = plan.queues.get_mut(w.queue as usize)?;
            let mut begins = false;
            if timestamps {
                // Nothing is between this work and the one before it: that one's end is this one's start.
                begins = q.in_order == 0 || w.waits > 0 || q.end == NONE;
                w.begin = if begins { plan.timestamps } else { q.end };
                plan.timestamps = plan.timestamps.checked_add(u32::from(begins))?;
                w.end = plan.timestamps;
                plan.timestamps = plan.timestamps.checked_add(1)?;
                q.end = w.end;
            }
            q.steps = q.steps.checked_add(work_steps(w, q, begins))?;
        }
        let mut at = 0u32;
        for q in plan.queues.iter_mut() {
            q.step = at;
            at = at.checked_add(q.steps)?;
        }
        plan.steps = at as usize;
        Some(plan)
    }

    /// Steps of all queues together, which [`lay_out`](Self::lay_out) needs memory for.
    pub const fn steps(&self) -> usize {
        self.steps
    }

    /// Number of works.
    pub fn works(&self) -> usize {
        self.works.len()
    }

    /// A work.
    pub fn work(&self, work: u32) -> Option<Work> {
        let w = self.works.get(work as usize)?;
        let (allocation, offset) = (w.stage, w.stage_offset);
        Some(Work {
            task: w.task,
            part: match w.part {
                1 => Part::IntoStage { allocation, offset },
                2 => Part::OutOfStage { allocation, offset },
                _ => Part::Whole,
            },
            queue: w.queue,
            timestamps: (w.end != NONE).then_some((w.begin, w.end)),
        })
    }

    /// The queues of all devices, by device with processors last, compute before copy.
    pub fn queues(&self) -> impl ExactSizeIterator<Item = PlanQueue> {
        self.queues.iter().map(|q| {
            let start = q.step as usize;
            PlanQueue {
                device: narrow(q.device),
                engine: if q.copy != 0 {
                    Engine::Copy
                } else {
                    Engine::Compute
                },
                index: narrow(q.index),
                steps: start..start.saturating_add(q.steps as usize),
            }
        })
    }

    /// The devices in their order, processors last; true for those that take part.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = (u16, bool)> {
        self.devices.iter().map(|by_rank| {
            let device = by_rank.at_rank;
            let d = self.devices.get(device as usize);
            (narrow(device), d.is_some_and(|d| d.used != 0))
        })
    }

    /// Signals of the graph's own: those that somebody waits for.
    pub const fn signals(&self) -> u32 {
        self.signals
    }

    /// Timestamps that are taken.
    pub const fn timestamps(&self) -> u32 {
        self.timestamps
    }

    /// Whether no room was short: then no wait follows from others.
    pub const fn is_exact(&self) -> bool {
        self.exact
    }

    /// Segments, readers and clock entries that were looked at: what planning took, but for one sort of the accesses.
    pub const fn effort(&self) -> u64 {
        self.effort
    }

    /// Every wait but those that devices start with, and why it is there.
    pub fn explain(&self) -> impl ExactSizeIterator<Item = Explained> {
        self.waits.iter().map(|w| self.explained(w))
    }

    /// One of those, by the number that its [`Step::Wait`] holds.
    pub fn why(&self, wait: u32) -> Option<Explained> {
        Some(self.explained(self.waits.get(wait as usize)?))
    }

    fn explained(&self, w: &WaitRec) -> Explained {
        let lane = self.lanes.get(w.lane as usize);
        let queue = lane.and_then(|l| self.queues.get(l.queue as usize));
        explained(w, queue.map_or(0, |q| narrow(q.device)))
    }

    /// Writes every queue's steps; whose they are is in [`queues`](Self::queues).
    ///
    /// # Errors
    /// [`PlanError::Steps`]; nothing was written.
    pub fn lay_out<'o>(&mut self, out: &'o mut [Step]) -> Result<&'o [Step], PlanError> {
        let (need, have) = (self.steps, out.len());
        let out = out.get_mut(..need).ok_or(PlanError::Steps { need, have })?;
        self.write(out).ok_or(PlanError::TooMany)?;
        Ok(out)
    }

    fn write(&mut self, out: &mut [Step]) -> Option<()> {
        for q in self.queues.iter_mut() {
            q.cursor = q.step;
        }
        let mut w = Writer {
            out,
            lanes: self.lanes,
            waits: self.waits,
        };
        for d in self.devices.iter().filter(|d| d.starts()) {
            let q = self.queues.get_mut(d.home as usize)?;
            let (device, group) = (narrow(q.device), narrow(d.group));
            for on in [Signal::Timeline { device }, Signal::Kickoff { group }] {
                w.put(q, Step::Wait { on, why: None })?;
            }
            if q.copy == 0 {
                w.put(q, Step::Barrier)?;
            }
            if d.entry_signalled != 0 {
                w.put(q, Step::Signal(w.signal(d.home_lane, ENTRY)?))?;
            }
        }
        let mut next_slot = 0;
        for (work, r) in (0u32..).zip(self.works.iter()) {
            let q = self.queues.get_mut(r.queue as usize)?;
            w.waits(q, r.wait, r.waits)?;
            if r.waits > 0 && q.copy == 0 {
                w.put(q, Step::Barrier)?;
            }
            if r.end != NONE && r.begin == next_slot {
                w.put(q, Step::Timestamp { slot: r.begin })?;
            }
            w.put(q, Step::Work { work })?;
            if r.end != NONE {
                w.put(q, Step::Timestamp { slot: r.end })?;
                next_slot = r.end.checked_add(1)?;
            }
            if r.signalled != 0 {
                w.put(q, Step::Signal(w.signal(r.lane, token_of(work))?))?;
            }
        }
        for d in self.devices.iter().filter(|d| d.starts()) {
            let q = self.queues.get_mut(d.home as usize)?;
            w.waits(q, d.wait, d.waits)?;
            let device = narrow(q.device);
            w.put(q, Step::Signal(Signal::Timeline { device }))?;
        }
        Some(())
    }
}

/// Puts steps where their queues stand.
struct Writer<'a> {
    out: &'a mut [Step],
    lanes: &'a [LaneRec],
    waits: &'a [WaitRec],
}

impl Writer<'_> {
    fn put(&mut self, q: &mut QueueRec, step: Step) -> Option<()> {
        *self.out.get_mut(q.cursor as usize)? = step;
        q.cursor = q.cursor.checked_add(1)?;
        Some(())
    }

    fn signal(&self, lane: u32, value: u32) -> Option<Signal> {
        let signal = self.lanes.get(lane as usize)?.signal;
        Some(Signal::Queue { signal, value })
    }

    fn waits(&mut self, q: &mut QueueRec, first: u32, n: u32) -> Option<()> {
        for why in first..first.checked_add(n)? {
            let r = self.waits.get(why as usize)?;
            let on = self.signal(r.lane, r.need.token)?;
            let why = Some(why);
            self.put(q, Step::Wait { on, why })?;
        }
        Some(())
    }
}

/// Numbers that come from 16 bits.
fn narrow(n: u32) -> u16 {
    u16::try_from(n).unwrap_or(u16::MAX)
}
