//! Plans: which queue does what, in which order, and what it waits for.
//!
//! A [`Problem`] lists tasks in program order with the bytes that each reads and writes. [`plan`] decides for each task
//! the queue and the waits, so that the queues together have the effect of running the tasks one by one; then
//! [`Plan::lay_out`] writes each queue's list of [`Step`]s. There is no vendor in it and no launch: a graph encodes the
//! steps, and gives the signals their memory and the timelines their values.
//!
//! # Rules
//!
//! - Two tasks conflict if they touch a common byte of a base allocation and one of them writes it (read after write, write
//!   after read, write after write; ranges are half-open), or if they touch allocations that [may share
//!   bytes](Allocation::alias). The later one starts when the earlier one is complete.
//! - A wait that follows from others is not emitted, over however many queues it follows; nor is a signal that nobody
//!   waits for. A queue that runs its commands in order does not wait for itself; one that has
//!   [several in flight](Order::InFlight) does where it must.
//! - A device enters the graph on its home queue: that waits for the device's timeline and for the kickoff of its peer
//!   group. Nobody touches its memory or works on its other queues before. It ends there too: its timeline is signalled
//!   when all work of its queues and on its memory is complete.
//! - Copies go to the copy queues of the source's device, if that reaches the destination, else to the destination's
//!   device; they are spread by destination. Without copy queues [`WithoutCopy`] decides. A copy of which neither side
//!   reaches the other is the caller's to [route](Via); there is no copy that is left out. A kernel that does not reach
//!   what it touches is an error.
//! - Memory that is short adds order and never loses any: [`Capacity`].
//!
//! The time is that of a sort of the accesses' ends, then proportional to the segments that accesses cover and, for each
//! work, to the lanes (queues, and places in flight) times the waits. An access covers many segments if it spans bytes
//! that many others write apart; [`Capacity::pieces`] bounds them.
//!
//! ```
//! use hcq_nostd::plan::{Access, Allocation, Device, Problem, Step, Task, plan};
//!
//! let devices = [Device::new(1, 1)];                                  // a compute and a copy queue
//! let allocations = [Allocation::fixed(0), Allocation::fixed(0)];
//! let copy = [Access::read(0, 0, 64), Access::write(1, 0, 64)];
//! let kernel = [Access::read(1, 32, 16), Access::write(0, 64, 64)];   // of a view
//! let tasks = [Task::copy(&copy), Task::exec(0, &kernel)];
//! let problem = Problem::new(&devices, &allocations, &tasks);
//!
//! let capacity = problem.capacity()?;
//! let mut scratch = vec![0; problem.scratch_words(&capacity)?];
//! let mut plan = plan(&problem, &capacity, &mut scratch, |_| None)?;
//! let why: Vec<String> = plan.explain().map(|e| e.to_string()).collect();
//! assert_eq!(why, [
//!     "work 0 waits for entry of device 0: device 0 must have entered",
//!     "work 1 waits for work 0: read after write of 1:0x20..0x30",
//! ]);
//! let mut steps = vec![Step::Barrier; plan.steps()];
//! let steps = plan.lay_out(&mut steps)?;
//! let copies = plan.queues().nth(1).unwrap();
//! assert!(matches!(steps[copies.steps], [Step::Wait { .. }, Step::Work { work: 0 }, Step::Signal(_)]));
//! # Ok::<(), hcq_nostd::plan::PlanError>(())
//! ```

mod alias;
mod bits;
mod dot;
mod explain;
mod order;
mod place;
mod problem;
mod scratch;
mod steps;
mod tracker;

pub use dot::Dot;
pub use explain::{Event, Explained, Hazard, Reason};
pub use problem::{
    Access, Action, Allocation, Crossing, Device, Engine, Mode, Order, Problem, Queues, Task, Via,
    WithoutCopy,
};
pub use steps::{Part, Plan, PlanQueue, Signal, Step, Work};

use problem::Sizes;

/// Why there is no plan. Whatever the scratch held is lost, and nothing else has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum PlanError {
    /// The scratch is too small.
    Scratch {
        /// 64-bit words needed.
        need: usize,
        /// 64-bit words given.
        have: usize,
    },
    /// There are more waits than the capacity.
    Waits {
        /// Waits needed.
        need: usize,
        /// Waits that there is room for.
        have: usize,
    },
    /// The memory for steps is too small.
    Steps {
        /// Steps needed.
        need: usize,
        /// Steps given.
        have: usize,
    },
    /// No device has this number.
    NoSuchDevice {
        /// The number.
        device: u16,
    },
    /// No allocation has this number.
    NoSuchAllocation {
        /// The number.
        allocation: u32,
    },
    /// The device has no such queue.
    NoSuchQueue {
        /// The task.
        task: u32,
        /// The device.
        device: u16,
        /// The kind of queue.
        engine: Engine,
        /// The number asked for.
        index: u16,
        /// How many there are.
        have: u16,
    },
    /// An access, or the staging bytes of a copy, end beyond 2^64.
    Range {
        /// The task.
        task: u32,
        /// The allocation.
        allocation: u32,
    },
    /// A copy whose accesses are not a read and then a write of equal length.
    CopyShape {
        /// The task.
        task: u32,
    },
    /// Nobody can copy for this device.
    NoCopyEngine {
        /// The task.
        task: u32,
        /// The device.
        device: u16,
    },
    /// The allocation is in another peer group than the device that would touch it.
    OutOfReach {
        /// The task.
        task: u32,
        /// The device.
        device: u16,
        /// The allocation.
        allocation: u32,
    },
    /// The caller has no way across for a copy between peer groups.
    Crossing {
        /// The task.
        task: u32,
        /// The source's device.
        from: u16,
        /// The destination's device.
        to: u16,
    },
    /// Counts beyond 2^29, or sizes beyond the address space.
    TooMany,
}

