//! Unified memory: `kernel-open/nvidia-uvm/uvm_ioctl.h`, `uvm_linux_ioctl.h` and `uvm_types.h`.
//!
//! A request is a plain number, the argument's size is not in it: the driver copies as much as its own struct has.
#![allow(non_upper_case_globals, reason = "the C header's names")]

use crate::ioctl::Argument;
use crate::layout::{constants, structs};

constants! {
    /// Makes this file's address space; before all others.
    UVM_INITIALIZE: u32 = 0x3000_0001;
    /// Ends this file's address space.
    UVM_DEINITIALIZE: u32 = 0x3000_0002;
    /// Ties an address space to the process's memory, on a second file.
    UVM_MM_INITIALIZE: u32 = 75;
    /// A GPU joins the address space.
    UVM_REGISTER_GPU: u32 = 37;
    /// A GPU leaves it.
    UVM_UNREGISTER_GPU: u32 = 38;
    /// RM's address space of a GPU is this one.
    UVM_REGISTER_GPU_VASPACE: u32 = 25;
    /// And is no more.
    UVM_UNREGISTER_GPU_VASPACE: u32 = 26;
    /// A channel may use the address space.
    UVM_REGISTER_CHANNEL: u32 = 27;
    /// And may no more.
    UVM_UNREGISTER_CHANNEL: u32 = 28;
    /// Two GPUs reach each other's memory.
    UVM_ENABLE_PEER_ACCESS: u32 = 29;
    /// And do no more.
    UVM_DISABLE_PEER_ACCESS: u32 = 30;
    /// A range of addresses for memory that RM allocated.
    UVM_CREATE_EXTERNAL_RANGE: u32 = 73;
    /// Maps such memory into a range, for GPUs.
    UVM_MAP_EXTERNAL_ALLOCATION: u32 = 33;
    /// Takes it from a GPU.
    UVM_UNMAP_EXTERNAL: u32 = 66;
    /// Ends a range.
    UVM_FREE: u32 = 34;
    /// Flag of [`UVM_INITIALIZE_PARAMS`]: GPUs reach the process's other memory only where it is registered.
    UVM_INIT_FLAGS_DISABLE_HMM: u64 = 1;
    /// Flag of [`UVM_INITIALIZE_PARAMS`]: several processes share this file.
    UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE: u64 = 2;
    /// `UvmGpuMappingType`: as UVM likes.
    UvmGpuMappingTypeDefault: u32 = 0;
    /// `UvmGpuMappingType`: reads, writes, atomics.
    UvmGpuMappingTypeReadWriteAtomic: u32 = 1;
    /// `UvmGpuMappingType`: reads and writes.
    UvmGpuMappingTypeReadWrite: u32 = 2;
    /// `UvmGpuMappingType`: reads.
    UvmGpuMappingTypeReadOnly: u32 = 3;
    /// `UvmGpuCachingType`: as the memory says.
    UvmGpuCachingTypeDefault: u32 = 0;
    /// `UvmGpuCachingType`: the GPU does not cache it.
    UvmGpuCachingTypeForceUncached: u32 = 1;
    /// `UvmGpuCachingType`: the GPU caches it.
    UvmGpuCachingTypeForceCached: u32 = 2;
}

