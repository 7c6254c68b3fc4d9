//! Devices that run their queues in an order that a seed decides: waits neither hang nor pass early, and the host's view
//! is the truth.

use super::*;
use crate::testing::{Rng, rounds};
use std::collections::VecDeque;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

#[derive(Clone, Copy, Debug)]
enum Command {
    /// Holds the queue until slot `slot` of device `of` is at least `value`; then point `implies` must be complete.
    Wait {
        of: usize,
        slot: usize,
        value: u64,
        implies: u64,
    },
    Reset(usize),
    Signal {
        slot: usize,
        value: u64,
        point: u64,
    },
}

struct Device<'m> {
    timeline: Timeline<'m>,
    slots: [Signal<'m>; 2],
    queues: Vec<VecDeque<Command>>,
    /// The last point signalled.
    truth: u64,
}

struct World<'m> {
    devices: Vec<Device<'m>>,
    rng: Rng,
    waits: u64,
    resets: u64,
}

impl<'m> World<'m> {
    fn new(
        backings: &'m mut [[u64; 4]],
        width: Width,
        log2: u32,
        queues: usize,
        seed: u64,
    ) -> Self {
        let devices = backings
            .iter_mut()
            .map(|b| {
                let slots = slots(b, width);
                let timeline = Timeline::new(slots, log2).expect("a span that fits");
                Device {
                    timeline,
                    slots,
                    queues: vec![VecDeque::new(); queues],
                    truth: 0,
                }
            })
            .collect();
        Self {
            devices,
            rng: Rng(seed),
            waits: 0,
            resets: 0,
        }
    }

    /// What an engine writes: a 32-bit one leaves the upper half alone.
    fn write(slot: Signal<'m>, value: u64) {
        match slot.width() {
            Width::W32 => slot
                .word()
                .store_low(u32::try_from(value).expect("32 bits")),
            Width::W64 => slot.word().store(value),
        }
    }

    /// Runs the first command of a queue; false if it is held or empty.
    fn step(&mut self, d: usize, q: usize) -> bool {
        let Some(&command) = self.devices[d].queues[q].front() else {
            return false;
        };
        match command {
            Command::Wait {
                of,
                slot,
                value,
                implies,
            } => {
                if self.devices[of].slots[slot].value() < value {
                    return false;
                }
                let truth = self.devices[of].truth;
                assert!(truth >= implies, "a wait for {implies} passed at {truth}");
                self.waits += 1;
            }
            Command::Reset(slot) => {
                Self::write(self.devices[d].slots[slot], 0);
                self.resets += 1;
            }
            Command::Signal { slot, value, point } => {
                let device = &mut self.devices[d];
                assert_eq!(device.truth + 1, point, "the timeline stepped over work");
                Self::write(device.slots[slot], value);
                device.truth = point;
            }
        }
        self.devices[d].queues[q].pop_front();
        true
    }

    /// Lets the devices run for a while, in runs and with pauses of single queues.
    fn run(&mut self, steps: u64) {
        let asleep = (
            self.rng.below(self.devices.len() as u64 + 1) as usize,
            self.rng.below(4) as usize,
        );
        for _ in 0..steps {
            let d = self.rng.below(self.devices.len() as u64) as usize;
            let q = self.rng.below(self.devices[d].queues.len() as u64) as usize;
            if (d, q) != asleep {
                self.step(d, q);
            }
        }
    }

    /// Runs everything that can run until `done`; fails if all is held before.
    fn run_until(&mut self, done: impl Fn(&Self) -> bool, what: &str) {
        while !done(self) {
            let mut moved = false;
            for d in 0..self.devices.len() {
                for q in 0..self.devices[d].queues.len() {
                    moved |= self.step(d, q);
                }
            }
            assert!(
                moved || done(self),
                "everything hangs, waiting for {what}: {}",
                self.dump()
            );
        }
    }

