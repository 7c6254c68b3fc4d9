//! What offsets to map on `/dev/kfd` mean: `drivers/gpu/drm/amd/amdkfd/kfd_priv.h`. Callers only hand on the offsets they
//! got; a simulated kernel makes them.

/// The kinds of pages that `/dev/kfd` maps: `KFD_MMAP_TYPE_*`, the offset's two highest bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MmapType {
    /// `KFD_MMAP_TYPE_MMIO`: the page of remapped registers.
    Mmio = 0,
    /// `KFD_MMAP_TYPE_RESERVED_MEM`: memory for saved waves.
    ReservedMem = 1,
    /// `KFD_MMAP_TYPE_EVENTS`: the kernel's page of event slots.
    Events = 2,
    /// `KFD_MMAP_TYPE_DOORBELL`: the process's doorbells of a GPU.
    Doorbell = 3,
}

/// `KFD_MMAP_TYPE_SHIFT`: the lowest bit of the kind.
pub const KFD_MMAP_TYPE_SHIFT: u32 = 62;
/// `KFD_MMAP_GPU_ID_SHIFT`: the lowest bit of the GPU's `gpu_id`.
pub const KFD_MMAP_GPU_ID_SHIFT: u32 = 46;
/// `KFD_GPU_ID_HASH_WIDTH`: the bits of a `gpu_id`.
pub const KFD_GPU_ID_HASH_WIDTH: u32 = 16;

const GPU_ID: u64 = (1 << KFD_GPU_ID_HASH_WIDTH) - 1;
const OFFSET: u64 = (1 << KFD_MMAP_GPU_ID_SHIFT) - 1;

/// The offset of a kind of page of a GPU, `bytes` into it; `None` if the GPU's id or `bytes` have no room.
///
/// ```
/// use hcq_uapi::kfd::{MmapType, mmap_offset, mmap_parts};
///
/// let offset = mmap_offset(MmapType::Doorbell, 0xe123, 0x18).unwrap();
/// assert_eq!(offset, 0xf848_c000_0000_0018);
/// assert_eq!(mmap_parts(offset), (MmapType::Doorbell, 0xe123, 0x18));
/// ```
#[must_use]
pub const fn mmap_offset(kind: MmapType, gpu_id: u32, bytes: u64) -> Option<u64> {
    let gpu_id = gpu_id as u64;
    if gpu_id > GPU_ID || bytes > OFFSET {
        return None;
    }
    Some((kind as u64) << KFD_MMAP_TYPE_SHIFT | gpu_id << KFD_MMAP_GPU_ID_SHIFT | bytes)
}

/// The kind, the GPU and the bytes of an offset.
#[must_use]
pub const fn mmap_parts(offset: u64) -> (MmapType, u32, u64) {
    let kind = match offset >> KFD_MMAP_TYPE_SHIFT {
        0 => MmapType::Mmio,
        1 => MmapType::ReservedMem,
        2 => MmapType::Events,
        _ => MmapType::Doorbell,
    };
    (
        kind,
        (offset >> KFD_MMAP_GPU_ID_SHIFT & GPU_ID) as u32,
        offset & OFFSET,
    )
}
