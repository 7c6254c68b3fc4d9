//! The engine: runs command packets by being polled.
//!
//! An [`Engine`] has any number of queues, which may be none when it only helps others. Each [`poll`](Engine::poll) does a
//! bounded amount of work and says what came of it. It runs wherever it is called: a thread per queue, one loop for all
//! queues on a board, a hypervisor's device model.
//!
//! # What commands mean
//!
//! Packets of a queue run one after the other; each one's effects are visible to the next, and to whoever sees a signal
//! that a later packet of the queue writes. A packet that holds the queue (a wait or a poll) is tried again at the next
//! poll. A packet that is malformed or names memory that the [`Platform`] does not know stops its queue: the fault is
//! reported in the queue's control block, nothing later of this queue runs, other queues are not affected.
//!
//! - **exec** runs the kernel once for each work-group, in any order and on any engines of the [`Share`](crate::share).
//!   It is complete when all groups are.
//! - **copy** moves bytes; ranges that overlap are a fault.
//! - **write**, **signal** store with release; **signal** and **write** wake those who sleep on memory.
//! - **wait** and **poll** load with acquire.
//! - **timestamp** stores the platform's nanoseconds to the signal's timestamp.
//! - **barrier** is a sequentially consistent fence.
#![allow(unsafe_code, reason = "runs kernels and moves memory by address")]

mod launch;
mod queue;
mod run;

use core::ptr::NonNull;

use hcq_nostd::fault::{Access, FaultRecord};
use hcq_nostd::mem::Region;

use crate::abi::KernelFn;
pub use queue::EngineQueue;

/// What the engine asks of whoever runs it.
pub trait Platform {
    /// Nanoseconds of a clock that never goes back and is not zero.
    fn now_ns(&mut self) -> u64;

    /// The CPU address of `len` bytes at a device address; `None` if they may not be accessed in this way, which faults
    /// the queue. What is returned stays mapped until the packet is done.
    fn translate(&mut self, address: u64, len: u64, access: Access) -> Option<NonNull<u8>>;

    /// The kernel that an entry stands for; `None` if there is none, which faults the queue.
    fn kernel(&mut self, entry: u64) -> Option<KernelFn>;

    /// A signal or word of memory was written. Those who sleep on memory look again; `notify` if the packet asked for
    /// hosts to be woken.
    fn written(&mut self, address: u64, notify: bool) {
        let _ = (address, notify);
    }

    /// A launch is large enough that sleeping engines should come and help.
    fn wake_helpers(&mut self) {}
}

/// Outcome of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Poll {
    /// No queue has a packet, and there is nobody to help.
    Idle,
    /// No queue can go on; what holds the first of them.
    Blocked(Blocked),
    /// This many packets and work-groups were run; there may be more to do.
    Ran(u32),
    /// A queue stopped now. The others go on at the next poll.
    Fault {
        /// Index of the queue.
        queue: usize,
        /// What happened.
        record: FaultRecord,
    },
}

/// What holds a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Blocked {
    /// Index of the queue.
    pub queue: usize,
    /// On what.
    pub on: BlockedOn,
}

/// The reason that holds a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum BlockedOn {
    /// A wait for a signal to be at least `wanted`.
    Signal {
        /// The signal's device address.
        address: u64,
        /// The value wanted.
        wanted: u64,
        /// The value seen.
        seen: u64,
    },
    /// A poll for `word & mask == expect`.
    Word {
        /// The word's device address.
        address: u64,
        /// The mask.
        mask: u32,
        /// The value wanted.
        expect: u32,
        /// The word seen.
        seen: u32,
    },
    /// Other engines still run groups of this queue's launch.
    Helpers,
}

/// An engine with less group-local memory than the others of its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LocalMemoryTooSmall {
    /// Bytes that the share promises.
    pub need: usize,
    /// Bytes that this engine has, from the first 64-byte boundary on.
    pub have: usize,
}

impl core::fmt::Display for LocalMemoryTooSmall {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "sharing launches takes {} bytes of group-local memory, the engine has {}",
            self.need, self.have
        )
    }
}

impl core::error::Error for LocalMemoryTooSmall {}

/// Runs packets of its queues, and groups of others' launches.
#[derive(Debug)]
pub struct Engine<'m> {
    queues: &'m mut [EngineQueue<'m>],
    local: Region<'m>,
    /// First queue to look at in the next poll: where the budget of the last one ended.
    next: usize,
    copy_step: u64,
    #[cfg(target_has_atomic = "64")]
    share: Option<(crate::share::Share<'m>, usize)>,
}

