//! Objects of RM: classes (`class/cl*.h`) and the parameters that make them (`nvos.h`, `alloc/alloc_channel.h`).

use super::bits::bits;
use super::version::Params;
use crate::layout::{constants, flags, structs};

flags! {
    /// Flags of [`NV_VASPACE_ALLOCATION_PARAMETERS`].
    VaspaceFlags: u32 = "NV_VASPACE_ALLOCATION_FLAGS_" {
        /// UVM fills it, not RM.
        IS_EXTERNALLY_OWNED = 1 << 3;
        /// The process's addresses may be reached through the system's page tables.
        ENABLE_NVLINK_ATS = 1 << 4;
        /// Faults stall until somebody maps the page.
        ENABLE_PAGE_FAULTING = 1 << 6;
        /// Address 0 may be used.
        ALLOW_ZERO_ADDRESS = 1 << 8;
    }

    /// Flags of [`NV_MEMORY_ALLOCATION_PARAMS`].
    AllocFlags: u32 = "NVOS32_ALLOC_FLAGS_" {
        /// Any bank.
        IGNORE_BANK_PLACEMENT = 1 << 0;
        /// `alignment` is a demand.
        ALIGNMENT_FORCE = 1 << 8;
        /// Never shown on a display.
        NO_SCANOUT = 1 << 12;
        /// The handle is the caller's.
        MEMORY_HANDLE_PROVIDED = 1 << 14;
        /// RM need not map it anywhere.
        MAP_NOT_REQUIRED = 1 << 15;
        /// Stays where it is while the machine sleeps.
        PERSISTENT_VIDMEM = 1 << 16;
    }
}

