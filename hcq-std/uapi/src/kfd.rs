//! `/dev/kfd`, the compute interface of Linux's `amdgpu`: `include/uapi/linux/kfd_ioctl.h` and `kfd_sysfs.h`.
//!
//! The structs are those of interface version 1.22. A kernel takes arguments of any age: it reads as many bytes as
//! the request names and clears what the caller left out, and it copies no more back. So a caller always hands over the
//! newest struct with unused fields zero, and asks [`kfd_ioctl_get_version_args`] before it relies on a newer field.
//!
//! Left out: checkpoint and restore (`AMDKFD_IOC_CRIU_OP`, number 0x22), the debugger's operations behind
//! `AMDKFD_IOC_DBG_TRAP` (number 0x26; the struct of its argument is a union of them), the four requests that kernels
//! since 5.1 refuse (`AMDKFD_IOC_DBG_*_DEPRECATED`, 0x0d to 0x10), and what only AMD's own kernel tree has (0x80 and up).
//!
//! ```
//! use hcq_uapi::ioctl::Argument;
//! use hcq_uapi::kfd::{self, AllocMemFlags, kfd_ioctl_alloc_memory_of_gpu_args};
//! use zerocopy::IntoBytes;
//!
//! let args = kfd_ioctl_alloc_memory_of_gpu_args {
//!     va_addr: 0x7000_0000_0000,
//!     size: 2 << 20,
//!     gpu_id: 0x1234,
//!     flags: AllocMemFlags::VRAM | AllocMemFlags::WRITABLE,
//!     ..Default::default()
//! };
//! assert_eq!(args.as_bytes().len(), 40);
//! assert_eq!(kfd_ioctl_alloc_memory_of_gpu_args::REQUEST, kfd::AMDKFD_IOC_ALLOC_MEMORY_OF_GPU);
//! assert_eq!(kfd::AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, 0xc028_4b16);
//! ```

use crate::layout::{Constant, Struct};

mod event;
mod memory;
mod mmap;
mod process;
mod queue;
mod smi;
mod svm;
mod sysfs;

pub use event::*;
pub use memory::*;
pub use mmap::*;
pub use process::*;
pub use queue::*;
pub use smi::*;
pub use svm::*;
pub use sysfs::*;

/// `AMDKFD_IOCTL_BASE`: the letter of all requests.
pub const AMDKFD_IOCTL_BASE: u8 = b'K';

/// All structs of this module.
pub fn structs() -> impl Iterator<Item = &'static Struct> {
    [
        event::STRUCTS,
        memory::STRUCTS,
        process::STRUCTS,
        queue::STRUCTS,
        smi::STRUCTS,
        svm::STRUCTS,
    ]
    .into_iter()
    .flatten()
}

/// All numbers of this module that come from the two headers; [`mmap_offset`] and its kin come from the kernel's own.
pub fn constants() -> impl Iterator<Item = &'static Constant> {
    [
        event::CONSTANTS,
        memory::FLAGS,
        process::CONSTANTS,
        process::FLAGS,
        queue::CONSTANTS,
        smi::CONSTANTS,
        svm::CONSTANTS,
        svm::FLAGS,
        sysfs::CONSTANTS,
        sysfs::FLAGS,
    ]
    .into_iter()
    .flatten()
}
