//! Which works wait for which.
//!
//! Works are placed in program order. A clock says for each lane up to which token it is known to be complete; each queue
//! has the clock of its last work's start, and a row is kept whenever it changed, which is only when the queue waits. The
//! lanes that a work must follow are looked at from the latest token down: one that the clock covers costs nothing, any
//! other becomes a wait and brings its own clock with it. What follows from something has a smaller token than that, so
//! that no wait is emitted which another one of the same work implies.

use super::alias::Aliases;
use super::explain::Why;
use super::problem::Problem;
use super::scratch::{
    DeviceRec, ENTRY, LaneRec, NONE, NeedRec, QueueRec, Room, TouchRec, WaitRec, WorkRec, token_of,
    work_of,
};
use super::tracker::Tracker;
use crate::sort;

/// The lanes that a work must follow.
#[derive(Debug)]
pub(super) struct Needs<'s> {
    /// By lane.
    records: &'s mut [NeedRec],
    /// The lanes whose record holds something.
    lanes: &'s mut [u32],
    spare: &'s mut [u32],
    len: usize,
}

impl Needs<'_> {
    fn clear(&mut self) -> Option<()> {
        for &lane in self.lanes.get(..self.len)? {
            self.records.get_mut(lane as usize)?.token = 0;
        }
        self.len = 0;
        Some(())
    }

    /// The lane must have reached a token. Of several the latest counts, which implies the others.
    #[inline]
    pub(super) fn add(&mut self, lane: u32, need: NeedRec) -> Option<()> {
        let r = self.records.get_mut(lane as usize)?;
        if r.token == 0 {
            *self.lanes.get_mut(self.len)? = lane;
            self.len += 1;
        }
        if (need.token, need.why) > (r.token, r.why) {
            *r = need;
        }
        Some(())
    }

    fn get(&self, i: usize) -> Option<(u32, &NeedRec)> {
        let lane = *self.lanes.get(..self.len)?.get(i)?;
        Some((lane, self.records.get(lane as usize)?))
    }

    /// Exchanges two.
    fn bring(&mut self, from: usize, to: usize) -> Option<()> {
        let other = *self.lanes.get(to)?;
        let lane = core::mem::replace(self.lanes.get_mut(from)?, other);
        *self.lanes.get_mut(to)? = lane;
        Some(())
    }

    /// Latest first.
    fn sort(&mut self) -> Option<()> {
        let records = &*self.records;
        let token = |&lane: &u32| records.get(lane as usize).map_or(0, |r| r.token);
        let lanes = self.lanes.get_mut(..self.len)?;
        sort::with_spare(lanes, self.spare, |lane| core::cmp::Reverse(token(lane)))
    }
}

/// What is known at one place of a queue, and the rows that were kept.
#[derive(Debug)]
struct Clocks<'s> {
    rows: &'s mut [u32],
    used: u32,
    most: u32,
    /// The clock in hand.
    now: &'s mut [u32],
    lanes: usize,
    exact: bool,
    effort: u64,
}

impl Clocks<'_> {
    fn row_at(&self, row: u32) -> Option<core::ops::Range<usize>> {
        let first = (row as usize).checked_mul(self.lanes)?;
        Some(first..first.checked_add(self.lanes)?)
    }

    fn load(&mut self, row: u32) -> Option<()> {
        let range = self.row_at(row)?;
        self.effort += self.lanes as u64;
        sort::copy(self.rows.get(range)?, self.now);
        Some(())
    }

    /// Keeps the clock in hand; without room, `None` in the inner option: whoever uses an older row knows less, and
    /// waits more.
    fn keep(&mut self) -> Option<Option<u32>> {
        if self.used == self.most {
            self.exact = false;
            return Some(None);
        }
        let row = self.used;
        let range = self.row_at(row)?;
        self.effort += self.lanes as u64;
        sort::copy(self.now, self.rows.get_mut(range)?);
        self.used += 1;
        Some(Some(row))
    }

    fn merge(&mut self, row: u32) -> Option<()> {
        let range = self.row_at(row)?;
        self.effort += self.lanes as u64;
        for (mine, theirs) in self.now.iter_mut().zip(self.rows.get(range)?) {
            *mine = (*mine).max(*theirs);
        }
        Some(())
    }

    fn known(&self, lane: u32) -> Option<u32> {
        self.now.get(lane as usize).copied()
    }

    fn set(&mut self, lane: u32, token: u32) -> Option<()> {
        *self.now.get_mut(lane as usize)? = token;
        Some(())
    }
}