    fn dump(&self) -> String {
        let heads = |d: &Device<'_>| {
            let heads: Vec<_> = d.queues.iter().map(|q| q.front().copied()).collect();
            format!(
                "at {} of {}: {heads:?}\n",
                d.truth,
                d.timeline.latest().raw()
            )
        };
        self.devices.iter().map(heads).collect()
    }

    /// The host looks: what it learns is the truth.
    fn look(&mut self, d: usize) {
        let device = &mut self.devices[d];
        assert_eq!(
            device.timeline.completed(),
            Ok(Point::from_raw(device.truth))
        );
        let point = self.rng.below(device.timeline.latest().raw() + 3);
        let complete = device.timeline.is_complete(Point::from_raw(point));
        assert_eq!(complete, Ok(point <= device.truth));
    }

    /// A wait for a point of `of`, as a command of device `d`.
    fn wait_for(&mut self, d: usize, of: usize, point: u64) -> Option<Command> {
        let timeline = &mut self.devices[of].timeline;
        let implies = point.min(timeline.latest().raw());
        match timeline.wait_for(Point::from_raw(point)) {
            WaitFor::Nothing => {
                assert!(self.devices[of].truth >= implies);
                None
            }
            WaitFor::Slot(s) => {
                if of != d {
                    timeline.note_reader(d as u32).expect("few devices");
                }
                Some(Command::Wait {
                    of,
                    slot: s.slot,
                    value: s.value,
                    implies,
                })
            }
        }
    }

    /// Submits work to a queue of device `d` that waits for up to `waits` points, some of them very old; false if there is too
    /// much in flight.
    fn submit(&mut self, d: usize, span: u64, waits: u64) -> bool {
        let plan = match self.devices[d].timeline.plan() {
            Ok(plan) => plan,
            Err(TimelineError::TooFarAhead { wait_for }) => {
                let device = &mut self.devices[d];
                let latest = device.timeline.latest().raw();
                assert!(latest - device.truth >= span / 4, "refused with room");
                assert_eq!(wait_for.raw(), latest - span / 4 + 1);
                assert!(wait_for.raw() > device.truth);
                return false;
            }
            Err(e) => panic!("{e}"),
        };
        let latest = self.devices[d].timeline.latest().raw();
        assert!(
            latest - self.devices[d].truth < span / 4,
            "more than a quarter in flight"
        );
        assert_eq!(self.devices[d].timeline.plan(), Ok(plan));
        let q = self.rng.below(self.devices[d].queues.len() as u64) as usize;
        let mut commands = vec![];
        for _ in 0..self.rng.below(waits + 1) {
            let of = self.rng.below(self.devices.len() as u64) as usize;
            let latest = self.devices[of].timeline.latest().raw();
            // The newest, one of the last two epochs, or anything since the beginning; also what does not exist yet.
            let back = match self.rng.below(3) {
                0 => self.rng.below(3),
                1 => self.rng.below(2 * span),
                _ => self.rng.below(latest + 1),
            };
            let point = (latest + 1).saturating_sub(back);
            commands.extend(self.wait_for(d, of, point));
        }
        if let WaitFor::Slot(s) = plan.previous {
            commands.push(Command::Wait {
                of: d,
                slot: s.slot,
                value: s.value,
                implies: latest,
            });
        } else {
            assert_eq!(self.devices[d].truth, latest);
        }
        if let Some(slot) = plan.reset {
            // Readers that were noted while this submission's own waits were resolved are this device's.
            for peer in (0..self.devices.len()).filter(|p| plan.readers >> p & 1 != 0) {
                let newest = self.devices[peer].timeline.latest().raw();
                commands.extend(self.wait_for(d, peer, newest));
            }
            commands.push(Command::Reset(slot));
        }
        let SlotValue { slot, value } = plan.signal;
        commands.push(Command::Signal {
            slot,
            value,
            point: plan.point.raw(),
        });
        self.devices[d].queues[q].extend(commands);
        self.devices[d].timeline.commit(&plan);
        true
    }

    fn exercise(&mut self, submissions: u64, span: u64) {
        for _ in 0..submissions {
            let d = self.rng.below(self.devices.len() as u64) as usize;
            if !self.submit(d, span, 3) {
                let wait_for = self.devices[d].timeline.latest().raw() - span / 4 + 1;
                self.run_until(|w| w.devices[d].truth >= wait_for, "room");
                assert!(self.submit(d, span, 3), "there must be room now");
            }
            let steps = self.rng.below(12);
            self.run(steps);
            if self.rng.one_in(5) {
                let d = self.rng.below(self.devices.len() as u64) as usize;
                self.look(d);
            }
            if self.rng.one_in(40) {
                self.run_until(World::is_idle, "idleness");
            }
        }
        self.run_until(World::is_idle, "the end");
        for d in 0..self.devices.len() {
            self.look(d);
            assert_eq!(
                self.devices[d].truth,
                self.devices[d].timeline.latest().raw()
            );
        }
    }

    fn is_idle(&self) -> bool {
        self.devices
            .iter()
            .all(|d| d.queues.iter().all(VecDeque::is_empty))
    }

    /// As if `point` submissions had been made and completed.
    fn jump(&mut self, point: u64, log2: u32) {
        for d in &mut self.devices {
            (d.timeline.latest, d.timeline.completed, d.truth) = (point, point, point);
            let at = d.timeline.slot_value(point);
            d.timeline.newest = at;
            Self::write(d.slots[at.slot], at.value);
            let other = if at.value >= 1 << (log2 - 1) || point <= 1 << log2 {
                0
            } else {
                1 << log2
            };
            Self::write(d.slots[1 - at.slot], other);
        }
    }
}

