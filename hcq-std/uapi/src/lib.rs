//! What the kernels' drivers for GPUs take and answer: structs and numbers, as plain data that needs no operating system.
//!
//! One module for each interface. Structs, fields and constants keep the names of the C headers, so that a search in the
//! kernel's sources finds them; bits that belong together are [`bitflags`] types. Every struct is bytes without holes
//! (`zerocopy`), so that a caller and a simulated kernel can copy it in and out of memory without `unsafe`.
//!
//! Each module also has its own description as data ([`layout`]): names, sizes, offsets, values. The tests compare that
//! list with the C headers of the machine they run on and with recorded facts, so a field that is added here is proven
//! with no further step.
#![no_std]
#![forbid(unsafe_code)]

pub mod drm;
pub mod ioctl;
pub mod kfd;
pub mod kgsl;
pub mod layout;
pub mod msm;
pub mod nv;
