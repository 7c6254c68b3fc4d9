//! The chips that can be simulated, as data: what the kernel tells of them, and what its checks depend on.
//!
//! Counts of units come from the topology that these cards show (`simd_count` and its neighbours); rules come from the
//! kernel and are named where they are used.

/// How a chip chooses the `MTYPE` of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MtypeRule {
    /// `gmc_v9_0_get_coherence_flags`, GC 9.4.3 on a card.
    Gfx94,
    /// `gmc_v11_0_get_vm_pte`.
    Gfx11,
    /// `gmc_v12_0_get_vm_pte`.
    Gfx12,
}

/// A hardware block of `ip_discovery`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// `soc15_hw_ip.h`: `GC_HWID` 11, `SDMA0_HWID` 42, `NBIF_HWID` 108.
    pub(crate) id: u32,
    /// The name of the link beside the number; `hw_id_names` of `amdgpu_discovery.c`.
    pub(crate) name: &'static str,
    /// Major, minor, revision.
    pub(crate) version: [u32; 3],
    /// Bases of the segments, in dwords.
    pub(crate) bases: &'static [u32],
}

/// What differs between chips.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chip {
    /// LLVM's name.
    pub(crate) name: &'static str,
    /// `gfx_target_version`.
    pub(crate) target: u32,
    /// `device_id`: PCI.
    pub(crate) device_id: u32,
    /// In the processor's package: `AMD_IS_APU`.
    pub(crate) apu: bool,
    /// XCCs.
    pub(crate) xccs: u32,
    /// Shader engines of an XCC.
    pub(crate) engines: u32,
    /// Arrays of a shader engine.
    pub(crate) arrays: u32,
    /// Places for compute units in an array; some may be off.
    pub(crate) array_units: u32,
    /// Compute units that are on, in all XCCs.
    pub(crate) units: u32,
    /// SIMDs of a compute unit.
    pub(crate) simds: u32,
    /// Waves of a SIMD.
    pub(crate) waves: u32,
    /// Lanes of a wave that the kernel tells.
    pub(crate) lanes: u32,
    /// KiB of local memory of a compute unit.
    pub(crate) local_kib: u32,
    /// `max_slots_scratch_cu`.
    pub(crate) scratch_slots: u32,
    /// Bytes of vector registers of a compute unit: `kfd_get_vgpr_size_per_cu`.
    pub(crate) register_bytes: u32,
    /// Copy engines for the host's link.
    pub(crate) copy_engines: u32,
    /// Copy engines for links between GPUs.
    pub(crate) link_engines: u32,
    /// Queues of a copy engine: `kfd_device_info_set_sdma_info`.
    pub(crate) copy_queues: u32,
    /// Of these, the kernel's own.
    pub(crate) reserved_copy_queues: u32,
    /// `num_cp_queues`.
    pub(crate) compute_queues: u32,
    /// Doorbells between two copy engines, whether their first is rounded up to a multiple of 4, and the last doorbell that
    /// is no compute queue's: `aqua_vanjaram_doorbell_index_init`, `nv_init_doorbell_index`, `allocate_doorbell`.
    pub(crate) doorbells: Doorbells,
    /// Queues of one process on the GPU: `pqm_create_queue`.
    pub(crate) process_queues: u32,
    /// Queues are scheduled by the MES firmware, which wants the write pointer on the queue's own GPU.
    pub(crate) mes: bool,
    /// Bytes of video memory.
    pub(crate) vram: u64,
    /// Bits of the memory bus.
    pub(crate) memory_width: u32,
    /// MHz.
    pub(crate) memory_clock: u32,
    /// MHz.
    pub(crate) engine_clock: u32,
    /// `fw_version`: the compute engine's firmware.
    pub(crate) firmware: u32,
    /// `sdma_fw_version`.
    pub(crate) copy_firmware: u32,
    /// The chip's revision.
    pub(crate) revision: u32,
    /// Linked to others of its kind by xGMI.
    pub(crate) xgmi: bool,
    /// Megabytes a second of the host's link, least and most: `amdgpu_amdkfd_get_pcie_bandwidth_mbytes`.
    pub(crate) host_link: (u32, u32),
    /// Caches: kind, level, KiB, bytes of a line, compute units that share one.
    pub(crate) caches: &'static [CacheKind],
    /// The rule for pages.
    pub(crate) mtype: MtypeRule,
    /// Programs may retry accesses to missing pages, chosen by each process.
    pub(crate) xnack: bool,
    /// Lowest and highest bit of watched addresses and more: `debug_prop`.
    pub(crate) debug: u64,
    /// Capability bits that are the chip's own: `kfd_topology_set_capabilities`.
    pub(crate) capability: u32,
    /// Hardware blocks.
    pub(crate) blocks: &'static [Block],
}

