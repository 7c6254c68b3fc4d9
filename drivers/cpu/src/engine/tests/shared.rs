//! Launches shared among engines: step by step with claims made by hand, and on threads.

use super::*;
use crate::share::{Job, Share};
use std::sync::atomic::AtomicBool;

mod threads;

/// A launch of `COUNT` over these groups; word 0 of `memory` is its argument, the counts begin at word 8.
fn counting(memory: &Memory, groups: [u32; 3]) -> Packet {
    memory.set(0, memory.at(8));
    exec(COUNT, memory.at(0), 8, groups)
}

fn held_by_helpers() -> Poll {
    let on = BlockedOn::Helpers;
    Poll::Blocked(Blocked { queue: 0, on })
}

#[test]
fn an_engine_without_queues_helps() {
    let (memory, ring) = (Memory::new(128), queue_memory(2));
    let jobs = [Job::new(), Job::new()];
    let share = Share::new(&jobs, 0);
    assert_eq!((share.len(), share.is_empty()), (2, false));
    let (mut submit, q) = queue(&ring, 0);
    let (mut queues, mut none) = ([q], []);
    let mut engine = Engine::new(&mut queues, no_local())
        .with_share(share, 1)
        .expect("no local memory promised");
    let mut helper = Engine::new(&mut none, no_local())
        .with_share(share, 7)
        .expect("no local memory promised");
    let mut host = Host::over(&[&memory]);
    submit.push(&[counting(&memory, [5, 5, 4]), write(memory.at(4), 1)]);

    assert!(!share.has_work());
    assert_eq!(poll(&mut helper, &mut host, 9), Poll::Idle);
    assert_eq!(poll(&mut engine, &mut host, 10), Poll::Ran(10));
    assert!(share.has_work());
    assert_eq!(poll(&mut helper, &mut host, 30), Poll::Ran(30));
    assert_eq!((memory.get(4), submit.get()), (0, 0));
    assert_eq!(poll(&mut helper, &mut host, 1000), Poll::Ran(60));
    assert!(!share.has_work());
    assert_eq!(poll(&mut helper, &mut host, 9), Poll::Idle);
    // What the others ran to its end is a packet all the same.
    assert_eq!(poll(&mut engine, &mut host, 1), Poll::Ran(1));
    assert_eq!((memory.get(4), submit.get()), (0, 1));
    assert_eq!(poll(&mut engine, &mut host, 9), Poll::Ran(1));
    assert_eq!((memory.get(4), submit.get()), (1, 2));
    assert!(memory.all()[8..108].iter().all(|&n| n == 1));
    assert_eq!(memory.get(108), 0);
}

#[test]
fn a_launch_is_not_complete_before_its_last_group() {
    let (memory, ring) = (Memory::new(128), queue_memory(4));
    let jobs = [Job::new()];
    let (mut submit, q) = queue(&ring, 0);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local())
        .with_share(Share::new(&jobs, 0), 0)
        .expect("no local memory promised");
    let mut host = Host::over(&[&memory]);
    for (n, groups) in [[4, 1, 1], [2, 1, 1], [3, 3, 1]].into_iter().enumerate() {
        submit.push(&[counting(&memory, groups), write(memory.at(4), n as u64 + 1)]);
        assert_eq!(poll(&mut engine, &mut host, 1), Poll::Ran(1));
        let claim = jobs[0].claim().expect("groups are left");
        let left = groups.iter().product::<u32>() - 2;
        if left > 0 {
            assert_eq!(poll(&mut engine, &mut host, 99), Poll::Ran(left));
        }
        for _ in 0..3 {
            assert_eq!(poll(&mut engine, &mut host, 99), held_by_helpers());
            assert!(engine.has_work());
        }
        assert_eq!((memory.get(4), submit.get()), (n as u64, 2 * n as u64));
        jobs[0].finish(claim.count);
        assert_eq!(poll(&mut engine, &mut host, 99), Poll::Ran(2));
        assert_eq!(
            (memory.get(4), submit.get()),
            (n as u64 + 1, 2 * n as u64 + 2)
        );
    }
}