/// A plan being made.
pub(super) struct Planner<'p, 's> {
    problem: &'p Problem<'p>,
    pub(super) works: &'s mut [WorkRec],
    touches: &'s mut [TouchRec],
    pub(super) lanes: &'s mut [LaneRec],
    pub(super) queues: &'s mut [QueueRec],
    pub(super) devices: &'s mut [DeviceRec],
    pub(super) waits: &'s mut [WaitRec],
    /// More than there is memory for if it was too little.
    pub(super) waits_len: usize,
    tracker: Tracker<'s>,
    aliases: Aliases<'s>,
    needs: Needs<'s>,
    clocks: Clocks<'s>,
    /// By device and lane: the last work of its queues or on its memory.
    reach: &'s mut [u32],
}

impl<'p, 's> Planner<'p, 's> {
    /// A planner over works whose place is known. `None` if the records do not fit each other.
    pub(super) fn new(
        problem: &'p Problem<'p>,
        room: Room<'s>,
        (works, touches): (usize, usize),
        clocks: usize,
    ) -> Option<Self> {
        let touches = room.touches.get_mut(..touches)?;
        let lanes = room.lanes.len();
        let tracker = Tracker::new(
            touches,
            (room.ends, room.spare_ends),
            room.pieces,
            room.bits,
            room.readers,
        )?;
        room.needs.fill(NeedRec::default());
        room.reach.fill(0);
        let most = u32::try_from(clocks.checked_add(room.queues.len())?).ok()?;
        let mut planner = Self {
            problem,
            works: room.works.get_mut(..works)?,
            touches,
            lanes: room.lanes,
            queues: room.queues,
            devices: room.devices,
            waits: room.waits,
            waits_len: 0,
            tracker,
            aliases: Aliases::new(room.aliases, lanes),
            needs: Needs {
                records: room.needs,
                lanes: room.needed,
                spare: room.spare_needed,
                len: 0,
            },
            clocks: Clocks {
                rows: room.rows,
                used: 0,
                most,
                now: room.clock,
                lanes,
                exact: true,
                effort: 0,
            },
            reach: room.reach,
        };
        planner.enter()?;
        Some(planner)
    }

    pub(super) fn exact(&self) -> bool {
        self.tracker.exact && self.clocks.exact
    }

    pub(super) fn effort(&self) -> u64 {
        self.tracker
            .effort
            .saturating_add(self.aliases.effort)
            .saturating_add(self.clocks.effort)
    }

    /// Every home queue starts with its device's entry, of which the others know nothing.
    fn enter(&mut self) -> Option<()> {
        for (i, q) in (0u32..).zip(self.queues.iter_mut()) {
            self.clocks.now.fill(0);
            if self.devices.get(q.device as usize)?.home == i {
                self.clocks.set(q.lane, ENTRY)?;
                self.lanes.get_mut(q.lane as usize)?.last = ENTRY;
            }
            q.row = self.clocks.keep()??;
        }
        Some(())
    }

    /// Orders all works and the devices' ends.
    pub(super) fn run(&mut self) -> Option<()> {
        for work in 0..u32::try_from(self.works.len()).ok()? {
            self.place(work)?;
        }
        for rank in 0..self.devices.len() {
            let device = self.devices.get(rank)?.at_rank;
            self.end(device)?;
        }
        Some(())
    }

