//! Queues: `msm_submitqueue.c`.

use hcq_uapi::msm::{
    MSM_SUBMITQUEUE_FLAGS, MSM_SUBMITQUEUE_PARAM_FAULTS, drm_msm_submitqueue,
    drm_msm_submitqueue_close, drm_msm_submitqueue_query,
};

use super::Kernel;
use super::file::File;
use crate::machine::{FileId, user};

/// `NR_SCHED_PRIORITIES` of one ring.
pub(super) const PRIORITIES: u32 = 3;
/// `msm_submitqueue_init`: the middle one.
pub(super) const USUAL: u32 = 1;

/// `struct msm_gpu_submitqueue`. A closed one lives until the GPU has done what it has of it.
#[derive(Debug)]
pub(super) struct Queue {
    /// 0 is the highest.
    pub(super) priority: u32,
    pub(super) faults: u32,
    /// The last fence's number that was given out, and the next one to try.
    pub(super) last_fence: u32,
    pub(super) next_fence: u32,
    pub(super) closed: bool,
}

impl File {
    /// The end of `msm_submitqueue_create`.
    pub(super) fn add_queue(&mut self, priority: u32) -> u32 {
        let id = self.next_queue;
        self.next_queue += 1;
        let queue = Queue {
            priority,
            faults: 0,
            last_fence: 0,
            next_fence: 1,
            closed: false,
        };
        self.queues.insert(id, queue);
        id
    }

    /// `msm_submitqueue_get`.
    pub(super) fn queue(&mut self, id: u32) -> Option<&mut Queue> {
        self.queues.get_mut(&id).filter(|queue| !queue.closed)
    }
}

impl Kernel {
    /// `msm_ioctl_submitqueue_new`, `msm_submitqueue_create`.
    pub(super) fn new_queue(
        &mut self,
        file: FileId,
        args: &mut drm_msm_submitqueue,
    ) -> Result<(), i32> {
        if args.flags & !MSM_SUBMITQUEUE_FLAGS != 0 {
            return Err(libc::EINVAL);
        }
        if !self.has_gpu() {
            return Err(libc::ENODEV);
        }
        // `msm_gpu_convert_priority`.
        if args.prio >= PRIORITIES {
            return Err(libc::EINVAL);
        }
        args.id = self.file(file)?.add_queue(args.prio);
        Ok(())
    }

    /// `msm_submitqueue_remove`.
    pub(super) fn close_queue(
        &mut self,
        file: FileId,
        args: drm_msm_submitqueue_close,
    ) -> Result<(), i32> {
        if args.id == 0 {
            return Err(libc::ENOENT);
        }
        let queue = self.file(file)?.queue(args.id).ok_or(libc::ENOENT)?;
        queue.closed = true;
        self.end_queue(file, args.id);
        Ok(())
    }

    /// A closed queue ends when nothing of it is left.
    pub(super) fn end_queue(&mut self, file: FileId, id: u32) {
        let mut jobs = self.pending.iter().chain(&self.ring);
        let busy = jobs.any(|job| job.file == file && job.queue == id);
        if let Some(file) = self.files.get_mut(&file)
            && !busy
            && file.queues.get(&id).is_some_and(|queue| queue.closed)
        {
            file.queues.remove(&id);
        }
    }

    /// `msm_submitqueue_query`. The length does not come back: the request only reads its argument.
    pub(super) fn query_queue(
        &mut self,
        file: FileId,
        args: drm_msm_submitqueue_query,
    ) -> Result<(), i32> {
        if args.pad != 0 {
            return Err(libc::EINVAL);
        }
        let queue = self.file(file)?.queue(args.id).ok_or(libc::ENOENT)?;
        let faults = queue.faults.to_ne_bytes();
        if args.param != MSM_SUBMITQUEUE_PARAM_FAULTS {
            return Err(libc::EINVAL);
        }
        let bytes = usize::try_from(args.len).unwrap_or(usize::MAX);
        let known = faults.get(..bytes.min(faults.len())).unwrap_or_default();
        user::write(args.data, known)
    }
}
