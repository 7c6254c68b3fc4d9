//! Memory of GPUs, and of the host for GPUs.
#![allow(unsafe_code, reason = "makes the host's memory known to GPUs")]

use std::ptr::NonNull;
use std::sync::Arc;

use hcq_uapi::nv::{self, AllocFlags};

use super::advice;
use super::call::Refusal;
use super::gpu::Gpu;
use super::root::{Addresses, Object, Range};
use crate::Error;
use crate::mapping::Mapping;
use crate::seam::{Errno, page_bytes};

/// Pages of GPUs.
const SMALL: u64 = 4 << 10;
const BIG: u64 = 64 << 10;
const HUGE: u64 = 2 << 20;
/// `NV_MMU_PTE_KIND_GENERIC_MEMORY`: pages without compression.
const GENERIC: u32 = 6;

/// Device memory that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VideoRequest {
    /// At least 1; rounded up to whole pages.
    pub(super) bytes: usize,
    /// The host reads and writes it.
    pub(super) host_visible: bool,
    /// One range of physical addresses.
    pub(super) contiguous: bool,
}

impl VideoRequest {
    /// Memory that only GPUs see.
    pub(super) const fn new(bytes: usize) -> Self {
        Self {
            bytes,
            host_visible: false,
            contiguous: false,
        }
    }

    pub(super) const fn host_visible(self) -> Self {
        Self {
            host_visible: true,
            ..self
        }
    }

    pub(super) const fn contiguous(self) -> Self {
        Self {
            contiguous: true,
            ..self
        }
    }
}

/// Memory that GPUs see. Fields are dropped in their order: first nobody sees it any more, then it goes.
#[derive(Debug)]
pub(super) struct Bo {
    range: Range,
    _mapping: Option<Mapping>,
    object: Object,
    /// The host's own memory.
    _host: Option<Mapping>,
    /// Where the host reaches it, if it does.
    cpu: Option<NonNull<u8>>,
    len: usize,
    /// Where GPUs reach it.
    address: u64,
    gpu: Arc<Gpu>,
}

// SAFETY: a plain range; who may access it when is its owner's business.
unsafe impl Send for Bo {}
// SAFETY: as above.
unsafe impl Sync for Bo {}

impl Bo {
    /// Device memory, with contents of no account.
    pub(super) fn video(gpu: &Arc<Gpu>, request: VideoRequest) -> Result<Self, Error> {
        let root = gpu.root();
        let wanted = request.bytes.max(1) as u64;
        let page = match wanted {
            HUGE.. => HUGE,
            BIG.. => BIG,
            _ => SMALL,
        };
        let too_large = Error::OutOfMemory {
            bytes: wanted,
            errno: Errno::NOMEM,
        };
        let Some(bytes) = wanted.checked_next_multiple_of(page) else {
            return Err(too_large);
        };
        let size = match page {
            HUGE => nv::NVOS32_ATTR_PAGE_SIZE_HUGE,
            BIG => nv::NVOS32_ATTR_PAGE_SIZE_BIG,
            _ => nv::NVOS32_ATTR_PAGE_SIZE_4KB,
        };
        let physical = if request.contiguous {
            nv::NVOS32_ATTR_PHYSICALITY_CONTIGUOUS
        } else {
            nv::NVOS32_ATTR_PHYSICALITY_ALLOW_NONCONTIGUOUS
        };
        let huge = if page == HUGE {
            nv::NVOS32_ATTR2_PAGE_SIZE_HUGE_2MB
        } else {
            0
        };
        let mut params = nv::NV_MEMORY_ALLOCATION_PARAMS {
            owner: root.client,
            r#type: nv::NVOS32_TYPE_IMAGE,
            flags: AllocFlags::IGNORE_BANK_PLACEMENT
                | AllocFlags::ALIGNMENT_FORCE
                | AllocFlags::MEMORY_HANDLE_PROVIDED
                | AllocFlags::MAP_NOT_REQUIRED,
            attr: nv::NVOS32_ATTR_PAGE_SIZE.put(size)
                | nv::NVOS32_ATTR_LOCATION.put(nv::NVOS32_ATTR_LOCATION_VIDMEM)
                | nv::NVOS32_ATTR_PHYSICALITY.put(physical),
            attr2: nv::NVOS32_ATTR2_ZBC.put(nv::NVOS32_ATTR2_ZBC_PREFER_NO_ZBC)
                | nv::NVOS32_ATTR2_GPU_CACHEABLE.put(nv::NVOS32_ATTR2_GPU_CACHEABLE_YES)
                | nv::NVOS32_ATTR2_PAGE_SIZE_HUGE.put(huge),
            format: GENERIC,
            size: bytes,
            alignment: page,
            limit: bytes - 1,
            ..Default::default()
        };
        let class = nv::NV01_MEMORY_LOCAL_USER;
        let object = root.object_with(gpu.device(), class, &mut params);
        let object =
            object.map_err(|refusal| refused(gpu, "RM_ALLOC of device memory", bytes, refusal))?;
        let addresses = root.addresses(bytes, page).ok_or(Error::OutOfMemory {
            bytes,
            errno: Errno::NOMEM,
        })?;
        let range = place(gpu, &object, addresses)
            .map_err(|(operation, refusal)| refused(gpu, operation, bytes, refusal))?;
        let mapping = if request.host_visible {
            let len = usize::try_from(bytes).map_err(|_| too_large)?;
            Some(gpu.map_own(object.handle(), len, range.start())?)
        } else {
            None
        };
        Ok(Self {
            address: range.start(),
            cpu: mapping.as_ref().map(Mapping::start),
            range,
            _mapping: mapping,
            object,
            _host: None,
            len: request.bytes,
            gpu: Arc::clone(gpu),
        })
    }