    fn place(&mut self, work: u32) -> Option<()> {
        let w = *self.works.get(work as usize)?;
        let touches = w.touch..w.touch.checked_add(w.touches)?;
        self.needs.clear()?;
        self.need_entry(self.queues.get(w.queue as usize)?.device)?;
        for i in touches.clone() {
            let t = self.touches.get(i as usize)?;
            let a = self.problem.allocations.get(t.allocation as usize)?;
            self.tracker.collect(t, &mut self.needs)?;
            self.aliases.collect(a, t, &mut self.needs)?;
            self.need_entry(u32::from(a.device))?;
        }
        let queue = self.choose(&w)?;
        let q = *self.queues.get(queue as usize)?;
        self.load(&q)?;
        self.needs.sort()?;
        let mut picked = self.reduce()?;
        let mut lane = self.free_lane(&q)?;
        if lane.is_none() {
            // All places in flight are taken: follow the one taken first. That may imply what was picked so far.
            let oldest = self.oldest_lane(&q)?;
            let token = self.lanes.get(oldest as usize)?.last;
            let why = Why::InFlight as u32;
            self.needs.add(
                oldest,
                NeedRec {
                    token,
                    why,
                    ..NeedRec::default()
                },
            )?;
            self.load(&q)?;
            self.needs.sort()?;
            picked = self.reduce()?;
            lane = Some(oldest);
        }
        let (lane, token) = (lane?, token_of(work));
        let wait = u32::try_from(self.waits_len).ok()?;
        self.emit(picked, work, false)?;
        let row = if picked > 0 {
            self.clocks.keep()?.unwrap_or(q.row)
        } else {
            q.row
        };
        let done = self.ready(&q).saturating_add(u64::from(self.cost(&w)?));
        let w = self.works.get_mut(work as usize)?;
        (w.queue, w.lane, w.row, w.wait) = (queue, lane, row, wait);
        w.waits = u32::try_from(picked).ok()?;
        w.done = done;
        let l = self.queues.get_mut(queue as usize)?;
        (l.row, l.free) = (row, done);
        self.lanes.get_mut(lane as usize)?.last = token;
        self.note(q.device, lane, token)?;
        for i in touches {
            let t = *self.touches.get(i as usize)?;
            let a = self.problem.allocations.get(t.allocation as usize)?;
            self.tracker.record(&t, (token, lane), self.clocks.now)?;
            self.aliases.record(a, &t, (token, lane))?;
            self.note(u32::from(a.device), lane, token)?;
        }
        Some(())
    }

    /// A device's home queue waits for all work of the device's queues and on its memory.
    fn end(&mut self, device: u32) -> Option<()> {
        let d = *self.devices.get(device as usize)?;
        if !d.starts() {
            return Some(());
        }
        self.needs.clear()?;
        let first = (device as usize).checked_mul(self.clocks.lanes)?;
        let reach = self
            .reach
            .get(first..first.checked_add(self.clocks.lanes)?)?;
        for (lane, &token) in (0u32..).zip(reach) {
            if token != 0 {
                let (why, of) = (Why::End as u32, device);
                self.needs.add(
                    lane,
                    NeedRec {
                        token,
                        why,
                        of,
                        ..NeedRec::default()
                    },
                )?;
            }
        }
        self.clocks.effort += self.clocks.lanes as u64;
        let q = *self.queues.get(d.home as usize)?;
        self.load(&q)?;
        self.needs.sort()?;
        let picked = self.reduce()?;
        let wait = u32::try_from(self.waits_len).ok()?;
        self.emit(picked, device, true)?;
        let d = self.devices.get_mut(device as usize)?;
        (d.wait, d.waits) = (wait, u32::try_from(picked).ok()?);
        Some(())
    }

    fn need_entry(&mut self, device: u32) -> Option<()> {
        let d = self.devices.get(device as usize)?;
        if d.home == NONE {
            return Some(());
        }
        let need = NeedRec {
            token: ENTRY,
            why: Why::Entry as u32,
            of: device,
            ..NeedRec::default()
        };
        self.needs.add(d.home_lane, need)
    }