/// Where the doorbells of copy engines lie in a process's page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doorbells {
    /// Of the first copy engine.
    pub(crate) first_copy: u32,
    /// Between two copy engines.
    pub(crate) stride: u32,
    /// An engine's first is a multiple of this.
    pub(crate) align: u32,
    /// The last that no compute queue gets.
    pub(crate) last_other: u32,
}

/// A kind of cache in the topology.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheKind {
    /// 1 to 3.
    pub(crate) level: u32,
    /// KiB.
    pub(crate) kib: u32,
    /// Bytes.
    pub(crate) line: u32,
    /// `HSA_CACHE_TYPE_*`.
    pub(crate) kind: u32,
    /// Compute units that share one; of levels 2 and 3, the bits of an array's map.
    pub(crate) shared: u32,
}

const DATA: u32 = 1 | 8;
const CODE: u32 = 2 | 8;

const fn cache(level: u32, kib: u32, line: u32, kind: u32, shared: u32) -> CacheKind {
    CacheKind {
        level,
        kib,
        line,
        kind,
        shared,
    }
}

const WATCH_LOW_7_HIGH_30: u64 = 7 | 30 << 4;
const WATCH_LOW_7_HIGH_29: u64 = 7 | 29 << 4;
const DISPATCH_INFO: u64 = 0x400;
const PRECISE_MEMORY: u32 = 0x4_0000;
const PRECISE_ALU: u32 = 0x4000_0000;
const MEMORY_ECC: u32 = 0x0010_0000 | 0x0400_0000 | 0x0020_0000;

/// `aldebaran_ip_offset.h`; the discovery tables of later CDNA chips name the same first segments.
const GC_CDNA: &[u32] = &[0x2000, 0xA000, 0x0240_2C00];
const SDMA_CDNA: &[u32] = &[0x1260, 0x0244_5400];
/// `sienna_cichlid_ip_offset.h`; the discovery tables of later RDNA chips name the same segments.
const GC_RDNA: &[u32] = &[0x1260, 0xA000, 0x1C000, 0x0240_2C00];
const NBIF: &[u32] = &[0, 0x14, 0xD20, 0x10400, 0x0241_B000, 0x0404_0000];

const LAYOUT_CDNA: Doorbells = Doorbells {
    first_copy: 0x100,
    stride: 10,
    align: 4,
    last_other: 0x1E8,
};
const LAYOUT_RDNA: Doorbells = Doorbells {
    first_copy: 0x100,
    stride: 10,
    align: 1,
    last_other: 0x190,
};

const GIB: u64 = 1 << 30;

