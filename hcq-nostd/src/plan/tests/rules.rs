//! Each rule by itself.

use super::*;

fn read(allocation: u32, offset: u64, len: u64) -> Access {
    Access::read(allocation, offset, len)
}

fn write(allocation: u32, offset: u64, len: u64) -> Access {
    Access::write(allocation, offset, len)
}

/// Reasons of waits between works.
fn between_works(plan: &Planned) -> Vec<(u32, u32, Reason)> {
    let works = plan.why.iter().filter_map(|e| match *e {
        Explained {
            waiter: Event::Work { work },
            waits_for: Event::Work { work: first },
            reason,
        } => Some((first, work, reason)),
        _ => None,
    });
    works.collect()
}

/// Two kernels on two queues of one device.
fn pair(first: &[Access], second: &[Access]) -> Vec<(u32, u32, Reason)> {
    let mut s = scene(&[Device::new(2, 0)]);
    s.exec(0, first).queue = Some(0);
    s.exec(0, second).queue = Some(1);
    between_works(&s.plan().unwrap())
}

fn bytes(hazard: Hazard, start: u64, end: u64) -> Reason {
    Reason::Bytes {
        hazard,
        allocation: 0,
        start,
        end,
    }
}

#[test]
fn hazards_are_bytes_in_common() {
    use Hazard::{ReadAfterWrite, WriteAfterRead, WriteAfterWrite};
    let (r, w) = (|o, n| read(0, o, n), |o, n| write(0, o, n));
    let cases = [
        (w(0, 16), r(8, 16), Some((ReadAfterWrite, 8, 16))),
        (r(0, 16), w(8, 16), Some((WriteAfterRead, 8, 16))),
        (w(4, 8), w(0, 16), Some((WriteAfterWrite, 4, 12))),
        (w(0, 16), w(4, 8), Some((WriteAfterWrite, 4, 12))),
        (r(0, 16), r(0, 16), None),
        (w(0, 8), r(8, 8), None),
        (w(8, 8), w(0, 8), None),
        (w(0, 8), r(0, 0), None),
        (w(0, 8), r(7, 1), Some((ReadAfterWrite, 7, 8))),
        (
            w(u64::MAX - 1, 1),
            r(0, u64::MAX),
            Some((ReadAfterWrite, u64::MAX - 1, u64::MAX)),
        ),
    ];
    for (first, second, expected) in cases {
        let expected: Vec<_> = expected
            .map(|(h, start, end)| (0, 1, bytes(h, start, end)))
            .into_iter()
            .collect();
        assert_eq!(pair(&[first], &[second]), expected, "{first:?} {second:?}");
    }
}

#[test]
fn other_allocations_are_apart_unless_they_may_alias() {
    let wait = |first: Allocation, second: Allocation| {
        let mut s = scene(&[Device::new(2, 0)]);
        s.allocations = vec![first, second];
        s.exec(0, &[write(0, 0, 8)]).queue = Some(0);
        s.exec(0, &[read(1, 100, 8)]).queue = Some(1);
        between_works(&s.plan().unwrap())
    };
    let (fixed, input) = (Allocation::fixed(0), Allocation::input(0));
    assert_eq!(wait(fixed, fixed), []);
    assert_eq!(wait(input, input), []);
    assert_eq!(wait(input.aliasing(1), input.aliasing(2)), []);
    assert_eq!(wait(fixed.aliasing(1), fixed.aliasing(1)), []);
    for (a, b) in [(input, input), (fixed, input), (input, fixed)] {
        let reason = Reason::Alias {
            hazard: Hazard::ReadAfterWrite,
            earlier: 0,
            later: 1,
        };
        assert_eq!(wait(a.aliasing(3), b.aliasing(3)), [(0, 1, reason)]);
    }
}

#[test]
fn an_aliasing_input_is_apart_from_itself_by_ranges() {
    let mut s = scene(&[Device::new(2, 0)]);
    s.allocations = vec![
        Allocation::input(0).aliasing(1),
        Allocation::fixed(0).aliasing(1),
    ];
    s.exec(0, &[write(1, 0, 4)]).queue = Some(0);
    s.exec(0, &[write(0, 0, 8)]).queue = Some(0);
    s.exec(0, &[read(0, 8, 8)]).queue = Some(1);
    let plan = s.plan().unwrap();
    // The second write is the newer one of the queue, but of other bytes of the same input.
    let reason = Reason::Alias {
        hazard: Hazard::ReadAfterWrite,
        earlier: 1,
        later: 0,
    };
    assert_eq!(between_works(&plan), [(0, 2, reason)]);
}

