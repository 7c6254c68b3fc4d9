//! The back of one XCC: launches in flight and what waits for their end.
//!
//! Launches begin in the order of their packets and then run side by side: which work-group of which launch is next is
//! drawn. Work-groups of one launch are handed out in order, a window at a time, and end in any order. A work-group
//! runs in one go.
//!
//! An event (`RELEASE_MEM`) happens some time after all launches before it have ended, after the events before it,
//! and without regard to launches and packets after it.

use std::collections::VecDeque;

use super::launch::Plan;
use super::sync::Release;
use super::{Cause, Stopped};
use crate::engine::{Host, Parts};
use crate::exec::{Kernel, ScratchMemory};
use crate::vm::{AddressSpace, Need};

/// Launches in flight; a further one waits.
const LAUNCHES: usize = 8;
/// Events that wait; a further one waits before it is taken.
const EVENTS: usize = 64;
/// Work-groups of a launch that may be running.
const WINDOW: usize = 32;
/// What local memory holds before a work-group has written to it.
const GARBAGE: u8 = 0xA5;

struct Launch {
    /// Counts launches and events of the XCC.
    sequence: u64,
    plan: Plan,
    /// Next work-group to hand out, and how far they are apart: an XCC takes every n-th.
    next: u128,
    step: u128,
    total: u128,
    window: Vec<[u32; 3]>,
    /// Programs by which dimensions end in this group: bit 0 for x.
    kernels: Vec<(u8, Box<dyn Kernel>)>,
    packet: String,
}

impl Launch {
    fn new(sequence: u64, plan: Plan, share: (u8, u8), packet: String) -> Self {
        let total = plan.dispatch.groups.iter().map(|&n| u128::from(n)).fold(
            1,
            // Three 32-bit numbers: no overflow.
            |all: u128, n| all.saturating_mul(n),
        );
        Self {
            sequence,
            next: u128::from(share.0),
            step: u128::from(share.1.max(1)),
            total,
            plan,
            window: Vec::new(),
            kernels: Vec::new(),
            packet,
        }
    }

    fn group(&self, index: u128) -> [u32; 3] {
        let [x, y, _] = self.plan.dispatch.groups.map(|n| u128::from(n.max(1)));
        let [x0, y0, z0] = self.plan.dispatch.start;
        // Each is below a 32-bit count.
        let at = |value: u128| u32::try_from(value).unwrap_or(u32::MAX);
        [
            x0.wrapping_add(at(index % x)),
            y0.wrapping_add(at(index / x % y)),
            z0.wrapping_add(at(index / (x * y))),
        ]
    }

    fn fill(&mut self) {
        while self.window.len() < WINDOW && self.next < self.total {
            let group = self.group(self.next);
            self.window.push(group);
            self.next += self.step;
        }
    }

    fn done(&self) -> bool {
        self.window.is_empty() && self.next >= self.total
    }

    /// Which dimensions end in a group that is smaller than others.
    fn edges(&self, group: [u32; 3]) -> u8 {
        let dispatch = &self.plan.dispatch;
        let mut edges = 0;
        for d in 0..3 {
            let get = |of: &[u32; 3]| of.get(d).copied().unwrap_or_default();
            let last = get(&dispatch.start)
                .wrapping_add(get(&dispatch.groups))
                .wrapping_sub(1);
            if get(&group) == last && get(&self.plan.edge) != get(&dispatch.local) {
                edges |= 1 << d;
            }
        }
        edges
    }

    fn run(&mut self, host: &mut dyn Host, xcc: u8, local: &mut Vec<u8>) -> Result<(), Cause> {
        self.fill();
        let below = u32::try_from(self.window.len()).unwrap_or(1).max(1);
        let at = host.random(below) as usize;
        if at >= self.window.len() {
            return Ok(());
        }
        let group = self.window.swap_remove(at);
        let edges = self.edges(group);
        let Parts {
            vm,
            caches,
            executor,
        } = host.parts();
        let known = self.kernels.iter().position(|(of, _)| *of == edges);
        if let (None, Some(scratch)) = (known, &self.plan.dispatch.scratch) {
            mapped(vm, scratch)?;
        }
        let mut memory = caches.view(xcc, vm);
        let index = match known {
            Some(index) => index,
            None => {
                let mut dispatch = self.plan.dispatch.clone();
                for (d, (local, edge)) in dispatch.local.iter_mut().zip(self.plan.edge).enumerate()
                {
                    if edges >> d & 1 != 0 {
                        *local = edge;
                    }
                }
                let Some(kernel) = executor.prepare(&dispatch, &mut *memory)? else {
                    return Err(Cause::Launch(format!(
                        "nobody can run the program at {:#x}",
                        dispatch.program
                    )));
                };
                self.kernels.push((edges, kernel));
                self.kernels.len() - 1
            }
        };
        let bytes = self.plan.dispatch.local_memory as usize;
        if local.len() < bytes {
            local.resize(bytes, GARBAGE);
        }
        if let Some((_, kernel)) = self.kernels.get_mut(index) {
            let local = local.get_mut(..bytes).unwrap_or_default();
            kernel.run_group(group, local, &mut *memory)?;
        }
        Ok(())
    }
}