constants! {
    /// A client that may do what its process may.
    NV01_ROOT_CLIENT: u32 = 0x41;
    /// A GPU of a client: [`NV0080_ALLOC_PARAMETERS`].
    NV01_DEVICE_0: u32 = 0x80;
    /// The GPU itself below that: [`NV2080_ALLOC_PARAMETERS`].
    NV20_SUBDEVICE_0: u32 = 0x2080;
    /// Addresses of an address space: [`NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS`].
    NV01_MEMORY_VIRTUAL: u32 = 0x70;
    /// System memory: [`NV_MEMORY_ALLOCATION_PARAMS`].
    NV01_MEMORY_SYSTEM: u32 = 0x3e;
    /// The GPU's memory: [`NV_MEMORY_ALLOCATION_PARAMS`].
    NV01_MEMORY_LOCAL_USER: u32 = 0x40;
    /// The caller's memory: [`nv_ioctl_nvos02_parameters_with_fd`](super::nv_ioctl_nvos02_parameters_with_fd).
    NV01_MEMORY_SYSTEM_OS_DESCRIPTOR: u32 = 0x71;
    /// An address space: [`NV_VASPACE_ALLOCATION_PARAMETERS`].
    FERMI_VASPACE_A: u32 = 0x90f1;
    /// Channels that share an engine's time: [`NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS`].
    KEPLER_CHANNEL_GROUP_A: u32 = 0xa06c;
    /// A context of a group: [`NV_CTXSHARE_ALLOCATION_PARAMETERS`].
    FERMI_CONTEXT_SHARE_A: u32 = 0x9067;
    /// A debugger of a compute object: [`NV83DE_ALLOC_PARAMETERS`].
    GT200_DEBUGGER: u32 = 0x83de;
    /// Doorbells, without parameters.
    VOLTA_USERMODE_A: u32 = 0xc361;
    /// Doorbells, without parameters.
    TURING_USERMODE_A: u32 = 0xc461;
    /// Doorbells, without parameters.
    AMPERE_USERMODE_A: u32 = 0xc561;
    /// Doorbells: [`NV_HOPPER_USERMODE_A_PARAMS`].
    HOPPER_USERMODE_A: u32 = 0xc661;
    /// A channel: [`NV_CHANNEL_ALLOC_PARAMS`].
    AMPERE_CHANNEL_GPFIFO_A: u32 = 0xc56f;
    /// A channel: [`NV_CHANNEL_ALLOC_PARAMS`].
    HOPPER_CHANNEL_GPFIFO_A: u32 = 0xc86f;
    /// Compute, without parameters.
    AMPERE_COMPUTE_A: u32 = 0xc6c0;
    /// Compute, without parameters.
    AMPERE_COMPUTE_B: u32 = 0xc7c0;
    /// Compute, without parameters.
    ADA_COMPUTE_A: u32 = 0xc9c0;
    /// Compute, without parameters.
    HOPPER_COMPUTE_A: u32 = 0xcbc0;
    /// Copies: [`NVB0B5_ALLOCATION_PARAMETERS`].
    AMPERE_DMA_COPY_A: u32 = 0xc6b5;
    /// Copies: [`NVB0B5_ALLOCATION_PARAMETERS`].
    AMPERE_DMA_COPY_B: u32 = 0xc7b5;
    /// Copies: [`NVB0B5_ALLOCATION_PARAMETERS`].
    HOPPER_DMA_COPY_A: u32 = 0xc8b5;
    /// The engine of graphics and compute.
    NV2080_ENGINE_TYPE_GRAPHICS: u32 = 1;
    /// The first copy engine; the next nine follow.
    NV2080_ENGINE_TYPE_COPY0: u32 = 9;
    /// Of [`NV0080_ALLOC_PARAMETERS`]: as many address spaces as are made.
    NV_DEVICE_ALLOCATION_VAMODE_OPTIONAL_MULTIPLE_VASPACES: u32 = 0;
    /// Of [`NV_VASPACE_ALLOCATION_PARAMETERS`]: a new one.
    NV_VASPACE_ALLOCATION_INDEX_GPU_NEW: u32 = 0;
    /// Of [`NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT`]: the group's context 0.
    NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_SYNC: u32 = 0;
    /// Of [`NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT`]: another.
    NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_ASYNC: u32 = 1;
    /// Of [`NVB0B5_ALLOCATION_PARAMETERS`]: the engine is a number of a copy engine.
    NVB0B5_ALLOCATION_PARAMETERS_VERSION_0: u32 = 0;
    /// Of [`NVB0B5_ALLOCATION_PARAMETERS`]: the engine is an `NV2080_ENGINE_TYPE_*`.
    NVB0B5_ALLOCATION_PARAMETERS_VERSION_1: u32 = 1;
    /// Type of [`NV_MEMORY_ALLOCATION_PARAMS`]: plain memory.
    NVOS32_TYPE_IMAGE: u32 = 0;
    /// Type of [`NV_MEMORY_ALLOCATION_PARAMS`]: error notifiers.
    NVOS32_TYPE_NOTIFIER: u32 = 13;
    /// Of [`NVOS32_ATTR_PAGE_SIZE`]: as RM likes.
    NVOS32_ATTR_PAGE_SIZE_DEFAULT: u32 = 0;
    /// Of [`NVOS32_ATTR_PAGE_SIZE`].
    NVOS32_ATTR_PAGE_SIZE_4KB: u32 = 1;
    /// Of [`NVOS32_ATTR_PAGE_SIZE`]: 64 KiB.
    NVOS32_ATTR_PAGE_SIZE_BIG: u32 = 2;
    /// Of [`NVOS32_ATTR_PAGE_SIZE`]: 2 MiB and more.
    NVOS32_ATTR_PAGE_SIZE_HUGE: u32 = 3;
    /// Of [`NVOS32_ATTR_LOCATION`].
    NVOS32_ATTR_LOCATION_VIDMEM: u32 = 0;
    /// Of [`NVOS32_ATTR_LOCATION`]: system memory.
    NVOS32_ATTR_LOCATION_PCI: u32 = 1;
    /// Of [`NVOS32_ATTR_PHYSICALITY`].
    NVOS32_ATTR_PHYSICALITY_NONCONTIGUOUS: u32 = 1;
    /// Of [`NVOS32_ATTR_PHYSICALITY`].
    NVOS32_ATTR_PHYSICALITY_CONTIGUOUS: u32 = 2;
    /// Of [`NVOS32_ATTR_PHYSICALITY`]: contiguous if it can be.
    NVOS32_ATTR_PHYSICALITY_ALLOW_NONCONTIGUOUS: u32 = 3;
    /// Of [`NVOS32_ATTR_COHERENCY`].
    NVOS32_ATTR_COHERENCY_UNCACHED: u32 = 0;
    /// Of [`NVOS32_ATTR_COHERENCY`]: the host caches it.
    NVOS32_ATTR_COHERENCY_CACHED: u32 = 1;
    /// Of [`NVOS32_ATTR_COHERENCY`].
    NVOS32_ATTR_COHERENCY_WRITE_COMBINE: u32 = 2;
    /// Of [`NVOS32_ATTR_COHERENCY`].
    NVOS32_ATTR_COHERENCY_WRITE_BACK: u32 = 5;
    /// Of [`NVOS32_ATTR2_PAGE_SIZE_HUGE`].
    NVOS32_ATTR2_PAGE_SIZE_HUGE_2MB: u32 = 1;
    /// Of [`NVOS32_ATTR2_GPU_CACHEABLE`].
    NVOS32_ATTR2_GPU_CACHEABLE_YES: u32 = 1;
    /// Of [`NVOS32_ATTR2_GPU_CACHEABLE`].
    NVOS32_ATTR2_GPU_CACHEABLE_NO: u32 = 2;
    /// Of [`NVOS32_ATTR2_ZBC`].
    NVOS32_ATTR2_ZBC_PREFER_NO_ZBC: u32 = 1;
    /// Doorbells' registers: the GPU's time in nanoseconds, its low half.
    NVC361_TIME_0: u32 = 0x80;
    /// Doorbells' registers: the GPU's time in nanoseconds, its high half.
    NVC361_TIME_1: u32 = 0x84;
    /// Doorbells' registers: takes a channel's token.
    NVC361_NOTIFY_CHANNEL_PENDING: u32 = 0x90;
    /// Bytes of the doorbells' registers.
    NVC361_NV_USERMODE__SIZE: u32 = 0x1_0000;
    /// Code of an error notifier: a kernel did what it must not.
    ROBUST_CHANNEL_GR_EXCEPTION: u32 = 13;
    /// Code of an error notifier: an address that is not mapped, or not for this.
    ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT: u32 = 31;
    /// Code of an error notifier: words that a channel does not take.
    ROBUST_CHANNEL_PBDMA_ERROR: u32 = 32;
    /// Code of an error notifier: the first copy engine's.
    ROBUST_CHANNEL_CE0_ERROR: u32 = 39;
    /// Code of an error notifier: the channel was reset on demand.
    ROBUST_CHANNEL_RESETCHANNEL_VERIF_ERROR: u32 = 43;
    /// Code of an error notifier: the channel went with its process or with others of its group.
    ROBUST_CHANNEL_PREEMPTIVE_REMOVAL: u32 = 45;
    /// Code of an error notifier: the GPU does not answer any more.
    ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS: u32 = 79;
}