structs! {
    /// A GPU's name: `NvProcessorUuid`.
    nv_uuid {
        /// As `NV2080_CTRL_CMD_GPU_GET_GID_INFO` gives it in binary.
        uuid: [u8; 16],
    }

    /// Argument of [`UVM_INITIALIZE`].
    UVM_INITIALIZE_PARAMS {
        /// `UVM_INIT_FLAGS_*`.
        flags: u64,
        /// From the kernel: a status.
        rmStatus: u32,
        /// Padding.
        pad: u32,
    }

    /// Argument of [`UVM_MM_INITIALIZE`].
    UVM_MM_INITIALIZE_PARAMS {
        /// The file that was initialized first.
        uvmFd: i32,
        /// From the kernel: a status.
        rmStatus: u32,
    }

    /// Argument of [`UVM_REGISTER_GPU`].
    UVM_REGISTER_GPU_PARAMS {
        /// To and from the kernel: the GPU; of a part of one it answers the part's.
        gpu_uuid: nv_uuid,
        /// From the kernel: whether its memory is the system's too.
        numaEnabled: u8,
        /// Padding.
        pad: [u8; 3],
        /// From the kernel: that memory's node.
        numaNodeId: i32,
        /// `/dev/nvidiactl` of the client, for a part of a GPU; else -1.
        rmCtrlFd: i32,
        /// The client, for a part of a GPU.
        hClient: u32,
        /// The part of a GPU, or 0.
        hSmcPartRef: u32,
        /// From the kernel: a status.
        rmStatus: u32,
    }

    /// Argument of [`UVM_UNREGISTER_GPU`].
    UVM_UNREGISTER_GPU_PARAMS {
        /// The GPU.
        gpu_uuid: nv_uuid,
        /// From the kernel: a status.
        rmStatus: u32,
    }

    /// Argument of [`UVM_REGISTER_GPU_VASPACE`].
    UVM_REGISTER_GPU_VASPACE_PARAMS {
        /// The GPU.
        gpuUuid: nv_uuid,
        /// `/dev/nvidiactl` of the client.
        rmCtrlFd: i32,
        /// The client.
        hClient: u32,
        /// Its address space, one that is owned from outside.
        hVaSpace: u32,
        /// From the kernel: a status.
        rmStatus: u32,
    }

    /// Argument of [`UVM_UNREGISTER_GPU_VASPACE`].
    UVM_UNREGISTER_GPU_VASPACE_PARAMS {
        /// The GPU.
        gpuUuid: nv_uuid,
        /// From the kernel: a status.
        rmStatus: u32,
    }

    /// Argument of [`UVM_REGISTER_CHANNEL`].
    UVM_REGISTER_CHANNEL_PARAMS {
        /// The GPU.
        gpuUuid: nv_uuid,
        /// `/dev/nvidiactl` of the client.
        rmCtrlFd: i32,
        /// The client.
        hClient: u32,
        /// Its channel.
        hChannel: u32,
        /// Padding.
        pad0: u32,
        /// Addresses where UVM may map what the channel needs: where they start.
        base: u64,
        /// How many, bytes.
        length: u64,
        /// From the kernel: a status.
        rmStatus: u32,
        /// Padding.
        pad1: u32,
    }

    /// Argument of [`UVM_UNREGISTER_CHANNEL`], from branch 590.
    UVM_UNREGISTER_CHANNEL_PARAMS {
        /// The client.
        hClient: u32,
        /// Its channel.
        hChannel: u32,
        /// From the kernel: a status.
        rmStatus: u32,
    }

    /// Argument of [`UVM_UNREGISTER_CHANNEL`], up to branch 580.
    UVM_UNREGISTER_CHANNEL_PARAMS_580 {
        /// The GPU.
        gpuUuid: nv_uuid,
        /// The client.
        hClient: u32,
        /// Its channel.
        hChannel: u32,
        /// From the kernel: a status.
        rmStatus: u32,
    }

    /// Argument of [`UVM_ENABLE_PEER_ACCESS`].
    UVM_ENABLE_PEER_ACCESS_PARAMS {
        /// A GPU.
        gpuUuidA: nv_uuid,
        /// Another.
        gpuUuidB: nv_uuid,
        /// From the kernel: a status.
        rmStatus: u32,
    }

    /// Argument of [`UVM_DISABLE_PEER_ACCESS`].
    UVM_DISABLE_PEER_ACCESS_PARAMS {
        /// A GPU.
        gpuUuidA: nv_uuid,
        /// Another.
        gpuUuidB: nv_uuid,
        /// From the kernel: a status.
        rmStatus: u32,
    }

    /// Argument of [`UVM_CREATE_EXTERNAL_RANGE`].
    UVM_CREATE_EXTERNAL_RANGE_PARAMS {
        /// Where it starts, at a page boundary.
        base: u64,
        /// Bytes, whole pages.
        length: u64,
        /// From the kernel: a status.
        rmStatus: u32,
        /// Padding.
        pad: u32,
    }

    /// How one GPU sees memory.
    UvmGpuMappingAttributes {
        /// The GPU.
        gpuUuid: nv_uuid,
        /// `UvmGpuMappingType*`.
        gpuMappingType: u32,
        /// `UvmGpuCachingType*`.
        gpuCachingType: u32,
        /// `UvmGpuFormatType*`: 0 is as the memory says.
        gpuFormatType: u32,
        /// `UvmGpuFormatElementBits*`: 0 is as the memory says.
        gpuElementBits: u32,
        /// `UvmGpuCompressionType*`: 0 is as the memory says.
        gpuCompressionType: u32,
    }

    /// Argument of [`UVM_MAP_EXTERNAL_ALLOCATION`], from branch 550.
    UVM_MAP_EXTERNAL_ALLOCATION_PARAMS {
        /// Where in a range.
        base: u64,
        /// Bytes.
        length: u64,
        /// Bytes into the memory.
        offset: u64,
        /// The GPUs.
        perGpuAttributes: [UvmGpuMappingAttributes; 256],
        /// How many of them.
        gpuAttributesCount: u64,
        /// `/dev/nvidiactl` of the client.
        rmCtrlFd: i32,
        /// The client that has the memory.
        hClient: u32,
        /// The memory.
        hMemory: u32,
        /// From the kernel: a status.
        rmStatus: u32,
    }

    /// Argument of [`UVM_MAP_EXTERNAL_ALLOCATION`], up to branch 545.
    UVM_MAP_EXTERNAL_ALLOCATION_PARAMS_545 {
        /// Where in a range.
        base: u64,
        /// Bytes.
        length: u64,
        /// Bytes into the memory.
        offset: u64,
        /// The GPUs.
        perGpuAttributes: [UvmGpuMappingAttributes; 32],
        /// How many of them.
        gpuAttributesCount: u64,
        /// `/dev/nvidiactl` of the client.
        rmCtrlFd: i32,
        /// The client that has the memory.
        hClient: u32,
        /// The memory.
        hMemory: u32,
        /// From the kernel: a status.
        rmStatus: u32,
    }

    /// Argument of [`UVM_UNMAP_EXTERNAL`].
    UVM_UNMAP_EXTERNAL_PARAMS {
        /// Where in a range.
        base: u64,
        /// Bytes.
        length: u64,
        /// The GPU.
        gpuUuid: nv_uuid,
        /// From the kernel: a status.
        rmStatus: u32,
        /// Padding.
        pad: u32,
    }

    /// Argument of [`UVM_FREE`], from branch 590.
    UVM_FREE_PARAMS {
        /// Where the range starts.
        base: u64,
        /// From the kernel: a status.
        rmStatus: u32,
        /// Padding.
        pad: u32,
    }

    /// Argument of [`UVM_FREE`], up to branch 580.
    UVM_FREE_PARAMS_580 {
        /// Where the range starts.
        base: u64,
        /// Its bytes.
        length: u64,
        /// From the kernel: a status.
        rmStatus: u32,
        /// Padding.
        pad: u32,
    }
}

