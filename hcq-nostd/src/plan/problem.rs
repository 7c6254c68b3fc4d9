//! What is to be planned: devices, allocations, tasks.

use super::PlanError;

/// A kind of queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Engine {
    /// Runs kernels, and copies where the driver's compute queue can.
    Compute,
    /// Moves bytes.
    Copy,
}

/// How an engine runs what is in one of its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Order {
    /// A command starts when all before it in the queue are complete.
    InOrder,
    /// Commands start in order, and up to this many (zero counts as one) are in flight at once and end in any order. Each
    /// place in flight has a signal of its own.
    InFlight(u16),
}

impl Order {
    pub(super) const fn lanes(self) -> u16 {
        match self {
            Self::InOrder | Self::InFlight(0) => 1,
            Self::InFlight(n) => n,
        }
    }
}

/// The queues of one kind that a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Queues {
    /// How many.
    pub count: u16,
    /// How each runs its commands.
    pub order: Order,
}

impl Queues {
    /// None of this kind.
    pub const NONE: Self = Self::in_order(0);

    /// Queues that run their commands one after the other.
    pub const fn in_order(count: u16) -> Self {
        let order = Order::InOrder;
        Self { count, order }
    }

    /// Queues with several commands in flight.
    pub const fn in_flight(count: u16, in_flight: u16) -> Self {
        let order = Order::InFlight(in_flight);
        Self { count, order }
    }
}

/// Who copies for a device without copy queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum WithoutCopy {
    /// Its compute queues.
    OnCompute,
    /// The device on the other side of the copy.
    OtherSide,
    /// This device, such as the host's processor, which has to reach both sides.
    Through(u16),
}

/// A device that takes part.
///
/// Its first compute queue, or its first copy queue if it has no other, is its *home*: there the device enters the graph
/// and there it ends. A device without queues is memory that others use: it neither enters nor ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Device {
    /// Its peer group: devices that reach each other's memory.
    pub group: u16,
    /// It is a processor: it comes after all devices that are not.
    pub cpu: bool,
    /// Its compute queues.
    pub compute: Queues,
    /// Its copy queues.
    pub copy: Queues,
    /// Who copies when it has no copy queues.
    pub without_copy: WithoutCopy,
}

impl Device {
    /// A device of group 0 whose engines are in order.
    pub const fn new(compute: u16, copy: u16) -> Self {
        Self {
            group: 0,
            cpu: false,
            compute: Queues::in_order(compute),
            copy: Queues::in_order(copy),
            without_copy: WithoutCopy::OnCompute,
        }
    }

    pub(super) const fn queues(&self, engine: Engine) -> Queues {
        match engine {
            Engine::Compute => self.compute,
            Engine::Copy => self.copy,
        }
    }
}

/// A base allocation. Views are ranges of it. Its number is its place in [`Problem::allocations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Allocation {
    /// The device whose memory it is.
    pub device: u16,
    /// Devices of all peer groups reach it, like the host's memory.
    pub shared: bool,
    /// Its address is known only at launch.
    pub input: bool,
    /// Zero, or a number from 1 on that it has in common with what it may share bytes with: an input with any other
    /// allocation of that number, at any offset. Two that are no inputs are always apart. Small numbers take less scratch.
    pub alias: u32,
}

impl Allocation {
    /// Memory at an address that stays.
    pub const fn fixed(device: u16) -> Self {
        Self {
            device,
            shared: false,
            input: false,
            alias: 0,
        }
    }

    /// A variable that is bound at launch, to memory apart from all others.
    pub const fn input(device: u16) -> Self {
        Self {
            input: true,
            ..Self::fixed(device)
        }
    }

    /// The same, which may share bytes within this alias number.
    #[must_use]
    pub const fn aliasing(self, alias: u32) -> Self {
        Self { alias, ..self }
    }

    /// The same, which devices of all peer groups reach.
    #[must_use]
    pub const fn shared(self) -> Self {
        Self {
            shared: true,
            ..self
        }
    }
}

/// What a task does to some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Mode {
    /// Reads them.
    Read,
    /// Writes some or all of them, and may read them.
    Write,
}

/// Bytes that a task touches: `offset..offset + len` of an allocation. No bytes are no access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Access {
    /// The base allocation's number.
    pub allocation: u32,
    /// Byte offset in it.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// What is done to them.
    pub mode: Mode,
}

impl Access {
    /// A read.
    pub const fn read(allocation: u32, offset: u64, len: u64) -> Self {
        Self {
            allocation,
            offset,
            len,
            mode: Mode::Read,
        }
    }

    /// A write.
    pub const fn write(allocation: u32, offset: u64, len: u64) -> Self {
        Self {
            mode: Mode::Write,
            ..Self::read(allocation, offset, len)
        }
    }
}

