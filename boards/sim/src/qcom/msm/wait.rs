//! Calls that wait: for a fence, for an object that the GPU uses.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hcq_uapi::msm::{drm_msm_timespec, drm_msm_wait_fence};

use super::Kernel;
use crate::machine::{Answer, FileId, clock};

/// What a call waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    Fence {
        file: FileId,
        queue: u32,
        fence: u32,
    },
    Idle {
        object: u64,
        write: bool,
    },
    /// An object whose handle is closed.
    Closed {
        object: u64,
    },
}

/// The calls that wait.
#[derive(Debug, Default)]
pub(super) struct Waits {
    waits: BTreeMap<u64, Wait>,
    next: u64,
}

/// `timeout_to_jiffies`: nanoseconds from now to a time of `CLOCK_MONOTONIC`; 0 if it is past.
fn left(time: drm_msm_timespec) -> u64 {
    let ns = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    let left = ns.saturating_sub(clock::now_ns().into());
    u64::try_from(left.max(0)).unwrap_or(u64::MAX)
}

pub(super) fn is_past(time: drm_msm_timespec) -> bool {
    left(time) == 0
}

pub(super) fn after(time: drm_msm_timespec) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_nanos(left(time)))
}

impl Kernel {
    /// A call waits.
    pub(super) fn wait(&mut self, wait: Wait, deadline: Option<Instant>) -> Answer {
        let number = self.waits.next;
        self.waits.next += 1;
        self.waits.waits.insert(number, wait);
        Answer::Wait {
            wait: number,
            deadline,
        }
    }

    /// Whether a submission is in flight.
    fn is_pending(&self, file: FileId, queue: u32, fence: u32) -> bool {
        let mut jobs = self.pending.iter().chain(&self.ring);
        jobs.any(|job| job.file == file && job.queue == queue && job.fence == fence)
    }

    /// `msm_ioctl_wait_fence`.
    pub(super) fn wait_fence(
        &mut self,
        file: FileId,
        args: drm_msm_wait_fence,
    ) -> Result<Answer, i32> {
        if args.pad != 0 {
            return Err(libc::EINVAL);
        }
        if !self.has_gpu() {
            return Ok(Answer::Done(0));
        }
        let (queue, fence) = (args.queueid, args.fence);
        let last = self
            .file(file)?
            .queue(queue)
            .ok_or(libc::ENOENT)?
            .last_fence;
        // `fence_after`.
        if fence.wrapping_sub(last).cast_signed() > 0 {
            return Err(libc::EINVAL);
        }
        if !self.is_pending(file, queue, fence) {
            return Ok(Answer::Done(0));
        }
        if is_past(args.timeout) {
            return Err(libc::ETIMEDOUT);
        }
        let wait = Wait::Fence { file, queue, fence };
        Ok(self.wait(wait, after(args.timeout)))
    }

    /// Asks a wait whether it is over.
    pub(super) fn resume_wait(&mut self, number: u64) -> Option<Result<i32, i32>> {
        let over = match *self.waits.waits.get(&number)? {
            Wait::Fence { file, queue, fence } => !self.is_pending(file, queue, fence),
            Wait::Idle { object, write } => self.is_idle(object, write),
            Wait::Closed { object } => {
                let idle = self.is_idle(object, true);
                if idle {
                    self.drop_object(object);
                }
                idle
            }
        };
        if !over {
            return None;
        }
        self.waits.waits.remove(&number);
        Some(Ok(0))
    }

    /// A wait's time is up.
    pub(super) fn expire_wait(&mut self, number: u64) -> Result<i32, i32> {
        self.waits.waits.remove(&number);
        Err(libc::ETIMEDOUT)
    }
}
