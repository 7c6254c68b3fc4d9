//! Memory objects: allocating, importing, the CPU's caches.

use super::KGSL_IOC_TYPE;
use crate::layout::{constants, flags, structs};

flags! {
    /// What a memory object is. The cache mode, the alignment, the type and where its pages are from are numbers in it:
    /// [`MemFlags::cache_mode`] and its kin.
    MemFlags: u64 = "KGSL_MEMFLAGS_" {
        /// Protected content.
        SECURE = 1 << 3;
        /// The GPU may only read.
        GPUREADONLY = 1 << 24;
        /// The GPU may only write.
        GPUWRITEONLY = 1 << 25;
        /// The address is the process's: the object gets its GPU address when it is mapped, and both are the same.
        USE_CPU_MAP = 1 << 28;
        /// Sparse memory.
        SPARSE_PHYS = 1 << 29;
        /// Sparse addresses.
        SPARSE_VIRT = 1 << 30;
        /// The GPU snoops the CPU's caches; kernels drop it where the hardware cannot.
        IOCOHERENT = 1 << 31;
        /// The GPU's address fits in 32 bits.
        FORCE_32BIT = 1 << 32;
        /// A page of nothing behind it.
        GUARD_PAGE = 1 << 33;
        /// A range of addresses that others are bound into.
        VBO = 1 << 34;
        /// Unbound parts of a range are not mapped.
        VBO_NO_MAP_ZERO = 1 << 35;
    }

    /// A cache operation on a memory object that the CPU caches.
    CacheOps: u32 = "KGSL_GPUMEM_CACHE_" {
        /// What the CPU wrote goes to memory, before the GPU reads it.
        CLEAN = 1 << 0;
        /// What the CPU has cached is dropped, before it reads what the GPU wrote.
        INV = 1 << 1;
        /// Of [`kgsl_gpumem_sync_cache`]: `offset` and `length` mean something.
        RANGE = 1 << 31;
    }
}

constants! {
    /// The bits of the cache mode.
    KGSL_CACHEMODE_MASK: u32 = 0x0c00_0000;
    /// The lowest bit of the cache mode.
    KGSL_CACHEMODE_SHIFT: u32 = 26;
    /// Cache mode: the CPU gathers writes and caches nothing.
    KGSL_CACHEMODE_WRITECOMBINE: u32 = 0;
    /// Cache mode: the CPU caches nothing.
    KGSL_CACHEMODE_UNCACHED: u32 = 1;
    /// Cache mode: deprecated on arm64, where it is write-back.
    KGSL_CACHEMODE_WRITETHROUGH: u32 = 2;
    /// Cache mode: the CPU caches reads and writes.
    KGSL_CACHEMODE_WRITEBACK: u32 = 3;

    /// The bits of the alignment.
    KGSL_MEMALIGN_MASK: u32 = 0x00ff_0000;
    /// The lowest bit of the alignment's power of two.
    KGSL_MEMALIGN_SHIFT: u32 = 16;

    /// The bits of the type, which is only for statistics.
    KGSL_MEMTYPE_MASK: u32 = 0xff00;
    /// The lowest bit of the type.
    KGSL_MEMTYPE_SHIFT: u32 = 8;
    /// Type: not said.
    KGSL_MEMTYPE_OBJECTANY: u32 = 0;
    /// Type: OpenCL.
    KGSL_MEMTYPE_CL: u32 = 10;
    /// Type: an OpenCL program's private memory.
    KGSL_MEMTYPE_CL_KERNEL_STACK: u32 = 15;
    /// Type: commands.
    KGSL_MEMTYPE_COMMAND: u32 = 16;

    /// The bits of where the pages are from.
    KGSL_MEMFLAGS_USERMEM_MASK: u32 = 0xe0;
    /// The lowest bit of where the pages are from.
    KGSL_MEMFLAGS_USERMEM_SHIFT: u32 = 5;
    /// Pages of the kernel.
    KGSL_MEMFLAGS_NOT_USERMEM: u32 = 0;
    /// Pages of the process.
    KGSL_MEMFLAGS_USERMEM_ADDR: u32 = 0x60;
    /// Pages of a dma-buf.
    KGSL_MEMFLAGS_USERMEM_ION: u32 = 0x80;

    /// `type` of an import: [`kgsl_gpuobj_import_useraddr`].
    KGSL_USER_MEM_TYPE_ADDR: u32 = 2;
    /// `type` of an import: [`kgsl_gpuobj_import_dma_buf`].
    KGSL_USER_MEM_TYPE_DMABUF: u32 = 3;

    /// The most bytes of an object's label.
    KGSL_GPUOBJ_ALLOC_METADATA_MAX: u32 = 64;

    /// `flags` of [`kgsl_gpuobj_free`]: freed when an event has happened.
    KGSL_GPUOBJ_FREE_ON_EVENT: u32 = 1;
    /// `type` of that event: [`kgsl_gpu_event_timestamp`].
    KGSL_GPU_EVENT_TIMESTAMP: u32 = 1;
    /// `type` of that event: [`kgsl_gpu_event_fence`].
    KGSL_GPU_EVENT_FENCE: u32 = 2;

    /// `flags` of [`kgsl_gpuobj_set_info`]: a new label.
    KGSL_GPUOBJ_SET_INFO_METADATA: u32 = 1;
    /// `flags` of [`kgsl_gpuobj_set_info`]: a new type.
    KGSL_GPUOBJ_SET_INFO_TYPE: u32 = 2;
}