/// What a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Action {
    /// A kernel on a compute queue of this device.
    Exec {
        /// The device.
        device: u16,
    },
    /// A copy: its accesses are a read of the source and then a write of the destination, of equal length. It goes to the
    /// copy queues of the source's device.
    Copy,
    /// A number written by a queue.
    Write {
        /// The device.
        device: u16,
        /// The kind of queue.
        engine: Engine,
    },
}

/// A task. Tasks come in program order, and the plan has the effect of running them in that order one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task<'a> {
    /// What it is.
    pub action: Action,
    /// All bytes that it touches.
    pub accesses: &'a [Access],
    /// The queue among those of its device and kind, if it is not the planner's to choose. A copy between peer groups has
    /// no such choice.
    pub queue: Option<u16>,
    /// How long it may take, in any unit, zero counting as one; only used to spread independent work.
    pub cost: u32,
}

impl<'a> Task<'a> {
    const fn new(action: Action, accesses: &'a [Access]) -> Self {
        Self {
            action,
            accesses,
            queue: None,
            cost: 1,
        }
    }

    /// A kernel.
    pub const fn exec(device: u16, accesses: &'a [Access]) -> Self {
        Self::new(Action::Exec { device }, accesses)
    }

    /// A copy of the first access's bytes to the second's.
    pub const fn copy(accesses: &'a [Access]) -> Self {
        Self::new(Action::Copy, accesses)
    }

    /// A number written by a queue.
    pub const fn write(device: u16, engine: Engine, accesses: &'a [Access]) -> Self {
        Self::new(Action::Write { device, engine }, accesses)
    }

    /// The same on this queue of its device.
    #[must_use]
    pub const fn on_queue(self, queue: u16) -> Self {
        Self {
            queue: Some(queue),
            ..self
        }
    }
}

/// A copy between devices of which neither reaches the other's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Crossing {
    /// The task.
    pub task: u32,
    /// The source's device.
    pub from: u16,
    /// The destination's device.
    pub to: u16,
    /// Bytes.
    pub bytes: u64,
}

/// How a copy crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Via {
    /// In two copies, into these bytes and out of them; both sides reach them. Bytes used by several copies are guarded
    /// like any others: give each its own, and they overlap.
    Staged {
        /// The allocation.
        allocation: u32,
        /// Byte offset in it.
        offset: u64,
    },
    /// In one piece of work for this device, such as a network card.
    By {
        /// The device.
        device: u16,
        /// The kind of queue.
        engine: Engine,
    },
}

/// What is to be planned.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// The devices; their numbers are their places.
    pub devices: &'a [Device],
    /// The allocations; their numbers are their places.
    pub allocations: &'a [Allocation],
    /// The tasks in program order.
    pub tasks: &'a [Task<'a>],
    /// Copy queues of a device to spread copies over, by destination. Zero counts as one.
    pub copy_queues: u16,
    /// Take the time before and after each work.
    pub timestamps: bool,
}

/// Counts of a problem.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes {
    /// At most this many works.
    pub(super) works: usize,
    /// At most this many accesses of bytes.
    pub(super) touches: usize,
    pub(super) queues: usize,
    pub(super) lanes: usize,
    pub(super) aliases: usize,
}