#[test]
fn waits_neither_hang_nor_pass_early() {
    let (mut waits, mut resets) = (0, 0);
    for seed in 0..rounds(600) {
        let mut rng = Rng(seed);
        let width = if rng.one_in(2) {
            Width::W32
        } else {
            Width::W64
        };
        let log2 = 2 + rng.below(if cfg!(miri) { 2 } else { 5 }) as u32;
        let (devices, queues) = (1 + rng.below(3) as usize, 1 + rng.below(3) as usize);
        let mut backings = vec![[0u64; 4]; devices];
        let mut world = World::new(&mut backings, width, log2, queues, rng.next());
        let epochs = if cfg!(miri) { 3 } else { 6 + rng.below(20) };
        world.exercise((epochs << log2) * devices as u64, 1 << log2);
        (waits, resets) = (waits + world.waits, resets + world.resets);
    }
    // It did roll over and did wait.
    let many = if cfg!(miri) { 1 } else { 10_000 };
    assert!(
        waits >= many && resets >= many,
        "{waits} waits, {resets} resets"
    );
}

/// The spans that are used in earnest, around their ends and halves.
#[test]
fn full_spans_roll_over() {
    for (width, log2) in [(Width::W32, 31), (Width::W64, 62), (Width::W64, 31)] {
        for epoch in 0..rounds(3) {
            for half in [0, 1] {
                for seed in 0..rounds(20) {
                    let mut backings = [[0u64; 4]; 2];
                    let mut world = World::new(&mut backings, width, log2, 2, seed);
                    let point = (epoch << log2) + ((1 + half) << (log2 - 1));
                    world.jump(point - 20, log2);
                    world.exercise(120, 1 << log2);
                    assert!(world.devices[0].truth > point);
                }
            }
        }
    }
}

/// The rules are needed: with one of them broken the simulation sees it.
#[test]
fn the_simulation_sees_a_reset_that_does_not_wait_for_readers() {
    let hangs = |rule: bool| {
        let mut backings = [[0u64; 4]; 2];
        let mut w = World::new(&mut backings, Width::W64, 2, 1, 1);
        // Device 0 waits for a point of device 1 that is complete, and does not get to it.
        assert!(w.submit(1, 4, 0));
        let one = w.wait_for(0, 1, 1).expect("the host has not looked");
        let zero = w.devices[0].timeline.submit().expect("room");
        let SlotValue { slot, value } = zero.signal;
        w.devices[0].queues[0].extend([
            one,
            Command::Signal {
                slot,
                value,
                point: 1,
            },
        ]);
        // Point 6 sets the slot of point 1 back.
        for _ in 2..=7 {
            while w.step(1, 0) {}
            w.look(1);
            if !rule {
                (
                    w.devices[1].timeline.readers,
                    w.devices[1].timeline.readers_before,
                ) = (0, 0);
            }
            if !w.submit(1, 4, 0) {
                break;
            }
        }
        // With the rule it is device 1 that waits for device 0; without, its slot is gone.
        while w.step(1, 0) {}
        while w.step(0, 0) {}
        !w.devices[0].queues[0].is_empty()
    };
    assert!(!hangs(true));
    assert!(hangs(false));
}

/// A device that is a thread: at any moment the host knows what was complete before it looked, and nothing that is not.
#[test]
fn the_host_may_look_while_the_device_runs() {
    use std::sync::atomic::{AtomicU32, Ordering};
    for (width, log2) in [(Width::W32, 2), (Width::W64, 3), (Width::W32, 5)] {
        let mut backing = [0u64; 4];
        let s = slots(&mut backing, width);
        let mut t = Timeline::new(s, log2).expect("a span that fits");
        let (begun, done) = (AtomicU32::new(0), AtomicU32::new(0));
        let (send, receive) = std::sync::mpsc::channel::<Submission>();
        let total = rounds(20_000);
        std::thread::scope(|scope| {
            let (begun, done) = (&begun, &done);
            scope.spawn(move || {
                for submission in receive {
                    if let Some(r) = submission.reset {
                        World::write(s[r], 0);
                    }
                    begun.store(submission.point.raw() as u32, Ordering::SeqCst);
                    World::write(s[submission.signal.slot], submission.signal.value);
                    done.store(submission.point.raw() as u32, Ordering::SeqCst);
                }
            });
            let mut turns = 0u64;
            while t.known_completed().raw() < total {
                turns += 1;
                assert!(turns < 1 << 32, "the device is gone");
                if t.latest().raw() < total
                    && let Ok(submission) = t.submit()
                {
                    send.send(submission).expect("the device runs");
                }
                let least = u64::from(done.load(Ordering::SeqCst));
                let seen = t.completed().expect("sound").raw();
                let most = u64::from(begun.load(Ordering::SeqCst));
                assert!(
                    (least..=most).contains(&seen),
                    "{seen} is not in {least} to {most}"
                );
                if turns.is_multiple_of(16) {
                    std::thread::yield_now();
                }
            }
            drop(send);
        });
    }
}
