//! `/dev/nvidiactl`, `/dev/nvidiaN` and `/dev/nvidia-uvm`: the interfaces of NVIDIA's kernel modules, as in the headers of
//! NVIDIA/open-gpu-kernel-modules.
//!
//! Two interfaces: the *resource manager* (RM: `nvos.h`, `nv_escape.h`, `class/`, `ctrl/`) with a tree of objects that
//! clients name by handles of their own choice, and *unified memory* (UVM: `uvm_ioctl.h`), which maps memory to GPUs.
//!
//! Neither is stable: structs change from one driver branch to the next. [`Abi`] says, for every branch whose headers were
//! looked at, which size or form each struct has; [`Abi::of`] refuses others. A struct that only grew is here in its newest
//! form, and what it has in a branch is a prefix ([`Params::len`]); one that changed otherwise is here twice.
//!
//! A request of RM is a request of Linux with the argument's size in it; one of UVM is a plain number. RM answers with
//! success also when it refuses: every argument has a status of its own, [`NV_OK`] or one of `NV_ERR_*`.
//!
//! ```
//! use hcq_uapi::ioctl::Argument;
//! use hcq_uapi::nv::{Abi, NV_CHANNEL_ALLOC_PARAMS, NVOS54_PARAMETERS, Params, UVM_FREE_PARAMS, Version};
//!
//! assert_eq!(NVOS54_PARAMETERS::REQUEST, 0xc020_462a);
//! assert_eq!(UVM_FREE_PARAMS::REQUEST, 34);
//!
//! let version: Version = "570.211.01".parse()?;
//! let abi = Abi::of(version)?;
//! assert_eq!(NV_CHANNEL_ALLOC_PARAMS::len(abi), 368);
//! assert!(Abi::of("470.256.02".parse()?).is_err());
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Left out: what graphics, displays, video, virtual machines and confidential computing need, and lists whose room changes
//! with every branch (`*_GET_CLASSLIST_V2`, `*_FB_GET_INFO_V2`): their older forms take a pointer and are the same everywhere.

use crate::layout::{Constant, Struct};

mod bits;
mod control;
mod escape;
mod event;
mod object;
mod status;
mod uvm;
mod version;

pub use bits::{Bits, NamedBits};
pub use control::*;
pub use escape::*;
pub use event::*;
pub use object::*;
pub use status::*;
pub use uvm::*;
pub use version::*;

/// All structs of this module. Structs of which there are two forms have the C name in the newest, and in the older one the
/// C name, an underscore, and the last branch that has it: `NVOS46_PARAMETERS_575`.
pub fn structs() -> impl Iterator<Item = &'static Struct> {
    [
        control::STRUCTS,
        escape::STRUCTS,
        event::STRUCTS,
        object::STRUCTS,
        uvm::STRUCTS,
    ]
    .into_iter()
    .flatten()
}

/// All numbers of this module.
pub fn constants() -> impl Iterator<Item = &'static Constant> {
    [
        control::CONSTANTS,
        escape::CONSTANTS,
        event::CONSTANTS,
        object::CONSTANTS,
        object::FLAGS,
        status::CONSTANTS,
        uvm::CONSTANTS,
    ]
    .into_iter()
    .flatten()
}

/// All fields of flag words of this module.
pub fn bits() -> impl Iterator<Item = &'static NamedBits> {
    [escape::BITS, event::BITS, object::BITS, control::BITS]
        .into_iter()
        .flatten()
}

/// The name of a status, `NV_ERR_?` when this module has none for it.
#[must_use]
pub fn status_name(status: u32) -> &'static str {
    status::CONSTANTS
        .iter()
        .find(|known| known.value == u64::from(status))
        .map_or("NV_ERR_?", |known| known.name)
}