/// Whether scratch memory is there, at its ends.
fn mapped(vm: &dyn AddressSpace, scratch: &ScratchMemory) -> Result<(), Cause> {
    let bytes = scratch.wave_bytes.saturating_mul(scratch.waves.into());
    let last = scratch.base.saturating_add(bytes.saturating_sub(1));
    for address in [scratch.base, last] {
        vm.translate(address, 1, Need::Write)?;
    }
    Ok(())
}

struct Waiting {
    sequence: u64,
    event: Release,
    packet: String,
}

/// The back of one XCC.
pub(super) struct Pipe {
    xcc: u8,
    next: u64,
    launches: Vec<Launch>,
    events: VecDeque<Waiting>,
    local: Vec<u8>,
}

impl Pipe {
    pub(super) fn new(xcc: u8) -> Self {
        Self {
            xcc,
            next: 0,
            launches: Vec::new(),
            events: VecDeque::new(),
            local: Vec::new(),
        }
    }

    /// Whether another launch can begin.
    pub(super) fn takes_launch(&self) -> bool {
        self.launches.len() < LAUNCHES
    }

    /// Whether another event can wait.
    pub(super) fn takes_event(&self) -> bool {
        self.events.len() < EVENTS
    }

    /// Begins this XCC's share of a launch: every `share.1`-th work-group from number `share.0` on. Returns its number.
    pub(super) fn launch(&mut self, plan: Plan, share: (u8, u8), packet: String) -> u64 {
        let sequence = self.number();
        let launch = Launch::new(sequence, plan, share, packet);
        if !launch.done() {
            self.launches.push(launch);
        }
        sequence
    }

    /// Lets an event wait for what is in flight.
    pub(super) fn event(&mut self, event: Release, packet: String) {
        let sequence = self.number();
        self.events.push_back(Waiting {
            sequence,
            event,
            packet,
        });
    }

    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        number
    }

    /// The number of what comes next.
    pub(super) fn mark(&self) -> u64 {
        self.next
    }

    /// Whether a launch is over.
    pub(super) fn over(&self, sequence: u64) -> bool {
        self.launches
            .iter()
            .all(|launch| launch.sequence != sequence)
    }

    /// Whether all that has a number below this is over.
    pub(super) fn drained(&self, mark: u64) -> bool {
        self.launches.iter().all(|launch| launch.sequence >= mark)
            && self.events.iter().all(|event| event.sequence >= mark)
    }

    /// Whether no launch is in flight: what `CS_PARTIAL_FLUSH` waits for.
    pub(super) fn launches_over(&self) -> bool {
        self.launches.is_empty()
    }

    /// Runs one work-group, if there is any.
    pub(super) fn run(&mut self, host: &mut dyn Host) -> Result<bool, Stopped> {
        let Some(below) = u32::try_from(self.launches.len()).ok().filter(|&n| n > 0) else {
            return Ok(false);
        };
        let at = host.random(below) as usize;
        let Some(launch) = self.launches.get_mut(at) else {
            return Ok(false);
        };
        if let Err(cause) = launch.run(host, self.xcc, &mut self.local) {
            return Err(Stopped::new(cause, launch.packet.clone()));
        }
        if launch.done() {
            self.launches.remove(at);
        }
        Ok(true)
    }

    /// Lets the first event happen, if all that it waits for is over.
    pub(super) fn fire(&mut self, host: &mut dyn Host) -> Result<bool, Stopped> {
        let Some(first) = self.events.front() else {
            return Ok(false);
        };
        if self
            .launches
            .iter()
            .any(|launch| launch.sequence < first.sequence)
        {
            return Ok(false);
        }
        if let Err(cause) = first.event.fire(self.xcc, host) {
            return Err(Stopped::new(cause, first.packet.clone()));
        }
        self.events.pop_front();
        Ok(true)
    }
}