bits! {
    /// Of `attr`: size of pages.
    NVOS32_ATTR_PAGE_SIZE = 24:23;
    /// Of `attr`: where the memory is.
    NVOS32_ATTR_LOCATION = 26:25;
    /// Of `attr`: whether pages follow each other in physical memory.
    NVOS32_ATTR_PHYSICALITY = 28:27;
    /// Of `attr`: how the host caches it.
    NVOS32_ATTR_COHERENCY = 31:29;
    /// Of `attr`: compression.
    NVOS32_ATTR_COMPR = 13:12;
    /// Of `attr2`: size of huge pages.
    NVOS32_ATTR2_PAGE_SIZE_HUGE = 21:20;
    /// Of `attr2`: whether the GPU caches it.
    NVOS32_ATTR2_GPU_CACHEABLE = 3:2;
    /// Of `attr2`: colours that clears know.
    NVOS32_ATTR2_ZBC = 1:0;
    /// Of [`NV_CTXSHARE_ALLOCATION_PARAMETERS`]: which context.
    NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT = 1:0;
    /// Of [`NV_CHANNEL_ALLOC_PARAMS`]: which of a runlist's two queues.
    NVOS04_FLAGS_GROUP_CHANNEL_RUNQUEUE = 4:4;
}

structs! {
    /// Makes a client; may be left out.
    NV0000_ALLOC_PARAMETERS {
        /// The client's handle, or 0.
        hClient: u32,
        /// For a client that acts for another process.
        processID: u32,
        /// Its name.
        processName: [u8; 100],
        /// Padding.
        pad: u32,
        /// From branch 570: the kernel's own.
        pOsPidInfo: u64,
    }

    /// Makes a device.
    NV0080_ALLOC_PARAMETERS {
        /// Which: `deviceInstance` of `NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2`.
        deviceId: u32,
        /// A client that shares its default address space, itself for one of its own.
        hClientShare: u32,
        /// For a device that is another's.
        hTargetClient: u32,
        /// For a device that is another's.
        hTargetDevice: u32,
        /// `NV_DEVICE_ALLOCATION_FLAGS_*`.
        flags: u32,
        /// Padding.
        pad0: u32,
        /// Bytes of the default address space; 0 is as much as there is.
        vaSpaceSize: u64,
        /// Where RM's own part of it starts.
        vaStartInternal: u64,
        /// Where it ends.
        vaLimitInternal: u64,
        /// `NV_DEVICE_ALLOCATION_VAMODE_*`.
        vaMode: u32,
        /// Padding.
        pad1: u32,
    }

    /// Makes a subdevice.
    NV2080_ALLOC_PARAMETERS {
        /// Which of the device's GPUs: 0.
        subDeviceId: u32,
    }

    /// Makes an address space.
    NV_VASPACE_ALLOCATION_PARAMETERS {
        /// `NV_VASPACE_ALLOCATION_INDEX_GPU_*`.
        index: u32,
        /// Whose it is, and what it may do.
        flags: VaspaceFlags,
        /// To and from the kernel: bytes; 0 is as much as there is.
        vaSize: u64,
        /// Where RM's own part starts.
        vaStartInternal: u64,
        /// Where it ends.
        vaLimitInternal: u64,
        /// Bytes of big pages; 0 is as RM likes.
        bigPageSize: u32,
        /// Padding.
        pad0: u32,
        /// To and from the kernel: where it starts.
        vaBase: u64,
        /// From branch 580: its number on the bus.
        pasid: u32,
        /// Padding.
        pad1: u32,
    }

    /// Makes a group of channels.
    NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS {
        /// Memory for an error notifier, or 0.
        hObjectError: u32,
        /// Memory for a notifier of memory errors, or 0.
        hObjectEccError: u32,
        /// The address space.
        hVASpace: u32,
        /// `NV2080_ENGINE_TYPE_*`.
        engineType: u32,
        /// Of virtual machines.
        bIsCallingContextVgpuPlugin: u8,
        /// Padding.
        pad: [u8; 3],
    }

    /// Makes a context of a group.
    NV_CTXSHARE_ALLOCATION_PARAMETERS {
        /// The address space.
        hVASpace: u32,
        /// `NV_CTXSHARE_ALLOCATION_FLAGS_*`.
        flags: u32,
        /// To and from the kernel: its number.
        subctxId: u32,
    }

    /// Memory as only the kernel names it.
    NV_MEMORY_DESC_PARAMS {
        /// Physical address.
        base: u64,
        /// Bytes.
        size: u64,
        /// Which memory.
        addressSpace: u32,
        /// How it is cached.
        cacheAttrib: u32,
    }

    /// Makes a channel.
    NV_CHANNEL_ALLOC_PARAMS {
        /// Memory for error notifiers, `NvNotification` each, or 0.
        hObjectError: u32,
        /// 0: the ring's address is one of the address space.
        hObjectBuffer: u32,
        /// The ring's address.
        gpFifoOffset: u64,
        /// The ring's entries, a power of two.
        gpFifoEntries: u32,
        /// `NVOS04_FLAGS_*`.
        flags: u32,
        /// The context, or 0.
        hContextShare: u32,
        /// The address space, if there is no group.
        hVASpace: u32,
        /// Memory of USERD, for each GPU of the device.
        hUserdMemory: [u32; 8],
        /// Bytes into it, a multiple of 512.
        userdOffset: [u64; 8],
        /// `NV2080_ENGINE_TYPE_*`, if there is no group.
        engineType: u32,
        /// From the kernel: the channel's number.
        cid: u32,
        /// For the kernel's own use.
        subDeviceId: u32,
        /// Memory for a notifier of memory errors, or 0.
        hObjectEccError: u32,
        /// For the kernel's own use.
        instanceMem: NV_MEMORY_DESC_PARAMS,
        /// For the kernel's own use.
        userdMem: NV_MEMORY_DESC_PARAMS,
        /// For the kernel's own use.
        ramfcMem: NV_MEMORY_DESC_PARAMS,
        /// For the kernel's own use.
        mthdbufMem: NV_MEMORY_DESC_PARAMS,
        /// For the kernel's own use.
        hPhysChannelGroup: u32,
        /// For the kernel's own use.
        internalFlags: u32,
        /// For the kernel's own use.
        errorNotifierMem: NV_MEMORY_DESC_PARAMS,
        /// For the kernel's own use.
        eccErrorNotifierMem: NV_MEMORY_DESC_PARAMS,
        /// For the kernel's own use.
        ProcessID: u32,
        /// For the kernel's own use.
        SubProcessID: u32,
        /// Of confidential computing.
        encryptIv: [u32; 3],
        /// Of confidential computing.
        decryptIv: [u32; 3],
        /// Of confidential computing.
        hmacNonce: [u32; 8],
        /// From branch 570: which TPCs.
        tpcConfigID: u32,
        /// Padding.
        pad: u32,
    }

    /// Makes memory.
    NV_MEMORY_ALLOCATION_PARAMS {
        /// A number of the caller's: whose it is, in lists.
        owner: u32,
        /// `NVOS32_TYPE_*`.
        r#type: u32,
        /// What is asked for.
        flags: AllocFlags,
        /// Of images.
        width: u32,
        /// Of images.
        height: u32,
        /// Of images.
        pitch: i32,
        /// To and from the kernel: `NVOS32_ATTR_*`.
        attr: u32,
        /// To and from the kernel: `NVOS32_ATTR2_*`.
        attr2: u32,
        /// To and from the kernel: kind of pages.
        format: u32,
        /// Of compression.
        comprCovg: u32,
        /// Of graphics.
        zcullCovg: u32,
        /// Padding.
        pad0: u32,
        /// Where it may lie: from.
        rangeLo: u64,
        /// Where it may lie: to.
        rangeHi: u64,
        /// To and from the kernel: bytes.
        size: u64,
        /// Alignment, bytes, with [`AllocFlags::ALIGNMENT_FORCE`].
        alignment: u64,
        /// To and from the kernel: where it lies.
        offset: u64,
        /// From the kernel: the last byte.
        limit: u64,
        /// Of the caller's pages.
        address: u64,
        /// Of compression.
        ctagOffset: u32,
        /// An address space, of addresses.
        hVASpace: u32,
        /// For the kernel's own use.
        internalflags: u32,
        /// For the kernel's own use.
        tag: u32,
        /// From branch 545: the host's node.
        numaNode: i32,
        /// Padding.
        pad1: u32,
    }

    /// Makes addresses of an address space that RM owns.
    NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS {
        /// Where they start.
        offset: u64,
        /// Where they end.
        limit: u64,
        /// The address space, or 0 for the device's.
        hVASpace: u32,
        /// Padding.
        pad: u32,
    }

    /// Makes a debugger.
    NV83DE_ALLOC_PARAMETERS {
        /// 0.
        hDebuggerClient_Obsolete: u32,
        /// The client that is looked at.
        hAppClient: u32,
        /// Its compute object.
        hClass3dObject: u32,
    }

    /// Makes a copy object of a channel.
    NVB0B5_ALLOCATION_PARAMETERS {
        /// `NVB0B5_ALLOCATION_PARAMETERS_VERSION_*`.
        version: u32,
        /// The engine.
        engineType: u32,
    }

    /// Makes doorbells, from Hopper on.
    NV_HOPPER_USERMODE_A_PARAMS {
        /// Reached through the window to the GPU's memory.
        bBar1Mapping: u8,
        /// For the kernel's own use.
        bPriv: u8,
    }

    /// An error notifier, in memory that the kernel writes: time first, status last.
    NvNotification {
        /// Nanoseconds since 1970, low half and high half.
        timeStamp: [u32; 2],
        /// Which error: `ROBUST_CHANNEL_*`.
        info32: u32,
        /// More of it.
        info16: u16,
        /// 0 before; 0xffff for an error.
        status: u16,
    }
}

macro_rules! params {
    ($($name:ident,)*) => {
        $(impl Params for $name {})*
    };
}

params! {
    NV0080_ALLOC_PARAMETERS,
    NV2080_ALLOC_PARAMETERS,
    NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS,
    NV_CTXSHARE_ALLOCATION_PARAMETERS,
    NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS,
    NV83DE_ALLOC_PARAMETERS,
    NVB0B5_ALLOCATION_PARAMETERS,
    NV_HOPPER_USERMODE_A_PARAMS,
}
