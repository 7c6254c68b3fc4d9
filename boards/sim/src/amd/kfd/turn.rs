//! A turn of a queue, in the machine's order: [`order`].

use super::{Kernel, QueueKind};
use crate::cache::Caches;
use crate::engine::{Host, Parts, Step};
use crate::exec::Executor;
use crate::machine::clock;
use crate::machine::order::{self, Next, Turn, Turned};
use crate::vm::{AddressSpace, PageTable};

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
        self.order.turn(priority / 4)
    }

    /// Queues sleep through so many of their turns.
    pub(super) fn make_late(&mut self, number: Option<u32>, steps: u32) {
        let queues = self.process.iter_mut().flat_map(|p| &mut p.queues);
        let turns = queues.map(|(&number, queue)| (number, &mut queue.turn));
        self.order.late(number, steps, turns);
    }

    /// Whether there is any queue that could run.
    pub(super) fn any_queues(&self) -> bool {
        self.process
            .as_ref()
            .is_some_and(|process| !process.queues.is_empty())
    }

    /// The next turn.
    pub(super) fn take_turn(&mut self, executor: &mut dyn Executor) -> Turned {
        let Some(process) = &mut self.process else {
            return Turned::Idle;
        };
        let devices = &process.devices;
        let asked = process.queues.iter_mut().map(|(&number, queue)| {
            let device = devices.get(queue.device);
            let evicted = device.is_none_or(|device| device.evicted);
            order::Asked {
                number,
                alive: !queue.stopped,
                able: queue.active() && !queue.stopped && !evicted && queue.engine.is_some(),
                rung: queue.rung(),
                turn: &mut queue.turn,
            }
        });
        let number = match self.order.next(asked) {
            Next::Queue(number) => number,
            Next::Nobody(turned) => return turned,
        };
        let Some(queue) = process.queues.get_mut(&number) else {
            return Turned::Idle;
        };
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
            random: &mut self.order.random,
            doorbell,
            interrupts: Vec::new(),
        };
        let Some(engine) = &mut queue.engine else {
            return Turned::Idle;
        };
        let step = engine.step(&mut asked);
        let interrupts = asked.interrupts;
        let kind = queue.kind;
        let queues = process.queues.iter_mut();
        let turns = queues.map(|(&number, queue)| (number, &mut queue.turn));
        self.order.stepped(number, &step, doorbell, turns);
        for context in interrupts {
            match kind {
                // `event_interrupt_isr_v9`: firmware sends 0 for nothing.
                QueueKind::Pm4 | QueueKind::Aql if context == 0 => {}
                QueueKind::Pm4 | QueueKind::Aql => process.events.interrupt(context),
                QueueKind::Sdma => process.events.interrupt(context & 0x0FFF_FFFF),
            }
        }
        if let Step::Fault(fault) = step {
            self.fault(number, &fault);
        }
        Turned::Moved
    }
}
