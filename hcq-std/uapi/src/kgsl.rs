//! `/dev/kgsl-3d0`, Qualcomm's interface to Adreno GPUs: `include/uapi/linux/msm_kgsl.h` of the vendor's `kgsl` driver.
//!
//! Structs are those of 64-bit callers: pointers, `unsigned long` and `__kernel_size_t` are 64 bits here. Words that C leaves
//! unnamed between fields are named `hole*`; callers leave them zero. The driver's version is frozen at 3.14 and
//! says nothing: what a kernel has shows when it is asked (`ENOTTY`: a request that it does not know). A kernel finds a request
//! by its number alone, reads as many bytes as it names and clears what the caller left out, and copies no more back.
//!
//! Left out: requests that newer ones replace (`*_WAITTIMESTAMP` without a context, `RINGBUFFER_ISSUEIBCMDS`,
//! `SUBMIT_COMMANDS`, `GPUMEM_*` by address, `MAP_USER_MEM`, `SHAREDMEM_*`, `*_FREEMEMONTIMESTAMP`), drawing
//! (`BIND_GMEM_SHADOW`, `SET_BIN_BASE_OFFSET`, `CMDWINDOW_WRITE`), the emulator's hooks (`CFF_*`), sparse and bound
//! ranges, timelines, sync sources, recurring and auxiliary commands, and performance counters.
//!
//! ```
//! use hcq_uapi::ioctl::Argument;
//! use hcq_uapi::kgsl::{self, CacheMode, MemFlags, kgsl_gpuobj_alloc};
//!
//! let args = kgsl_gpuobj_alloc {
//!     size: 0x4000,
//!     flags: MemFlags::USE_CPU_MAP | MemFlags::cache_mode(CacheMode::WriteBack) | MemFlags::align(16),
//!     ..Default::default()
//! };
//! assert_eq!(args.flags.bits(), 0x1c10_0000);
//! assert_eq!(kgsl_gpuobj_alloc::REQUEST, kgsl::IOCTL_KGSL_GPUOBJ_ALLOC);
//! assert_eq!(kgsl::IOCTL_KGSL_GPUOBJ_ALLOC, 0xc030_0945);
//! ```

use crate::layout::{Constant, Struct};

mod command;
mod context;
mod device;
mod fault;
mod memory;

pub use command::*;
pub use context::*;
pub use device::*;
pub use fault::*;
pub use memory::*;

/// `KGSL_IOC_TYPE`: the letter of all requests.
pub const KGSL_IOC_TYPE: u8 = 0x09;

/// All structs of this module.
pub fn structs() -> impl Iterator<Item = &'static Struct> {
    [
        command::STRUCTS,
        context::STRUCTS,
        device::STRUCTS,
        fault::STRUCTS,
        memory::STRUCTS,
    ]
    .into_iter()
    .flatten()
}

/// All numbers of this module that are in the header.
pub fn constants() -> impl Iterator<Item = &'static Constant> {
    [
        command::CONSTANTS,
        command::FLAGS,
        context::CONSTANTS,
        context::FLAGS,
        device::CONSTANTS,
        fault::CONSTANTS,
        fault::FLAGS,
        memory::CONSTANTS,
        memory::FLAGS,
    ]
    .into_iter()
    .flatten()
}
