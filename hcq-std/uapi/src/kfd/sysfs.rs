//! The bits and numbers in the topology's text files: `include/uapi/linux/kfd_sysfs.h`, and `KFD_MMIO_REMAP_*` of
//! `kfd_ioctl.h`. The files are in `/sys/devices/virtual/kfd/kfd/topology`.

use crate::layout::{constants, flags};

flags! {
    /// `capability` in a node's `properties`. [`HSA_CAP_ASIC_REVISION_SHIFT`] and its kin are for the fields of numbers.
    Capability: u32 = "HSA_CAP_" {
        /// The node can be taken out while the system runs.
        HOT_PLUGGABLE = 0x0000_0001;
        /// The node translates addresses as the host does.
        ATS_PRESENT = 0x0000_0002;
        /// Graphics run on it too.
        SHARED_WITH_GRAPHICS = 0x0000_0004;
        /// Rings have a power of two of bytes.
        QUEUE_SIZE_POW2 = 0x0000_0008;
        /// Rings have at most 32 bits of bytes.
        QUEUE_SIZE_32BIT = 0x0000_0010;
        /// Queues tell when they are idle.
        QUEUE_IDLE_EVENT = 0x0000_0020;
        /// Addresses are limited.
        VA_LIMIT = 0x0000_0040;
        /// Accesses can be watched.
        WATCH_POINTS_SUPPORTED = 0x0000_0080;
        /// Field: binary logarithm of the watched addresses.
        WATCH_POINTS_TOTALBITS_MASK = 0x0000_0f00;
        /// Field: one of `HSA_CAP_DOORBELL_TYPE_*`.
        DOORBELL_TYPE_TOTALBITS_MASK = 0x0000_3000;
        /// Rings of AQL queues are mapped twice in a row.
        AQL_QUEUE_DOUBLE_MAP = 0x0000_4000;
        /// A debugger can trap waves.
        TRAP_DEBUG_SUPPORT = 0x0000_8000;
        /// A debugger can override which exceptions trap.
        TRAP_DEBUG_WAVE_LAUNCH_TRAP_OVERRIDE_SUPPORTED = 0x0001_0000;
        /// A debugger can set how waves start.
        TRAP_DEBUG_WAVE_LAUNCH_MODE_SUPPORTED = 0x0002_0000;
        /// A debugger can make accesses precise.
        TRAP_DEBUG_PRECISE_MEMORY_OPERATIONS_SUPPORTED = 0x0004_0000;
        /// Always 0.
        RESERVED_WAS_SRAM_EDCSUPPORTED = 0x0008_0000;
        /// Memory detects lost bits.
        MEM_EDCSUPPORTED = 0x0010_0000;
        /// Lost bits are told.
        RASEVENTNOTIFY = 0x0020_0000;
        /// Field: the chip's revision.
        ASIC_REVISION_MASK = 0x03c0_0000;
        /// SRAM detects lost bits.
        SRAM_EDCSUPPORTED = 0x0400_0000;
        /// [`kfd_ioctl_svm_args`](super::kfd_ioctl_svm_args) works.
        SVMAPI_SUPPORTED = 0x0800_0000;
        /// The host's accesses to the GPU's memory are coherent.
        FLAGS_COHERENTHOSTACCESS = 0x1000_0000;
        /// The firmware can debug.
        TRAP_DEBUG_FIRMWARE_SUPPORTED = 0x2000_0000;
        /// A debugger can make arithmetic precise.
        TRAP_DEBUG_PRECISE_ALU_OPERATIONS_SUPPORTED = 0x4000_0000;
        /// A single queue of the compute engine can be reset.
        PER_QUEUE_RESET_SUPPORTED = 0x8000_0000;
    }

    /// `capability2` in a node's `properties`.
    Capability2: u32 = "HSA_CAP2_" {
        /// A single queue of a copy engine can be reset.
        PER_SDMA_QUEUE_RESET_SUPPORTED = 0x0000_0001;
    }

    /// `debug_prop` in a node's `properties`.
    DebugProp: u64 = "HSA_DBG_" {
        /// Field: the lowest bit that a watched address can leave out.
        WATCH_ADDR_MASK_LO_BIT_MASK = 0x0000_000f;
        /// Field: the highest bit that a watched address can leave out.
        WATCH_ADDR_MASK_HI_BIT_MASK = 0x0000_03f0;
        /// Saved waves always name their dispatch.
        DISPATCH_INFO_ALWAYS_VALID = 0x0000_0400;
        /// A watched address belongs to one process.
        WATCHPOINTS_EXCLUSIVE = 0x0000_0800;
    }

    /// `flags` in a memory bank's `properties`.
    MemoryFlags: u32 = "HSA_MEM_FLAGS_" {
        /// The bank can be taken out while the system runs.
        HOT_PLUGGABLE = 0x0000_0001;
        /// The bank keeps its bytes without power.
        NON_VOLATILE = 0x0000_0002;
    }

    /// `type` in a cache's `properties`.
    CacheType: u32 = "HSA_CACHE_TYPE_" {
        /// For data.
        DATA = 0x0000_0001;
        /// For code.
        INSTRUCTION = 0x0000_0002;
        /// The host's.
        CPU = 0x0000_0004;
        /// The compute units'.
        HSACU = 0x0000_0008;
    }

    /// `flags` in a link's `properties`.
    LinkFlags: u32 = "HSA_IOLINK_FLAGS_" {
        /// The link works.
        ENABLED = 1 << 0;
        /// Accesses over it are not coherent.
        NON_COHERENT = 1 << 1;
        /// No atomics of 32 bits.
        NO_ATOMICS_32_BIT = 1 << 2;
        /// No atomics of 64 bits.
        NO_ATOMICS_64_BIT = 1 << 3;
        /// No direct accesses between GPUs.
        NO_PEER_TO_PEER_DMA = 1 << 4;
    }
}

