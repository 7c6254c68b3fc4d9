//! What the GPU is, and times.

use crate::drm::DRM_IOCTL_BASE;
use crate::layout::{constants, structs};

constants! {
    /// Nothing.
    MSM_PIPE_NONE: u32 = 0x00;
    /// The first 2D core.
    MSM_PIPE_2D0: u32 = 0x01;
    /// The second 2D core.
    MSM_PIPE_2D1: u32 = 0x02;
    /// The GPU. The only one that kernels take.
    MSM_PIPE_3D0: u32 = 0x10;
    /// The bits of the pipe in a submission's flags.
    MSM_PIPE_ID_MASK: u32 = 0xffff;

    /// Parameter: the model's number, 630; 0 of newer ones.
    MSM_PARAM_GPU_ID: u32 = 0x01;
    /// Parameter: bytes of tile memory.
    MSM_PARAM_GMEM_SIZE: u32 = 0x02;
    /// Parameter: core 31:24, major 23:16, minor 15:8, patch 7:0; above them the speed bin of models without a number.
    MSM_PARAM_CHIP_ID: u32 = 0x03;
    /// Parameter: the fastest clock, Hz.
    MSM_PARAM_MAX_FREQ: u32 = 0x04;
    /// Parameter: the counter that timestamps are of.
    MSM_PARAM_TIMESTAMP: u32 = 0x05;
    /// Parameter: the address of tile memory.
    MSM_PARAM_GMEM_BASE: u32 = 0x06;
    /// Parameter: priorities of queues.
    MSM_PARAM_PRIORITIES: u32 = 0x07;
    /// Parameter: zero.
    MSM_PARAM_PP_PGTABLE: u32 = 0x08;
    /// Parameter: times that the GPU hung because of this address space, or of nobody.
    MSM_PARAM_FAULTS: u32 = 0x09;
    /// Parameter: times that the GPU was put to sleep.
    MSM_PARAM_SUSPENDS: u32 = 0x0a;
    /// Parameter, to set: counters go on over switches.
    MSM_PARAM_SYSPROF: u32 = 0x0b;
    /// Parameter, to set: the process's name, for logs.
    MSM_PARAM_COMM: u32 = 0x0c;
    /// Parameter, to set: its command line.
    MSM_PARAM_CMDLINE: u32 = 0x0d;
    /// Parameter: the first GPU address of the file's address space.
    MSM_PARAM_VA_START: u32 = 0x0e;
    /// Parameter: bytes of the file's address space.
    MSM_PARAM_VA_SIZE: u32 = 0x0f;
    /// [`MSM_PARAM_PRIORITIES`] by its older name.
    MSM_PARAM_NR_RINGS: u32 = MSM_PARAM_PRIORITIES;

    /// The driver's number of [`DRM_IOCTL_MSM_GET_PARAM`], less [`DRM_COMMAND_BASE`](crate::drm::DRM_COMMAND_BASE).
    DRM_MSM_GET_PARAM: u32 = 0x00;
    /// The same of [`DRM_IOCTL_MSM_SET_PARAM`].
    DRM_MSM_SET_PARAM: u32 = 0x01;
}

structs! {
    /// A parameter is read.
    drm_msm_param: iowr(DRM_IOCTL_BASE, 0x40) DRM_IOCTL_MSM_GET_PARAM {
        /// [`MSM_PIPE_3D0`].
        pipe: u32,
        /// `MSM_PARAM_*`.
        param: u32,
        /// The value.
        value: u64,
        /// Bytes at the address `value`; zero of numbers.
        len: u32,
        /// Zero.
        pad: u32,
    }

    /// A parameter is set. C uses [`drm_msm_param`].
    drm_msm_set_param: iow(DRM_IOCTL_BASE, 0x41) DRM_IOCTL_MSM_SET_PARAM {
        /// [`MSM_PIPE_3D0`].
        pipe: u32,
        /// `MSM_PARAM_*`.
        param: u32,
        /// The value.
        value: u64,
        /// Bytes at the address `value`; zero of numbers.
        len: u32,
        /// Zero.
        pad: u32,
    }
}
