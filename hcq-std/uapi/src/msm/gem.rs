//! Memory objects.

use crate::drm::DRM_IOCTL_BASE;
use crate::layout::{constants, flags, structs};

flags! {
    /// What a memory object is. Of the cache modes, `CACHED` to `CACHED_COHERENT`, it has exactly one.
    BoFlags: u32 = "MSM_BO_" {
        /// A display may show it.
        SCANOUT = 1 << 0;
        /// The GPU may only read.
        GPU_READONLY = 1 << 1;
        /// The CPU caches it, and sees to its caches by itself.
        CACHED = 0x1_0000;
        /// The CPU gathers writes and caches nothing.
        WC = 0x2_0000;
        /// Not taken any more: [`WC`](Self::WC).
        UNCACHED = 0x4_0000;
        /// The CPU caches it, and the GPU snoops. Refused with `EINVAL` where the GPU cannot.
        CACHED_COHERENT = 0x8_0000;
    }
}

constants! {
    /// The bits of the cache mode.
    MSM_BO_CACHE_MASK: u32 = 0xf_0000;
    /// The bits that a caller may set.
    MSM_BO_FLAGS: u32 = 0xf_0003;

    /// `info` of [`drm_msm_gem_info`]: where it is in the file, for `mmap`.
    MSM_INFO_GET_OFFSET: u32 = 0x00;
    /// `info`: its GPU address, which it gets now if it has none.
    MSM_INFO_GET_IOVA: u32 = 0x01;
    /// `info`: a name for logs.
    MSM_INFO_SET_NAME: u32 = 0x02;
    /// `info`: that name.
    MSM_INFO_GET_NAME: u32 = 0x03;
    /// `info`: a GPU address of the process's choice; 0 takes it away.
    MSM_INFO_SET_IOVA: u32 = 0x04;

    /// `op` of [`drm_msm_gem_cpu_prep`]: the CPU will read.
    MSM_PREP_READ: u32 = 0x01;
    /// `op`: the CPU will write.
    MSM_PREP_WRITE: u32 = 0x02;
    /// `op`: `EBUSY` instead of a wait.
    MSM_PREP_NOSYNC: u32 = 0x04;
    /// The bits that a caller may set.
    MSM_PREP_FLAGS: u32 = 0x07;

    /// `madv` of [`drm_msm_gem_madvise`]: the pages are needed.
    MSM_MADV_WILLNEED: u32 = 0;
    /// `madv`: the kernel may drop them.
    MSM_MADV_DONTNEED: u32 = 1;

    /// The driver's number of [`DRM_IOCTL_MSM_GEM_NEW`], less [`DRM_COMMAND_BASE`](crate::drm::DRM_COMMAND_BASE).
    DRM_MSM_GEM_NEW: u32 = 0x02;
    /// The same of [`DRM_IOCTL_MSM_GEM_INFO`].
    DRM_MSM_GEM_INFO: u32 = 0x03;
    /// The same of [`DRM_IOCTL_MSM_GEM_CPU_PREP`].
    DRM_MSM_GEM_CPU_PREP: u32 = 0x04;
    /// The same of [`DRM_IOCTL_MSM_GEM_CPU_FINI`].
    DRM_MSM_GEM_CPU_FINI: u32 = 0x05;
    /// The same of [`DRM_IOCTL_MSM_GEM_MADVISE`].
    DRM_MSM_GEM_MADVISE: u32 = 0x08;
}

structs! {
    /// Times at which waits end: of `CLOCK_MONOTONIC`, absolute.
    drm_msm_timespec {
        /// Seconds.
        tv_sec: i64,
        /// Nanoseconds.
        tv_nsec: i64,
    }

    /// A new object, zeroed.
    drm_msm_gem_new: iowr(DRM_IOCTL_BASE, 0x42) DRM_IOCTL_MSM_GEM_NEW {
        /// Bytes, rounded up to pages. The kernel cuts off what is above 32 bits.
        size: u64,
        /// What it is.
        flags: BoFlags,
        /// Its handle.
        handle: u32,
    }

    /// Something about an object is asked or set.
    drm_msm_gem_info: iowr(DRM_IOCTL_BASE, 0x43) DRM_IOCTL_MSM_GEM_INFO {
        /// The handle.
        handle: u32,
        /// `MSM_INFO_*`.
        info: u32,
        /// The value, or the address of a text.
        value: u64,
        /// Bytes of the text; zero of numbers.
        len: u32,
        /// Zero.
        pad: u32,
    }

    /// Waits until the GPU is done with an object.
    drm_msm_gem_cpu_prep: iow(DRM_IOCTL_BASE, 0x44) DRM_IOCTL_MSM_GEM_CPU_PREP {
        /// The handle.
        handle: u32,
        /// `MSM_PREP_*`.
        op: u32,
        /// When the wait ends.
        timeout: drm_msm_timespec,
    }

    /// The CPU is done with an object.
    drm_msm_gem_cpu_fini: iow(DRM_IOCTL_BASE, 0x45) DRM_IOCTL_MSM_GEM_CPU_FINI {
        /// The handle.
        handle: u32,
    }

    /// Whether an object's pages are needed.
    drm_msm_gem_madvise: iowr(DRM_IOCTL_BASE, 0x48) DRM_IOCTL_MSM_GEM_MADVISE {
        /// The handle.
        handle: u32,
        /// `MSM_MADV_*`.
        madv: u32,
        /// Whether they are still there.
        retained: u32,
    }
}