    /// Host memory, zeroed, that GPUs see.
    pub(super) fn host(gpu: &Arc<Gpu>, bytes: usize) -> Result<Self, Error> {
        let out = |errno| Error::OutOfMemory {
            bytes: bytes as u64,
            errno,
        };
        let len = bytes.max(1).checked_next_multiple_of(page_bytes());
        let len = len.ok_or(out(Errno::NOMEM))?;
        let addresses = gpu.root().addresses(len as u64, page_bytes() as u64);
        let addresses = addresses.ok_or(out(Errno::NOMEM))?;
        // Where GPUs see it, so that other devices of the process may see it at one address.
        let near = Some(addresses.start());
        let memory = Mapping::near(&gpu.root().system, None, len, near).map_err(out)?;
        let start = memory.start();
        // SAFETY: mapped just now, and kept behind the object by the order of the fields; nobody has a reference to it.
        let described = unsafe { describe(gpu, start, len as u64, addresses) };
        let (object, range) = described
            .map_err(|(operation, refusal)| refused(gpu, operation, len as u64, refusal))?;
        Ok(Self {
            address: range.start(),
            cpu: Some(start),
            range,
            _mapping: None,
            object,
            _host: Some(memory),
            len: bytes,
            gpu: Arc::clone(gpu),
        })
    }

    /// Memory of the caller. It is mapped in whole pages, and reached at its place in them.
    ///
    /// # Safety
    /// The pages stay mapped until this is dropped.
    pub(super) unsafe fn caller(
        gpu: &Arc<Gpu>,
        cpu: NonNull<u8>,
        bytes: usize,
    ) -> Result<Self, Error> {
        let page = page_bytes();
        let address = cpu.as_ptr().expose_provenance();
        let before = address % page;
        let len = before
            .checked_add(bytes)
            .and_then(|n| n.checked_next_multiple_of(page));
        let len = len.ok_or(Error::Address {
            address: address as u64,
            reason: "it ends beyond the last address",
        })?;
        // SAFETY: the same page, which is mapped.
        let start = unsafe { cpu.sub(before) };
        let out = Error::OutOfMemory {
            bytes: bytes as u64,
            errno: Errno::NOMEM,
        };
        let addresses = gpu.root().addresses(len as u64, page as u64).ok_or(out)?;
        // SAFETY: the caller's promise.
        let described = unsafe { describe(gpu, start, len as u64, addresses) };
        let (object, range) = described.map_err(|(operation, refusal)| {
            refusal.of(gpu.name(), operation, advice::host_memory(refusal))
        })?;
        Ok(Self {
            address: range.start() + before as u64,
            cpu: Some(cpu),
            range,
            _mapping: None,
            object,
            _host: None,
            len: bytes,
            gpu: Arc::clone(gpu),
        })
    }