const CHIPS: &[Chip] = &[
    // Instinct MI300X, in one partition.
    Chip {
        name: "gfx942",
        target: 90402,
        device_id: 0x74A1,
        apu: false,
        xccs: 8,
        engines: 4,
        arrays: 1,
        array_units: 10,
        units: 304,
        simds: 4,
        waves: 8,
        lanes: 64,
        local_kib: 64,
        scratch_slots: 32,
        register_bytes: 0x8_0000,
        copy_engines: 2,
        link_engines: 14,
        copy_queues: 8,
        reserved_copy_queues: 0,
        compute_queues: 24,
        doorbells: LAYOUT_CDNA,
        process_queues: 255,
        mes: false,
        vram: 206_141_652_992,
        memory_width: 8192,
        memory_clock: 1300,
        engine_clock: 2100,
        firmware: 192,
        copy_firmware: 25,
        revision: 1,
        xgmi: true,
        host_link: (312, 64000),
        caches: &[
            cache(1, 32, 128, DATA, 1),
            cache(1, 64, 64, CODE, 2),
            cache(1, 16, 64, DATA, 2),
            cache(2, 4096, 128, DATA, 10),
            cache(3, 262_144, 64, DATA, 10),
        ],
        mtype: MtypeRule::Gfx94,
        xnack: true,
        debug: WATCH_LOW_7_HIGH_30 | DISPATCH_INFO,
        capability: PRECISE_MEMORY | MEMORY_ECC,
        blocks: &[
            Block {
                id: 11,
                name: "GC",
                version: [9, 4, 3],
                bases: GC_CDNA,
            },
            Block {
                id: 42,
                name: "SDMA0",
                version: [4, 4, 2],
                bases: SDMA_CDNA,
            },
            Block {
                id: 108,
                name: "NBIF",
                version: [7, 9, 0],
                bases: NBIF,
            },
        ],
    },
    // Instinct MI350X, in one partition.
    Chip {
        name: "gfx950",
        target: 90500,
        device_id: 0x75A0,
        apu: false,
        xccs: 8,
        engines: 4,
        arrays: 1,
        array_units: 9,
        units: 256,
        simds: 4,
        waves: 8,
        lanes: 64,
        local_kib: 160,
        scratch_slots: 32,
        register_bytes: 0x8_0000,
        copy_engines: 2,
        link_engines: 14,
        copy_queues: 8,
        reserved_copy_queues: 0,
        compute_queues: 24,
        doorbells: LAYOUT_CDNA,
        process_queues: 255,
        mes: false,
        vram: 309_220_868_096,
        memory_width: 8192,
        memory_clock: 1900,
        engine_clock: 2200,
        firmware: 33,
        copy_firmware: 14,
        revision: 1,
        xgmi: true,
        host_link: (312, 64000),
        caches: &[
            cache(1, 32, 128, DATA, 1),
            cache(1, 64, 64, CODE, 2),
            cache(1, 16, 64, DATA, 2),
            cache(2, 4096, 128, DATA, 9),
            cache(3, 262_144, 64, DATA, 9),
        ],
        mtype: MtypeRule::Gfx94,
        xnack: true,
        debug: WATCH_LOW_7_HIGH_29 | DISPATCH_INFO,
        capability: PRECISE_MEMORY | MEMORY_ECC,
        blocks: &[
            Block {
                id: 11,
                name: "GC",
                version: [9, 5, 0],
                bases: GC_CDNA,
            },
            Block {
                id: 42,
                name: "SDMA0",
                version: [4, 4, 4],
                bases: SDMA_CDNA,
            },
            Block {
                id: 108,
                name: "NBIF",
                version: [7, 9, 1],
                bases: NBIF,
            },
        ],
    },
    // Radeon RX 7900 XTX.
    Chip {
        name: "gfx1100",
        target: 110_000,
        device_id: 0x744C,
        apu: false,
        xccs: 1,
        engines: 6,
        arrays: 2,
        array_units: 8,
        units: 96,
        simds: 2,
        waves: 16,
        lanes: 32,
        local_kib: 64,
        scratch_slots: 32,
        register_bytes: 0x6_0000,
        copy_engines: 2,
        link_engines: 0,
        copy_queues: 8,
        reserved_copy_queues: 2,
        compute_queues: 8,
        doorbells: LAYOUT_RDNA,
        process_queues: 127,
        mes: true,
        vram: 24 * GIB - (16 << 20),
        memory_width: 384,
        memory_clock: 1249,
        engine_clock: 2482,
        firmware: 2140,
        copy_firmware: 20,
        revision: 0,
        xgmi: false,
        host_link: (312, 31507),
        caches: &[
            cache(1, 32, 128, DATA, 1),
            cache(1, 32, 128, CODE, 2),
            cache(1, 16, 64, DATA, 2),
            cache(1, 256, 128, DATA, 8),
            cache(2, 6144, 128, DATA, 8),
            cache(3, 98_304, 64, DATA, 8),
        ],
        mtype: MtypeRule::Gfx11,
        xnack: false,
        debug: WATCH_LOW_7_HIGH_29 | DISPATCH_INFO,
        capability: 0,
        blocks: &[
            Block {
                id: 11,
                name: "GC",
                version: [11, 0, 0],
                bases: GC_RDNA,
            },
            Block {
                id: 42,
                name: "SDMA0",
                version: [6, 0, 0],
                bases: GC_RDNA,
            },
            Block {
                id: 108,
                name: "NBIF",
                version: [4, 3, 0],
                bases: NBIF,
            },
        ],
    },
    // Radeon 8060S of the Ryzen AI Max+ 395.
    Chip {
        name: "gfx1151",
        target: 110_501,
        device_id: 0x1586,
        apu: true,
        xccs: 1,
        engines: 2,
        arrays: 2,
        array_units: 10,
        units: 40,
        simds: 2,
        waves: 16,
        lanes: 32,
        local_kib: 64,
        scratch_slots: 32,
        register_bytes: 0x6_0000,
        copy_engines: 1,
        link_engines: 0,
        copy_queues: 8,
        reserved_copy_queues: 2,
        compute_queues: 8,
        doorbells: LAYOUT_RDNA,
        process_queues: 127,
        mes: true,
        vram: GIB / 2,
        memory_width: 256,
        memory_clock: 1000,
        engine_clock: 2900,
        firmware: 32,
        copy_firmware: 16,
        revision: 0,
        xgmi: false,
        host_link: (312, 31507),
        caches: &[
            cache(1, 32, 128, DATA, 1),
            cache(1, 32, 128, CODE, 2),
            cache(1, 16, 64, DATA, 2),
            cache(1, 256, 128, DATA, 10),
            cache(2, 2048, 128, DATA, 10),
            cache(3, 32_768, 64, DATA, 10),
        ],
        mtype: MtypeRule::Gfx11,
        xnack: false,
        debug: WATCH_LOW_7_HIGH_29 | DISPATCH_INFO,
        capability: 0,
        blocks: &[
            Block {
                id: 11,
                name: "GC",
                version: [11, 5, 1],
                bases: GC_RDNA,
            },
            Block {
                id: 42,
                name: "SDMA0",
                version: [6, 1, 1],
                bases: GC_RDNA,
            },
            Block {
                id: 108,
                name: "NBIF",
                version: [7, 11, 1],
                bases: NBIF,
            },
        ],
    },
    // Radeon RX 9070 XT.
    Chip {
        name: "gfx1201",
        target: 120_001,
        device_id: 0x7550,
        apu: false,
        xccs: 1,
        engines: 4,
        arrays: 2,
        array_units: 8,
        units: 64,
        simds: 2,
        waves: 16,
        lanes: 32,
        local_kib: 64,
        scratch_slots: 32,
        register_bytes: 0x6_0000,
        copy_engines: 2,
        link_engines: 0,
        copy_queues: 8,
        reserved_copy_queues: 2,
        compute_queues: 8,
        doorbells: LAYOUT_RDNA,
        process_queues: 127,
        mes: true,
        vram: 16 * GIB - (80 << 20),
        memory_width: 256,
        memory_clock: 1258,
        engine_clock: 2970,
        firmware: 3010,
        copy_firmware: 839,
        revision: 0,
        xgmi: false,
        host_link: (312, 63015),
        caches: &[
            cache(1, 32, 128, DATA, 1),
            cache(1, 32, 128, CODE, 2),
            cache(1, 16, 64, DATA, 2),
            cache(2, 8192, 128, DATA, 8),
            cache(3, 65_536, 64, DATA, 8),
        ],
        mtype: MtypeRule::Gfx12,
        xnack: false,
        debug: WATCH_LOW_7_HIGH_29 | DISPATCH_INFO,
        capability: PRECISE_ALU,
        blocks: &[
            Block {
                id: 11,
                name: "GC",
                version: [12, 0, 1],
                bases: GC_RDNA,
            },
            Block {
                id: 42,
                name: "SDMA0",
                version: [7, 0, 1],
                bases: GC_RDNA,
            },
            Block {
                id: 108,
                name: "NBIF",
                version: [6, 3, 1],
                bases: NBIF,
            },
        ],
    },
];