#[test]
fn what_follows_from_other_waits_is_not_waited_for() {
    let mut s = scene(&[Device::new(4, 0)]);
    s.exec(0, &[write(0, 0, 8)]).queue = Some(0);
    s.exec(0, &[read(0, 0, 8), write(0, 8, 8)]).queue = Some(1);
    s.exec(0, &[read(0, 8, 8), write(0, 16, 8)]).queue = Some(2);
    // Conflicts with all three; the last one implies the others.
    s.exec(0, &[write(0, 0, 24)]).queue = Some(3);
    // Conflicts with the first, which is known from two works ago on this queue.
    s.exec(0, &[read(0, 24, 8)]).queue = Some(3);
    s.exec(0, &[read(0, 0, 8)]).queue = Some(3);
    let plan = s.plan().unwrap();
    let edges: Vec<_> = between_works(&plan).iter().map(|e| (e.0, e.1)).collect();
    assert_eq!(edges, [(0, 1), (1, 2), (2, 3)]);
    // One entry is waited for by queue 1; queue 2 and 3 know it from there. Home waits for the last one at the end.
    let all: Vec<_> = plan.why.iter().map(|e| (e.waits_for, e.waiter)).collect();
    let (entry, end) = (Event::Entry { device: 0 }, Event::End { device: 0 });
    let work = |work| Event::Work { work };
    assert!(!all.contains(&(entry, work(1))));
    assert_eq!(all.last(), Some(&(work(5), end)));
    assert_eq!(all.len(), 4);
}

#[test]
fn of_several_works_of_one_queue_the_last_is_waited_for() {
    let mut s = scene(&[Device::new(2, 0)]);
    s.exec(0, &[write(0, 0, 8)]).queue = Some(0);
    s.exec(0, &[write(0, 8, 8)]).queue = Some(0);
    s.exec(0, &[read(0, 0, 16)]).queue = Some(1);
    let plan = s.plan().unwrap();
    let reason = bytes(Hazard::ReadAfterWrite, 8, 16);
    assert_eq!(between_works(&plan), [(1, 2, reason)]);
    // Only the second one signals; nobody waits for the first.
    let home = plan.of(0);
    assert!(matches!(
        home[3..],
        [
            Step::Work { work: 0 },
            Step::Work { work: 1 },
            Step::Signal(Signal::Queue {
                signal: 0,
                value: 3
            }),
            Step::Wait {
                on: Signal::Queue { signal: 1, .. },
                ..
            },
            Step::Signal(Signal::Timeline { device: 0 }),
        ]
    ));
    assert_eq!(plan.signals, 2);
}

#[test]
fn a_write_takes_the_place_of_what_it_covers_and_nothing_else() {
    let mut s = scene(&[Device::new(4, 0)]);
    s.exec(0, &[write(0, 0, 30)]).queue = Some(0);
    s.exec(0, &[write(0, 10, 10)]).queue = Some(1);
    s.exec(0, &[read(0, 0, 10)]).queue = Some(2);
    s.exec(0, &[read(0, 20, 10)]).queue = Some(3);
    let edges: Vec<_> = between_works(&s.plan().unwrap());
    assert_eq!(
        edges,
        [
            (0, 1, bytes(Hazard::WriteAfterWrite, 10, 20)),
            (0, 2, bytes(Hazard::ReadAfterWrite, 0, 10)),
            (0, 3, bytes(Hazard::ReadAfterWrite, 20, 30)),
        ]
    );
}

#[test]
fn an_engine_in_order_does_not_wait_for_itself_and_another_does() {
    let waits = |order: Queues| {
        let mut s = scene(&[Device {
            compute: order,
            ..Device::new(1, 0)
        }]);
        s.exec(0, &[write(0, 0, 8)]);
        s.exec(0, &[write(0, 8, 8)]);
        s.exec(0, &[read(0, 0, 8)]);
        s.exec(0, &[read(0, 8, 8)]);
        s.plan().unwrap().reasons()
    };
    assert_eq!(waits(Queues::in_order(1)), [""; 0]);
    // Four places: two dependent pairs overlap.
    assert_eq!(
        waits(Queues::in_flight(1, 4)),
        [
            "work 2 waits for work 0: read after write of 0:0x0..0x8",
            "work 3 waits for work 1: read after write of 0:0x8..0x10",
            "end of device 0 waits for work 3: end of device 0",
            "end of device 0 waits for work 2: end of device 0",
        ]
    );
    // One place: each waits for the one before.
    assert_eq!(
        waits(Queues::in_flight(1, 1)),
        [
            "work 1 waits for work 0: the queue holds no more in flight",
            "work 2 waits for work 1: the queue holds no more in flight",
            "work 3 waits for work 2: the queue holds no more in flight",
            "end of device 0 waits for work 3: end of device 0",
        ]
    );
}