impl<'a> Problem<'a> {
    /// A problem with one copy queue per device and no timestamps.
    pub const fn new(
        devices: &'a [Device],
        allocations: &'a [Allocation],
        tasks: &'a [Task<'a>],
    ) -> Self {
        Self {
            devices,
            allocations,
            tasks,
            copy_queues: 1,
            timestamps: false,
        }
    }

    /// Spreads copies over as many queues as there are devices, at most eight: for when all devices copy to all.
    #[must_use]
    pub fn all_to_all(self) -> Self {
        let copy_queues = u16::try_from(self.devices.len().min(8)).unwrap_or(8);
        Self {
            copy_queues,
            ..self
        }
    }

    pub(super) fn device(&self, device: u16) -> Result<&'a Device, PlanError> {
        let found = self.devices.get(usize::from(device));
        found.ok_or(PlanError::NoSuchDevice { device })
    }

    pub(super) fn allocation(&self, allocation: u32) -> Result<&'a Allocation, PlanError> {
        let found = self.allocations.get(allocation as usize);
        found.ok_or(PlanError::NoSuchAllocation { allocation })
    }

    /// Whether a device reaches an allocation.
    pub(super) fn reaches(&self, device: u16, of: &Allocation) -> Result<bool, PlanError> {
        Ok(of.shared || self.device(device)?.group == self.device(of.device)?.group)
    }

    /// The source and destination of a copy.
    pub(super) fn sides(
        &self,
        task: u32,
        t: &Task<'a>,
    ) -> Result<(&'a Access, &'a Access), PlanError> {
        match t.accesses {
            [from, to]
                if from.len == to.len && from.mode == Mode::Read && to.mode == Mode::Write =>
            {
                Ok((from, to))
            }
            _ => Err(PlanError::CopyShape { task }),
        }
    }

    /// Who copies between two allocations; `None` if neither side reaches the other.
    pub(super) fn copier(
        &self,
        task: u32,
        from: &Allocation,
        to: &Allocation,
    ) -> Result<Option<(u16, Engine)>, PlanError> {
        let (first, second) = if self.reaches(from.device, to)? {
            (from.device, to.device)
        } else if self.reaches(to.device, from)? {
            (to.device, from.device)
        } else {
            return Ok(None);
        };
        let device = first;
        let none = PlanError::NoCopyEngine { task, device };
        let all = |d: u16| Ok(self.reaches(d, from)? && self.reaches(d, to)?);
        let d = self.device(first)?;
        let engine = if d.copy.count > 0 {
            Some((first, Engine::Copy))
        } else {
            match d.without_copy {
                WithoutCopy::OnCompute => (d.compute.count > 0).then_some((first, Engine::Compute)),
                WithoutCopy::Through(host) => {
                    let h = self.device(host)?;
                    let engine = if h.copy.count > 0 {
                        Engine::Copy
                    } else {
                        Engine::Compute
                    };
                    (all(host)? && h.queues(engine).count > 0).then_some((host, engine))
                }
                WithoutCopy::OtherSide => {
                    let o = self.device(second)?;
                    let engine = if o.copy.count > 0 {
                        Engine::Copy
                    } else {
                        Engine::Compute
                    };
                    let can = engine == Engine::Copy || o.without_copy == WithoutCopy::OnCompute;
                    (can && all(second)? && o.queues(engine).count > 0).then_some((second, engine))
                }
            }
        };
        engine.map(Some).ok_or(none)
    }

    /// Checks everything that can be checked beforehand, and counts.
    pub(super) fn sizes(&self) -> Result<Sizes, PlanError> {
        if self.devices.len() >= usize::from(u16::MAX) || self.allocations.len() > INDEX {
            return Err(PlanError::TooMany);
        }
        let mut s = Sizes::default();
        for d in self.devices {
            for q in [d.compute, d.copy] {
                s.queues += usize::from(q.count);
                let lanes = usize::from(q.count).checked_mul(usize::from(q.order.lanes()));
                s.lanes = lanes
                    .and_then(|n| n.checked_add(s.lanes))
                    .ok_or(PlanError::TooMany)?;
            }
        }
        for a in self.allocations {
            self.device(a.device)?;
            s.aliases = s.aliases.max(a.alias as usize);
        }
        for (i, t) in self.tasks.iter().enumerate() {
            let task = u32::try_from(i).map_err(|_| PlanError::TooMany)?;
            let crosses = self.check(task, t)?;
            s.works += if crosses { 2 } else { 1 };
            s.touches += if crosses { 4 } else { t.accesses.len() };
            if s.touches > INDEX || s.works > INDEX {
                return Err(PlanError::TooMany);
            }
        }
        if s.lanes > INDEX || s.queues > INDEX {
            return Err(PlanError::TooMany);
        }
        Ok(s)
    }

    /// Checks a task; true if it is a copy that crosses peer groups.
    fn check(&self, task: u32, t: &Task<'a>) -> Result<bool, PlanError> {
        for a in t.accesses {
            let allocation = a.allocation;
            self.allocation(allocation)?;
            if a.offset.checked_add(a.len).is_none() {
                return Err(PlanError::Range { task, allocation });
            }
        }
        let (device, engine) = match t.action {
            Action::Exec { device } => (device, Engine::Compute),
            Action::Write { device, engine } => (device, engine),
            Action::Copy => {
                let (from, to) = self.sides(task, t)?;
                let (from, to) = (
                    self.allocation(from.allocation)?,
                    self.allocation(to.allocation)?,
                );
                match self.copier(task, from, to)? {
                    Some(copier) => copier,
                    None => return Ok(true),
                }
            }
        };
        let have = self.device(device)?.queues(engine).count;
        let index = t.queue.unwrap_or(0);
        if index >= have {
            return Err(PlanError::NoSuchQueue {
                task,
                device,
                engine,
                index,
                have,
            });
        }
        if t.action != Action::Copy {
            for a in t.accesses {
                let allocation = a.allocation;
                if !self.reaches(device, self.allocation(allocation)?)? {
                    return Err(PlanError::OutOfReach {
                        task,
                        device,
                        allocation,
                    });
                }
            }
        }
        Ok(false)
    }
}

/// Counts stay below this: indices, marks beside them, and twice the count fit 32 bits.
const INDEX: usize = 1 << 29;
