//! Classes: what objects of them hang below, and what they take.
//!
//! `resource_list.h` of the open kernel modules has them all; here are those that a compute runtime uses. Others are unknown.

use hcq_uapi::nv::{
    Abi, FERMI_CONTEXT_SHARE_A, FERMI_VASPACE_A, GT200_DEBUGGER, KEPLER_CHANNEL_GROUP_A,
    NV_CHANNEL_ALLOC_PARAMS, NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS,
    NV_CTXSHARE_ALLOCATION_PARAMETERS, NV_ERR_INVALID_ARGUMENT, NV_MEMORY_ALLOCATION_PARAMS,
    NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS, NV_VASPACE_ALLOCATION_PARAMETERS, NV01_DEVICE_0,
    NV01_EVENT, NV01_EVENT_OS_EVENT, NV01_MEMORY_LOCAL_USER, NV01_MEMORY_SYSTEM,
    NV01_MEMORY_VIRTUAL, NV01_ROOT_CLIENT, NV0005_ALLOC_PARAMETERS, NV20_SUBDEVICE_0,
    NV0080_ALLOC_PARAMETERS, NV83DE_ALLOC_PARAMETERS, NV2080_ALLOC_PARAMETERS, Params,
};

/// `NV01_ROOT`, `cl0000.h`.
pub(super) const NV01_ROOT: u32 = 0;
/// `NV01_ROOT_NON_PRIV`, `cl0001.h`.
pub(super) const NV01_ROOT_NON_PRIV: u32 = 1;
/// The class of every client that a process makes, whatever it asked for.
pub(super) const ROOT: u32 = NV01_ROOT_CLIENT;

/// Classes that are made alike: the internal classes of RM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nv) enum Family {
    /// `RmClientResource`.
    Client,
    /// `Device`.
    Device,
    /// `Subdevice`.
    Subdevice,
    /// `VaSpaceApi`.
    Space,
    /// `SystemMemory`, and `OsDescMemory` of another request.
    System,
    /// `VideoMemory`.
    Video,
    /// `VirtualMemoryRange`.
    Virtual,
    /// `UserModeApi`.
    Doorbells,
    /// `KernelChannelGroupApi`.
    Group,
    /// `KernelCtxShareApi`.
    Share,
    /// `KernelChannel`.
    Channel,
    /// `KernelGraphicsObject`, `KernelCeContext`.
    Engine,
    /// `KernelSMDebuggerSession`.
    Debugger,
    /// `Event`.
    Event,
}

/// What a class takes.
#[derive(Clone, Copy, Debug)]
enum Takes {
    /// `RS_NONE`.
    Nothing,
    /// `RS_OPTIONAL`: bytes that may be left out. Those that nothing here reads have no size.
    Maybe(fn(&Abi) -> usize),
    /// `RS_REQUIRED`.
    Always(fn(&Abi) -> usize),
}

/// A class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    pub(super) family: Family,
    /// What it may hang below; anything if this is empty.
    pub(super) parents: &'static [Family],
    takes: Takes,
}

/// What a class takes that nothing here looks at.
fn unread(_: &Abi) -> usize {
    0
}

/// The class of a number.
pub(super) fn find(class: u32) -> Option<Class> {
    use Family as F;
    let (family, parents, takes): (F, &'static [F], Takes) = match class {
        NV01_ROOT | NV01_ROOT_NON_PRIV | NV01_ROOT_CLIENT => (F::Client, &[], Takes::Maybe(unread)),
        NV01_DEVICE_0 => (
            F::Device,
            &[F::Client],
            Takes::Maybe(NV0080_ALLOC_PARAMETERS::len),
        ),
        NV20_SUBDEVICE_0 => (
            F::Subdevice,
            &[F::Device],
            Takes::Maybe(NV2080_ALLOC_PARAMETERS::len),
        ),
        FERMI_VASPACE_A => (
            F::Space,
            &[F::Device, F::Subdevice],
            Takes::Always(NV_VASPACE_ALLOCATION_PARAMETERS::len),
        ),
        NV01_MEMORY_SYSTEM => (
            F::System,
            &[F::Device],
            Takes::Always(NV_MEMORY_ALLOCATION_PARAMS::len),
        ),
        NV01_MEMORY_LOCAL_USER => (
            F::Video,
            &[F::Device, F::Subdevice],
            Takes::Always(NV_MEMORY_ALLOCATION_PARAMS::len),
        ),
        NV01_MEMORY_VIRTUAL => (
            F::Virtual,
            &[F::Device],
            Takes::Always(NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS::len),
        ),
        KEPLER_CHANNEL_GROUP_A => (
            F::Group,
            &[F::Device],
            Takes::Always(NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS::len),
        ),
        FERMI_CONTEXT_SHARE_A => (
            F::Share,
            &[F::Group],
            Takes::Always(NV_CTXSHARE_ALLOCATION_PARAMETERS::len),
        ),
        GT200_DEBUGGER => (
            F::Debugger,
            &[F::Device],
            Takes::Always(NV83DE_ALLOC_PARAMETERS::len),
        ),
        NV01_EVENT | NV01_EVENT_OS_EVENT => {
            (F::Event, &[], Takes::Always(NV0005_ALLOC_PARAMETERS::len))
        }
        // `VOLTA_USERMODE_A`, `TURING_`, `AMPERE_`; `HOPPER_` and `BLACKWELL_` may be told which way to map it.
        0xC361 | 0xC461 | 0xC561 => (F::Doorbells, &[F::Subdevice], Takes::Nothing),
        0xC661 | 0xC761 => (F::Doorbells, &[F::Subdevice], Takes::Maybe(unread)),
        // `*_CHANNEL_GPFIFO_A`, and Blackwell's `_B`.
        0xC36F | 0xC46F | 0xC56F | 0xC86F | 0xC96F | 0xCA6F => (
            F::Channel,
            &[F::Device, F::Group],
            Takes::Always(NV_CHANNEL_ALLOC_PARAMS::len),
        ),
        // `*_COMPUTE_*` from Volta to Blackwell.
        0xC3C0 | 0xC5C0 | 0xC6C0 | 0xC7C0 | 0xC9C0 | 0xCBC0 | 0xCDC0 | 0xCEC0
        // `*_DMA_COPY_*`.
        | 0xC3B5 | 0xC5B5 | 0xC6B5 | 0xC7B5 | 0xC8B5 | 0xC9B5 | 0xCAB5 => {
            (F::Engine, &[F::Channel], Takes::Maybe(unread))
        }
        _ => return None,
    };
    Some(Class {
        family,
        parents,
        takes,
    })
}

impl Class {
    /// `rmapiParamsCopyInit`, `rmapiParamsAcquire`. The kernel does not compare the size that the process names; here a wrong one
    /// is a mistake, 0 is no answer.
    pub(super) fn check_params(&self, abi: &Abi, address: u64, bytes: u32) -> Result<(), u32> {
        let known = match self.takes {
            Takes::Nothing if address != 0 => return Err(NV_ERR_INVALID_ARGUMENT),
            Takes::Always(_) if address == 0 => return Err(NV_ERR_INVALID_ARGUMENT),
            Takes::Nothing => 0,
            Takes::Maybe(len) | Takes::Always(len) => len(abi),
        };
        let told = usize::try_from(bytes).unwrap_or(usize::MAX);
        if told != 0 && known != 0 && address != 0 && told != known {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        Ok(())
    }
}
