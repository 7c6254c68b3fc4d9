//! A tiny machine that runs plans in an order that a seed decides, and says what goes wrong.

use super::*;
use crate::testing::Rng;
use std::string::String;
use std::{format, iter};

/// Bytes of each allocation of a scene that is run.
pub(super) const BYTES: u64 = 16;

/// Where each allocation lies in the memory, which keeps a number per byte.
#[derive(Clone, Debug)]
pub(super) struct Binding(Vec<usize>);

/// Bytes around each allocation, so that inputs may stick out of what they share bytes with.
const AREA: usize = BYTES as usize * 8;

impl Binding {
    /// Inputs lie anywhere about those that they may share bytes with, all others apart.
    pub(super) fn new(scene: &Scene, rng: &mut Rng) -> Self {
        let middle = |i: usize| i * AREA + AREA / 2;
        let mut base: Vec<usize> = (0..scene.allocations.len()).map(middle).collect();
        for (i, a) in scene.allocations.iter().enumerate() {
            if a.input && a.alias != 0 {
                let same = |b: &usize| scene.allocations[*b].alias == a.alias;
                let mates: Vec<usize> = (0..base.len()).filter(same).collect();
                let home = middle(mates[rng.below(mates.len() as u64) as usize]);
                // Half of the time exactly there.
                let offset = if rng.one_in(2) { 0 } else { rng.below(BYTES) };
                base[i] = home + offset as usize - rng.below(2) as usize * BYTES as usize / 2;
            }
        }
        Self(base)
    }

    /// Moves an input so that these two accesses meet.
    pub(super) fn meet(&mut self, scene: &Scene, earlier: &Access, later: &Access) {
        let (moved, other) = if scene.allocations[later.allocation as usize].input {
            (later, earlier)
        } else {
            (earlier, later)
        };
        self.0[moved.allocation as usize] = self.range(other).start - moved.offset as usize;
    }

    fn range(&self, a: &Access) -> core::ops::Range<usize> {
        let start = self.0[a.allocation as usize] + a.offset as usize;
        start..start + a.len as usize
    }
}

fn mix(values: impl IntoIterator<Item = u64>) -> u64 {
    values
        .into_iter()
        .fold(0, |h, v| Rng(h.rotate_left(7) ^ v).next())
}

/// Memory, and what each task has seen. Every write depends on what was there, so that no order stays hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Memory {
    bytes: Vec<u64>,
    seen: Vec<u64>,
}

impl Memory {
    fn new(scene: &Scene) -> Self {
        let n = (scene.allocations.len() * AREA) as u64;
        Self {
            bytes: (0..n).map(|i| mix([i])).collect(),
            seen: vec![0; scene.tasks.len()],
        }
    }

    fn run(&mut self, scene: &Scene, at: &Binding, task: usize, part: Part) {
        let chore = &scene.tasks[task];
        let touched = touched(scene, task, part);
        if chore.action == Action::Copy {
            let (from, to) = (at.range(&touched[0]), at.range(&touched[1]));
            let source: Vec<u64> = self.bytes[from].to_vec();
            // Staged bytes wear their task's mark, or tasks that copy the same bytes could take each other's.
            let mark = mix([task as u64]);
            for (old, new) in self.bytes[to].iter_mut().zip(source) {
                *old = match part {
                    Part::IntoStage { .. } => new ^ mark,
                    Part::OutOfStage { .. } => mix([*old, new ^ mark, mark]),
                    Part::Whole => mix([*old, new, mark]),
                };
            }
            return;
        }
        let all = touched.iter().flat_map(|a| at.range(a));
        let seen = mix(iter::once(task as u64).chain(all.map(|i| self.bytes[i])));
        self.seen[task] = seen;
        for a in touched.iter().filter(|a| a.mode == Mode::Write) {
            for (i, b) in self.bytes[at.range(a)].iter_mut().enumerate() {
                *b = mix([seen, i as u64]);
            }
        }
    }

    /// Staging bytes are nobody's result.
    fn result(mut self, scene: &Scene, at: &Binding) -> Self {
        if let Some((stage, _)) = scene.stage {
            let bytes = at.range(&Access::read(stage, 0, BYTES * 3));
            self.bytes[bytes].fill(0);
        }
        self
    }
}

