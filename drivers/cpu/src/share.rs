//! Sharing the work-groups of one launch out among engines.
//!
//! Each queue has a [`Job`] of its own in a [`Share`] that all engines see. An engine that starts a launch of several
//! groups publishes it there; engines that have nothing else to do claim groups from it. The engine that published it
//! claims too, and goes on to the next packet only when every group is done, so that a launch completes as a whole.
//!
//! A claim is one compare-and-swap of the job's ticket, which holds the number of groups and the first one that nobody
//! has claimed. The launch's words are read after the claim: from then until the claimed groups are counted as done, the
//! publisher waits, and the words stay. A ticket that comes round to the same value is as good as the first.

use crate::packet::Exec;
use crate::sync::{AtomicU64, Ordering};

/// One launch in the making, in caller memory.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Job {
    /// Groups in bits 63:32, the first one that is not claimed in bits 31:0.
    ticket: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    words: [AtomicU64; 6],
}

impl Job {
    /// No launch.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            ticket: AtomicU64::new(0),
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            words: [const { AtomicU64::new(0) }; 6],
        }
    }

    /// No launch.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self {
            ticket: AtomicU64::new(0),
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            words: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Default for Job {
    fn default() -> Self {
        Self::new()
    }
}

/// The jobs of all queues that may be helped.
#[derive(Clone, Copy, Debug)]
pub struct Share<'m> {
    jobs: &'m [Job],
    local_memory: usize,
}

/// Groups that an engine has claimed and must run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

const fn halves(v: u64) -> (u32, u32) {
    ((v >> 32) as u32, (v & 0xffff_ffff) as u32)
}

impl<'m> Share<'m> {
    /// A share over these jobs, one per queue. Every engine of it has `local_memory` bytes of group-local memory;
    /// launches that want more are not shared.
    pub const fn new(jobs: &'m [Job], local_memory: usize) -> Self {
        Self { jobs, local_memory }
    }

    /// Bytes of group-local memory that every engine has.
    pub const fn local_memory(&self) -> usize {
        self.local_memory
    }

    /// Number of jobs.
    pub const fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(crate) fn job(&self, index: usize) -> Option<&'m Job> {
        self.jobs.get(index)
    }

    pub(crate) fn jobs(&self) -> &'m [Job] {
        self.jobs
    }

    /// Whether some job has groups that nobody has claimed.
    pub fn has_work(&self) -> bool {
        self.jobs.iter().any(Job::has_work)
    }
}

impl Job {
    /// For the publisher, whose last launch is over ([`withdraw`](Self::withdraw)): offers a launch of `total` groups.
    pub(crate) fn publish(&self, exec: &Exec, total: u32) {
        let ([gx, gy, gz], [lx, ly, lz]) = (exec.groups, exec.local);
        let words = [
            exec.kernel,
            exec.args,
            pair(exec.args_size, exec.local_memory),
            pair(gx, gy),
            pair(gz, lx),
            pair(ly, lz),
        ];
        for (slot, word) in self.words.iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        self.done.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
        // ORDER: pairs with the acquiring compare-and-swap in `claim`, after which the words above are read.
        self.ticket.store(pair(total, 0), Ordering::Release);
    }

    pub(crate) fn has_work(&self) -> bool {
        let (total, next) = halves(self.ticket.load(Ordering::Relaxed));
        next < total
    }

