//! Which queue moves next.
//!
//! A queue runs for a burst of steps; which one and how long is drawn from the seed, with weights that change now and then, so
//! that every queue is sometimes far ahead and sometimes far behind the others. A queue that has nothing to do is left alone until
//! its doorbell says something else; one that waits for memory is asked again once others have moved or time has passed.
//!
//! A driver keeps one [`Order`] and, in each of its queues, a [`Turn`]. A turn of the driver is then
//!
//! 1. [`Order::next`] with all queues, which says whose turn it is;
//! 2. one [`Engine::step`](crate::engine::Engine::step) of that queue;
//! 3. [`Order::stepped`] with what came of it and all queues again.

use crate::engine::Step;

/// Weights are drawn anew after so many bursts.
const BURSTS: u32 = 32;
/// The longest burst.
const BURST: u32 = 16;
/// The largest weight.
const WEIGHT: u32 = 8;

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

/// What a queue's place in the order is.
#[derive(Debug)]
pub(crate) struct Turn {
    weight: u32,
    /// The doorbell with which it last had nothing to do.
    idle_at: Option<u64>,
    /// It waits for memory, and nothing has moved since it was asked.
    waits: bool,
    /// Turns that it sleeps through.
    late: u32,
}

impl Turn {
    /// It has something to do, as far as anybody knows.
    pub(crate) fn wake(&mut self) {
        self.idle_at = None;
        self.waits = false;
    }
}

/// A queue that is asked whether it can move.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    /// The queue's number: whatever its driver knows it by.
    pub(crate) number: u32,
    /// It has not stopped for good. One that has does not count as waiting.
    pub(crate) alive: bool,
    /// Nothing but a lack of work keeps it from moving: it is alive, switched on, and has an engine.
    pub(crate) able: bool,
    /// What its doorbell says: any number that is another one whenever there is new work.
    pub(crate) rung: u64,
    /// Its place in the order.
    pub(crate) turn: &'a mut Turn,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This queue takes a step.
    Queue(u32),
    /// None does: what the turn has come to.
    Nobody(Turned),
}

/// The order of all queues of a driver.
#[derive(Debug)]
pub(crate) struct Order {
    /// What the seed decides: this order, and whatever else of the driver has no order of its own.
    pub(crate) random: fastrand::Rng,
    /// Who moves, and for how many steps yet.
    current: Option<(u32, u32)>,
    bursts: u32,
    /// Turns that new queues sleep through.
    late: u32,
}

