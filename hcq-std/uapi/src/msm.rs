//! `/dev/dri/renderD*` of Linux' own driver for Adreno GPUs, `msm`: `include/uapi/drm/msm_drm.h`.
//!
//! This is the interface of Linux 6.1, version 1.9 of the driver; later ones add to it.
//! [`drm_version`](crate::drm::drm_version) says which driver a node is of, and its version: 1.3 has queues, 1.4 tells GPU addresses, 1.5 tells of
//! a queue's faults, 1.8 has memory that the GPU snoops. Handles and queues are a file's own, and so is the GPU's address space.
//!
//! Left out: memory imported from and exported to other drivers (DRM's own requests), sync objects' requests, address spaces that
//! the process manages (`MSM_PARAM_EN_VM_BIND`, 1.13).
//!
//! ```
//! use hcq_uapi::ioctl::Argument;
//! use hcq_uapi::msm::{self, BoFlags, drm_msm_gem_new};
//!
//! let args = drm_msm_gem_new { size: 0x4000, flags: BoFlags::WC | BoFlags::GPU_READONLY, ..Default::default() };
//! assert_eq!(args.flags.bits(), 0x2_0002);
//! assert_eq!(drm_msm_gem_new::REQUEST, msm::DRM_IOCTL_MSM_GEM_NEW);
//! assert_eq!(msm::DRM_IOCTL_MSM_GEM_NEW, 0xc010_6442);
//! ```

use crate::layout::{Constant, Struct};

mod gem;
mod param;
mod queue;
mod submit;

pub use gem::*;
pub use param::*;
pub use queue::*;
pub use submit::*;

/// All structs of this module.
pub fn structs() -> impl Iterator<Item = &'static Struct> {
    [
        gem::STRUCTS,
        param::STRUCTS,
        queue::STRUCTS,
        submit::STRUCTS,
    ]
    .into_iter()
    .flatten()
}

/// All numbers of this module that are in the header.
pub fn constants() -> impl Iterator<Item = &'static Constant> {
    [
        gem::CONSTANTS,
        gem::FLAGS,
        param::CONSTANTS,
        queue::CONSTANTS,
        submit::CONSTANTS,
        submit::FLAGS,
    ]
    .into_iter()
    .flatten()
}
