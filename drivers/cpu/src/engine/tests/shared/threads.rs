//! Engines on threads of their own.

use super::*;

/// Polls until told to stop, and there is nothing left.
fn serve(engine: &mut Engine<'_>, host: &mut Host, stop: &AtomicBool, budget: u32) {
    loop {
        // Read first: what was submitted before is then seen by the poll.
        let last = stop.load(Ordering::Acquire);
        match poll(engine, host, budget) {
            Poll::Ran(_) => {}
            Poll::Fault { record, .. } => panic!("{record}"),
            _ if last && !engine.has_work() => return,
            _ => std::thread::yield_now(),
        }
    }
}

fn wait(memory: &Memory, word: usize, value: u64) {
    while memory.get(word) < value {
        std::thread::yield_now();
    }
}

/// One queue, some helpers, many launches through one job: after each signal, every group has run exactly once.
fn one_publisher(helpers: usize, grids: &[[u32; 3]], rounds: usize) {
    let most: u32 = grids
        .iter()
        .map(|g| g.iter().product::<u32>())
        .max()
        .expect("a grid");
    let memory = Memory::new(16 + most as usize);
    let ring = queue_memory(8);
    let jobs = [Job::new()];
    let share = Share::new(&jobs, 0);
    let stop = AtomicBool::new(false);
    let (mut submit, q) = queue(&ring, 0);
    std::thread::scope(|s| {
        let host = Host::over(&[&memory]);
        let mut own = host.clone();
        let stop = &stop;
        s.spawn(move || {
            let mut queues = [q];
            let mut engine = Engine::new(&mut queues, no_local())
                .with_share(share, 0)
                .expect("none promised");
            serve(&mut engine, &mut own, stop, 8);
        });
        for _ in 0..helpers {
            let mut host = host.clone();
            s.spawn(move || {
                let mut none = [];
                let mut engine = Engine::new(&mut none, no_local())
                    .with_share(share, 1)
                    .expect("none promised");
                serve(&mut engine, &mut host, stop, 3);
            });
        }
        let mut done = 0;
        for round in 0..rounds {
            for (n, &grid) in grids.iter().enumerate() {
                done += 1;
                submit.push(&[counting_from(&memory, 16, grid), signal(memory.at(2), done)]);
                wait(&memory, 2, done);
                let total = grid.iter().product::<u32>() as usize;
                for g in 0..most as usize {
                    let want = u64::from(g < total);
                    assert_eq!(
                        memory.get(16 + g),
                        want,
                        "round {round}, grid {n}, group {g}"
                    );
                    memory.set(16 + g, 0);
                }
            }
        }
        stop.store(true, Ordering::Release);
    });
    assert_eq!(submit.control.fault().get(), None);
}

fn counting_from(memory: &Memory, word: usize, groups: [u32; 3]) -> Packet {
    memory.set(0, memory.at(word));
    exec(COUNT, memory.at(0), 8, groups)
}

#[test]
fn one_engine_and_one_helper() {
    let rounds = if cfg!(miri) { 2 } else { 300 };
    one_publisher(1, &[[2, 1, 1], [1, 1, 1], [3, 1, 2]], rounds);
}

#[test]
fn one_engine_and_two_helpers_on_odd_grids() {
    if cfg!(miri) {
        return one_publisher(2, &[[3, 3, 3], [7, 1, 5]], 1);
    }
    one_publisher(
        2,
        &[[1, 1, 1], [3, 3, 3], [7, 1, 5], [257, 3, 2], [2, 1, 1]],
        40,
    );
}

