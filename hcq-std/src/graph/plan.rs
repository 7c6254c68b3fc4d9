//! Who reaches whose memory, and the plan.
#![allow(unsafe_code, reason = "keeps a plan beside the scratch that it is in")]

use std::sync::Arc;

use hcq_nostd::plan::{
    self, Access, Allocation as Planned, Device as PlanDevice, Engine, Plan, Problem, Queues, Step,
    Task, Via, WithoutCopy,
};

use super::builder::{Base, Draft, GraphBuilder};
use crate::Error;
use crate::backend::{Purpose, QueueKind};
use crate::cpu::Cpu;
use crate::heap::Allocation;
use crate::inner::Inner;
use crate::lent::Lent;

/// Bytes of staging that each copy begins at a multiple of.
const STAGE_ALIGN: u64 = 256;
/// Bytes of memory to try with.
const TRIAL: usize = 4096;

/// How memory of one device is seen by the devices of a graph: by none of the others, or at the same address.
pub(super) fn seen_by(
    memory: &Arc<Allocation>,
    device: &Arc<Inner>,
) -> Result<Arc<Allocation>, Error> {
    let seen = device.heap.import(memory)?;
    if seen.address() == memory.address() {
        return Ok(seen);
    }
    Err(Error::Graph {
        reason: format!(
            "{} sees memory at {:#x} that its owner has at {:#x}",
            device.name,
            seen.address(),
            memory.address()
        ),
    })
}

/// Peer groups: devices of one see each other's memory at the same addresses. Processors join the first that they can.
fn groups(devices: &[Arc<Inner>]) -> Result<Vec<u16>, Error> {
    if devices.len() == 1 {
        return Ok(vec![0]);
    }
    let trials = devices
        .iter()
        .map(|d| d.heap.allocate(TRIAL, Purpose::Data));
    let trials = trials.collect::<Result<Vec<_>, Error>>()?;
    let sees = |a: usize, b: usize| {
        let pair = trials.get(a).zip(devices.get(b));
        pair.is_some_and(|(memory, device)| seen_by(memory, device).is_ok())
    };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let (cpus, others): (Vec<usize>, Vec<usize>) =
        (0..devices.len()).partition(|&d| devices.get(d).is_some_and(is_processor));
    for device in others.into_iter().chain(cpus) {
        let home = groups
            .iter_mut()
            .find(|g| g.iter().all(|&o| sees(device, o) && sees(o, device)));
        match home {
            Some(group) => group.push(device),
            None => groups.push(vec![device]),
        }
    }
    let mut of = vec![0; devices.len()];
    for (n, group) in (0u16..).zip(&groups) {
        for &device in group {
            if let Some(to) = of.get_mut(device) {
                *to = n;
            }
        }
    }
    Ok(of)
}

pub(super) fn is_processor(device: &Arc<Inner>) -> bool {
    device.backend.as_any().is::<Cpu>()
}

/// A graph's plan, and all that it was made of.
pub(super) struct GraphPlan {
    pub(super) plan: Plan<'static>,
    pub(super) steps: Vec<Step>,
    pub(super) devices: Vec<PlanDevice>,
    pub(super) allocations: Vec<Planned>,
    accesses: Vec<Access>,
    tasks: Vec<(plan::Action, std::ops::Range<usize>, Option<u16>)>,
    copy_queues: u16,
    timestamps: bool,
    /// Bytes through which copies cross peer groups; the allocation behind those of the builder.
    pub(super) stage_bytes: u64,
    /// What the plan is in; dropped after it.
    _scratch: Lent<u64>,
}