/// How the CPU caches a memory object: `KGSL_CACHEMODE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CacheMode {
    /// [`KGSL_CACHEMODE_WRITECOMBINE`].
    WriteCombine = 0,
    /// [`KGSL_CACHEMODE_UNCACHED`].
    Uncached = 1,
    /// [`KGSL_CACHEMODE_WRITETHROUGH`].
    WriteThrough = 2,
    /// [`KGSL_CACHEMODE_WRITEBACK`].
    WriteBack = 3,
}

impl MemFlags {
    /// A cache mode.
    #[must_use]
    pub const fn cache_mode(mode: CacheMode) -> Self {
        Self::from_bits_retain((mode as u64) << KGSL_CACHEMODE_SHIFT)
    }

    /// The cache mode in these flags.
    #[must_use]
    pub const fn caches(self) -> CacheMode {
        match self.bits() >> KGSL_CACHEMODE_SHIFT & 3 {
            0 => CacheMode::WriteCombine,
            1 => CacheMode::Uncached,
            2 => CacheMode::WriteThrough,
            _ => CacheMode::WriteBack,
        }
    }

    /// An alignment of `1 << power` bytes. Kernels take 12 (a page) to 32 and read other numbers as the nearest of them.
    #[must_use]
    pub const fn align(power: u8) -> Self {
        Self::from_bits_retain((power as u64) << KGSL_MEMALIGN_SHIFT)
    }

    /// The alignment's power of two in these flags.
    #[must_use]
    pub const fn alignment(self) -> u8 {
        (self.bits() >> KGSL_MEMALIGN_SHIFT) as u8
    }

    /// A type, one of `KGSL_MEMTYPE_*`; bits without room are cut off.
    #[must_use]
    pub const fn kind(number: u32) -> Self {
        Self::from_bits_retain((number << KGSL_MEMTYPE_SHIFT & KGSL_MEMTYPE_MASK) as u64)
    }
}

/// The offset at which an object is mapped, for a kernel with pages of `1 << page_shift` bytes: the object's id, in pages
/// (`kgsl.c`, `get_mmap_entry`). `None` for a shift of more than 32.
///
/// ```
/// assert_eq!(hcq_uapi::kgsl::mmap_offset(5, 12), Some(0x5000));
/// ```
#[must_use]
pub const fn mmap_offset(id: u32, page_shift: u32) -> Option<u64> {
    if page_shift > 32 {
        return None;
    }
    Some((id as u64) << page_shift)
}

