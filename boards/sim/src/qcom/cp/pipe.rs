//! The back: launches in flight, and events that wait for their end.
//!
//! Launches begin in the order of their packets: that is when state is loaded for them. Then they run side by side: which work-group
//! of which launch is next is drawn. Work-groups of one launch are handed out in order, a window at a time, and end in any
//! order. A work-group runs in one go.
//!
//! An event happens some time after all launches before it have ended, after the events before it, and without regard to
//! launches and packets after it.

use std::collections::VecDeque;

use super::launch::Plan;
use super::memory;
use super::state::{Change, State, descriptors};
use super::{Cause, Origin, Stopped};
use crate::cache::Levels;
use crate::engine::{Host, Parts};
use crate::exec::{Executor, Kernel, Registers, ShaderMemory};
use crate::vm::{AddressSpace, Need};

/// Launches in flight; a further one waits.
const LAUNCHES: usize = 8;
/// Events that wait; a further one waits before it is taken.
const EVENTS: usize = 64;
/// Work-groups of a launch that may be running.
const WINDOW: usize = 32;
/// An event happens at one of so many chances that it has.
const PATIENCE: u32 = 8;
/// What local memory holds before a work-group has written to it.
const GARBAGE: u8 = 0xA5;

/// What an event writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Nothing,
    Value(u64, u32),
    Clock(u64),
}

/// What an event does, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// UCHE's stores are written to memory.
    pub(super) flush: bool,
    /// UCHE, and what is between it and the shader processors, forgets what it has read.
    pub(super) invalidate: bool,
    pub(super) write: Write,
    pub(super) interrupt: bool,
}

struct Launch {
    /// Counts launches and events.
    sequence: u64,
    plan: Plan,
    /// What is to be loaded first; `None` once it has begun.
    changes: Option<Vec<Change>>,
    next: u128,
    total: u128,
    window: Vec<[u32; 3]>,
    /// Programs by which dimensions end in this group: bit 0 for x.
    kernels: Vec<(u8, Box<dyn Kernel>)>,
    origin: Origin,
}

impl Launch {
    fn group(&self, index: u128) -> [u32; 3] {
        let [x, y, _] = self.plan.dispatch.groups.map(|n| u128::from(n.max(1)));
        // Each is below a 32-bit count.
        let at = |value: u128| u32::try_from(value).unwrap_or(u32::MAX);
        [at(index % x), at(index / x % y), at(index / (x * y))]
    }

    fn fill(&mut self) {
        while self.window.len() < WINDOW && self.next < self.total {
            let group = self.group(self.next);
            self.window.push(group);
            self.next += 1;
        }
    }

    fn done(&self) -> bool {
        self.changes.is_none() && self.window.is_empty() && self.next >= self.total
    }

    /// Which dimensions end in a group that is smaller than others.
    fn edges(&self, group: [u32; 3]) -> u8 {
        let dispatch = &self.plan.dispatch;
        let sizes = dispatch.local.iter().zip(self.plan.edge);
        let places = group.iter().zip(dispatch.groups);
        let small = places
            .zip(sizes)
            .map(|((&at, groups), (&local, edge))| at + 1 == groups && edge != local);
        (0..)
            .zip(small)
            .fold(0, |all, (d, small)| all | u8::from(small) << d)
    }

    /// The kernel of a group, which the executor is asked for once for each size of group.
    fn kernel(
        &mut self,
        edges: u8,
        memory: &mut dyn ShaderMemory,
        executor: &mut dyn Executor,
    ) -> Result<Option<&mut Box<dyn Kernel>>, Cause> {
        if !self.kernels.iter().any(|(of, _)| *of == edges) {
            let mut dispatch = self.plan.dispatch.clone();
            for (d, (local, edge)) in dispatch.local.iter_mut().zip(self.plan.edge).enumerate() {
                if edges >> d & 1 != 0 {
                    *local = edge;
                }
            }
            let Some(kernel) = executor.prepare(&dispatch, memory)? else {
                return Err(Cause::Launch(format!(
                    "nobody can run the program at {:#x}",
                    dispatch.program
                )));
            };
            self.kernels.push((edges, kernel));
        }
        let found = self.kernels.iter_mut().find(|(of, _)| *of == edges);
        Ok(found.map(|(_, kernel)| kernel))
    }
}