impl<'m> Engine<'m> {
    /// An engine of these queues, with this much group-local memory for each of the groups that it runs, one at a time.
    /// Local memory that does not start at a 64-byte boundary is used from the first one on.
    pub fn new(queues: &'m mut [EngineQueue<'m>], local: Region<'m>) -> Self {
        let skip = local.as_ptr().as_ptr().align_offset(64).min(local.len());
        let len = local.len() - skip;
        let local = local
            .slice(skip, len)
            .unwrap_or_else(|_| Region::from_words(&mut [], 0));
        Self {
            queues,
            local,
            next: 0,
            copy_step: 1 << 20,
            #[cfg(target_has_atomic = "64")]
            share: None,
        }
    }

    /// Shares launches: queue `n` of this engine publishes them as job `first_job + n`, if there is one.
    ///
    /// # Errors
    /// [`LocalMemoryTooSmall`] if this engine has less group-local memory than the share promises.
    #[cfg(target_has_atomic = "64")]
    pub fn with_share(
        mut self,
        share: crate::share::Share<'m>,
        first_job: usize,
    ) -> Result<Self, LocalMemoryTooSmall> {
        let (need, have) = (share.local_memory(), self.local.len());
        if have < need {
            return Err(LocalMemoryTooSmall { need, have });
        }
        self.share = Some((share, first_job));
        Ok(self)
    }

    /// Bytes that one step of a copy moves, at least 1: how long a poll may take, against how fast large copies are.
    pub fn with_copy_step(mut self, bytes: u64) -> Self {
        self.copy_step = bytes.max(1);
        self
    }

    /// The queues.
    pub fn queues(&mut self) -> &mut [EngineQueue<'m>] {
        self.queues
    }

    /// Whether a queue of this engine has something to do or to wait for.
    pub fn has_work(&self) -> bool {
        self.queues.iter().any(EngineQueue::has_work)
    }

    /// Runs at most about `budget` packets, work-groups and copy steps, looking at each queue once. Groups of a shared
    /// launch are begun in pieces of up to 256.
    ///
    /// # Safety
    /// - What the platform's `translate` and `kernel` return is what they promise.
    /// - For every EXEC packet that is published, the kernel may be called with the argument block and grid that it
    ///   names; kernels that run at the same time are sound together.
    /// - No queue of another engine has a job of this engine's queues in a share.
    /// - Memory that packets write is not accessed by others at the same time but through signals' order.
    pub unsafe fn poll(&mut self, platform: &mut impl Platform, budget: u32) -> Poll {
        let n = self.queues.len();
        let mut ran = 0u32;
        let mut blocked = None;
        for i in 0..n {
            let index = (self.next + i) % n;
            let left = budget.saturating_sub(ran);
            if left == 0 {
                self.next = index;
                return Poll::Ran(ran);
            }
            #[cfg(target_has_atomic = "64")]
            let job = self
                .share
                .and_then(|(share, first)| share.job(first.checked_add(index)?));
            let Some(queue) = self.queues.get_mut(index) else {
                continue;
            };
            let context = run::Context {
                local: &self.local,
                copy_step: self.copy_step,
                #[cfg(target_has_atomic = "64")]
                job,
                #[cfg(target_has_atomic = "64")]
                shared_local: self.share.map_or(0, |(share, _)| share.local_memory()),
            };
            // SAFETY: this function's contract.
            let (count, held) = unsafe { queue.run(platform, &context, left) };
            ran = ran.saturating_add(count);
            match held {
                Ok(on) => {
                    let first = blocked.is_none_or(|b: Blocked| index < b.queue);
                    if let (true, Some(on)) = (first, on) {
                        blocked = Some(Blocked { queue: index, on });
                    }
                }
                Err(queue::Stop) => {
                    let record = queue.stop();
                    self.next = (index + 1) % n;
                    return Poll::Fault {
                        queue: index,
                        record,
                    };
                }
            }
        }
        if ran > 0 {
            return Poll::Ran(ran);
        }
        // SAFETY: this function's contract.
        match unsafe { self.help(platform, budget) } {
            0 => blocked.map_or(Poll::Idle, Poll::Blocked),
            helped => Poll::Ran(helped),
        }
    }

    /// Runs groups of other queues' launches.
    ///
    /// # Safety
    /// As for [`poll`](Self::poll).
    #[cfg(target_has_atomic = "64")]
    unsafe fn help(&mut self, platform: &mut impl Platform, budget: u32) -> u32 {
        let Some((share, _)) = self.share else {
            return 0;
        };
        let mut ran = 0u32;
        for job in share.jobs() {
            while ran < budget && job.has_work() {
                // SAFETY: this function's contract.
                match unsafe { launch::help(job, platform, &self.local) } {
                    Some(count) => ran = ran.saturating_add(count),
                    None => break,
                }
            }
        }
        ran
    }

    #[cfg(not(target_has_atomic = "64"))]
    unsafe fn help(&mut self, _: &mut impl Platform, _: u32) -> u32 {
        0
    }
}

#[cfg(test)]
mod tests;