#[test]
fn what_is_not_shared() {
    let (memory, ring) = (Memory::new(8 + 256), queue_memory(4));
    let jobs = [Job::new()];
    let share = Share::new(&jobs, 64);
    let scratch = Memory::new(64);
    let (mut submit, q) = queue(&ring, 0);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, scratch.region())
        .with_share(share, 0)
        .expect("512 bytes of local memory");
    let mut host = Host::over(&[&memory]);
    let launch = |groups, local_memory| {
        let Packet::Exec(e) = counting(&memory, groups) else {
            unreachable!("a launch")
        };
        Packet::Exec(Exec { local_memory, ..e })
    };
    // More local memory than every engine has, and too many groups for a job. Large launches are claimed in pieces.
    for (packet, shared, ran) in [
        (launch([4, 1, 1], 64), true, 1),
        (launch([4, 1, 1], 65), false, 1),
        (launch([1 << 16, 1 << 15, 1], 0), true, 256),
        (launch([1 << 16, 1 << 16, 1], 0), false, 1),
    ] {
        submit.push(&[packet]);
        assert_eq!(poll(&mut engine, &mut host, 1), Poll::Ran(ran));
        assert_eq!(share.has_work(), shared, "{packet}");
        engine.queues()[0].reset();
        assert!(!share.has_work());
    }
    // Another queue than the share has a job for.
    let ring = queue_memory(1);
    let (mut submit, q) = queue(&ring, 0);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, scratch.region())
        .with_share(share, 1)
        .expect("512 bytes of local memory");
    submit.push(&[launch([4, 1, 1], 0)]);
    assert_eq!(poll(&mut engine, &mut host, 1), Poll::Ran(1));
    assert!(!share.has_work());
    assert_eq!(poll(&mut engine, &mut host, 9), Poll::Ran(3));
}

#[test]
fn every_engine_has_the_local_memory_of_its_share() {
    let scratch = Memory::new(8);
    for (promised, skip, ok) in [(64, 0, true), (65, 0, false), (1, 8, false), (0, 8, true)] {
        let jobs = [Job::new()];
        let mut none = [];
        let local = scratch.region().slice(skip, 64 - skip).expect("inside");
        let engine = Engine::new(&mut none, local).with_share(Share::new(&jobs, promised), 0);
        let want = LocalMemoryTooSmall {
            need: promised,
            have: if skip == 0 { 64 } else { 0 },
        };
        assert_eq!(engine.map(|_| ()).err(), (!ok).then_some(want));
    }
}

#[test]
fn a_helper_that_promised_less_local_memory_spoils_the_launch_and_nothing_else() {
    // Two shares over the same jobs that do not agree.
    let (memory, ring, scratch) = (Memory::new(64), queue_memory(2), Memory::new(64));
    let jobs = [Job::new()];
    let (mut submit, q) = queue(&ring, 3);
    let (mut queues, mut none) = ([q], []);
    let mut engine = Engine::new(&mut queues, scratch.region())
        .with_share(Share::new(&jobs, 512), 0)
        .expect("512 bytes");
    let mut helper = Engine::new(&mut none, no_local())
        .with_share(Share::new(&jobs, 0), 0)
        .expect("none promised");
    let mut host = Host::over(&[&memory]);
    memory.set(0, memory.at(8));
    submit.push(&[Packet::Exec(Exec {
        kernel: NOTE,
        args: memory.at(0),
        args_size: 8,
        groups: [3, 1, 1],
        local: [1; 3],
        local_memory: 512,
    })]);
    assert_eq!(poll(&mut engine, &mut host, 1), Poll::Ran(1));
    assert_eq!(poll(&mut helper, &mut host, 1), Poll::Ran(1));
    // The third group still runs, then the fault is seen.
    let mut record = FaultRecord::new(FaultKind::Program, 3, 0);
    record.detail = NOTE;
    assert_eq!(
        poll(&mut engine, &mut host, 9),
        Poll::Fault { queue: 0, record }
    );
    assert_eq!(memory.all()[16..24], [0; 8]);
    assert_ne!(memory.all()[24..32], [0; 8]);
}