struct Waiting {
    sequence: u64,
    event: Event,
    origin: Origin,
}

/// The back.
#[derive(Default)]
pub(super) struct Pipe {
    next: u64,
    state: State,
    launches: Vec<Launch>,
    events: VecDeque<Waiting>,
    local: Vec<u8>,
}

impl Pipe {
    /// Nothing that was loaded is there any more.
    pub(super) fn lose(&mut self) {
        self.state = State::default();
        self.local.clear();
    }

    /// Nothing is in flight any more.
    pub(super) fn abandon(&mut self) {
        self.launches.clear();
        self.events.clear();
    }

    /// Whether another launch can be taken.
    pub(super) fn takes_launch(&self) -> bool {
        self.launches.len() < LAUNCHES
    }

    /// Whether another event can wait.
    pub(super) fn takes_event(&self) -> bool {
        self.events.len() < EVENTS
    }

    /// Whether nothing is in flight.
    pub(super) fn idle(&self) -> bool {
        self.launches.is_empty() && self.events.is_empty()
    }

    pub(super) fn launch(&mut self, plan: Plan, changes: Vec<Change>, origin: Origin) {
        let sequence = self.number();
        // Three 32-bit numbers: no overflow.
        let groups = plan.dispatch.groups.iter().map(|&n| u128::from(n));
        let total = groups.fold(1, |all: u128, n| all.saturating_mul(n));
        self.launches.push(Launch {
            sequence,
            plan,
            changes: Some(changes),
            next: 0,
            total,
            window: Vec::new(),
            kernels: Vec::new(),
            origin,
        });
    }

    pub(super) fn event(&mut self, event: Event, origin: Origin) {
        let sequence = self.number();
        self.events.push_back(Waiting {
            sequence,
            event,
            origin,
        });
    }

    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        number
    }

    /// Does something: lets an event happen, begins a launch, or runs a work-group. `false` if nothing was done: there is nothing in
    /// flight, or there is an event that takes its time while the front has something to do.
    pub(super) fn step(&mut self, host: &mut dyn Host, front_waits: bool) -> Result<bool, Stopped> {
        let ready = self.events.front().is_some_and(|first| {
            let before = |launch: &Launch| launch.sequence < first.sequence;
            !self.launches.iter().any(before)
        });
        let last = front_waits && self.launches.is_empty();
        if ready && (last || host.random(PATIENCE) == 0) {
            return self.fire(host);
        }
        // Those that have begun, and the one that may begin next.
        let begun = self.launches.iter().take_while(|l| l.changes.is_none());
        let below = (begun.count() + 1).min(self.launches.len());
        let Some(below) = u32::try_from(below).ok().filter(|&n| n > 0) else {
            return Ok(false);
        };
        let at = host.random(below) as usize;
        let Some(launch) = self.launches.get_mut(at) else {
            return Ok(false);
        };
        match launch.changes.take() {
            Some(changes) => begin(launch, &mut self.state, changes, host)?,
            None => run(launch, &mut self.local, host)
                .map_err(|cause| Stopped::new(cause, &launch.origin))?,
        }
        if launch.done() {
            self.launches.remove(at);
        }
        Ok(true)
    }

    fn fire(&mut self, host: &mut dyn Host) -> Result<bool, Stopped> {
        let Some(first) = self.events.pop_front() else {
            return Ok(false);
        };
        fire(&first.event, host).map_err(|cause| Stopped::new(cause, &first.origin))?;
        Ok(true)
    }
}

/// What texture units and the loads of `HLSQ` have of their own.
const BEFORE_UCHE: Levels = Levels::SCALAR.union(Levels::VECTOR);