/// Device, kind and index of each work's queue.
fn places(plan: &Planned) -> Vec<(u16, Engine, u16)> {
    let queues = plan.works.iter().map(|w| &plan.queues[w.queue as usize]);
    queues.map(|q| (q.device, q.engine, q.index)).collect()
}

#[test]
fn copies_go_to_the_sources_copy_queues() {
    let mut s = scene(&[Device::new(1, 4), Device::new(1, 4), Device::new(1, 4)]);
    for (from, to) in [(0, 1), (0, 2), (1, 0), (2, 0)] {
        s.copy(read(from, 0, 8), write(to, 0, 8));
    }
    let on = |d, i| (d, Engine::Copy, i);
    assert_eq!(
        places(&s.plan().unwrap()),
        [on(0, 0), on(0, 0), on(1, 0), on(2, 0)]
    );
    s.copy_queues = s.with(|p| p.all_to_all().copy_queues);
    assert_eq!(s.copy_queues, 3);
    assert_eq!(
        places(&s.plan().unwrap()),
        [on(0, 1), on(0, 2), on(1, 0), on(2, 0)]
    );
    s.copy_queues = 2;
    assert_eq!(
        places(&s.plan().unwrap()),
        [on(0, 1), on(0, 0), on(1, 0), on(2, 0)]
    );
    s.tasks[0].queue = Some(3);
    assert_eq!(places(&s.plan().unwrap())[0], on(0, 3));
}

#[test]
fn who_copies_without_copy_queues_is_the_callers_to_say() {
    let place = |without_copy, other: Device| {
        let first = Device {
            without_copy,
            ..Device::new(1, 0)
        };
        let cpu = Device {
            cpu: true,
            ..Device::new(1, 0)
        };
        let mut s = scene(&[first, other, cpu]);
        s.copy(read(0, 0, 8), write(1, 0, 8));
        s.plan().map(|p| places(&p)[0])
    };
    let gpu = Device::new(1, 1);
    let (compute, copy) = (Engine::Compute, Engine::Copy);
    assert_eq!(place(WithoutCopy::OnCompute, gpu), Ok((0, compute, 0)));
    assert_eq!(place(WithoutCopy::OtherSide, gpu), Ok((1, copy, 0)));
    assert_eq!(place(WithoutCopy::Through(2), gpu), Ok((2, compute, 0)));
    let none = Err(PlanError::NoCopyEngine { task: 0, device: 0 });
    let memory = Device::new(0, 0);
    assert_eq!(place(WithoutCopy::OtherSide, memory), none);
    assert_eq!(place(WithoutCopy::Through(1), memory), none);
    let far = Device { group: 7, ..gpu };
    assert_eq!(
        place(WithoutCopy::Through(1), far),
        Err(PlanError::Crossing {
            task: 0,
            from: 0,
            to: 1
        })
    );
}

#[test]
fn the_first_use_of_a_devices_memory_waits_for_its_entry() {
    let mut s = scene(&[Device::new(1, 1), Device::new(1, 0)]);
    s.copy(read(0, 0, 8), write(1, 0, 8));
    s.copy(read(0, 8, 8), write(1, 8, 8));
    s.exec(1, &[read(1, 0, 16)]);
    let plan = s.plan().unwrap();
    let expected = [
        "work 0 waits for entry of device 0: device 0 must have entered",
        "work 0 waits for entry of device 1: device 1 must have entered",
        "work 2 waits for work 1: read after write of 1:0x8..0x10",
        "end of device 0 waits for work 1: end of device 0",
        // The end of device 1 covers its memory; its queue has waited for the last copy already.
    ];
    let mut reasons = plan.reasons();
    reasons[..2].sort();
    assert_eq!(reasons, expected);
    // Queues of a device: compute, copy. Entry: its own timeline, the launch, a barrier, its signal.
    assert!(matches!(
        plan.of(2)[..4],
        [
            Step::Wait {
                on: Signal::Timeline { device: 1 },
                why: None
            },
            Step::Wait {
                on: Signal::Kickoff { group: 0 },
                why: None
            },
            Step::Barrier,
            Step::Signal(Signal::Queue { value: 1, .. }),
        ]
    ));
    // Work after a wait sees what others wrote.
    assert!(matches!(
        plan.of(2)[4..],
        [
            Step::Wait { .. },
            Step::Barrier,
            Step::Work { work: 2 },
            Step::Signal(Signal::Timeline { device: 1 }),
        ]
    ));
    assert!(!plan.of(1).contains(&Step::Barrier));
}