macro_rules! arguments {
    ($($name:ident = $request:ident;)*) => {$(
        impl Argument for $name {
            const NAME: &'static str = stringify!($request);
            const REQUEST: u32 = $request;
        }

        impl super::Status for $name {
            fn status(&self) -> u32 {
                self.rmStatus
            }
        }
    )*};
}

arguments! {
    UVM_INITIALIZE_PARAMS = UVM_INITIALIZE;
    UVM_MM_INITIALIZE_PARAMS = UVM_MM_INITIALIZE;
    UVM_REGISTER_GPU_PARAMS = UVM_REGISTER_GPU;
    UVM_UNREGISTER_GPU_PARAMS = UVM_UNREGISTER_GPU;
    UVM_REGISTER_GPU_VASPACE_PARAMS = UVM_REGISTER_GPU_VASPACE;
    UVM_UNREGISTER_GPU_VASPACE_PARAMS = UVM_UNREGISTER_GPU_VASPACE;
    UVM_REGISTER_CHANNEL_PARAMS = UVM_REGISTER_CHANNEL;
    UVM_UNREGISTER_CHANNEL_PARAMS = UVM_UNREGISTER_CHANNEL;
    UVM_UNREGISTER_CHANNEL_PARAMS_580 = UVM_UNREGISTER_CHANNEL;
    UVM_ENABLE_PEER_ACCESS_PARAMS = UVM_ENABLE_PEER_ACCESS;
    UVM_DISABLE_PEER_ACCESS_PARAMS = UVM_DISABLE_PEER_ACCESS;
    UVM_CREATE_EXTERNAL_RANGE_PARAMS = UVM_CREATE_EXTERNAL_RANGE;
    UVM_MAP_EXTERNAL_ALLOCATION_PARAMS = UVM_MAP_EXTERNAL_ALLOCATION;
    UVM_MAP_EXTERNAL_ALLOCATION_PARAMS_545 = UVM_MAP_EXTERNAL_ALLOCATION;
    UVM_UNMAP_EXTERNAL_PARAMS = UVM_UNMAP_EXTERNAL;
    UVM_FREE_PARAMS = UVM_FREE;
    UVM_FREE_PARAMS_580 = UVM_FREE;
}
