//! Room that is short, and problems that are none.

use super::*;
use crate::testing::{Rng, cases, rounds};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::string::ToString;

/// Readers on one queue, then a writer on another, again and again over several ranges.
fn busy() -> Scene {
    let mut s = scene(&[Device::new(3, 0)]);
    for i in 0..if cfg!(miri) { 6 } else { 12u64 } {
        for q in 0..2 {
            s.exec(0, &[Access::read(0, i % 5 * 8, 16)]).queue = Some(q);
        }
        s.exec(0, &[Access::write(0, i % 3 * 12, 8)]).queue = Some(2);
    }
    s
}

#[test]
fn too_few_waits_are_an_error_that_says_how_many() {
    let s = busy();
    let all = s.with(|p| p.capacity().unwrap());
    let need = match s.plan_with(&Capacity { waits: 0, ..all }) {
        Err(PlanError::Waits { need, have: 0 }) => need,
        other => panic!("{other:?}"),
    };
    let waits = need - 1;
    let short = s.plan_with(&Capacity { waits, ..all });
    assert_eq!(short.unwrap_err(), PlanError::Waits { need, have: waits });
    let plan = s.plan_with(&Capacity { waits: need, ..all }).unwrap();
    assert_eq!(plan.why.len(), need);
    assert_eq!(plan.why, s.plan().unwrap().why);
    let usual = s.with(|p| p.usual_capacity().unwrap());
    assert!(usual.waits <= all.waits && usual.readers <= all.readers);
}

#[test]
fn less_room_adds_order() {
    let s = busy();
    let all = s.with(|p| p.capacity().unwrap());
    let exact = s.plan().unwrap();
    assert!(exact.exact);
    let less = [
        Capacity { clocks: 0, ..all },
        Capacity { pieces: 0, ..all },
        Capacity { pieces: 5, ..all },
        Capacity { readers: 0, ..all },
        Capacity { readers: 1, ..all },
    ];
    for c in less {
        let plan = s.plan_with(&c).unwrap();
        assert!(!plan.exact, "{c:?}");
        let words = s.with(|p| (p.scratch_words(&c).unwrap(), p.scratch_words(&all).unwrap()));
        assert!(words.0 < words.1, "{c:?}");
    }
    let serial = s.plan_with(&Capacity { readers: 0, ..all }).unwrap();
    assert!(
        serial
            .reasons()
            .iter()
            .any(|r| r.contains("no room to tell"))
    );
}

#[test]
fn scratch_and_steps_are_asked_for_beforehand() {
    busy().with(|p| {
        let capacity = p.capacity().unwrap();
        let need = p.scratch_words(&capacity).unwrap();
        let mut scratch = vec![0; need + 3];
        let have = need - 1;
        let error = plan(p, &capacity, &mut scratch[..have], |_| None).unwrap_err();
        assert_eq!(error, PlanError::Scratch { need, have });
        let mut made = plan(p, &capacity, &mut scratch[..need], |_| None).unwrap();
        let need = made.steps();
        let have = need - 1;
        let mut steps = vec![Step::Work { work: 77 }; need + 1];
        let error = made.lay_out(&mut steps[..have]).unwrap_err();
        assert_eq!(error, PlanError::Steps { need, have });
        assert!(steps.iter().all(|s| *s == Step::Work { work: 77 }));
        assert_eq!(made.lay_out(&mut steps).unwrap().len(), need);
        assert_eq!(steps.pop(), Some(Step::Work { work: 77 }));
        // Twice gives the same.
        let mut again = vec![Step::Barrier; need];
        made.lay_out(&mut again).unwrap();
        assert_eq!(again, steps);
        assert!(made.work(u32::MAX).is_none());
        let waits = made.explain().len() as u32;
        for (i, e) in (0..).zip(made.explain()) {
            assert_eq!(made.why(i), Some(e));
        }
        assert_eq!(made.why(waits), None);
    });
}

#[test]
fn a_problem_of_nothing_has_a_plan_of_nothing() {
    let plan = Scene::default().plan().unwrap();
    assert_eq!((plan.steps.len(), plan.why.len(), plan.signals), (0, 0, 0));
    let plan = scene(&[Device::new(2, 2)]).plan().unwrap();
    assert_eq!(plan.steps.len(), 0);
    // A task that touches nothing still enters and ends its device.
    let mut s = scene(&[Device::new(1, 0)]);
    s.exec(0, &[]);
    assert_eq!(s.plan().unwrap().steps.len(), 5);
}

