//! Which queue moves next.
//!
//! A queue runs for a burst of steps; which one and how long is drawn from the seed, with weights that change now and then, so
//! that every queue is sometimes far ahead and sometimes far behind the others. A queue that has nothing to do is left alone until
//! its doorbell says something else; one that waits for memory is asked again once others have moved or time has passed.

use super::{Kernel, QueueKind};
use crate::cache::Caches;
use crate::engine::{Host, Parts, Step};
use crate::exec::Executor;
use crate::machine::clock;
use crate::vm::{AddressSpace, PageTable};

/// Weights are drawn anew after so many bursts.
const BURSTS: u32 = 32;
/// The longest burst.
const BURST: u32 = 16;
/// The largest weight.
const WEIGHT: u32 = 8;

/// What a queue's place in the order is.
#[derive(Debug)]
pub(crate) struct Turn {
    weight: u32,
    /// The doorbell with which it last had nothing to do.
    idle_at: Option<u64>,
    /// It waits for memory, and nothing has moved since it was asked.
    waits: bool,
    /// Turns that it sleeps through.
    pub(super) late: u32,
}

impl Turn {
    /// It has something to do, as far as anybody knows.
    pub(super) fn wake(&mut self) {
        self.idle_at = None;
        self.waits = false;
    }
}

/// The order of all queues.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Who moves, and for how many steps yet.
    current: Option<(u32, u32)>,
    bursts: u32,
    /// Turns that new queues sleep through.
    late: u32,
}

/// What came of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turned {
    /// Something happened.
    Moved,
    /// Some queue waits for memory to change.
    Waiting,
    /// Nobody has anything to do.
    Idle,
}

/// What an engine asks while it steps.
struct Asked<'a> {
    table: &'a PageTable,
    caches: &'a mut Caches,
    executor: &'a mut dyn Executor,
    random: &'a mut fastrand::Rng,
    doorbell: u64,
    interrupts: Vec<u32>,
}

impl Host for Asked<'_> {
    fn vm(&self) -> &dyn AddressSpace {
        self.table
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts {
            vm: self.table,
            caches: self.caches,
            executor: self.executor,
        }
    }

    fn clock(&self) -> u64 {
        clock::gpu_ticks()
    }

    fn interrupt(&mut self, context: u32) {
        self.interrupts.push(context);
    }

    fn doorbell(&self) -> u64 {
        self.doorbell
    }

    fn random(&mut self, below: u32) -> u32 {
        self.random.u32(..below.max(1))
    }
}

impl Kernel {
    pub(super) fn new_turn(&mut self, priority: u32) -> Turn {
        Turn {
            weight: 1 + priority / 4 + self.random.u32(..WEIGHT),
            idle_at: None,
            waits: false,
            late: self.order.late,
        }
    }

    /// Queues sleep through so many of their turns.
    pub(crate) fn late(&mut self, number: Option<u32>, steps: u32) {
        if number.is_none() {
            self.order.late = steps;
        }
        let Some(process) = &mut self.process else {
            return;
        };
        for (&queue, state) in &mut process.queues {
            if number.is_none_or(|number| number == queue) {
                state.turn.late = steps;
            }
        }
    }

    /// Whether there is any queue that could run.
    pub(crate) fn has_queues(&self) -> bool {
        self.process
            .as_ref()
            .is_some_and(|process| !process.queues.is_empty())
    }

    /// The next turn.
    pub(crate) fn turn(&mut self, executor: &mut dyn Executor) -> Turned {
        let Some(number) = self.choose() else {
            return self.rest();
        };
        let Some(process) = &mut self.process else {
            return Turned::Idle;
        };
        let Some(queue) = process.queues.get_mut(&number) else {
            return Turned::Idle;
        };
        if let Some(late) = queue.turn.late.checked_sub(1) {
            queue.turn.late = late;
            self.order.current = None;
            return Turned::Moved;
        }
        let (Some(gpu), Some(device)) = (
            self.gpus.get_mut(queue.device),
            process.devices.get(queue.device),
        ) else {
            return Turned::Idle;
        };
        let doorbell = queue.rung();
        let mut asked = Asked {
            table: &device.table,
            caches: &mut gpu.caches,
            executor,
            random: &mut self.random,
            doorbell,
            interrupts: Vec::new(),
        };
        let Some(engine) = &mut queue.engine else {
            return Turned::Idle;
        };
        let step = engine.step(&mut asked);
        let interrupts = asked.interrupts;
        let kind = queue.kind;
        match &step {
            Step::Idle => queue.turn.idle_at = Some(doorbell),
            Step::Waiting => queue.turn.waits = true,
            Step::Progress | Step::Fault(_) => {}
        }
        for context in interrupts {
            match kind {
                // `event_interrupt_isr_v9`: firmware sends 0 for nothing.
                QueueKind::Pm4 | QueueKind::Aql if context == 0 => {}
                QueueKind::Pm4 | QueueKind::Aql => process.events.interrupt(context),
                QueueKind::Sdma => process.events.interrupt(context & 0x0FFF_FFFF),
            }
        }
        match step {
            Step::Idle | Step::Waiting => {
                self.order.current = None;
                // Others may have something to do; if not, the next call says so.
                Turned::Moved
            }
            Step::Progress => {
                for queue in process.queues.values_mut() {
                    queue.turn.waits = false;
                }
                Turned::Moved
            }
            Step::Fault(fault) => {
                self.order.current = None;
                self.fault(number, &fault);
                Turned::Moved
            }
        }
    }

    /// Nobody can move: those that wait are asked again next time.
    fn rest(&mut self) -> Turned {
        let mut waiting = false;
        if let Some(process) = &mut self.process {
            for queue in process.queues.values_mut() {
                waiting |= queue.turn.waits && !queue.stopped;
                queue.turn.waits = false;
            }
        }
        if waiting {
            Turned::Waiting
        } else {
            Turned::Idle
        }
    }

    fn choose(&mut self) -> Option<u32> {
        let process = self.process.as_mut()?;
        let devices = &process.devices;
        let mut able: Vec<(u32, u32)> = Vec::new();
        for (&number, queue) in &process.queues {
            let evicted = devices
                .get(queue.device)
                .is_none_or(|device| device.evicted);
            let idle = queue.turn.idle_at == Some(queue.rung());
            let runs = queue.active() && !queue.stopped && !evicted && queue.engine.is_some();
            if runs && !idle && !queue.turn.waits {
                able.push((number, queue.turn.weight));
            }
        }
        if let Some((number, left)) = self.order.current
            && left > 0
            && able.iter().any(|&(queue, _)| queue == number)
        {
            self.order.current = Some((number, left - 1));
            return Some(number);
        }
        let total: u32 = able.iter().map(|&(_, weight)| weight).sum();
        if total == 0 {
            return None;
        }
        let mut at = self.random.u32(..total);
        let number = able.iter().find_map(|&(number, weight)| {
            let found = at < weight;
            at = at.saturating_sub(weight);
            found.then_some(number)
        })?;
        self.order.current = Some((number, self.random.u32(..BURST)));
        self.order.bursts += 1;
        if self.order.bursts >= BURSTS {
            self.order.bursts = 0;
            for queue in process.queues.values_mut() {
                queue.turn.weight = 1 + self.random.u32(..WEIGHT);
            }
        }
        Some(number)
    }
}
