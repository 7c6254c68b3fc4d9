use proptest::prelude::*;

use super::*;

fn read(buffer: usize, range: Range<u64>) -> Access {
    Access {
        buffer,
        range,
        mode: Mode::Read,
    }
}

fn write(buffer: usize, range: Range<u64>) -> Access {
    Access {
        buffer,
        range,
        mode: Mode::Write,
    }
}

fn kernel(accesses: Vec<Access>) -> PlanTask {
    PlanTask {
        engine: Engine::Compute,
        queue: None,
        accesses,
        cost: 100,
    }
}

fn copy(accesses: Vec<Access>) -> PlanTask {
    PlanTask {
        engine: Engine::Copy,
        queue: None,
        accesses,
        cost: 100,
    }
}

/// For each task, the tasks that have ended before it starts, by queue order and waits alone.
fn ended_before(plan: &Plan, skip: Option<(usize, usize)>) -> Vec<Vec<bool>> {
    let n = plan.tasks.len();
    let mut before = vec![vec![false; n]; n];
    for t in 0..n {
        let mut direct: Vec<usize> = plan.tasks[t]
            .waits
            .iter()
            .copied()
            .filter(|&w| skip != Some((t, w)))
            .collect();
        direct.extend((0..t).filter(|&e| plan.tasks[e].queue == plan.tasks[t].queue));
        for d in direct {
            let theirs = before[d].clone();
            before[t][d] = true;
            before[t]
                .iter_mut()
                .zip(theirs)
                .for_each(|(mine, b)| *mine |= b);
        }
    }
    before
}

/// The definition, pair by pair.
fn conflict(a: &PlanTask, b: &PlanTask) -> bool {
    a.accesses.iter().any(|x| {
        b.accesses.iter().any(|y| {
            let common = x.range.start.max(y.range.start)..x.range.end.min(y.range.end);
            x.buffer == y.buffer
                && !common.is_empty()
                && (x.mode == Mode::Write || y.mode == Mode::Write)
        })
    })
}

fn first_unordered(tasks: &[PlanTask], before: &[Vec<bool>]) -> Option<(usize, usize)> {
    (0..tasks.len())
        .flat_map(|t| (0..t).map(move |e| (e, t)))
        .find(|&(e, t)| conflict(&tasks[e], &tasks[t]) && !before[t][e])
}

#[test]
fn a_chain_stays_on_one_queue() {
    let tasks = [
        kernel(vec![write(0, 0..64)]),
        kernel(vec![read(0, 0..64), write(1, 0..64)]),
        kernel(vec![read(1, 0..64), write(2, 0..64)]),
    ];
    let plan = plan(&tasks, 2, 1).unwrap();
    assert_eq!(plan.queues.len(), 1);
    assert!(
        plan.tasks
            .iter()
            .all(|t| t.queue == 0 && t.waits.is_empty() && !t.signals)
    );
    assert_eq!(plan.tasks[2].depends_on, [1]);
}

#[test]
fn branches_spread_and_join() {
    let tasks = [
        kernel(vec![write(0, 0..64)]),
        kernel(vec![read(0, 0..64), write(1, 0..64)]),
        kernel(vec![read(0, 0..64), write(2, 0..64)]),
        kernel(vec![read(1, 0..64), read(2, 0..64), write(3, 0..64)]),
    ];
    let plan = plan(&tasks, 2, 1).unwrap();
    let queues: Vec<_> = plan.tasks.iter().map(|t| t.queue).collect();
    assert_eq!(queues, [0, 0, 1, 0]);
    assert_eq!(plan.tasks[2].waits, [0]);
    assert_eq!(plan.tasks[3].waits, [2]);
    assert_eq!(
        plan.tasks.iter().map(|t| t.signals).collect::<Vec<_>>(),
        [true, false, true, false]
    );
}

#[test]
fn copies_have_their_own_queue() {
    let tasks = [
        kernel(vec![write(0, 0..64)]),
        copy(vec![read(0, 0..64), write(1, 0..64)]),
        kernel(vec![read(1, 0..64), write(0, 0..64)]),
    ];
    let plan = plan(&tasks, 1, 1).unwrap();
    assert_eq!(plan.queues[plan.tasks[1].queue].engine, Engine::Copy);
    assert_eq!(
        (&plan.tasks[1].waits, &plan.tasks[2].waits),
        (&vec![0], &vec![1])
    );
}