#[test]
fn a_devices_end_covers_its_queues_and_its_memory() {
    let mut s = scene(&[Device::new(1, 1), Device::new(1, 1), Device::new(1, 0)]);
    s.copy(read(0, 0, 8), write(1, 0, 8));
    let plan = s.plan().unwrap();
    let ends = plan
        .why
        .iter()
        .filter(|e| matches!(e.waiter, Event::End { .. }));
    let ends: Vec<_> = ends.map(|e| (e.waiter, e.waits_for)).collect();
    let work = Event::Work { work: 0 };
    assert_eq!(
        ends,
        [
            (Event::End { device: 0 }, work),
            (Event::End { device: 1 }, work)
        ]
    );
    // The third device takes no part and does nothing.
    assert_eq!(plan.devices, [(0, true), (1, true), (2, false)]);
    assert!(plan.of(4).is_empty());
}

#[test]
fn processors_come_last() {
    let cpu = Device {
        cpu: true,
        ..Device::new(1, 0)
    };
    let mut s = scene(&[cpu, Device::new(1, 1), cpu, Device::new(1, 1)]);
    for d in 0..4 {
        s.exec(d, &[write(u32::from(d), 0, 8)]);
    }
    let plan = s.plan().unwrap();
    let order: Vec<_> = plan.devices.iter().map(|d| d.0).collect();
    assert_eq!(order, [1, 3, 0, 2]);
    let queues: Vec<_> = plan.queues.iter().map(|q| q.device).collect();
    assert_eq!(queues, [1, 1, 3, 3, 0, 2]);
}

/// Two devices of two groups and a processor whose memory (allocation 2) both reach.
fn two_groups() -> Scene {
    let far = Device {
        group: 1,
        ..Device::new(1, 1)
    };
    let cpu = Device {
        cpu: true,
        without_copy: WithoutCopy::OtherSide,
        ..Device::new(1, 0)
    };
    let mut s = scene(&[Device::new(1, 1), far, cpu]);
    s.allocations[2] = Allocation::fixed(2).shared();
    s
}

#[test]
fn a_copy_between_peer_groups_goes_the_callers_way() {
    let mut s = two_groups();
    s.copy(read(0, 32, 8), write(1, 64, 8));
    assert_eq!(
        s.plan().unwrap_err(),
        PlanError::Crossing {
            task: 0,
            from: 0,
            to: 1
        }
    );
    s.stage = Some((2, 1));
    let plan = s.plan().unwrap();
    let (allocation, offset) = (2, 0);
    let parts: Vec<_> = plan.works.iter().map(|w| w.part).collect();
    assert_eq!(
        parts,
        [
            Part::IntoStage { allocation, offset },
            Part::OutOfStage { allocation, offset }
        ]
    );
    assert_eq!(places(&plan), [(0, Engine::Copy, 0), (1, Engine::Copy, 0)]);
    assert_eq!(between_works(&plan).len(), 1);
    let kicks = plan.steps.iter().filter_map(|s| match s {
        Step::Wait {
            on: Signal::Kickoff { group },
            ..
        } => Some(*group),
        _ => None,
    });
    assert_eq!(kicks.collect::<Vec<_>>(), [0, 1, 0]);

    // A second copy through the same bytes waits until they are free.
    s.copy(read(0, 0, 8), write(1, 0, 8));
    let plan = s.plan().unwrap();
    assert!(
        plan.reasons()
            .contains(&"work 2 waits for work 1: write after read of 2:0x0..0x8".into())
    );

    // Host memory itself crosses nothing: the side that has a copy engine copies.
    let mut s = two_groups();
    s.copy(read(2, 0, 8), write(1, 0, 8));
    s.copy(read(0, 0, 8), write(2, 8, 8));
    assert_eq!(
        places(&s.plan().unwrap()),
        [(1, Engine::Copy, 0), (0, Engine::Copy, 0)]
    );
}

