//! Tasks become works on queues.

use super::PlanError;
use super::problem::{
    Access, Action, Allocation, Crossing, Engine, Mode, Order, Problem, Task, Via,
};
use super::scratch::{DeviceRec, LaneRec, NONE, QueueRec, Room, TouchRec, WorkRec};

/// Numbers devices (processors last), queues and lanes.
pub(super) fn number(p: &Problem<'_>, room: &mut Room<'_>) -> Option<()> {
    let others = p.devices.iter().filter(|d| !d.cpu).count();
    let (mut next_other, mut next_cpu) = (0, others);
    room.devices.fill(DeviceRec::default());
    for (i, d) in (0u32..).zip(p.devices) {
        let next = if d.cpu {
            &mut next_cpu
        } else {
            &mut next_other
        };
        room.devices.get_mut(*next)?.at_rank = i;
        room.devices.get_mut(i as usize)?.rank = u32::try_from(*next).ok()?;
        *next += 1;
    }
    let (mut queue, mut lane) = (0u32, 0u32);
    for rank in 0..p.devices.len() {
        let device = room.devices.get(rank)?.at_rank;
        let d = p.devices.get(device as usize)?;
        let (home, home_lane) = if d.compute.count > 0 || d.copy.count > 0 {
            (queue, lane)
        } else {
            (NONE, NONE)
        };
        let firsts = [queue, queue.checked_add(u32::from(d.compute.count))?];
        for (copy, queues) in [(0, d.compute), (1, d.copy)] {
            for index in 0..u32::from(queues.count) {
                let lanes = u32::from(queues.order.lanes());
                *room.queues.get_mut(queue as usize)? = QueueRec {
                    device,
                    copy,
                    index,
                    in_order: u32::from(queues.order == Order::InOrder),
                    lane,
                    lanes,
                    end: NONE,
                    ..QueueRec::default()
                };
                for _ in 0..lanes {
                    let (last, signal) = (0, NONE);
                    *room.lanes.get_mut(lane as usize)? = LaneRec {
                        queue,
                        last,
                        signal,
                    };
                    lane = lane.checked_add(1)?;
                }
                queue = queue.checked_add(1)?;
            }
        }
        let r = room.devices.get_mut(device as usize)?;
        [r.compute, r.copy] = firsts;
        r.group = u32::from(d.group);
        (r.home, r.home_lane) = (home, home_lane);
    }
    Some(())
}

/// Expands tasks into works, in the room's arrays.
pub(super) struct Expander<'r, 'p, 's> {
    pub(super) problem: &'r Problem<'p>,
    pub(super) room: &'r mut Room<'s>,
    pub(super) works: usize,
    pub(super) touches: usize,
}

/// Where a work goes.
#[derive(Clone, Copy)]
struct Where {
    device: u16,
    engine: Engine,
    /// One queue of these, or any.
    queue: Option<u16>,
}

impl<'p> Expander<'_, 'p, '_> {
    /// All tasks.
    pub(super) fn run(
        &mut self,
        transfer: &mut impl FnMut(Crossing) -> Option<Via>,
    ) -> Result<(), PlanError> {
        for (i, t) in (0u32..).zip(self.problem.tasks) {
            self.task(i, t, transfer)?;
        }
        Ok(())
    }

    fn task(
        &mut self,
        task: u32,
        t: &Task<'p>,
        transfer: &mut impl FnMut(Crossing) -> Option<Via>,
    ) -> Result<(), PlanError> {
        let rec = WorkRec {
            task,
            stage: NONE,
            ..WorkRec::default()
        };
        let queue = t.queue;
        match t.action {
            Action::Exec { device } => {
                let engine = Engine::Compute;
                let to = Where {
                    device,
                    engine,
                    queue,
                };
                self.work(rec, to, t.accesses)
            }
            Action::Write { device, engine } => {
                // Writes cost nothing that would be worth spreading.
                let queue = queue.or((engine == Engine::Copy).then_some(0));
                let to = Where {
                    device,
                    engine,
                    queue,
                };
                self.work(rec, to, t.accesses)
            }
            Action::Copy => {
                let (from, to) = self.problem.sides(task, t)?;
                let (source, destination) = (
                    self.problem.allocation(from.allocation)?,
                    self.problem.allocation(to.allocation)?,
                );
                if let Some(by) = self.problem.copier(task, source, destination)? {
                    let to = self.spread(by, destination, queue)?;
                    return self.work(rec, to, t.accesses);
                }
                let crossing = Crossing {
                    task,
                    from: source.device,
                    to: destination.device,
                    bytes: from.len,
                };
                self.cross(rec, crossing, (from, to), transfer)
            }
        }
    }