    fn note(&mut self, device: u32, lane: u32, token: u32) -> Option<()> {
        let at = (device as usize).checked_mul(self.clocks.lanes)?;
        *self.reach.get_mut(at.checked_add(lane as usize)?)? = token;
        Some(())
    }

    fn cost(&self, w: &WorkRec) -> Option<u32> {
        let task = self.problem.tasks.get(w.task as usize)?;
        Some(task.cost.max(1))
    }

    /// When all that the work must follow has ended and the queue is free, if costs are true.
    fn ready(&self, q: &QueueRec) -> u64 {
        let ends = (0..self.needs.len).filter_map(|i| {
            let (_, need) = self.needs.get(i)?;
            Some(self.works.get(work_of(need.token)? as usize)?.done)
        });
        ends.fold(q.free, u64::max)
    }

    /// The queue on which the work starts first; then one that it follows anyway; then the first one.
    fn choose(&self, w: &WorkRec) -> Option<u32> {
        if w.choices == 1 {
            return Some(w.queue);
        }
        let all = w.queue..w.queue.checked_add(w.choices)?;
        all.min_by_key(|&queue| {
            let Some(q) = self.queues.get(queue as usize) else {
                return (u64::MAX, true);
            };
            let last = self.lanes.get(q.lane as usize).map_or(0, |l| l.last);
            let record = self.needs.records.get(q.lane as usize);
            let follows = last > ENTRY && record.is_some_and(|r| r.token == last);
            (self.ready(q), !follows)
        })
    }

    /// Takes the queue's clock in hand.
    fn load(&mut self, q: &QueueRec) -> Option<()> {
        self.clocks.load(q.row)?;
        if q.in_order != 0 {
            let last = self.lanes.get(q.lane as usize)?.last;
            self.clocks.set(q.lane, last)?;
        }
        Some(())
    }

    /// Leaves in `needs` what the clock in hand does not cover, and adds that to the clock.
    fn reduce(&mut self) -> Option<usize> {
        let mut picked = 0;
        for i in 0..self.needs.len {
            let (lane, need) = self.needs.get(i)?;
            let token = need.token;
            if self.clocks.known(lane)? >= token {
                continue;
            }
            if let Some(work) = work_of(token) {
                let row = self.works.get(work as usize)?.row;
                self.clocks.merge(row)?;
            }
            self.clocks.set(lane, token)?;
            self.needs.bring(i, picked)?;
            picked += 1;
        }
        Some(picked)
    }

    /// A lane whose last work is known to be complete.
    fn free_lane(&self, q: &QueueRec) -> Option<Option<u32>> {
        if q.in_order != 0 {
            return Some(Some(q.lane));
        }
        for lane in q.lane..q.lane.checked_add(q.lanes)? {
            if self.lanes.get(lane as usize)?.last <= self.clocks.known(lane)? {
                return Some(Some(lane));
            }
        }
        Some(None)
    }

    fn oldest_lane(&self, q: &QueueRec) -> Option<u32> {
        let last = |&lane: &u32| self.lanes.get(lane as usize).map(|l| l.last);
        (q.lane..q.lane.checked_add(q.lanes)?).min_by_key(last)
    }

    /// Emits the waits that were picked, and the signals that they need.
    fn emit(&mut self, picked: usize, waiter: u32, at_end: bool) -> Option<()> {
        for i in 0..picked {
            let (lane, &need) = self.needs.get(i)?;
            if let Some(slot) = self.waits.get_mut(self.waits_len) {
                *slot = WaitRec {
                    need,
                    waiter,
                    at_end: u32::from(at_end),
                    lane,
                    reserved: 0,
                };
            }
            self.waits_len = self.waits_len.checked_add(1)?;
            let l = self.lanes.get_mut(lane as usize)?;
            l.signal = 0;
            match work_of(need.token) {
                Some(work) => self.works.get_mut(work as usize)?.signalled = 1,
                None => {
                    let q = self.queues.get(l.queue as usize)?;
                    self.devices.get_mut(q.device as usize)?.entry_signalled = 1;
                }
            }
        }
        Some(())
    }
}