/// What a work touches, from the scene.
pub(super) fn touched(scene: &Scene, task: usize, part: Part) -> Vec<Access> {
    let all = &scene.tasks[task].accesses;
    match part {
        Part::Whole => all.clone(),
        Part::IntoStage { allocation, offset } => {
            vec![all[0], Access::write(allocation, offset, all[0].len)]
        }
        Part::OutOfStage { allocation, offset } => {
            vec![Access::read(allocation, offset, all[0].len), all[1]]
        }
    }
}

/// How to run a plan.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    /// Seed of the order.
    pub(super) seed: u64,
    /// Leave out this wait.
    pub(super) without: Option<usize>,
    /// Put off this event for as long as anything else can happen.
    pub(super) hold: Option<Event>,
}

/// Something that can happen next.
#[derive(Clone, Copy, Debug)]
enum Move {
    /// A device's earlier work ends.
    Timeline(u16),
    /// A peer group's launch.
    Kickoff(u16),
    /// A queue takes its next step.
    Step(usize),
    /// A work in flight ends.
    End(usize),
}

/// A work in flight, and the signal and value behind it.
#[derive(Clone, Copy, Debug)]
struct Flight {
    work: usize,
    signal: Option<(u32, u32)>,
}

struct Machine<'a> {
    scene: &'a Scene,
    plan: &'a Planned,
    at: &'a Binding,
    run: Run,
    memory: Memory,
    next: Vec<usize>,
    flying: Vec<Flight>,
    ended: Vec<bool>,
    signals: Vec<u32>,
    entered: Vec<bool>,
    kicked: Vec<u16>,
    finished: Vec<bool>,
}

/// Runs a plan and compares it with its tasks one by one.
pub(super) fn run(scene: &Scene, plan: &Planned, at: &Binding, run: Run) -> Result<(), String> {
    let mut serial = Memory::new(scene);
    for task in 0..scene.tasks.len() {
        serial.run(scene, at, task, Part::Whole);
    }
    let mut machine = Machine {
        scene,
        plan,
        at,
        run,
        memory: Memory::new(scene),
        next: plan.queues.iter().map(|q| q.steps.start).collect(),
        flying: Vec::new(),
        ended: vec![false; plan.works.len()],
        signals: vec![0; plan.signals as usize],
        entered: vec![false; scene.devices.len()],
        kicked: Vec::new(),
        finished: vec![false; scene.devices.len()],
    };
    machine.all(&mut Rng(run.seed))?;
    if machine.memory.result(scene, at) == serial.result(scene, at) {
        Ok(())
    } else {
        Err("another result than one by one".into())
    }
}