fn fire(event: &Event, host: &mut dyn Host) -> Result<(), Cause> {
    let clock = host.clock();
    let Parts { vm, caches, .. } = host.parts();
    if event.flush {
        caches.write_back(0, Levels::L2, vm)?;
    }
    if event.invalidate {
        caches.invalidate(0, Levels::L2 | BEFORE_UCHE, vm)?;
    }
    match event.write {
        Write::Nothing => {}
        Write::Value(at, value) => memory::write_u32(vm, at, value)?,
        Write::Clock(at) => memory::write_u64(vm, at, clock)?,
    }
    if event.interrupt {
        host.interrupt(0);
    }
    Ok(())
}

/// Loads state, and looks at what the program is given.
fn begin(
    launch: &mut Launch,
    state: &mut State,
    changes: Vec<Change>,
    host: &mut dyn Host,
) -> Result<(), Stopped> {
    let Parts {
        vm,
        caches,
        executor,
    } = host.parts();
    let stop = |cause: Cause, origin: &Origin| Stopped::new(cause, origin);
    // A launch finds nothing old in them: only UCHE keeps.
    let mut levels = BEFORE_UCHE;
    if changes.iter().any(Change::loads_code) {
        levels |= Levels::INSTRUCTION;
    }
    caches
        .invalidate(0, levels, vm)
        .map_err(|fault| stop(fault.into(), &launch.origin))?;
    if let Some((base, bytes)) = launch.plan.private {
        mapped(vm, base, bytes).map_err(|cause| stop(cause, &launch.origin))?;
    }
    let mut view = caches.view(0, vm);
    state.apply(changes, &mut *view)?;
    gather(launch, state, &mut *view)
        .and_then(|()| launch.kernel(0, &mut *view, executor).map(drop))
        .map_err(|cause| stop(cause, &launch.origin))
}

/// Whether private memory is there, at its ends.
fn mapped(vm: &dyn AddressSpace, base: u64, bytes: u64) -> Result<(), Cause> {
    let last = base.wrapping_add(bytes.max(1)).wrapping_sub(1);
    for address in [base, last] {
        vm.translate(address, 1, Need::Write)?;
    }
    Ok(())
}

/// What the program is given, out of what was loaded.
fn gather(launch: &mut Launch, state: &State, memory: &mut dyn ShaderMemory) -> Result<(), Cause> {
    let plan = &mut launch.plan;
    match state.program {
        Some(at) if at == plan.code.0 => {}
        Some(at) => {
            return Err(Cause::Launch(format!(
                "instructions were loaded from {at:#x}, and SP_CS_OBJ_START is {:#x}",
                plan.code.0
            )));
        }
        None => return Err(Cause::Launch("no instructions were loaded".into())),
    }
    let mut registers = plan.registers.clone();
    registers.constants = state
        .constants
        .iter()
        .copied()
        .take(plan.constants)
        .collect();
    let (count, table) = plan.textures;
    registers.textures = descriptors(&state.textures, count, table, memory, "texture")?;
    let (count, table) = plan.samplers;
    registers.samplers = descriptors(&state.samplers, count, table, memory, "sampler")?;
    let (count, table) = plan.images;
    registers.images = descriptors(&state.images, count, table, memory, "image")?;
    plan.dispatch.registers = Registers::Adreno(registers);
    Ok(())
}

fn run(launch: &mut Launch, local: &mut Vec<u8>, host: &mut dyn Host) -> Result<(), Cause> {
    launch.fill();
    let below = u32::try_from(launch.window.len()).unwrap_or(1).max(1);
    let at = host.random(below) as usize;
    if at >= launch.window.len() {
        return Ok(());
    }
    let group = launch.window.swap_remove(at);
    let edges = launch.edges(group);
    let bytes = launch.plan.dispatch.local_memory as usize;
    if local.len() < bytes {
        local.resize(bytes, GARBAGE);
    }
    let Parts {
        vm,
        caches,
        executor,
    } = host.parts();
    let mut memory = caches.view(0, vm);
    if let Some(kernel) = launch.kernel(edges, &mut *memory, executor)? {
        let local = local.get_mut(..bytes).unwrap_or_default();
        kernel.run_group(group, local, &mut *memory)?;
    }
    Ok(())
}
