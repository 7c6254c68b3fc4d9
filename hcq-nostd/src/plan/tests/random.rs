//! Random problems on the machine of [`exec`], whole and with each wait left out.

use super::exec::{BYTES, Binding, Run, run, touched};
use super::*;
use crate::testing::{Rng, cases};
use proptest::collection::vec as many;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

/// Orders in which each plan is run.
const ORDERS: usize = if cfg!(miri) { 1 } else { 6 };

/// Orders and places of inputs of which one has to show that a wait is missing.
const TRIES: usize = 100;

/// Most tasks of a scene.
const TASKS: usize = if cfg!(miri) { 5 } else { 24 };

type RawDevice = (bool, u8, u8, u8, u8, u8);
type RawAllocation = (u8, bool, u8);
type RawTask = (u8, u8, std::vec::Vec<(u8, u8, u8, bool)>, u8);

fn order(n: u8) -> Order {
    if n < 4 {
        Order::InOrder
    } else {
        Order::InFlight(u16::from(n - 4))
    }
}

fn device(&(cpu, group, compute, copy, orders, without): &RawDevice, devices: u8) -> Device {
    Device {
        group: u16::from(group == 0),
        cpu,
        compute: Queues {
            count: u16::from(compute.min(2)),
            order: order(orders % 8),
        },
        copy: Queues {
            count: u16::from(copy.min(2)),
            order: order(orders / 8 % 8),
        },
        without_copy: match without {
            0..=2 => WithoutCopy::OnCompute,
            3..=5 => WithoutCopy::OtherSide,
            _ => WithoutCopy::Through(u16::from(without % devices)),
        },
    }
}

/// A task out of some numbers.
fn task(scene: &Scene, (kind, device, accesses, queue): &RawTask) -> Chore {
    // The last allocation is for staging.
    let allocations = scene.allocations.len() as u32 - 1;
    let device = u16::from(*device) % scene.devices.len() as u16;
    let access = |&(allocation, offset, len, write): &(u8, u8, u8, bool)| {
        let offset = u64::from(offset) % BYTES;
        Access {
            allocation: u32::from(allocation) % allocations,
            offset,
            len: u64::from(len).min(BYTES - offset),
            mode: if write { Mode::Write } else { Mode::Read },
        }
    };
    let mut accesses: Vec<Access> = accesses.iter().map(access).collect();
    let action = match kind {
        0..=4 => Action::Exec { device },
        5 => Action::Write {
            device,
            engine: Engine::Copy,
        },
        _ if accesses.len() < 2 => Action::Exec { device },
        _ => {
            let len = accesses[0].len.min(accesses[1].len);
            let (from, to) = (accesses[0], accesses[1]);
            accesses = vec![
                Access::read(from.allocation, from.offset, len),
                Access::write(to.allocation, to.offset, len),
            ];
            Action::Copy
        }
    };
    if action != Action::Copy {
        let of = |a: &Access| &scene.allocations[a.allocation as usize];
        accesses.retain(|a| scene.with(|p| p.reaches(device, of(a)).unwrap()));
    }
    Chore {
        action,
        accesses,
        queue: (*queue < 2).then_some(u16::from(*queue)),
        cost: u32::from(*kind),
    }
}

/// A scene of which every task can be planned.
fn build(
    devices: &[RawDevice],
    allocations: &[RawAllocation],
    tasks: &[RawTask],
    (copy_queues, timestamps): (u16, bool),
) -> Scene {
    let n = devices.len() as u8;
    let mut scene = Scene {
        devices: devices.iter().map(|d| device(d, n)).collect(),
        copy_queues,
        timestamps,
        ..Scene::default()
    };
    for &(device, shared, alias) in allocations {
        scene.allocations.push(Allocation {
            device: u16::from(device % n),
            shared,
            input: alias >= 4,
            alias: u32::from(alias % 4),
        });
    }
    let stage = scene.allocations.len() as u32;
    scene.allocations.push(Allocation::fixed(0).shared());
    scene.stage = Some((stage, 3));
    for raw in tasks {
        let chore = task(&scene, raw);
        let alone = Scene {
            tasks: vec![chore.clone()],
            ..scene.clone()
        };
        if alone.plan().is_ok() {
            scene.tasks.push(chore);
        }
    }
    scene
}

fn scenes(most_tasks: usize) -> impl Strategy<Value = Scene> {
    let device = (
        proptest::bool::weighted(0.2),
        0u8..3,
        0u8..4,
        0u8..4,
        0u8..64,
        0u8..8,
    );
    let access = (any::<u8>(), any::<u8>(), 0u8..12, any::<bool>());
    let task = (0u8..10, any::<u8>(), many(access, 1..4), 0u8..12);
    (
        many(device, 1..5),
        many((any::<u8>(), proptest::bool::weighted(0.2), 0u8..8), 1..5),
        many(task, 0..most_tasks),
        (0u16..4, any::<bool>()),
    )
        .prop_map(|(d, a, t, o)| build(&d, &a, &t, o))
}

/// Many in release, fewer in debug, a handful under Miri.
fn some(release: u32) -> ProptestConfig {
    cases(if cfg!(debug_assertions) {
        release / 10
    } else {
        release
    })
}

/// Every signal has a waiter, every waiter its signal, each once.
fn signals_and_waiters(plan: &Planned) {
    let signals: Vec<Signal> = plan
        .steps
        .iter()
        .filter_map(|s| match s {
            Step::Signal(s @ Signal::Queue { .. }) => Some(*s),
            _ => None,
        })
        .collect();
    let waits: Vec<Signal> = plan
        .steps
        .iter()
        .filter_map(|s| match s {
            Step::Wait {
                on: on @ Signal::Queue { .. },
                ..
            } => Some(*on),
            _ => None,
        })
        .collect();
    assert_eq!(waits.len(), plan.why.len());
    for s in &signals {
        assert!(waits.contains(s), "nobody waits for {s:?}");
    }
    for w in &waits {
        let n = signals.iter().filter(|s| *s == w).count();
        assert_eq!(n, 1, "{w:?}");
    }
}