impl GraphPlan {
    pub(super) fn new(
        builder: &GraphBuilder,
        copy_queues: u16,
        timestamps: bool,
    ) -> Result<Self, Error> {
        let devices = &builder.devices;
        let groups = groups(devices)?;
        let copies = |d: &Arc<Inner>| is_processor(d) && d.backend.queue_counts().1 > 0;
        let through = devices.iter().position(copies);
        let described = devices.iter().zip(&groups).map(|(d, &group)| {
            let (compute, copy) = d.backend.queue_counts();
            let count = |n: usize| Queues::in_order(u16::try_from(n).unwrap_or(u16::MAX));
            PlanDevice {
                group,
                cpu: is_processor(d),
                compute: count(compute),
                copy: count(copy),
                without_copy: match through {
                    _ if d.backend.copies_on_compute() => WithoutCopy::OnCompute,
                    Some(cpu) => WithoutCopy::Through(u16::try_from(cpu).unwrap_or(u16::MAX)),
                    None => WithoutCopy::OtherSide,
                },
            }
        });
        let described: Vec<PlanDevice> = described.collect();
        let parts = groups.iter().max().map_or(1, |most| most + 1);
        let mut allocations: Vec<Planned> = Vec::new();
        for base in &builder.bases {
            allocations.push(describe(base, devices, parts > 1));
        }
        // Behind them what crosses between groups.
        let stage = u32::try_from(allocations.len()).map_err(|_| too_many())?;
        allocations.push(Planned::fixed(0).shared());
        let tasks: Vec<_> = builder
            .drafts
            .iter()
            .map(|d| (d.action, d.accesses.clone(), d.queue))
            .collect();
        let mut made = Self::plan(
            described,
            allocations,
            builder.accesses.clone(),
            tasks,
            (copy_queues, timestamps),
            stage,
        );
        if let Err(Error::Plan { source, .. }) = &mut made {
            let source = *source;
            return Err(explain(source, builder));
        }
        made
    }

    fn plan(
        devices: Vec<PlanDevice>,
        allocations: Vec<Planned>,
        accesses: Vec<Access>,
        tasks: Vec<(plan::Action, std::ops::Range<usize>, Option<u16>)>,
        (copy_queues, timestamps): (u16, bool),
        stage: u32,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Plan {
            source,
            what: String::new(),
        };
        let listed = list(&tasks, &accesses);
        let problem = Problem {
            devices: &devices,
            allocations: &allocations,
            tasks: &listed,
            copy_queues,
            timestamps,
        };
        let mut capacity = problem.usual_capacity().map_err(failed)?;
        let (plan, scratch, stage_bytes) = loop {
            let words = problem.scratch_words(&capacity).map_err(failed)?;
            let mut scratch = Lent::new(0u64, words);
            // SAFETY: lent once; the plan is dropped before the scratch, by the order of the fields.
            let lent = unsafe { scratch.lend() };
            let mut stage_bytes = 0u64;
            let across = |crossing: plan::Crossing| {
                let offset = stage_bytes;
                let end = offset.checked_add(crossing.bytes)?;
                stage_bytes = end.checked_next_multiple_of(STAGE_ALIGN)?;
                Some(Via::Staged {
                    allocation: stage,
                    offset,
                })
            };
            match plan::plan(&problem, &capacity, lent, across) {
                Ok(plan) => break (plan, scratch, stage_bytes),
                Err(plan::PlanError::Waits { need, .. }) if need > capacity.waits => {
                    capacity.waits = need;
                }
                Err(e) => return Err(failed(e)),
            }
        };
        let mut this = Self {
            plan,
            steps: Vec::new(),
            copy_queues,
            timestamps,
            stage_bytes,
            _scratch: scratch,
            devices: Vec::new(),
            allocations: Vec::new(),
            accesses: Vec::new(),
            tasks: Vec::new(),
        };
        let mut steps = vec![Step::Barrier; this.plan.steps()];
        this.plan.lay_out(&mut steps).map_err(failed)?;
        drop(listed);
        this.steps = steps;
        this.devices = devices;
        this.allocations = allocations;
        this.accesses = accesses;
        this.tasks = tasks;
        Ok(this)
    }

