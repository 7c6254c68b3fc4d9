//! Where threads run: the caller on one processor, the workers on another or on the same one, so that no measurement depends
//! on where the scheduler happened to put them.

use std::collections::BTreeSet;
use std::fs;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Processors of the caller's set; the caller is bound to the first of them, until this is dropped.
#[derive(Debug)]
pub struct Cpus {
    all: CpuSet,
    workers: CpuSet,
}

impl Cpus {
    /// Another one for the workers. `None` if the calling thread may use one processor only.
    pub fn two() -> Option<Self> {
        Self::take(1)
    }

    /// The same one for the workers, which work while the caller waits.
    pub fn one() -> Option<Self> {
        Self::take(0)
    }

    fn take(workers: usize) -> Option<Self> {
        let all = sched_getaffinity(Pid::from_raw(0)).ok()?;
        let mut allowed = (0..CpuSet::count()).filter(|cpu| all.is_set(*cpu).unwrap_or(false));
        let caller = set_of(allowed.clone().next()?)?;
        let workers = set_of(allowed.nth(workers)?)?;
        sched_setaffinity(Pid::from_raw(0), &caller).ok()?;
        Some(Self { all, workers })
    }

    /// Calls `start`, and binds the threads that it has started to the workers' processor.
    pub fn with_workers<R>(&self, start: impl FnOnce() -> R) -> R {
        let before = threads();
        let result = start();
        for thread in threads().difference(&before) {
            // A thread that has ended meanwhile needs no processor.
            let _ = sched_setaffinity(Pid::from_raw(*thread), &self.workers);
        }
        result
    }
}

impl Drop for Cpus {
    fn drop(&mut self) {
        // It was this thread's set before.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.all);
    }
}

fn set_of(cpu: usize) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    set.set(cpu).ok()?;
    Some(set)
}

fn threads() -> BTreeSet<i32> {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten();
    entries
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    fn mine() -> CpuSet {
        sched_getaffinity(Pid::from_raw(0)).expect("this thread's set")
    }

    #[test]
    fn threads_are_bound_and_the_caller_is_set_free() {
        // In a thread of its own: tests share theirs.
        thread::spawn(|| {
            let before = mine();
            let Some(cpus) = Cpus::two().or_else(Cpus::one) else {
                panic!("a processor");
            };
            assert_eq!(
                (0..CpuSet::count())
                    .filter(|n| mine().is_set(*n) == Ok(true))
                    .count(),
                1
            );
            let (go, wait) = channel::<()>();
            let worker = cpus.with_workers(|| {
                let worker = thread::spawn(move || {
                    wait.recv().expect("bound by now");
                    mine()
                });
                while threads().len() < 2 {
                    thread::yield_now();
                }
                worker
            });
            go.send(()).expect("it waits");
            assert_eq!(worker.join().expect("no panic"), cpus.workers);
            drop(cpus);
            assert_eq!(mine(), before);
        })
        .join()
        .expect("no panic");
    }
}