    /// Claims the next groups of whatever launch is offered now.
    pub(crate) fn claim(&self) -> Option<Claim> {
        let mut ticket = self.ticket.load(Ordering::Relaxed);
        // Each failure means that another engine claimed; there are at most as many as there are groups.
        loop {
            let (total, next) = halves(ticket);
            if next >= total {
                return None;
            }
            // Small launches go group by group, large ones in pieces of which every engine gets many.
            let count = (total / 64).clamp(1, 256).min(total - next);
            let taken = pair(total, next + count);
            // ORDER: acquires the words that `publish` released, and the memory that the launch may read.
            match self.ticket.compare_exchange_weak(
                ticket,
                taken,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    return Some(Claim {
                        first: next.into(),
                        count: count.into(),
                    });
                }
                Err(now) => ticket = now,
            }
        }
    }

    /// The launch of a claim.
    pub(crate) fn exec(&self) -> Exec {
        let word = |i: usize| self.words.get(i).map_or(0, |w| w.load(Ordering::Relaxed));
        let (args_size, local_memory) = halves(word(2));
        let ((gx, gy), (gz, lx), (ly, lz)) = (halves(word(3)), halves(word(4)), halves(word(5)));
        Exec {
            kernel: word(0),
            args: word(1),
            args_size,
            groups: [gx, gy, gz],
            local: [lx, ly, lz],
            local_memory,
        }
    }

    /// Counts claimed groups as done.
    pub(crate) fn finish(&self, count: u64) {
        // ORDER: releases what the groups wrote to the publisher's acquire in `withdraw`.
        self.done.fetch_add(count, Ordering::Release);
    }

    /// For a helper, before `finish`: its groups could not be run.
    pub(crate) fn fail(&self) {
        self.failed.store(1, Ordering::Relaxed);
    }

    /// For the publisher, after `withdraw`: whether groups could not be run.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed) != 0
    }

    /// For the publisher: takes back the groups that nobody has claimed. Whether those that were claimed are done, so
    /// that nobody uses the launch's words or its memory any more.
    pub(crate) fn withdraw(&self) -> bool {
        let mut ticket = self.ticket.load(Ordering::Relaxed);
        // Each failure means that another engine claimed; there are at most as many as there are groups.
        let claimed = loop {
            let (total, next) = halves(ticket);
            if next >= total {
                break next;
            }
            let none_left = pair(next, next);
            match self.ticket.compare_exchange_weak(
                ticket,
                none_left,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => break next,
                Err(now) => ticket = now,
            }
        };
        // ORDER: pairs with the release in `finish`, after which the claimed groups' writes are visible and the words
        // are no longer read.
        self.done.load(Ordering::Acquire) == u64::from(claimed)
    }
}

/// A job's steps, for the model of them in `tests/loom_share.rs`.
#[cfg(loom)]
pub mod steps {
    use super::{Exec, Job};

    /// Offers a launch.
    pub fn publish(job: &Job, exec: &Exec, total: u32) {
        job.publish(exec, total);
    }

    /// Claims groups: the first one, and how many.
    pub fn claim(job: &Job) -> Option<(u64, u64)> {
        job.claim().map(|c| (c.first, c.count))
    }

    /// The launch of a claim.
    pub fn exec(job: &Job) -> Exec {
        job.exec()
    }

    /// Counts claimed groups as done.
    pub fn finish(job: &Job, count: u64) {
        job.finish(count);
    }

    /// Claimed groups cannot be run.
    pub fn fail(job: &Job) {
        job.fail();
    }

    /// Whether some could not be run.
    pub fn has_failed(job: &Job) -> bool {
        job.has_failed()
    }

    /// Takes back what nobody has claimed; whether the rest is done.
    pub fn withdraw(job: &Job) -> bool {
        job.withdraw()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_is_claimed_once() {
        for total in [1u32, 2, 63, 64, 65, 1000, 70_000] {
            let job = Job::new();
            assert!(job.claim().is_none());
            let exec = Exec {
                kernel: 1,
                args: 2,
                args_size: 3,
                groups: [total, 1, 1],
                local: [4, 5, 6],
                local_memory: 7,
            };
            job.publish(&exec, total);
            let mut next = 0;
            while let Some(claim) = job.claim() {
                assert_eq!(claim.first, next);
                assert_eq!(job.exec(), exec);
                next += claim.count;
                job.finish(claim.count);
            }
            assert_eq!(next, u64::from(total));
            assert!(job.withdraw() && !job.has_work());
        }
    }

    #[test]
    fn claims_of_many_threads_do_not_overlap() {
        let job = Job::new();
        let exec = Exec {
            kernel: 0,
            args: 0,
            args_size: 0,
            groups: [1; 3],
            local: [1; 3],
            local_memory: 0,
        };
        let total = if cfg!(miri) { 100 } else { 10_000u32 };
        job.publish(&exec, total);
        let counts: std::vec::Vec<_> = (0..total).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    while let Some(claim) = job.claim() {
                        for i in claim.first..claim.first + claim.count {
                            counts[i as usize].fetch_add(1, Ordering::Relaxed);
                        }
                        job.finish(claim.count);
                    }
                });
            }
        });
        assert!(job.withdraw());
        assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
    }
}
