//! Memory of GPUs.

use std::ptr::NonNull;
use std::sync::Arc;

use super::Gpu;
use crate::Error;

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Device memory.
    Vram,
    /// Host memory that the kernel allocates.
    Gtt,
}

/// What memory is wanted. The address is the same for host and GPU, and a multiple of a page at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryRequest {
    /// At least 1; rounded up to whole pages.
    pub(crate) bytes: usize,
    pub(crate) place: Place,
    /// The host reads and writes it; always so for [`Place::Gtt`].
    pub(crate) host_visible: bool,
    /// Not kept in the GPU's caches: what host and GPU exchange while both run.
    pub(crate) uncached: bool,
    pub(crate) executable: bool,
    /// An object of its own with exactly these pages, as Linux 6.12 wants rings, pointer pages and context areas to be.
    /// All are now; the flag says that it must stay so.
    pub(crate) exact: bool,
    /// One range of physical addresses.
    pub(crate) contiguous: bool,
}

/// Memory that a GPU sees. Dropped: unmapped from all GPUs, then freed.
#[derive(Debug)]
pub(crate) struct Bo {
    gpu: Arc<Gpu>,
    handle: u64,
    cpu: Option<NonNull<u8>>,
    address: u64,
    len: usize,
}

// SAFETY: a plain range; who may access it when is its owner's business.
#[allow(unsafe_code, reason = "a range of memory is no thread's own")]
unsafe impl Send for Bo {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "a range of memory is no thread's own")]
unsafe impl Sync for Bo {}

impl Bo {
    /// Where the host reaches it; `None` if it does not.
    pub(crate) fn cpu(&self) -> Option<NonNull<u8>> {
        self.cpu
    }

    /// Where GPUs reach it.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Bytes mapped, whole pages.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Gpu {
    /// Allocates memory and maps it for this GPU. VRAM is not zeroed, GTT is.
    pub(crate) fn allocate(self: &Arc<Self>, request: &MemoryRequest) -> Result<Bo, Error> {
        let _ = request;
        Err(Error::Internal("KFD is being written"))
    }

    /// Makes the pages of caller memory known to this GPU. [`Bo::address`] is that of `cpu` itself.
    pub(crate) fn register(
        self: &Arc<Self>,
        cpu: NonNull<u8>,
        bytes: usize,
        writable: bool,
    ) -> Result<Bo, Error> {
        let _ = (cpu, bytes, writable);
        Err(Error::Internal("KFD is being written"))
    }

    /// Maps memory of this GPU for a peer too; refused in words if no link joins them.
    pub(crate) fn share(&self, bo: &Bo, peer: &Self) -> Result<(), Error> {
        let _ = (bo, peer);
        Err(Error::Internal("KFD is being written"))
    }

    /// Takes memory out of the address spaces of all GPUs: accesses are faults from now on. The host still sees it.
    pub(crate) fn unmap(&self, bo: &Bo) {
        let _ = bo;
    }

    /// Gives memory back; the same as dropping it.
    pub(crate) fn free(&self, bo: Bo) {
        drop(bo);
    }
}