#[test]
fn engines_that_publish_and_help() {
    // Three engines with a queue each. Each queue's launches work on what its former launch wrote, so that a group that
    // runs early, late or twice shows.
    let (groups, rounds) = if cfg!(miri) { (5, 3) } else { (97, 60) };
    let memory = Memory::new(3 * (32 + 2 * groups));
    let at = |n: usize, word: usize| n * (32 + 2 * groups) + word;
    let rings = [queue_memory(8), queue_memory(8), queue_memory(8)];
    let jobs = [Job::new(), Job::new(), Job::new()];
    let share = Share::new(&jobs, 0);
    let stop = AtomicBool::new(false);
    let (mut submits, queues): (Vec<_>, Vec<_>) =
        (0u16..).zip(&rings).map(|(id, m)| queue(m, id)).unzip();
    std::thread::scope(|s| {
        for (n, q) in queues.into_iter().enumerate() {
            let mut host = Host::over(&[&memory]);
            let stop = &stop;
            s.spawn(move || {
                let mut queues = [q];
                let mut engine = Engine::new(&mut queues, no_local())
                    .with_share(share, n)
                    .expect("none promised");
                serve(&mut engine, &mut host, stop, 5);
            });
        }
        for n in 0..3 {
            let (one, two) = (memory.at(at(n, 32)), memory.at(at(n, 32 + groups)));
            for (i, word) in [two, one, 3, 0, one, two, 5].into_iter().enumerate() {
                memory.set(at(n, 8 + i), word);
            }
        }
        for round in 1..=rounds {
            for (n, submit) in submits.iter_mut().enumerate() {
                let grid = [groups as u32, 1, 1];
                submit.push(&[
                    exec(MIX, memory.at(at(n, 8)), 24, grid),
                    exec(MIX, memory.at(at(n, 12)), 24, grid),
                    signal(memory.at(at(n, 2)), round),
                ]);
            }
            for n in 0..3 {
                wait(&memory, at(n, 2), round);
            }
        }
        stop.store(true, Ordering::Release);
    });
    for (n, submit) in submits.iter().enumerate() {
        for g in 0..groups {
            let mut want = 0u64;
            for _ in 0..rounds {
                want = want.wrapping_mul(3).wrapping_add(g as u64);
                want = want.wrapping_mul(5).wrapping_add(g as u64);
            }
            assert_eq!(memory.get(at(n, 32 + g)), want, "queue {n}, group {g}");
        }
        assert_eq!(submit.control.fault().get(), None);
    }
}

#[test]
fn local_memory_is_each_engines_own() {
    // Every group fills its local memory and notes where it is: groups of two engines at the same time are in two places.
    let groups = if cfg!(miri) { 6 } else { 500u32 };
    let memory = Memory::new(16 + 8 * groups as usize);
    let (ring, jobs) = (queue_memory(4), [Job::new()]);
    let scratch = [Memory::new(64), Memory::new(64)];
    let share = Share::new(&jobs, 256);
    let stop = AtomicBool::new(false);
    let (mut submit, q) = queue(&ring, 0);
    std::thread::scope(|s| {
        let host = Host::over(&[&memory]);
        for (own, local) in [Vec::from([q]), Vec::new()].into_iter().zip(&scratch) {
            let (mut host, stop) = (host.clone(), &stop);
            s.spawn(move || {
                let mut queues = own;
                let mut engine = Engine::new(&mut queues, local.region())
                    .with_share(share, 0)
                    .expect("512 bytes");
                serve(&mut engine, &mut host, stop, 2);
            });
        }
        memory.set(0, memory.at(16));
        submit.push(&[
            Packet::Exec(Exec {
                kernel: NOTE,
                args: memory.at(0),
                args_size: 8,
                groups: [groups, 1, 1],
                local: [1; 3],
                local_memory: 200,
            }),
            signal(memory.at(2), 1),
        ]);
        wait(&memory, 2, 1);
        stop.store(true, Ordering::Release);
    });
    let places = scratch.each_ref().map(|m| m.at(0));
    for g in 0..groups as usize {
        assert!(places.contains(&memory.get(16 + 8 * g + 5)), "group {g}");
    }
    for m in &scratch {
        let words = m.all();
        assert!(
            words[..25]
                .iter()
                .all(|&w| w == 0 || w == 0x5a5a_5a5a_5a5a_5a5a)
        );
        assert!(words[25..].iter().all(|&w| w == 0));
    }
}
