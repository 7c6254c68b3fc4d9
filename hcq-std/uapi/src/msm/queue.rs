//! Queues and waits.

use super::drm_msm_timespec;
use crate::drm::DRM_IOCTL_BASE;
use crate::layout::{constants, structs};

constants! {
    /// The bits that a caller may set in a queue's flags.
    MSM_SUBMITQUEUE_FLAGS: u32 = 0;
    /// `param` of [`drm_msm_submitqueue_query`]: a `u32`, times that the GPU hung in a submission of the queue.
    MSM_SUBMITQUEUE_PARAM_FAULTS: u32 = 0;

    /// The driver's number of [`DRM_IOCTL_MSM_WAIT_FENCE`], less [`DRM_COMMAND_BASE`](crate::drm::DRM_COMMAND_BASE).
    DRM_MSM_WAIT_FENCE: u32 = 0x07;
    /// The same of [`DRM_IOCTL_MSM_SUBMITQUEUE_NEW`].
    DRM_MSM_SUBMITQUEUE_NEW: u32 = 0x0a;
    /// The same of [`DRM_IOCTL_MSM_SUBMITQUEUE_CLOSE`].
    DRM_MSM_SUBMITQUEUE_CLOSE: u32 = 0x0b;
    /// The same of [`DRM_IOCTL_MSM_SUBMITQUEUE_QUERY`].
    DRM_MSM_SUBMITQUEUE_QUERY: u32 = 0x0c;
}

structs! {
    /// Waits for a submission. One that was lost because the GPU hung in it is over, too.
    drm_msm_wait_fence: iow(DRM_IOCTL_BASE, 0x47) DRM_IOCTL_MSM_WAIT_FENCE {
        /// Its number in its queue.
        fence: u32,
        /// Zero; newer kernels have flags here.
        pad: u32,
        /// When the wait ends.
        timeout: drm_msm_timespec,
        /// The queue.
        queueid: u32,
        /// Zero.
        hole: u32,
    }

    /// A new queue.
    drm_msm_submitqueue: iowr(DRM_IOCTL_BASE, 0x4a) DRM_IOCTL_MSM_SUBMITQUEUE_NEW {
        /// [`MSM_SUBMITQUEUE_FLAGS`].
        flags: u32,
        /// From 0, the highest, to one less than [`MSM_PARAM_PRIORITIES`](super::MSM_PARAM_PRIORITIES).
        prio: u32,
        /// Its number.
        id: u32,
    }

    /// A queue ends. What was submitted to it runs all the same. C passes a `__u32`.
    drm_msm_submitqueue_close: iow(DRM_IOCTL_BASE, 0x4b) DRM_IOCTL_MSM_SUBMITQUEUE_CLOSE {
        /// Its number. The queue 0, which every file has, does not end.
        id: u32,
    }

    /// Something about a queue is asked. What is written here does not come back, only what is written to `data`.
    drm_msm_submitqueue_query: iow(DRM_IOCTL_BASE, 0x4c) DRM_IOCTL_MSM_SUBMITQUEUE_QUERY {
        /// Address of the answer.
        data: u64,
        /// The queue.
        id: u32,
        /// `MSM_SUBMITQUEUE_PARAM_*`.
        param: u32,
        /// Bytes there is room for.
        len: u32,
        /// Zero.
        pad: u32,
    }
}