constants! {
    /// The lowest bit of [`Capability::WATCH_POINTS_TOTALBITS_MASK`].
    HSA_CAP_WATCH_POINTS_TOTALBITS_SHIFT: u32 = 8;
    /// The lowest bit of [`Capability::DOORBELL_TYPE_TOTALBITS_MASK`].
    HSA_CAP_DOORBELL_TYPE_TOTALBITS_SHIFT: u32 = 12;
    /// Doorbells of 32 bits, GPUs before gfx7.
    HSA_CAP_DOORBELL_TYPE_PRE_1_0: u32 = 0x0;
    /// Doorbells of 32 bits.
    HSA_CAP_DOORBELL_TYPE_1_0: u32 = 0x1;
    /// Doorbells of 64 bits, GPUs since gfx9.
    HSA_CAP_DOORBELL_TYPE_2_0: u32 = 0x2;
    /// The lowest bit of [`Capability::ASIC_REVISION_MASK`].
    HSA_CAP_ASIC_REVISION_SHIFT: u32 = 22;
    /// The lowest bit of [`DebugProp::WATCH_ADDR_MASK_LO_BIT_MASK`].
    HSA_DBG_WATCH_ADDR_MASK_LO_BIT_SHIFT: u32 = 0;
    /// The lowest bit of [`DebugProp::WATCH_ADDR_MASK_HI_BIT_MASK`].
    HSA_DBG_WATCH_ADDR_MASK_HI_BIT_SHIFT: u32 = 4;

    /// `heap_type` of a memory bank: the system's.
    HSA_MEM_HEAP_TYPE_SYSTEM: u32 = 0;
    /// `heap_type`: the GPU's memory that the host can map too.
    HSA_MEM_HEAP_TYPE_FB_PUBLIC: u32 = 1;
    /// `heap_type`: the GPU's memory that the host cannot map.
    HSA_MEM_HEAP_TYPE_FB_PRIVATE: u32 = 2;
    /// `heap_type`: shared by all of a GPU's waves.
    HSA_MEM_HEAP_TYPE_GPU_GDS: u32 = 3;
    /// `heap_type`: local memory.
    HSA_MEM_HEAP_TYPE_GPU_LDS: u32 = 4;
    /// `heap_type`: private memory.
    HSA_MEM_HEAP_TYPE_GPU_SCRATCH: u32 = 5;

    /// `type` of a link: not known.
    HSA_IOLINK_TYPE_UNDEFINED: u32 = 0;
    /// `type` of a link: between AMD's hosts.
    HSA_IOLINK_TYPE_HYPERTRANSPORT: u32 = 1;
    /// `type` of a link: PCI Express.
    HSA_IOLINK_TYPE_PCIEXPRESS: u32 = 2;
    /// `type` of a link: AMBA.
    HSA_IOLINK_TYPE_AMBA: u32 = 3;
    /// `type` of a link: MIPI.
    HSA_IOLINK_TYPE_MIPI: u32 = 4;
    /// `type` of a link: QPI.
    HSA_IOLINK_TYPE_QPI_1_1: u32 = 5;
    /// `type` of a link: RapidIO.
    HSA_IOLINK_TYPE_RAPID_IO: u32 = 8;
    /// `type` of a link: InfiniBand.
    HSA_IOLINK_TYPE_INFINIBAND: u32 = 9;
    /// `type` of a link: between AMD's GPUs.
    HSA_IOLINK_TYPE_XGMI: u32 = 11;
    /// `type` of a link: XGOP.
    HSA_IOLINK_TYPE_XGOP: u32 = 12;
    /// `type` of a link: GZ.
    HSA_IOLINK_TYPE_GZ: u32 = 13;
    /// `type` of a link: RDMA over Ethernet.
    HSA_IOLINK_TYPE_ETHERNET_RDMA: u32 = 14;
    /// `type` of a link: RDMA over something else.
    HSA_IOLINK_TYPE_RDMA_OTHER: u32 = 15;
    /// `type` of a link: something else.
    HSA_IOLINK_TYPE_OTHER: u32 = 16;

    /// In the page of [`AllocMemFlags::MMIO_REMAP`](super::AllocMemFlags::MMIO_REMAP): writing 1 here makes the host's
    /// writes to GPU memory visible.
    KFD_MMIO_REMAP_HDP_MEM_FLUSH_CNTL: u32 = 0;
    /// In that page: the same for registers.
    KFD_MMIO_REMAP_HDP_REG_FLUSH_CNTL: u32 = 4;
}