    /// The queue that each of so many tasks is on, by the plan's numbers; of a copy in two steps the last one's.
    pub(super) fn queues_of(&self, tasks: usize) -> Vec<Option<u16>> {
        let mut of = vec![None; tasks];
        for n in 0..self.plan.works() {
            let work = u32::try_from(n).ok().and_then(|n| self.plan.work(n));
            let Some(work) = work else { continue };
            if let Some(to) = of.get_mut(work.task as usize) {
                *to = u16::try_from(work.queue).ok();
            }
        }
        of
    }

    /// The problem that this is the plan of.
    pub(super) fn with_problem<R>(&self, f: impl FnOnce(&Problem<'_>) -> R) -> R {
        let tasks = list(&self.tasks, &self.accesses);
        f(&Problem {
            devices: &self.devices,
            allocations: &self.allocations,
            tasks: &tasks,
            copy_queues: self.copy_queues,
            timestamps: self.timestamps,
        })
    }

    /// Accesses of a task.
    pub(super) fn accesses(&self, task: usize) -> &[Access] {
        let range = self.tasks.get(task).map(|t| t.1.clone());
        range.and_then(|r| self.accesses.get(r)).unwrap_or_default()
    }

    /// Fixed memory's bytes that tasks touch, by base.
    pub(super) fn all_accesses(&self) -> &[Access] {
        &self.accesses
    }
}

fn list<'a>(
    tasks: &[(plan::Action, std::ops::Range<usize>, Option<u16>)],
    accesses: &'a [Access],
) -> Vec<Task<'a>> {
    let task =
        |(action, range, queue): &(plan::Action, std::ops::Range<usize>, Option<u16>)| Task {
            action: *action,
            accesses: accesses.get(range.clone()).unwrap_or_default(),
            queue: *queue,
            cost: 1,
        };
    tasks.iter().map(task).collect()
}

fn too_many() -> Error {
    Error::TooLarge {
        what: "the number of a graph's buffers",
        size: u32::MAX.into(),
        most: u32::MAX.into(),
    }
}

/// A base for the planner. Memory that devices of all groups see at its address is everybody's.
fn describe(base: &Base, devices: &[Arc<Inner>], has_groups: bool) -> Planned {
    let shared = has_groups
        && base.input.is_none()
        && devices.iter().all(|d| seen_by(&base.memory, d).is_ok());
    Planned {
        device: u16::try_from(base.device).unwrap_or(u16::MAX),
        shared,
        input: base.input.is_some(),
        alias: base.alias,
    }
}

/// What a planner's error says of this graph.
fn explain(source: plan::PlanError, builder: &GraphBuilder) -> Error {
    use plan::PlanError as E;
    let name = |device: u16| {
        let device = builder.devices.get(usize::from(device));
        device.map_or("a device", |d| &d.name).to_owned()
    };
    let task = |task: u32| {
        let draft = builder.drafts.get(task as usize);
        format!("node {task} ({})", draft.map_or("?", Draft::label))
    };
    let what = match source {
        E::OutOfReach {
            task: t,
            device,
            allocation,
        } => {
            let base = builder.bases.get(allocation as usize);
            let owner = base.and_then(|b| builder.devices.get(b.device));
            format!(
                "{} runs on {}, which does not reach memory of {}; copy it there first",
                task(t),
                name(device),
                owner.map_or("another device", |d| &d.name)
            )
        }
        E::NoCopyEngine { task: t, device } => format!(
            "{}: {} has no copy queue; open it with one, or give the graph a `cpu` device to copy for it",
            task(t),
            name(device)
        ),
        E::NoSuchQueue {
            task: t, device, ..
        } => format!("{} on {}", task(t), name(device)),
        _ => String::new(),
    };
    Error::Plan { source, what }
}

/// The shell's kind of a queue.
pub(super) const fn kind(engine: Engine) -> QueueKind {
    match engine {
        Engine::Compute => QueueKind::Compute,
        Engine::Copy => QueueKind::Copy,
    }
}