impl Order {
    /// The order of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            current: None,
            bursts: 0,
            late: 0,
        }
    }

    /// The place of a new queue. `favour` is added to its first weight, for queues that the process wants to be fast.
    pub(crate) fn turn(&mut self, favour: u32) -> Turn {
        Turn {
            weight: 1 + favour + self.random.u32(..WEIGHT),
            idle_at: None,
            waits: false,
            late: self.late,
        }
    }

    /// Queues sleep through so many of their turns: the one of this number, or all, and those yet to come.
    pub(crate) fn late<'a>(
        &mut self,
        number: Option<u32>,
        steps: u32,
        queues: impl Iterator<Item = (u32, &'a mut Turn)>,
    ) {
        if number.is_none() {
            self.late = steps;
        }
        for (queue, turn) in queues {
            if number.is_none_or(|number| number == queue) {
                turn.late = steps;
            }
        }
    }

    /// Whose turn it is among all queues of the driver.
    pub(crate) fn next<'a>(&mut self, queues: impl Iterator<Item = Asked<'a>>) -> Next {
        let mut queues: Vec<Asked<'a>> = queues.collect();
        let Some(number) = self.choose(&mut queues) else {
            return Next::Nobody(rest(queues));
        };
        let chosen = queues.into_iter().find(|queue| queue.number == number);
        if let Some(turn) = chosen.map(|queue| queue.turn)
            && let Some(late) = turn.late.checked_sub(1)
        {
            turn.late = late;
            self.current = None;
            return Next::Nobody(Turned::Moved);
        }
        Next::Queue(number)
    }

    fn choose(&mut self, queues: &mut [Asked<'_>]) -> Option<u32> {
        let mut able: Vec<(u32, u32)> = Vec::new();
        for queue in queues.iter() {
            let idle = queue.turn.idle_at == Some(queue.rung);
            if queue.able && !idle && !queue.turn.waits {
                able.push((queue.number, queue.turn.weight));
            }
        }
        if let Some((number, left)) = self.current
            && left > 0
            && able.iter().any(|&(queue, _)| queue == number)
        {
            self.current = Some((number, left - 1));
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
        self.current = Some((number, self.random.u32(..BURST)));
        self.bursts += 1;
        if self.bursts >= BURSTS {
            self.bursts = 0;
            for queue in queues {
                queue.turn.weight = 1 + self.random.u32(..WEIGHT);
            }
        }
        Some(number)
    }

    /// A queue has taken a step, with `rung` for its doorbell: what came of it, and all queues of the driver.
    pub(crate) fn stepped<'a>(
        &mut self,
        number: u32,
        step: &Step,
        rung: u64,
        queues: impl Iterator<Item = (u32, &'a mut Turn)>,
    ) {
        if !matches!(step, Step::Progress) {
            // Others may have something to do; if not, the next turn says so.
            self.current = None;
        }
        for (queue, turn) in queues {
            match step {
                Step::Progress => turn.waits = false,
                Step::Idle if queue == number => turn.idle_at = Some(rung),
                Step::Waiting if queue == number => turn.waits = true,
                Step::Idle | Step::Waiting | Step::Fault(_) => {}
            }
        }
    }
}

/// Nobody can move: those that wait are asked again next time.
fn rest(queues: Vec<Asked<'_>>) -> Turned {
    let mut waiting = false;
    for queue in queues {
        waiting |= queue.turn.waits && queue.alive;
        queue.turn.waits = false;
    }
    if waiting {
        Turned::Waiting
    } else {
        Turned::Idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Queues(Vec<(u32, u64, Turn)>);

    impl Queues {
        fn new(order: &mut Order, count: u32) -> Self {
            Self((0..count).map(|n| (n, 1, order.turn(0))).collect())
        }

        fn asked(&mut self) -> impl Iterator<Item = Asked<'_>> {
            self.0.iter_mut().map(|(number, rung, turn)| Asked {
                number: *number,
                alive: true,
                able: true,
                rung: *rung,
                turn,
            })
        }

        fn turns(&mut self) -> impl Iterator<Item = (u32, &mut Turn)> {
            self.0.iter_mut().map(|(number, _, turn)| (*number, turn))
        }
    }

    fn taken(seed: u64, turns: usize) -> Vec<u32> {
        let mut order = Order::new(seed);
        let mut queues = Queues::new(&mut order, 3);
        let mut taken = Vec::new();
        for _ in 0..turns {
            let Next::Queue(number) = order.next(queues.asked()) else {
                panic!("all are able");
            };
            order.stepped(number, &Step::Progress, 1, queues.turns());
            taken.push(number);
        }
        taken
    }

    #[test]
    fn a_seed_decides_and_nobody_starves() {
        assert_eq!(taken(5, 2000), taken(5, 2000));
        assert_ne!(taken(5, 2000), taken(6, 2000));
        for queue in 0..3 {
            let turns = taken(7, 2000).iter().filter(|&&q| q == queue).count();
            assert!(turns > 100, "{queue}: {turns}");
        }
    }

    #[test]
    fn the_idle_sleep_until_they_are_rung_and_the_waiting_until_others_move() {
        let mut order = Order::new(1);
        let mut queues = Queues::new(&mut order, 2);
        // Both idle.
        for _ in 0..2 {
            let Next::Queue(number) = order.next(queues.asked()) else {
                panic!("somebody is able");
            };
            order.stepped(number, &Step::Idle, 1, queues.turns());
        }
        assert_eq!(order.next(queues.asked()), Next::Nobody(Turned::Idle));
        queues.0[1].1 = 2;
        assert_eq!(order.next(queues.asked()), Next::Queue(1));
        order.stepped(1, &Step::Waiting, 2, queues.turns());
        // It is told that it waits, and asked again the next time.
        assert_eq!(order.next(queues.asked()), Next::Nobody(Turned::Waiting));
        assert_eq!(order.next(queues.asked()), Next::Queue(1));
        order.stepped(1, &Step::Waiting, 2, queues.turns());
        queues.0[0].1 = 2;
        assert_eq!(order.next(queues.asked()), Next::Queue(0));
        order.stepped(0, &Step::Progress, 2, queues.turns());
        assert!(!queues.0[1].2.waits, "something has moved");
    }

    #[test]
    fn the_late_sleep_through_their_turns_and_nothing_else() {
        let mut order = Order::new(1);
        let mut queues = Queues::new(&mut order, 1);
        order.late(Some(0), 3, queues.turns());
        for _ in 0..3 {
            assert_eq!(order.next(queues.asked()), Next::Nobody(Turned::Moved));
        }
        assert_eq!(order.next(queues.asked()), Next::Queue(0));
        // All, and those to come.
        order.late(None, 2, queues.turns());
        assert_eq!((queues.0[0].2.late, order.turn(0).late), (2, 2));
    }
}