structs! {
    /// Makes a memory object of the kernel's pages.
    kgsl_gpuobj_alloc: iowr(KGSL_IOC_TYPE, 0x45) IOCTL_KGSL_GPUOBJ_ALLOC {
        /// Bytes; the kernel rounds up to pages.
        size: u64,
        /// In: what is wanted. Out: what it is.
        flags: MemFlags,
        /// Bytes of addresses.
        va_len: u64,
        /// From the kernel: the bytes to map.
        mmapsize: u64,
        /// From the kernel: the object.
        id: u32,
        /// Bytes of the label, 0 for none.
        metadata_len: u32,
        /// Pointer to the label.
        metadata: u64,
    }

    /// Frees a memory object: at once, or on an event. Pages that the process has mapped stay until it unmaps them.
    kgsl_gpuobj_free: iow(KGSL_IOC_TYPE, 0x46) IOCTL_KGSL_GPUOBJ_FREE {
        /// 0 or [`KGSL_GPUOBJ_FREE_ON_EVENT`].
        flags: u64,
        /// Pointer to the event.
        r#priv: u64,
        /// The object.
        id: u32,
        /// One of `KGSL_GPU_EVENT_*`.
        r#type: u32,
        /// Bytes of the event.
        len: u32,
        /// Zero.
        hole0: u32,
    }

    /// A timestamp as an event.
    kgsl_gpu_event_timestamp {
        /// Of which context.
        context_id: u32,
        /// When.
        timestamp: u32,
    }

    /// A file as an event.
    kgsl_gpu_event_fence {
        /// The file.
        fd: i32,
    }

    /// What a memory object is.
    kgsl_gpuobj_info: iowr(KGSL_IOC_TYPE, 0x47) IOCTL_KGSL_GPUOBJ_INFO {
        /// From the kernel: the GPU's address; 0 until an object of [`MemFlags::USE_CPU_MAP`] is mapped.
        gpuaddr: u64,
        /// From the kernel.
        flags: MemFlags,
        /// From the kernel: bytes.
        size: u64,
        /// From the kernel: bytes of addresses.
        va_len: u64,
        /// From the kernel: the process's address.
        va_addr: u64,
        /// The object.
        id: u32,
        /// Zero.
        hole0: u32,
    }

    /// Makes a memory object of pages that are there already.
    kgsl_gpuobj_import: iowr(KGSL_IOC_TYPE, 0x48) IOCTL_KGSL_GPUOBJ_IMPORT {
        /// Pointer to a struct of `type`.
        r#priv: u64,
        /// Its bytes; for [`KGSL_USER_MEM_TYPE_ADDR`] the bytes of the memory.
        priv_len: u64,
        /// What is wanted.
        flags: MemFlags,
        /// One of `KGSL_USER_MEM_TYPE_*`.
        r#type: u32,
        /// From the kernel: the object.
        id: u32,
    }

    /// A dma-buf.
    kgsl_gpuobj_import_dma_buf {
        /// Its file.
        fd: i32,
    }

    /// The process's own pages.
    kgsl_gpuobj_import_useraddr {
        /// The first byte, at the start of a page.
        virtaddr: u64,
    }

    /// A new label or type.
    kgsl_gpuobj_set_info: iow(KGSL_IOC_TYPE, 0x4C) IOCTL_KGSL_GPUOBJ_SET_INFO {
        /// `KGSL_GPUOBJ_SET_INFO_*`.
        flags: u64,
        /// Pointer to the label.
        metadata: u64,
        /// The object.
        id: u32,
        /// Bytes of the label.
        metadata_len: u32,
        /// One of `KGSL_MEMTYPE_*`.
        r#type: u32,
        /// Zero.
        hole0: u32,
    }

    /// One cache operation of [`kgsl_gpuobj_sync`].
    kgsl_gpuobj_sync_obj {
        /// Bytes from the object's start.
        offset: u64,
        /// Bytes.
        length: u64,
        /// The object.
        id: u32,
        /// The operation.
        op: CacheOps,
    }

    /// Cache operations on ranges of objects.
    kgsl_gpuobj_sync: iow(KGSL_IOC_TYPE, 0x49) IOCTL_KGSL_GPUOBJ_SYNC {
        /// Pointer to `count` [`kgsl_gpuobj_sync_obj`].
        objs: u64,
        /// Bytes of each.
        obj_len: u32,
        /// How many.
        count: u32,
    }

    /// A cache operation on one object, or a range of it.
    kgsl_gpumem_sync_cache: iow(KGSL_IOC_TYPE, 0x37) IOCTL_KGSL_GPUMEM_SYNC_CACHE {
        /// Its GPU address, if `id` is 0.
        gpuaddr: u64,
        /// The object.
        id: u32,
        /// The operation.
        op: CacheOps,
        /// With [`CacheOps::RANGE`]: bytes from the object's start.
        offset: u64,
        /// With [`CacheOps::RANGE`]: bytes.
        length: u64,
    }

    /// A cache operation on whole objects.
    kgsl_gpumem_sync_cache_bulk: iowr(KGSL_IOC_TYPE, 0x3C) IOCTL_KGSL_GPUMEM_SYNC_CACHE_BULK {
        /// Pointer to `count` u32, the objects.
        id_list: u64,
        /// How many.
        count: u32,
        /// The operation.
        op: CacheOps,
        /// Zero.
        __pad: [u32; 2],
    }
}