impl core::fmt::Display for PlanError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Scratch { need, have } => {
                write!(f, "the scratch needs {need} words, {have} were given")
            }
            Self::Waits { need, have } => write!(f, "{need} waits, room for {have}"),
            Self::Steps { need, have } => write!(f, "{need} steps, room for {have}"),
            Self::NoSuchDevice { device } => write!(f, "there is no device {device}"),
            Self::NoSuchAllocation { allocation } => {
                write!(f, "there is no allocation {allocation}")
            }
            Self::NoSuchQueue {
                task,
                device,
                engine,
                index,
                have,
            } => {
                let kind = match engine {
                    Engine::Compute => "compute",
                    Engine::Copy => "copy",
                };
                write!(
                    f,
                    "task {task} asks for {kind} queue {index}, device {device} has {have}"
                )
            }
            Self::Range { task, allocation } => {
                write!(f, "task {task}: a range of {allocation} ends beyond 2^64")
            }
            Self::CopyShape { task } => {
                write!(f, "copy {task} is not a read and a write of one length")
            }
            Self::NoCopyEngine { task, device } => {
                write!(f, "copy {task}: nobody copies for device {device}")
            }
            Self::OutOfReach {
                task,
                device,
                allocation,
            } => write!(
                f,
                "task {task}: device {device} does not reach allocation {allocation}"
            ),
            Self::Crossing { task, from, to } => {
                write!(f, "copy {task}: no way from device {from} to device {to}")
            }
            Self::TooMany => f.write_str("the problem is too large"),
        }
    }
}

impl core::error::Error for PlanError {}

/// How much a planner can keep in mind. Only waits are a hard limit; with less of the others a plan is still right, but
/// may hold order that nothing asks for, and then [`Plan::is_exact`] says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Capacity {
    /// Waits of the plan, those left out that devices start with. Too few are an error that says how many.
    pub waits: usize,
    /// Clocks: one for each work that waits.
    pub clocks: usize,
    /// Places where accesses start or end, at least two: at most twice as many as accesses. With fewer, neighbouring bytes
    /// count as the same.
    pub pieces: usize,
    /// Readers that a later writer must follow, together for all segments. With fewer, readers follow each other.
    pub readers: usize,
}

impl Capacity {
    fn piece_slots(&self, s: &Sizes) -> usize {
        // There are never more places than ends.
        self.pieces.clamp(2, s.touches.saturating_mul(2).max(2))
    }
}

impl Problem<'_> {
    /// A capacity that is always enough, and much more than most plans need.
    ///
    /// # Errors
    /// [`PlanError`], all that can be seen beforehand.
    pub fn capacity(&self) -> Result<Capacity, PlanError> {
        let s = self.sizes()?;
        let most = |n: usize| s.lanes.checked_mul(n).ok_or(PlanError::TooMany);
        Ok(Capacity {
            waits: most(s.works.saturating_add(self.devices.len()))?,
            clocks: s.works,
            pieces: s.touches.saturating_mul(2).max(2),
            readers: most(s.touches.saturating_mul(2))?,
        })
    }

    /// A capacity that suits most: two waits per work, two readers per access.
    ///
    /// # Errors
    /// [`PlanError`], all that can be seen beforehand.
    pub fn usual_capacity(&self) -> Result<Capacity, PlanError> {
        let s = self.sizes()?;
        let all = self.capacity()?;
        let waits = s.works.saturating_add(s.queues).saturating_mul(2);
        Ok(Capacity {
            waits: all.waits.min(waits),
            readers: all.readers.min(s.touches.saturating_mul(2)),
            ..all
        })
    }

    /// 64-bit words of scratch that [`plan`] needs.
    ///
    /// # Errors
    /// [`PlanError`], all that can be seen beforehand.
    pub fn scratch_words(&self, capacity: &Capacity) -> Result<usize, PlanError> {
        let sizes = self.sizes()?;
        scratch::words(self, &sizes, capacity).ok_or(PlanError::TooMany)
    }
}

/// Plans. `transfer` is asked how each copy between peer groups crosses, in program order, and has to give the same answer
/// when the same problem is planned again; `None` refuses.
///
/// # Errors
/// [`PlanError`].
pub fn plan<'s>(
    problem: &Problem<'_>,
    capacity: &Capacity,
    scratch: &'s mut [u64],
    mut transfer: impl FnMut(Crossing) -> Option<Via>,
) -> Result<Plan<'s>, PlanError> {
    let sizes = problem.sizes()?;
    let mut room = scratch::carve(problem, &sizes, capacity, scratch)?;
    place::number(problem, &mut room).ok_or(PlanError::TooMany)?;
    let mut expander = place::Expander {
        problem,
        room: &mut room,
        works: 0,
        touches: 0,
    };
    expander.run(&mut transfer)?;
    let used = (expander.works, expander.touches);
    let planner = order::Planner::new(problem, room, used, capacity.clocks);
    let mut planner = planner.ok_or(PlanError::TooMany)?;
    planner.run().ok_or(PlanError::TooMany)?;
    let (need, have) = (planner.waits_len, planner.waits.len());
    if need > have {
        return Err(PlanError::Waits { need, have });
    }
    Plan::new(planner, problem.timestamps).ok_or(PlanError::TooMany)
}

#[cfg(test)]
mod tests;