/// The LLVM names of the chips.
pub fn names() -> impl Iterator<Item = &'static str> {
    CHIPS.iter().map(|chip| chip.name)
}

pub(crate) fn find(name: &str) -> Option<&'static Chip> {
    CHIPS.iter().find(|chip| chip.name == name)
}

/// Sizes that a compute queue's save area must have: `kfd_queue_ctx_save_restore_size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SaveArea {
    /// `ctl_stack_size`: the control stack, with the header before it.
    pub(crate) control_stack: u32,
    /// `cwsr_size`: of one XCC, control stack included.
    pub(crate) bytes: u32,
    /// `debug_memory_size`: of one XCC.
    pub(crate) debug: u32,
}

const PAGE: u32 = 4096;
const HEADER: u32 = 40;
const SCALAR_BYTES: u32 = 0x4000;
const HARDWARE_BYTES: u32 = 0x1000;
/// `eop_buffer_size` since gfx9.
pub(crate) const EOP_BYTES: u64 = 4096;

impl Chip {
    /// Compute units of one XCC.
    pub(crate) fn xcc_units(&self) -> u32 {
        self.units / self.xccs
    }

    pub(crate) fn save_area(&self) -> SaveArea {
        let units = self.xcc_units();
        let old = self.target < 100_100;
        let waves = if old {
            (units * 40).min(self.engines * 512)
        } else {
            units * 32
        };
        let local = self.local_kib << 10;
        let unit = self.register_bytes + SCALAR_BYTES + local + HARDWARE_BYTES;
        let wave_bytes = if old { 8 } else { 12 };
        let control_stack = (HEADER + waves * wave_bytes + 8).next_multiple_of(PAGE);
        SaveArea {
            control_stack,
            bytes: control_stack + (units * unit).next_multiple_of(PAGE),
            debug: (waves * 32).next_multiple_of(64),
        }
    }

    /// Queues of copy engines that processes may have, and those of engines for links.
    pub(crate) fn copy_queue_bits(&self) -> (u128, u128) {
        let ones = |count: u32| u128::MAX.checked_shr(128 - count.min(128)).unwrap_or(0);
        let reserved = self.reserved_copy_queues * self.copy_engines;
        let host = ones(self.copy_engines * self.copy_queues) & !ones(reserved);
        (host, ones(self.link_engines * self.copy_queues))
    }
}

#[cfg(test)]
mod tests;