impl Machine<'_> {
    fn all(&mut self, rng: &mut Rng) -> Result<(), String> {
        loop {
            let moves = self.moves();
            if moves.is_empty() {
                break;
            }
            let free: Vec<Move> = moves.iter().copied().filter(|m| !self.held(*m)).collect();
            let from = if free.is_empty() { &moves } else { &free };
            let taken = from[rng.below(from.len() as u64) as usize];
            self.take(taken)?;
        }
        let stuck = self.plan.queues.iter().zip(&self.next);
        if let Some((q, at)) = stuck.clone().find(|(q, at)| q.steps.end != **at) {
            return Err(format!("stuck: {q:?} at {:?}", self.plan.steps[*at]));
        }
        for (device, used) in &self.plan.devices {
            let d = &self.scene.devices[usize::from(*device)];
            let has_queues = d.compute.count + d.copy.count > 0;
            if self.finished[usize::from(*device)] != (*used && has_queues) {
                return Err(format!("device {device} does not end"));
            }
        }
        if self.ended.contains(&false) {
            return Err("a work did not run".into());
        }
        Ok(())
    }

    fn moves(&self) -> Vec<Move> {
        let timelines = (0u16..).zip(&self.entered).filter(|(_, e)| !**e);
        let groups = self.scene.devices.iter().map(|d| d.group);
        timelines
            .map(|(d, _)| Move::Timeline(d))
            .chain(
                groups
                    .filter(|g| !self.kicked.contains(g))
                    .map(Move::Kickoff),
            )
            .chain(
                (0..self.next.len())
                    .filter(|q| self.can(*q))
                    .map(Move::Step),
            )
            .chain((0..self.flying.len()).map(Move::End))
            .collect()
    }

    fn can(&self, queue: usize) -> bool {
        if self.next[queue] == self.plan.queues[queue].steps.end {
            return false;
        }
        let Step::Wait { on, why } = self.plan.steps[self.next[queue]] else {
            return true;
        };
        if why.is_some() && why == self.run.without.map(|w| u32::try_from(w).unwrap()) {
            return true;
        }
        match on {
            Signal::Queue { signal, value } => self.signals[signal as usize] >= value,
            Signal::Timeline { device } => self.entered[usize::from(device)],
            Signal::Kickoff { group } => self.kicked.contains(&group),
        }
    }

    fn held(&self, m: Move) -> bool {
        match (self.run.hold, m) {
            (Some(Event::Entry { device }), Move::Timeline(d)) => device == d,
            (Some(Event::Work { work }), Move::End(i)) => self.flying[i].work == work as usize,
            (Some(Event::Work { work }), Move::Step(q)) => {
                self.in_order(q) && self.plan.steps[self.next[q]] == Step::Work { work }
            }
            _ => false,
        }
    }

    fn in_order(&self, queue: usize) -> bool {
        let q = &self.plan.queues[queue];
        let d = &self.scene.devices[usize::from(q.device)];
        d.queues(q.engine).order == Order::InOrder
    }

    fn take(&mut self, m: Move) -> Result<(), String> {
        match m {
            Move::Timeline(d) => self.entered[usize::from(d)] = true,
            Move::Kickoff(group) => self.kicked.push(group),
            Move::End(i) => {
                let Flight { work, signal } = self.flying.swap_remove(i);
                self.end(work);
                if let Some((signal, value)) = signal {
                    self.signal(signal, value)?;
                }
            }
            Move::Step(queue) => {
                let step = self.plan.steps[self.next[queue]];
                self.next[queue] += 1;
                match step {
                    Step::Work { work } => self.start(queue, work as usize)?,
                    Step::Signal(Signal::Queue { signal, value }) => self.signal(signal, value)?,
                    Step::Signal(Signal::Timeline { device }) => self.finish(device)?,
                    Step::Signal(Signal::Kickoff { .. }) => return Err("kicks itself".into()),
                    Step::Barrier if self.plan.queues[queue].engine == Engine::Copy => {
                        return Err("barrier on a copy queue".into());
                    }
                    Step::Barrier | Step::Wait { .. } | Step::Timestamp { .. } => {}
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, queue: usize, work: usize) -> Result<(), String> {
        for d in self.devices_of(work) {
            let device = &self.scene.devices[usize::from(d)];
            let home = device.compute.count + device.copy.count > 0;
            let entered = self.entered[usize::from(d)] && self.kicked.contains(&device.group);
            if home && !entered {
                return Err(format!("work {work} runs before device {d} has entered"));
            }
        }
        if self.in_order(queue) {
            self.end(work);
            return Ok(());
        }
        let lane = self.plan.lanes[work];
        if self.flying.iter().any(|f| self.plan.lanes[f.work] == lane) {
            return Err(format!("two works in flight at the place of {work}"));
        }
        // What is right behind the work is the work's.
        let end = self.plan.queues[queue].steps.end;
        let mut signal = None;
        while self.next[queue] < end {
            match self.plan.steps[self.next[queue]] {
                Step::Timestamp { slot }
                    if self.plan.works[work]
                        .timestamps
                        .is_some_and(|t| t.1 == slot) => {}
                Step::Signal(Signal::Queue { signal: s, value }) => signal = Some((s, value)),
                _ => break,
            }
            self.next[queue] += 1;
        }
        self.flying.push(Flight { work, signal });
        Ok(())
    }

    fn end(&mut self, work: usize) {
        let w = self.plan.works[work];
        self.memory
            .run(self.scene, self.at, w.task as usize, w.part);
        self.ended[work] = true;
    }

    fn signal(&mut self, signal: u32, value: u32) -> Result<(), String> {
        let s = &mut self.signals[signal as usize];
        if value <= *s {
            return Err(format!("signal {signal} goes from {s} to {value}"));
        }
        *s = value;
        Ok(())
    }

    fn finish(&mut self, device: u16) -> Result<(), String> {
        for work in 0..self.ended.len() {
            if self.devices_of(work).contains(&device) && !self.ended[work] {
                return Err(format!("device {device} ends before work {work}"));
            }
        }
        self.finished[usize::from(device)] = true;
        Ok(())
    }

    /// The devices whose queue or memory a work uses.
    fn devices_of(&self, work: usize) -> Vec<u16> {
        let w = self.plan.works[work];
        let own = self.plan.queues[w.queue as usize].device;
        let touched = touched(self.scene, w.task as usize, w.part);
        let memory = touched.iter().filter(|a| a.len > 0);
        iter::once(own)
            .chain(memory.map(|a| self.scene.allocations[a.allocation as usize].device))
            .collect()
    }
}