#[test]
fn views_that_do_not_touch_are_free() {
    let tasks = [
        kernel(vec![write(0, 0..64)]),
        kernel(vec![write(0, 64..128)]),
        kernel(vec![read(0, 60..68)]),
        kernel(vec![write(0, 5..5)]),
    ];
    let plan = plan(&tasks, 2, 1).unwrap();
    assert_ne!(plan.tasks[0].queue, plan.tasks[1].queue);
    assert_eq!(plan.tasks[2].depends_on, [0, 1]);
    assert!(plan.tasks[3].depends_on.is_empty());
}

#[test]
fn readers_do_not_wait_for_each_other_but_a_writer_for_all() {
    let tasks = [
        kernel(vec![read(0, 0..64)]),
        kernel(vec![read(0, 0..64)]),
        kernel(vec![read(0, 0..64)]),
        kernel(vec![write(0, 0..1)]),
    ];
    let plan = plan(&tasks, 3, 0).unwrap();
    assert_eq!(plan.queues.len(), 3);
    assert_eq!(plan.tasks[3].depends_on, [0, 1, 2]);
    assert_eq!(plan.tasks[3].waits.len(), 2);
}

#[test]
fn a_queue_that_is_asked_for_is_used() {
    let mut tasks = [kernel(vec![write(0, 0..64)]), kernel(vec![write(0, 0..64)])];
    tasks[1].queue = Some(1);
    let placed = plan(&tasks, 2, 0).unwrap();
    assert_eq!(placed.tasks[1].waits, [0]);
    tasks[1].queue = Some(2);
    assert_eq!(
        plan(&tasks, 2, 0),
        Err(PlanError::NoQueue {
            task: 1,
            wanted: 2,
            have: 2
        })
    );
    let copies = [copy(vec![])];
    assert_eq!(
        plan(&copies, 2, 0),
        Err(PlanError::NoEngine {
            task: 0,
            engine: Engine::Copy
        })
    );
}

fn any_task() -> impl Strategy<Value = PlanTask> {
    let access =
        (0usize..4, 0u64..40, 0u64..24, any::<bool>()).prop_map(|(buffer, start, len, write)| {
            Access {
                buffer,
                range: start..start + len,
                mode: if write { Mode::Write } else { Mode::Read },
            }
        });
    (
        any::<bool>(),
        proptest::option::weighted(0.2, 0usize..3),
        proptest::collection::vec(access, 0..4),
        0u64..50,
    )
        .prop_map(|(copy, queue, accesses, cost)| PlanTask {
            engine: if copy { Engine::Copy } else { Engine::Compute },
            queue: if copy { None } else { queue },
            accesses,
            cost,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_hazard_is_ordered_and_no_wait_is_idle(
        tasks in proptest::collection::vec(any_task(), 0..24), copies in 1usize..3,
    ) {
        let plan = plan(&tasks, 3, copies).unwrap();
        prop_assert_eq!(plan.tasks.len(), tasks.len());
        let before = ended_before(&plan, None);
        prop_assert_eq!(first_unordered(&tasks, &before), None);
        for (t, placed) in plan.tasks.iter().enumerate() {
            let queue = plan.queues[placed.queue];
            prop_assert_eq!(queue.engine, tasks[t].engine);
            prop_assert!(tasks[t].queue.is_none_or(|q| q == queue.index));
            for &w in &placed.waits {
                // A wait for an earlier task of another queue, so no cycle can form and nothing hangs.
                prop_assert!(w < t && plan.tasks[w].queue != placed.queue);
                let without = ended_before(&plan, Some((t, w)));
                prop_assert!(first_unordered(&tasks, &without).is_some(), "task {} waits for {} for nothing", t, w);
            }
            let waited = plan.tasks.iter().any(|other| other.waits.contains(&t));
            prop_assert_eq!(placed.signals, waited);
        }
    }

    #[test]
    fn dependencies_are_the_hazards_less_what_a_write_covers(tasks in proptest::collection::vec(any_task(), 0..16)) {
        let plan = plan(&tasks, 3, 1).unwrap();
        for (t, placed) in plan.tasks.iter().enumerate() {
            for &d in &placed.depends_on {
                prop_assert!(conflict(&tasks[d], &tasks[t]));
            }
        }
    }
}