#[test]
fn a_helper_whose_platform_refuses_is_a_fault_of_the_launch() {
    for no_kernels in [true, false] {
        let (memory, ring) = (Memory::new(64), queue_memory(2));
        let jobs = [Job::new()];
        let share = Share::new(&jobs, 0);
        let (mut submit, q) = queue(&ring, 3);
        let (mut queues, mut none) = ([q], []);
        let mut engine = Engine::new(&mut queues, no_local())
            .with_share(share, 0)
            .expect("none promised");
        let mut helper = Engine::new(&mut none, no_local())
            .with_share(share, 0)
            .expect("none promised");
        let mut host = Host::over(&[&memory]);
        submit.push(&[counting(&memory, [4, 1, 1]), write(memory.at(4), 1)]);
        assert_eq!(poll(&mut engine, &mut host, 1), Poll::Ran(1));
        let mut poor = match no_kernels {
            true => Host {
                no_kernels,
                ..host.clone()
            },
            false => Host::default(),
        };
        assert_eq!(poll(&mut helper, &mut poor, 1), Poll::Ran(1));
        let mut record = FaultRecord::new(FaultKind::Program, 3, 0);
        record.detail = COUNT;
        assert_eq!(
            poll(&mut engine, &mut host, 9),
            Poll::Fault { queue: 0, record }
        );
        assert_eq!(memory.all()[8..12], [1, 0, 1, 1]);
        assert_eq!((memory.get(4), submit.get()), (0, 0));
        // The failure is not the next launch's.
        engine.queues()[0].reset();
        submit.push(&[counting(&memory, [4, 1, 1]), write(memory.at(4), 1)]);
        assert_eq!(poll(&mut engine, &mut host, 1), Poll::Ran(1));
        assert_eq!(poll(&mut helper, &mut host, 2), Poll::Ran(2));
        assert_eq!(poll(&mut engine, &mut host, 9), Poll::Ran(2));
        assert_eq!(memory.all()[8..12], [2, 1, 2, 2]);
    }
}

#[test]
fn a_fault_in_the_middle_is_not_seen_before_helpers_are_done() {
    let (memory, ring) = (Memory::new(64), queue_memory(2));
    let jobs = [Job::new()];
    let share = Share::new(&jobs, 0);
    let (mut submit, q) = queue(&ring, 3);
    let (mut queues, mut none) = ([q], []);
    let mut engine = Engine::new(&mut queues, no_local())
        .with_share(share, 0)
        .expect("none promised");
    let mut helper = Engine::new(&mut none, no_local())
        .with_share(share, 0)
        .expect("none promised");
    let mut host = Host::over(&[&memory]);
    submit.push(&[counting(&memory, [6, 1, 1])]);
    assert_eq!(poll(&mut engine, &mut host, 1), Poll::Ran(1));
    let claim = jobs[0].claim().expect("groups are left");

    // The publisher's platform takes the arguments away: nobody begins with a group any more.
    let mut poor = Host::default();
    assert_eq!(poll(&mut engine, &mut poor, 9), held_by_helpers());
    assert_eq!(poll(&mut helper, &mut host, 9), Poll::Idle);
    assert_eq!(poll(&mut engine, &mut poor, 9), held_by_helpers());
    // Also if it gives them back: the launch has failed.
    assert_eq!(poll(&mut engine, &mut host, 9), held_by_helpers());
    assert_eq!(submit.control.fault().get(), None);
    jobs[0].finish(claim.count);
    let outcome = poll(&mut engine, &mut host, 9);
    let Poll::Fault { queue: 0, record } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(record.kind, FaultKind::Program);
    assert_eq!(memory.all()[8..14], [1, 0, 0, 0, 0, 0]);
}

