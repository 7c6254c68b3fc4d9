//! Where threads run: the caller on one processor and the workers on another, so that no measurement depends on where the
//! scheduler happened to put them.

use std::collections::BTreeSet;
use std::fs;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Two processors of the caller's set; the caller is bound to the first of them, until this is dropped.
#[derive(Debug)]
pub struct Pair {
    all: CpuSet,
    workers: CpuSet,
}

impl Pair {
    /// Binds the calling thread. `None` if it may use one processor only.
    pub fn take() -> Option<Self> {
        let all = sched_getaffinity(Pid::from_raw(0)).ok()?;
        let mut allowed = (0..CpuSet::count()).filter(|cpu| all.is_set(*cpu).unwrap_or(false));
        let (caller, workers) = (one(allowed.next()?)?, one(allowed.next()?)?);
        sched_setaffinity(Pid::from_raw(0), &caller).ok()?;
        Some(Self { all, workers })
    }

    /// Calls `start`, and binds the threads that it has started to the other processor.
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

impl Drop for Pair {
    fn drop(&mut self) {
        // It was this thread's set before.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.all);
    }
}

fn one(cpu: usize) -> Option<CpuSet> {
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