proptest! {
    #![proptest_config(some(5000))]

    #[test]
    fn any_order_of_the_steps_gives_the_serial_result(scene in scenes(TASKS), seed: u64) {
        let plan = scene.plan().unwrap();
        prop_assert!(plan.exact);
        signals_and_waiters(&plan);
        let mut rng = Rng(seed);
        for _ in 0..ORDERS {
            let at = Binding::new(&scene, &mut rng);
            let seed = rng.next();
            let hold = rng.below(plan.works.len() as u64 + 1) as u32;
            for hold in [None, Some(Event::Work { work: hold })] {
                let done = run(&scene, &plan, &at, Run { seed, hold, without: None });
                prop_assert_eq!(done, Ok(()));
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes long; `less_room_adds_order` goes the same ways")]
    fn with_little_room_too(scene in scenes(TASKS), seed: u64, room in (0usize..12, 2usize..16, 0usize..8)) {
        let all = scene.with(|p| p.capacity().unwrap());
        let (clocks, pieces, readers) = room;
        let plan = scene.plan_with(&Capacity { clocks, pieces, readers, ..all }).unwrap();
        signals_and_waiters(&plan);
        let mut rng = Rng(seed);
        for _ in 0..ORDERS {
            let at = Binding::new(&scene, &mut rng);
            let seed = rng.next();
            let hold = rng.below(plan.works.len() as u64 + 1) as u32;
            for hold in [None, Some(Event::Work { work: hold })] {
                let done = run(&scene, &plan, &at, Run { seed, hold, without: None });
                prop_assert_eq!(done, Ok(()));
            }
        }
    }

    #[test]
    fn no_wait_can_be_left_out(scene in scenes(TASKS * 2 / 3), seed: u64) {
        let plan = scene.plan().unwrap();
        for (without, e) in plan.why.iter().enumerate() {
            let mut rng = Rng(seed);
            let caught = (0..TRIES).any(|_| {
                let mut at = Binding::new(&scene, &mut rng);
                if let Some((earlier, later)) = strangers(&scene, &plan, e, &mut rng) {
                    at.meet(&scene, &earlier, &later);
                }
                let r = Run { seed: rng.next(), without: Some(without), hold: Some(e.waits_for) };
                run(&scene, &plan, &at, r).is_err()
            });
            prop_assert!(caught, "{} is not needed", e);
        }
    }
}

/// Two accesses that make a wait necessary if they meet.
fn strangers(
    scene: &Scene,
    plan: &Planned,
    e: &Explained,
    rng: &mut Rng,
) -> Option<(Access, Access)> {
    let Explained {
        waiter: Event::Work { work: waiter },
        waits_for: Event::Work { work: first },
        reason: Reason::Alias { earlier, later, .. },
    } = *e
    else {
        return None;
    };
    let mut of = |work: u32, allocation: u32| {
        let w = plan.works[work as usize];
        let all = touched(scene, w.task as usize, w.part);
        let mut mine = all
            .into_iter()
            .filter(|a| a.allocation == allocation && a.len > 0);
        let n = mine.clone().count() as u64;
        mine.nth(rng.below(n) as usize).unwrap()
    };
    Some((of(first, earlier), of(waiter, later)))
}

/// What the properties above have seen if they passed.
#[test]
fn random_scenes_hold_everything() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = std::collections::BTreeMap::<&str, u32>::new();
    let mut see = |what, n: usize| *seen.entry(what).or_default() += n as u32;
    for _ in 0..if cfg!(miri) { 2 } else { 400 } {
        let scene = scenes(TASKS).new_tree(&mut runner).unwrap().current();
        let plan = scene.plan().unwrap();
        for e in &plan.why {
            let (what, hazard) = match e.reason {
                Reason::Bytes { hazard, .. } => ("bytes", Some(hazard)),
                Reason::Alias { hazard, .. } => ("alias", Some(hazard)),
                Reason::Entry { .. } => ("entry", None),
                Reason::InFlight => ("in flight", None),
                Reason::End { .. } => ("end", None),
                Reason::Capacity { .. } => panic!("{e} in an exact plan"),
            };
            see(what, 1);
            match hazard {
                Some(Hazard::ReadAfterWrite) => see("read after write", 1),
                Some(Hazard::WriteAfterRead) => see("write after read", 1),
                Some(Hazard::WriteAfterWrite) => see("write after write", 1),
                None => {}
            }
        }
        let staged = plan.works.iter().filter(|w| w.part != Part::Whole);
        see("staged", staged.count() / 2);
        see("works", plan.works.len());
        let whole_scene = scene.with(|p| p.capacity().unwrap());
        let (clocks, pieces, readers) = (2, 6, 2);
        let short = Capacity {
            clocks,
            pieces,
            readers,
            ..whole_scene
        };
        let plan = scene.plan_with(&short).unwrap();
        see("short of room", usize::from(!plan.exact));
        let unsure = |e: &&Explained| matches!(e.reason, Reason::Capacity { .. });
        see("unsure", plan.why.iter().filter(unsure).count());
    }
    if cfg!(miri) {
        assert!(seen.contains_key("works"));
        return;
    }
    for what in [
        "bytes",
        "alias",
        "entry",
        "in flight",
        "end",
        "read after write",
        "write after read",
        "write after write",
        "staged",
        "works",
        "short of room",
        "unsure",
    ] {
        assert!(seen.get(what).is_some_and(|n| *n >= 40), "{what}: {seen:?}");
    }
}