    pub(super) const fn cpu(&self) -> Option<NonNull<u8>> {
        self.cpu
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn address(&self) -> u64 {
        self.address
    }

    /// The driver's handle.
    pub(super) const fn handle(&self) -> u32 {
        self.object.handle()
    }

    pub(super) const fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Maps it to another GPU of the process, at the same address.
    pub(super) fn share(&self, with: &Gpu) -> Result<(), Error> {
        self.range
            .map(self.object.handle(), with.uuid())
            .map_err(|refusal| {
                let operation = "UVM_MAP_EXTERNAL_ALLOCATION of a peer's memory";
                refusal.of(with.name(), operation, advice::peer(refusal))
            })
    }

    /// Takes it from a GPU, from its own too.
    pub(super) fn unshare(&self, from: &Gpu) {
        // Refused where it is not mapped.
        let _ = self.range.unmap(from.uuid());
    }
}

/// System memory that the driver allocates and writes itself, and that no GPU's program sees: error notifiers.
#[derive(Debug)]
pub(super) struct Notes {
    mapping: Mapping,
    object: Object,
}

impl Notes {
    pub(super) fn new(gpu: &Gpu, bytes: usize) -> Result<Self, Error> {
        let len = bytes.next_multiple_of(page_bytes());
        let size = len as u64;
        let mut params = nv::NV_MEMORY_ALLOCATION_PARAMS {
            owner: gpu.root().client,
            r#type: nv::NVOS32_TYPE_NOTIFIER,
            flags: AllocFlags::IGNORE_BANK_PLACEMENT
                | AllocFlags::MEMORY_HANDLE_PROVIDED
                | AllocFlags::MAP_NOT_REQUIRED,
            attr: nv::NVOS32_ATTR_LOCATION.put(nv::NVOS32_ATTR_LOCATION_PCI)
                | nv::NVOS32_ATTR_PHYSICALITY.put(nv::NVOS32_ATTR_PHYSICALITY_NONCONTIGUOUS)
                | nv::NVOS32_ATTR_COHERENCY.put(nv::NVOS32_ATTR_COHERENCY_CACHED),
            attr2: nv::NVOS32_ATTR2_ZBC.put(nv::NVOS32_ATTR2_ZBC_PREFER_NO_ZBC)
                | nv::NVOS32_ATTR2_GPU_CACHEABLE.put(nv::NVOS32_ATTR2_GPU_CACHEABLE_NO),
            format: GENERIC,
            size,
            limit: size - 1,
            ..Default::default()
        };
        let class = nv::NV01_MEMORY_SYSTEM;
        let object = gpu.root().object_with(gpu.device(), class, &mut params);
        let object =
            object.map_err(|refusal| refused(gpu, "RM_ALLOC of system memory", size, refusal))?;
        let mapping = gpu.map_system(object.handle(), len)?;
        Ok(Self { mapping, object })
    }

    pub(super) const fn cpu(&self) -> NonNull<u8> {
        self.mapping.start()
    }

    pub(super) const fn handle(&self) -> u32 {
        self.object.handle()
    }
}

/// # Safety
/// Pages from `start` on are mapped as long as the object is there.
unsafe fn describe(
    gpu: &Arc<Gpu>,
    start: NonNull<u8>,
    bytes: u64,
    addresses: Addresses,
) -> Result<(Object, Range), (&'static str, Refusal)> {
    let address = start.as_ptr().expose_provenance() as u64;
    // SAFETY: this function's contract.
    let object = unsafe {
        gpu.root()
            .describe(gpu.file(), gpu.device(), address, bytes)
    };
    let object = object.map_err(|refusal| ("RM_ALLOC_MEMORY of host memory", refusal))?;
    let range = place(gpu, &object, addresses)?;
    Ok((object, range))
}

/// Memory at addresses, mapped to its GPU.
fn place(
    gpu: &Gpu,
    object: &Object,
    addresses: Addresses,
) -> Result<Range, (&'static str, Refusal)> {
    let range = Range::new(addresses).map_err(|refusal| ("UVM_CREATE_EXTERNAL_RANGE", refusal))?;
    range
        .map(object.handle(), gpu.uuid())
        .map_err(|refusal| ("UVM_MAP_EXTERNAL_ALLOCATION", refusal))?;
    Ok(range)
}

/// Memory that was refused: because of its amount, or for another reason.
fn refused(gpu: &Gpu, operation: &str, bytes: u64, refusal: Refusal) -> Error {
    match refusal {
        Refusal::System(Errno::NOMEM) | Refusal::Status(nv::NV_ERR_NO_MEMORY) => {
            Error::OutOfMemory {
                bytes,
                errno: Errno::NOMEM,
            }
        }
        other if other.is_exhausted() => Error::OutOfMemory {
            bytes,
            errno: other.errno(),
        },
        other => gpu.failed(operation, other),
    }
}