    /// A copy of which neither side reaches the other.
    fn cross(
        &mut self,
        rec: WorkRec,
        crossing: Crossing,
        (from, to): (&Access, &Access),
        transfer: &mut impl FnMut(Crossing) -> Option<Via>,
    ) -> Result<(), PlanError> {
        let p = self.problem;
        let Crossing { task, bytes, .. } = crossing;
        let refused = PlanError::Crossing {
            task,
            from: crossing.from,
            to: crossing.to,
        };
        let (source, destination) = (p.allocation(from.allocation)?, p.allocation(to.allocation)?);
        match transfer(crossing).ok_or(refused)? {
            Via::By { device, engine } => {
                let have = p.device(device)?.queues(engine).count;
                if have == 0 {
                    return Err(PlanError::NoSuchQueue {
                        task,
                        device,
                        engine,
                        index: 0,
                        have,
                    });
                }
                let to_queue = self.spread((device, engine), destination, None)?;
                self.work(rec, to_queue, &[*from, *to])
            }
            Via::Staged { allocation, offset } => {
                let stage = p.allocation(allocation)?;
                if offset.checked_add(bytes).is_none() {
                    return Err(PlanError::Range { task, allocation });
                }
                let unreached = |device| PlanError::OutOfReach {
                    task,
                    device,
                    allocation,
                };
                let rec = WorkRec {
                    stage: allocation,
                    stage_offset: offset,
                    ..rec
                };
                let by = p.copier(task, source, stage)?;
                let by = by.ok_or(unreached(crossing.from))?;
                let inward = self.spread(by, stage, None)?;
                let by = p.copier(task, stage, destination)?;
                let by = by.ok_or(unreached(crossing.to))?;
                let outward = self.spread(by, destination, None)?;
                let staged = Access::write(allocation, offset, bytes);
                self.work(WorkRec { part: 1, ..rec }, inward, &[*from, staged])?;
                let mode = Mode::Read;
                let staged = Access { mode, ..staged };
                self.work(WorkRec { part: 2, ..rec }, outward, &[staged, *to])
            }
        }
    }

    /// The queue of a copy: one for each destination, as far as they go.
    fn spread(
        &self,
        (device, engine): (u16, Engine),
        destination: &Allocation,
        queue: Option<u16>,
    ) -> Result<Where, PlanError> {
        let count = self.problem.device(device)?.queues(engine).count;
        let n = u32::from(self.problem.copy_queues.min(count).max(1));
        let rank = self
            .room
            .devices
            .get(usize::from(destination.device))
            .ok_or(PlanError::TooMany)?
            .rank;
        let spread = u16::try_from(rank % n).map_err(|_| PlanError::TooMany)?;
        let queue = queue.or((engine == Engine::Copy).then_some(spread));
        Ok(Where {
            device,
            engine,
            queue,
        })
    }

    /// Files one work.
    fn work(&mut self, rec: WorkRec, to: Where, accesses: &[Access]) -> Result<(), PlanError> {
        self.file(rec, to, accesses).ok_or(PlanError::TooMany)
    }

    fn file(&mut self, rec: WorkRec, to: Where, accesses: &[Access]) -> Option<()> {
        let first = self.touches;
        for a in accesses.iter().filter(|a| a.len > 0) {
            let allocation = self.problem.allocations.get(a.allocation as usize)?;
            self.enter(allocation.device)?;
            *self.room.touches.get_mut(self.touches)? = TouchRec {
                start: a.offset,
                end: a.offset.checked_add(a.len)?,
                allocation: a.allocation,
                write: u32::from(a.mode == Mode::Write),
                lo: 0,
                hi: 0,
            };
            self.touches = self.touches.checked_add(1)?;
        }
        self.enter(to.device)?;
        let queues = self
            .problem
            .devices
            .get(usize::from(to.device))?
            .queues(to.engine);
        let d = self.room.devices.get(usize::from(to.device))?;
        let base = match to.engine {
            Engine::Compute => d.compute,
            Engine::Copy => d.copy,
        };
        let (queue, choices) = match to.queue {
            Some(index) => (base.checked_add(u32::from(index))?, 1),
            None => (base, u32::from(queues.count)),
        };
        *self.room.works.get_mut(self.works)? = WorkRec {
            queue,
            choices,
            touch: u32::try_from(first).ok()?,
            touches: u32::try_from(self.touches.checked_sub(first)?).ok()?,
            begin: NONE,
            end: NONE,
            ..rec
        };
        self.works = self.works.checked_add(1)?;
        Some(())
    }

    fn enter(&mut self, device: u16) -> Option<()> {
        self.room.devices.get_mut(usize::from(device))?.used = 1;
        Some(())
    }
}