#[test]
fn a_crossing_can_be_one_devices_work_and_its_facts_are_told() {
    let mut s = two_groups();
    s.copy(read(0, 32, 8), write(1, 64, 8));
    s.with(|p| {
        let capacity = p.capacity().unwrap();
        let mut scratch = vec![0; p.scratch_words(&capacity).unwrap()];
        let mut asked = Vec::new();
        let made = plan(p, &capacity, &mut scratch, |c| {
            asked.push(c);
            let (device, engine) = (2, Engine::Compute);
            Some(Via::By { device, engine })
        });
        let made = made.unwrap();
        assert_eq!((made.works(), made.work(0).unwrap().part), (1, Part::Whole));
        let (task, from, to, bytes) = (0, 0, 1, 8);
        assert_eq!(
            asked,
            [Crossing {
                task,
                from,
                to,
                bytes
            }]
        );

        let mut refuse = |via| plan(p, &capacity, &mut scratch, |_| Some(via)).unwrap_err();
        let (task, index, have) = (0, 0, 0);
        let (device, engine) = (2, Engine::Copy);
        assert_eq!(
            refuse(Via::By { device, engine }),
            PlanError::NoSuchQueue {
                task,
                device,
                engine,
                index,
                have
            }
        );
        // Memory of the source's group is no staging memory.
        let (allocation, offset) = (0, 0);
        assert_eq!(
            refuse(Via::Staged { allocation, offset }),
            PlanError::OutOfReach {
                task,
                device: 1,
                allocation
            }
        );
        let (allocation, offset) = (2, u64::MAX);
        assert_eq!(
            refuse(Via::Staged { allocation, offset }),
            PlanError::Range { task, allocation }
        );
        let allocation = 9;
        assert_eq!(
            refuse(Via::Staged { allocation, offset }),
            PlanError::NoSuchAllocation { allocation }
        );
        let device = 9;
        assert_eq!(
            refuse(Via::By { device, engine }),
            PlanError::NoSuchDevice { device }
        );
    });
}

#[test]
fn timestamps_are_shared_where_nothing_is_in_between() {
    let mut s = scene(&[Device::new(1, 1)]);
    s.allocations.push(Allocation::fixed(0));
    s.exec(0, &[write(0, 0, 8)]);
    s.exec(0, &[write(0, 8, 8)]);
    s.copy(read(0, 0, 8), write(1, 0, 8));
    s.exec(0, &[read(1, 0, 8)]);
    assert_eq!(s.plan().unwrap().timestamps, 0);
    s.timestamps = true;
    let plan = s.plan().unwrap();
    let slots: Vec<_> = plan.works.iter().map(|w| w.timestamps.unwrap()).collect();
    assert_eq!(slots, [(0, 1), (1, 2), (3, 4), (5, 6)]);
    assert_eq!(plan.timestamps, 7);
    let taken = plan.steps.iter().filter_map(|s| match s {
        Step::Timestamp { slot } => Some(*slot),
        _ => None,
    });
    assert_eq!(taken.collect::<Vec<_>>(), [0, 1, 2, 5, 6, 3, 4]);
    // Before the work behind its waits, and after it before its signal.
    assert!(matches!(
        plan.of(1),
        [
            Step::Wait { .. },
            Step::Timestamp { slot: 3 },
            Step::Work { work: 2 },
            Step::Timestamp { slot: 4 },
            Step::Signal(_),
        ]
    ));
}

#[test]
fn independent_kernels_are_spread_and_dependent_ones_follow() {
    let mut s = scene(&[Device::new(2, 0)]);
    s.exec(0, &[write(0, 0, 8)]).cost = 10;
    s.exec(0, &[write(0, 8, 8)]).cost = 2;
    s.exec(0, &[write(0, 16, 8)]).cost = 2;
    s.exec(0, &[read(0, 0, 8)]);
    let plan = s.plan().unwrap();
    let queues: Vec<_> = plan.works.iter().map(|w| w.queue).collect();
    assert_eq!(queues, [0, 1, 1, 0]);
    assert_eq!(between_works(&plan), []);
}

#[test]
fn texts() {
    let mut s = scene(&[Device::new(2, 0)]);
    s.allocations.push(Allocation::input(0).aliasing(1));
    s.allocations.push(Allocation::input(0).aliasing(1));
    s.exec(0, &[read(1, 0, 8), write(0, 0, 8)]).queue = Some(0);
    s.exec(0, &[write(2, 0, 8)]).queue = Some(1);
    s.exec(0, &[write(0, 4, 8)]).queue = Some(1);
    assert_eq!(
        s.plan().unwrap().reasons(),
        [
            "work 1 waits for work 0: write after read if 2 shares bytes with 1",
            "end of device 0 waits for work 2: end of device 0",
        ]
    );
}
