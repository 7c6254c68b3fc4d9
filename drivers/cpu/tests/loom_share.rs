//! A shared launch in every order of its steps: `RUSTFLAGS="--cfg loom" cargo test -p hcq-cpu --test loom_share --release`.
//!
//! Memory that the launch reads and writes is not atomic here, so that a missing order is a data race that loom reports.
#![cfg(loom)]

use hcq_cpu::packet::Exec;
use hcq_cpu::share::{Job, steps};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// The job, and memory that it is about.
struct World {
    job: Job,
    input: UnsafeCell<u64>,
    output: [UnsafeCell<u64>; 3],
}

// SAFETY: the job's steps say who accesses the cells; loom checks that they do.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            job: Job::new(),
            input: UnsafeCell::new(0),
            output: core::array::from_fn(|_| UnsafeCell::new(0)),
        })
    }

    fn set_input(&self, value: u64) {
        // SAFETY: no launch is going on.
        self.input.with_mut(|p| unsafe { *p = value });
    }

    fn output(&self, group: usize) -> u64 {
        // SAFETY: no launch is going on.
        self.output[group].with(|p| unsafe { *p })
    }

    fn publish(&self, round: u64, groups: u32) {
        self.set_input(round);
        steps::publish(&self.job, &launch(round), groups);
    }

    /// Claims groups and runs them: each adds the input to its output. How many there were.
    fn run_some(&self) -> u64 {
        let Some((first, count)) = steps::claim(&self.job) else {
            return 0;
        };
        let exec = steps::exec(&self.job);
        // SAFETY: the launch lasts until the groups are counted as done.
        let input = self.input.with(|p| unsafe { *p });
        // The words are all of the launch that the memory belongs to.
        assert_eq!(exec, launch(input));
        for group in first..first + count {
            // SAFETY: a claim's groups are nobody else's.
            self.output[group as usize].with_mut(|p| unsafe { *p += input });
        }
        steps::finish(&self.job, count);
        count
    }

    /// Runs groups until there are none, then waits for those of others.
    fn run_all(&self) {
        while self.run_some() > 0 {}
        while !steps::withdraw(&self.job) {
            thread::yield_now();
        }
    }
}

/// A launch of which every word says the round.
fn launch(round: u64) -> Exec {
    let narrow = round as u32;
    Exec {
        kernel: round,
        args: round << 32,
        groups: [narrow; 3],
        local: [narrow + 1; 3],
        args_size: narrow + 2,
        local_memory: narrow + 3,
    }
}

fn model(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(f);
}

#[test]
fn publish_claim_finish_publish() {
    model(3, || {
        let world = World::new();
        let helper = {
            let world = world.clone();
            thread::spawn(move || (0..2).map(|_| world.run_some()).sum::<u64>())
        };
        for round in 1..=2 {
            world.publish(round, 2);
            world.run_all();
            assert!(!steps::has_failed(&world.job));
            // Each group ran once in each round.
            let sum = round * (round + 1) / 2;
            assert_eq!([world.output(0), world.output(1)], [sum; 2]);
        }
        helper.join().expect("no panic");
    });
}

#[test]
fn two_helpers() {
    model(2, || {
        let world = World::new();
        let helpers = [(); 2].map(|()| {
            let world = world.clone();
            thread::spawn(move || world.run_some())
        });
        world.publish(5, 3);
        world.run_all();
        assert_eq!([0, 1, 2].map(|g| world.output(g)), [5; 3]);
        for h in helpers {
            h.join().expect("no panic");
        }
    });
}

#[test]
fn what_is_withdrawn_is_not_run_and_what_was_begun_is_waited_for() {
    model(3, || {
        let world = World::new();
        let helper = {
            let world = world.clone();
            thread::spawn(move || (0..2).map(|_| world.run_some()).sum::<u64>())
        };
        // A reset before anything of it was run here.
        world.publish(1, 3);
        while !steps::withdraw(&world.job) {
            thread::yield_now();
        }
        let after = [0, 1, 2].map(|g| world.output(g));
        let ran: u64 = after.iter().sum();
        // The memory is the publisher's again, and the next launch is whole.
        world.publish(2, 2);
        world.run_all();
        assert_eq!(
            [0, 1].map(|g| world.output(g)),
            [after[0] + 2, after[1] + 2]
        );
        assert_eq!(world.output(2), after[2]);
        assert!(helper.join().expect("no panic") >= ran);
    });
}

#[test]
fn a_failure_is_seen_with_its_launch_and_not_with_the_next() {
    model(3, || {
        let world = World::new();
        let helper = {
            let world = world.clone();
            thread::spawn(move || {
                let claim = steps::claim(&world.job);
                if let Some((_, count)) = claim {
                    // Which launch it is.
                    let round = steps::exec(&world.job).kernel;
                    steps::fail(&world.job);
                    steps::finish(&world.job, count);
                    return Some(round);
                }
                None
            })
        };
        let mut failed = None;
        for round in 1..=2 {
            world.publish(round, 2);
            world.run_all();
            if steps::has_failed(&world.job) {
                assert_eq!(failed, None);
                failed = Some(round);
            }
        }
        assert_eq!(helper.join().expect("no panic"), failed);
    });
}
