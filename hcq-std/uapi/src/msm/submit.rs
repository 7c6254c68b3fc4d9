//! Submissions.

use super::MSM_PIPE_3D0;
use crate::drm::DRM_IOCTL_BASE;
use crate::layout::{constants, flags, structs};

flags! {
    /// How a submission is run. The pipe is a number in it: [`SubmitFlags::gpu`].
    SubmitFlags: u32 = "MSM_SUBMIT_" {
        /// It does not wait for others' work on the same objects.
        NO_IMPLICIT = 1 << 31;
        /// It waits for the fence that is the file `fence_fd`.
        FENCE_FD_IN = 1 << 30;
        /// A file that is its fence comes back in `fence_fd`.
        FENCE_FD_OUT = 1 << 29;
        /// Its commands run with the kernel's rights: for tests of the driver.
        SUDO = 1 << 28;
        /// It waits for sync objects.
        SYNCOBJ_IN = 1 << 27;
        /// It signals sync objects.
        SYNCOBJ_OUT = 1 << 26;
        /// Its number is the caller's choice.
        FENCE_SN_IN = 1 << 25;
    }

    /// How a submission uses an object.
    SubmitBoFlags: u32 = "MSM_SUBMIT_BO_" {
        /// It reads.
        READ = 1 << 0;
        /// It writes.
        WRITE = 1 << 1;
        /// Its bytes are part of what the kernel stores when the GPU hangs.
        DUMP = 1 << 2;
    }
}

impl SubmitFlags {
    /// These flags, for the GPU.
    #[must_use]
    pub const fn gpu(self) -> Self {
        Self::from_bits_retain(self.bits() | MSM_PIPE_3D0)
    }
}

constants! {
    /// The flags that a caller may set.
    MSM_SUBMIT_FLAGS: u32 = 0xfe00_0000;
    /// The flags of an object that a caller may set.
    MSM_SUBMIT_BO_FLAGS: u32 = 0x7;

    /// `type` of [`drm_msm_gem_submit_cmd`]: run.
    MSM_SUBMIT_CMD_BUF: u32 = 1;
    /// `type`: others jump there.
    MSM_SUBMIT_CMD_IB_TARGET_BUF: u32 = 2;
    /// `type`: run if another file's submission ran since the last one.
    MSM_SUBMIT_CMD_CTX_RESTORE_BUF: u32 = 3;

    /// `flags` of [`drm_msm_gem_submit_syncobj`]: reset after the wait.
    MSM_SUBMIT_SYNCOBJ_RESET: u32 = 1;
    /// Those that a caller may set.
    MSM_SUBMIT_SYNCOBJ_FLAGS: u32 = 1;

    /// The driver's number of [`DRM_IOCTL_MSM_GEM_SUBMIT`], less [`DRM_COMMAND_BASE`](crate::drm::DRM_COMMAND_BASE).
    DRM_MSM_GEM_SUBMIT: u32 = 0x06;
}

structs! {
    /// A word of commands that an address is put into. Kernels refuse them from A5xx on.
    drm_msm_gem_submit_reloc {
        /// Bytes from the start of the object with the commands, in ascending order.
        submit_offset: u32,
        /// Bits that the value is combined with.
        or: u32,
        /// Bits by which the address is shifted to the left, to the right if negative.
        shift: i32,
        /// The object, by its place in the list.
        reloc_idx: u32,
        /// Bytes from its start.
        reloc_offset: u64,
    }

    /// Words to run.
    drm_msm_gem_submit_cmd {
        /// `MSM_SUBMIT_CMD_*`.
        r#type: u32,
        /// The object that they are in, by its place in the list.
        submit_idx: u32,
        /// Bytes from its start.
        submit_offset: u32,
        /// Bytes, a multiple of 4.
        size: u32,
        /// Zero.
        pad: u32,
        /// Entries of the list `relocs`.
        nr_relocs: u32,
        /// Address of a list of [`drm_msm_gem_submit_reloc`].
        relocs: u64,
    }

    /// An object that a submission uses. What is in no list need not be mapped.
    drm_msm_gem_submit_bo {
        /// How.
        flags: SubmitBoFlags,
        /// Its handle. Each is in the list once.
        handle: u32,
        /// Its GPU address, for relocations.
        presumed: u64,
    }

    /// A sync object that a submission waits for or signals.
    drm_msm_gem_submit_syncobj {
        /// Its handle.
        handle: u32,
        /// [`MSM_SUBMIT_SYNCOBJ_FLAGS`].
        flags: u32,
        /// The point, of timelines.
        point: u64,
    }

    /// A submission. It runs after those before it of queues of the same file and priority.
    drm_msm_gem_submit: iowr(DRM_IOCTL_BASE, 0x46) DRM_IOCTL_MSM_GEM_SUBMIT {
        /// How it is run.
        flags: SubmitFlags,
        /// Its number in its queue, from 1 to 2^31 - 2, which begins anew behind that.
        fence: u32,
        /// Entries of the list `bos`.
        nr_bos: u32,
        /// Entries of the list `cmds`.
        nr_cmds: u32,
        /// Address of a list of [`drm_msm_gem_submit_bo`].
        bos: u64,
        /// Address of a list of [`drm_msm_gem_submit_cmd`].
        cmds: u64,
        /// A fence that is a file.
        fence_fd: i32,
        /// The queue.
        queueid: u32,
        /// Address of a list of [`drm_msm_gem_submit_syncobj`] to wait for.
        in_syncobjs: u64,
        /// Address of a list of those to signal.
        out_syncobjs: u64,
        /// Entries of the list `in_syncobjs`.
        nr_in_syncobjs: u32,
        /// Entries of the list `out_syncobjs`.
        nr_out_syncobjs: u32,
        /// Bytes of an entry of these lists.
        syncobj_stride: u32,
        /// Zero.
        pad: u32,
    }
}
