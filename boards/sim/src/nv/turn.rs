//! Doorbells, and a turn of a channel in the machine's [order](crate::machine::order).

use super::Nv;
use super::channel::interrupt;
use crate::cache::Caches;
use crate::config::Pace;
use crate::engine::{Host, Parts, Step};
use crate::exec::Executor;
use crate::machine::clock;
use crate::machine::order::{self, Next, Turned};
use crate::vm::{AddressSpace, PageTable};

/// Most tokens that nobody has and that are told, of a GPU.
const UNKNOWN: usize = 16;

/// What an engine asks while it steps.
struct Asked<'a> {
    table: &'a PageTable,
    caches: &'a mut Caches,
    executor: &'a mut dyn Executor,
    random: &'a mut fastrand::Rng,
    put: u32,
    /// Interrupts: a bit for each of [`interrupt`].
    raised: u32,
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
        clock::raw_ns()
    }

    fn interrupt(&mut self, context: u32) {
        let known = matches!(context, interrupt::COPY | interrupt::PROGRAM);
        self.raised |= 1 << if known { context } else { interrupt::CHANNEL };
    }

    fn doorbell(&self) -> u64 {
        self.put.into()
    }

    fn random(&mut self, below: u32) -> u32 {
        self.random.u32(..below.max(1))
    }
}

impl Nv {
    /// Looks at the doorbells. A register holds the last token only: with a thread that looks now and then, a ring may have
    /// been overwritten by the next, so every channel whose `GPPut` has moved counts as rung with it. Step by step a ring
    /// reaches the channel whose token it is, and no other.
    fn hear(&mut self) {
        for (index, gpu) in self.gpus.iter_mut().enumerate() {
            gpu.show_time();
            let Some(token) = gpu.heard() else {
                continue;
            };
            let mut known = false;
            let here = self
                .channels
                .values_mut()
                .filter(|channel| channel.gpu == index);
            for channel in here {
                let named = channel.token == token;
                known |= named;
                let moved = self.pace == Pace::Thread && channel.userd.gp_put() != channel.put;
                if named || moved {
                    channel.ring();
                }
            }
            if !known && gpu.unknown.len() < UNKNOWN && !gpu.unknown.contains(&token) {
                gpu.unknown.push(token);
                self.reports.push(format!(
                    "GPU {index}: nobody has the token {token:#x} that was rung"
                ));
            }
        }
    }

    pub(super) fn take_turn(&mut self, executor: &mut dyn Executor) -> Turned {
        self.hear();
        let groups = &self.groups;
        let asked = self.channels.iter_mut().map(|(&number, channel)| {
            let enabled = groups
                .get(&channel.group)
                .is_some_and(|group| group.enabled);
            order::Asked {
                number,
                alive: !channel.stopped,
                able: enabled && !channel.stopped && channel.engine.is_some(),
                rung: channel.rung(),
                turn: &mut channel.turn,
            }
        });
        let number = match self.order.next(asked) {
            Next::Queue(number) => number,
            Next::Nobody(turned) => return turned,
        };
        let Some(channel) = self.channels.get_mut(&number) else {
            return Turned::Idle;
        };
        let (Some(gpu), Some(space), Some(engine)) = (
            self.gpus.get_mut(channel.gpu),
            self.spaces.get(&channel.space),
            &mut channel.engine,
        ) else {
            return Turned::Idle;
        };
        let mut asked = Asked {
            table: &space.table,
            caches: &mut gpu.caches,
            executor,
            random: &mut self.order.random,
            put: channel.put,
            raised: 0,
        };
        let step = engine.step(&mut asked);
        let raised = asked.raised;
        let rung = channel.rung();
        let turns = self
            .channels
            .iter_mut()
            .map(|(&number, channel)| (number, &mut channel.turn));
        self.order.stepped(number, &step, rung, turns);
        for kind in [interrupt::CHANNEL, interrupt::COPY] {
            if raised & 1 << kind != 0 {
                self.interrupted(number, kind);
            }
        }
        if let Step::Fault(fault) = step {
            self.fault(number, &fault, raised & 1 << interrupt::PROGRAM != 0);
        }
        // Who waits or has nothing to do lets others go on; if none can, the next turn says so.
        Turned::Moved
    }
}
