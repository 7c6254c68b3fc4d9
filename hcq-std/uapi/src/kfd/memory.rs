//! Memory: allocating it, mapping it to GPUs, sharing it.

use super::AMDKFD_IOCTL_BASE;
use crate::layout::{flags, structs};

flags! {
    /// What memory [`kfd_ioctl_alloc_memory_of_gpu_args`] asks for: exactly one kind, and its attributes.
    AllocMemFlags: u32 = "KFD_IOC_ALLOC_MEM_FLAGS_" {
        /// Kind: the GPU's own memory.
        VRAM = 1 << 0;
        /// Kind: system memory that the kernel allocates.
        GTT = 1 << 1;
        /// Kind: the caller's own pages, at the address in `mmap_offset`.
        USERPTR = 1 << 2;
        /// Kind: the process's doorbells of the GPU.
        DOORBELL = 1 << 3;
        /// Kind: the page of remapped registers, see `KFD_MMIO_REMAP_*`.
        MMIO_REMAP = 1 << 4;
        /// Whole, physically contiguous VRAM; from version 1.16.
        CONTIGUOUS = 1 << 23;
        /// Coherent between GPUs too, where the GPU can; from Linux 6.8.
        EXT_COHERENT = 1 << 24;
        /// No GPU caches it.
        UNCACHED = 1 << 25;
        /// Fine-grained: GPU and host see each other's writes while a program runs.
        COHERENT = 1 << 26;
        /// The ring of an AQL queue: mapped twice in a row on GPUs that want it.
        AQL_QUEUE_MEM = 1 << 27;
        /// Fail rather than take another kind.
        NO_SUBSTITUTE = 1 << 28;
        /// The host will map it.
        PUBLIC = 1 << 29;
        /// The GPU may run code from it.
        EXECUTABLE = 1 << 30;
        /// The GPU may write it.
        WRITABLE = 1 << 31;
    }
}

structs! {
    /// Allocates memory; it is mapped nowhere yet.
    kfd_ioctl_alloc_memory_of_gpu_args: iowr(AMDKFD_IOCTL_BASE, 0x16) AMDKFD_IOC_ALLOC_MEMORY_OF_GPU {
        /// To the kernel: the address that all GPUs will see it at, page-aligned.
        va_addr: u64,
        /// To the kernel: bytes.
        size: u64,
        /// From the kernel: the memory's name in later requests.
        handle: u64,
        /// To the kernel: the host's address of [`AllocMemFlags::USERPTR`]. From the kernel: the offset to map on the
        /// GPU's render node.
        mmap_offset: u64,
        /// To the kernel: the GPU.
        gpu_id: u32,
        /// To the kernel: kind and attributes.
        flags: AllocMemFlags,
    }

    /// Frees memory; it must be mapped to no GPU.
    kfd_ioctl_free_memory_of_gpu_args: iow(AMDKFD_IOCTL_BASE, 0x17) AMDKFD_IOC_FREE_MEMORY_OF_GPU {
        /// To the kernel: the memory.
        handle: u64,
    }

    /// Maps memory to GPUs.
    kfd_ioctl_map_memory_to_gpu_args: iowr(AMDKFD_IOCTL_BASE, 0x18) AMDKFD_IOC_MAP_MEMORY_TO_GPU {
        /// To the kernel: the memory.
        handle: u64,
        /// To the kernel: address of the GPUs' `gpu_id`s, u32 each.
        device_ids_array_ptr: u64,
        /// To the kernel: how many GPUs.
        n_devices: u32,
        /// To the kernel: how many of them to skip, 0 at first. From the kernel: how many are mapped, also after an error.
        n_success: u32,
    }

    /// Takes memory away from GPUs.
    kfd_ioctl_unmap_memory_from_gpu_args: iowr(AMDKFD_IOCTL_BASE, 0x19) AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU {
        /// To the kernel: the memory.
        handle: u64,
        /// To the kernel: address of the GPUs' `gpu_id`s, u32 each.
        device_ids_array_ptr: u64,
        /// To the kernel: how many GPUs.
        n_devices: u32,
        /// As in [`kfd_ioctl_map_memory_to_gpu_args`].
        n_success: u32,
    }

    /// Asks how much memory of a GPU is free.
    kfd_ioctl_get_available_memory_args: iowr(AMDKFD_IOCTL_BASE, 0x23) AMDKFD_IOC_AVAILABLE_MEMORY {
        /// From the kernel: bytes.
        available: u64,
        /// To the kernel: the GPU.
        gpu_id: u32,
        /// Unused.
        pad: u32,
    }

    /// Asks about memory that another process or driver shares.
    kfd_ioctl_get_dmabuf_info_args: iowr(AMDKFD_IOCTL_BASE, 0x1c) AMDKFD_IOC_GET_DMABUF_INFO {
        /// From the kernel: bytes.
        size: u64,
        /// To the kernel: where to copy the metadata, or 0.
        metadata_ptr: u64,
        /// To the kernel: room there, bytes. From the kernel: bytes of the metadata.
        metadata_size: u32,
        /// From the kernel: the GPU it belongs to.
        gpu_id: u32,
        /// From the kernel: kind and attributes.
        flags: AllocMemFlags,
        /// To the kernel: the file that stands for it.
        dmabuf_fd: u32,
    }

    /// Takes memory that another process or driver shares.
    kfd_ioctl_import_dmabuf_args: iowr(AMDKFD_IOCTL_BASE, 0x1d) AMDKFD_IOC_IMPORT_DMABUF {
        /// To the kernel: the address that GPUs will see it at.
        va_addr: u64,
        /// From the kernel: the memory's name in later requests.
        handle: u64,
        /// To the kernel: the GPU.
        gpu_id: u32,
        /// To the kernel: the file that stands for it.
        dmabuf_fd: u32,
    }

    /// Shares memory; from version 1.12.
    kfd_ioctl_export_dmabuf_args: iowr(AMDKFD_IOCTL_BASE, 0x24) AMDKFD_IOC_EXPORT_DMABUF {
        /// To the kernel: the memory.
        handle: u64,
        /// To the kernel: flags of the new file (`O_CLOEXEC`, `O_RDWR`).
        flags: u32,
        /// From the kernel: the file that stands for it.
        dmabuf_fd: u32,
    }
}