#[test]
fn what_is_wrong_is_told_in_numbers() {
    let error = |f: &dyn Fn(&mut Scene)| {
        let far = Device {
            group: 1,
            ..Device::new(1, 1)
        };
        let mut s = scene(&[Device::new(1, 0), far]);
        f(&mut s);
        s.plan().unwrap_err()
    };
    let (task, device, allocation) = (0, 0, 0);
    let ok = Access::read(0, 0, 8);
    type Case<'a> = (PlanError, &'a dyn Fn(&mut Scene));
    let cases: [Case<'_>; 12] = [
        (PlanError::NoSuchDevice { device: 2 }, &|s| {
            s.exec(2, &[ok]);
        }),
        (PlanError::NoSuchDevice { device: 7 }, &|s| {
            s.allocations.push(Allocation::fixed(7));
        }),
        (PlanError::NoSuchAllocation { allocation: 5 }, &|s| {
            s.exec(0, &[Access::read(5, 0, 8)]);
        }),
        (
            PlanError::NoSuchQueue {
                task,
                device,
                engine: Engine::Compute,
                index: 1,
                have: 1,
            },
            &|s| s.exec(0, &[ok]).queue = Some(1),
        ),
        (
            PlanError::NoSuchQueue {
                task,
                device,
                engine: Engine::Copy,
                index: 0,
                have: 0,
            },
            &|s| {
                let engine = Engine::Copy;
                s.task(Action::Write { device: 0, engine }, &[]);
            },
        ),
        (PlanError::Range { task, allocation }, &|s| {
            s.exec(0, &[Access::read(0, u64::MAX, 1)]);
        }),
        (PlanError::CopyShape { task }, &|s| {
            s.copy(ok, Access::write(0, 8, 9));
        }),
        (PlanError::CopyShape { task }, &|s| {
            s.copy(Access::write(0, 8, 8), ok);
        }),
        (PlanError::NoCopyEngine { task, device }, &|s| {
            s.devices[0].without_copy = WithoutCopy::OtherSide;
            s.copy(ok, Access::write(0, 8, 8));
        }),
        (
            PlanError::OutOfReach {
                task,
                device: 1,
                allocation,
            },
            &|s| {
                s.exec(1, &[ok]);
            },
        ),
        (
            PlanError::Crossing {
                task,
                from: 1,
                to: 0,
            },
            &|s| {
                s.copy(Access::read(1, 0, 8), Access::write(0, 8, 8));
            },
        ),
        (PlanError::TooMany, &|s| {
            s.devices[0].compute = Queues::in_flight(u16::MAX, u16::MAX);
        }),
    ];
    for (expected, f) in cases {
        let e = error(f);
        assert_eq!(e, expected);
        assert!(e.to_string().len() > 10);
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn no_problem_makes_it_panic(seed: u64, room in (0usize..9, 0usize..9, 0usize..9, 0usize..9)) {
        let mut rng = Rng(seed);
        let odd = [0, 1, 2, 3, 0xffff, 0x1_0000, 0xffff_ffff, u64::MAX - 1, u64::MAX];
        let mut n = |most: u64| match rng.below(12) {
            0 => odd[rng.below(odd.len() as u64) as usize],
            _ => rng.below(most),
        };
        let mut s = Scene::default();
        for _ in 0..n(4) % 8 {
            s.devices.push(Device {
                group: n(2) as u16,
                cpu: n(3) == 0,
                // Few at once: the room for clocks grows with their number.
                compute: Queues { count: n(3) as u16 % 64, order: Order::InFlight(n(3) as u16 % 64) },
                copy: Queues::in_order(n(3) as u16 % 64),
                without_copy: if n(3) == 0 { WithoutCopy::Through(n(4) as u16) } else { WithoutCopy::OtherSide },
            });
        }
        for _ in 0..n(5) % 8 {
            s.allocations.push(Allocation {
                device: n(3) as u16,
                shared: n(2) == 0,
                input: n(2) == 0,
                alias: n(3) as u32 % 256,
            });
        }
        for _ in 0..n(12) % 16 {
            let accesses: Vec<Access> = (0..n(4) % 4)
                .map(|_| Access {
                    allocation: n(4) as u32,
                    offset: n(40),
                    len: n(40),
                    mode: if n(2) == 0 { Mode::Read } else { Mode::Write },
                })
                .collect();
            let engine = if n(2) == 0 { Engine::Compute } else { Engine::Copy };
            let device = n(3) as u16;
            let action = [Action::Exec { device }, Action::Copy, Action::Write { device, engine }];
            let chore = s.task(action[n(3) as usize % 3], &accesses);
            chore.queue = (n(4) == 0).then(|| n(3) as u16);
            chore.cost = n(9) as u32;
        }
        s.copy_queues = n(4) as u16;
        s.stage = Some((n(4) as u32, 3));
        let (waits, clocks, pieces, readers) = room;
        for c in [Some(Capacity { waits, clocks, pieces, readers }), s.with(|p| p.capacity().ok())] {
            if let Some(plan) = c.and_then(|c| s.plan_with(&c).ok()) {
                prop_assert_eq!(plan.works.iter().filter(|w| w.part == Part::Whole || matches!(w.part, Part::OutOfStage { .. })).count(), s.tasks.len());
            }
        }
    }
}

#[test]
fn the_set_finds_what_a_plain_one_finds() {
    for n in [1usize, 2, 63, 64, 65, 128, 4096, 4097, 70_000] {
        let n = rounds(n as u64) as usize;
        let mut words = vec![u64::MAX; bits::words_for(n)];
        let mut set = bits::Bits::new(n, &mut words).unwrap();
        let mut plain = BTreeSet::new();
        let mut rng = Rng(n as u64);
        for _ in 0..rounds(2000) {
            let i = rng.below(n as u64) as u32;
            if rng.one_in(2) {
                set.insert(i).unwrap();
                plain.insert(i);
            } else {
                set.remove(i).unwrap();
                plain.remove(&i);
            }
            let at = rng.below(n as u64) as u32;
            assert_eq!(set.contains(at), plain.contains(&at));
            assert_eq!(
                set.at_or_before(at),
                plain.range(..=at).next_back().copied(),
                "{n} {at}"
            );
        }
        assert!(set.insert(u32::MAX).is_none());
    }
}

#[test]
fn sorting_is_sorting() {
    let mut rng = Rng(5);
    for n in 0..rounds(300) {
        let mut items: Vec<(u64, u64)> = (0..n).map(|i| (rng.below(n), i)).collect();
        let mut want = items.clone();
        want.sort_by_key(|i| i.0);
        assert!(
            crate::sort::with_spare(&mut items, &mut vec![(0, 0); n as usize / 2], |i| i.0)
                .is_none()
                || n == 0
        );
        crate::sort::with_spare(&mut items, &mut vec![(0, 0); n as usize + 3], |i| i.0).unwrap();
        assert_eq!(items, want);
    }
}