#[test]
fn a_job_is_not_used_again_while_helpers_run_a_dropped_launch() {
    let (memory, ring) = (Memory::new(64), queue_memory(4));
    let jobs = [Job::new()];
    let share = Share::new(&jobs, 0);
    let (mut submit, q) = queue(&ring, 3);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local())
        .with_share(share, 0)
        .expect("none promised");
    let mut host = Host::over(&[&memory]);
    submit.push(&[counting(&memory, [4, 1, 1])]);
    assert_eq!(poll(&mut engine, &mut host, 1), Poll::Ran(1));
    let claim = jobs[0].claim().expect("groups are left");
    let dropped = jobs[0].exec();
    engine.queues()[0].reset();
    assert!(!share.has_work());

    // The next launch: by its engine alone. The helper's words stay as they are.
    submit.push(&[
        exec(COUNT, memory.at(0), 8, [2, 2, 1]),
        write(memory.at(4), 1),
    ]);
    assert_eq!(poll(&mut engine, &mut host, 2), Poll::Ran(2));
    assert!(!share.has_work());
    assert_eq!(jobs[0].exec(), dropped);
    assert_eq!(poll(&mut engine, &mut host, 9), Poll::Ran(3));
    assert_eq!((memory.get(4), submit.get()), (1, 3));
    assert_eq!(memory.all()[8..12], [2, 1, 1, 1]);

    // The one after the helper came to its end is shared again.
    jobs[0].finish(claim.count);
    submit.push(&[exec(COUNT, memory.at(0), 8, [2, 2, 1])]);
    assert_eq!(poll(&mut engine, &mut host, 1), Poll::Ran(1));
    assert!(share.has_work());
    assert_eq!(poll(&mut engine, &mut host, 9), Poll::Ran(3));
}

#[test]
fn sleeping_engines_are_called_once_and_only_if_it_is_worth_it() {
    let (memory, ring) = (Memory::new(128), queue_memory(2));
    let jobs = [Job::new()];
    let (mut submit, q) = queue(&ring, 3);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local())
        .with_share(Share::new(&jobs, 0), 0)
        .expect("none promised");
    for (tick, groups, wakes) in [
        // The clock is read when the launch is published and after each piece but the last.
        (10, 100, 0),
        (1000, 5, 0),
        (1000, 6, 1),
        (1000, 7, 1),
        (1000, 100, 1),
        (1_000_000, 2, 1),
    ] {
        let mut host = Host {
            tick,
            ..Host::over(&[&memory])
        };
        submit.push(&[counting(&memory, [groups, 1, 1])]);
        while engine.has_work() {
            poll(&mut engine, &mut host, 4);
        }
        assert_eq!(host.wakes, wakes, "{groups} groups of {tick} ns");
    }
}

#[test]
fn queues_of_one_engine_share_too() {
    let memory = Memory::new(64);
    let rings = [queue_memory(2), queue_memory(2)];
    let jobs = [Job::new(), Job::new()];
    let share = Share::new(&jobs, 0);
    let (mut submits, queues): (Vec<_>, Vec<_>) =
        (0u16..).zip(&rings).map(|(id, m)| queue(m, id)).unzip();
    let (mut queues, mut none) = (queues, []);
    let mut engine = Engine::new(&mut queues, no_local())
        .with_share(share, 0)
        .expect("none promised");
    let mut helper = Engine::new(&mut none, no_local())
        .with_share(share, 0)
        .expect("none promised");
    let mut host = Host::over(&[&memory]);
    for (n, s) in submits.iter_mut().enumerate() {
        memory.set(n, memory.at(8 + 16 * n));
        s.push(&[exec(COUNT, memory.at(n), 8, [5, 3, 1])]);
    }
    assert_eq!(poll(&mut engine, &mut host, 2), Poll::Ran(2));
    assert_eq!(poll(&mut engine, &mut host, 2), Poll::Ran(2));
    assert!(jobs.iter().all(Job::has_work));
    assert_eq!(poll(&mut helper, &mut host, 1000), Poll::Ran(26));
    assert_eq!(poll(&mut engine, &mut host, 9), Poll::Ran(2));
    assert_eq!(poll(&mut engine, &mut host, 9), Poll::Idle);
    for n in 0..2 {
        let counts = &memory.all()[8 + 16 * n..][..16];
        assert_eq!(counts[..15], [1; 15]);
        assert_eq!(counts[15], 0);
    }
}
