//! The GPUs that can be simulated, as data: what the kernel tells of them, and what its checks depend on.
//!
//! Classes are those that `g_gpu_class_list.c` of NVIDIA's open kernel modules gives each GPU; names and device numbers are of
//! `g_nv_name_released.h`. Units (clusters, multiprocessors) are what the named card has on.

/// What differs between GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    /// The generation: `ampere`.
    pub name: &'static str,
    /// The GPU's own name: `GA102`.
    pub gpu: &'static str,
    /// The card.
    pub card: &'static str,
    /// What programs are compiled for: `sm_86`.
    pub target: &'static str,
    /// PCI device number.
    pub device_id: u16,
    /// `NV2080_CTRL_GR_INFO_INDEX_SM_VERSION`: major version in bits 15:8, minor in bits 7:0. What is sold as 12.0 says 10.4.
    pub sm_version: u32,
    /// The version that instructions are encoded for, `SASS_VERSION` of a launch: 4 bits of major, 4 of minor.
    pub sass_version: u8,
    /// Graphics processing clusters that there may be.
    pub gpcs: u32,
    /// Texture processing clusters of each of them.
    pub tpcs_per_gpc: u32,
    /// Multiprocessors of each of those.
    pub sms_per_tpc: u32,
    /// Multiprocessors that are on.
    pub sms: u32,
    /// Warps of a multiprocessor.
    pub warps_per_sm: u32,
    /// KiB of shared memory of a multiprocessor, what the system keeps for itself included.
    pub shared_kib: u32,
    /// Bytes of video memory.
    pub vram: u64,
    /// Copy engines.
    pub copy_engines: u32,
    /// Bits of an address.
    pub address_bits: u32,
    /// The channel's classes, oldest first; the last is the GPU's own.
    pub gpfifo: &'static [u32],
    /// The compute class.
    pub compute: u32,
    /// The copy class.
    pub copy: u32,
    /// Classes of the doorbell page, oldest first; the last is the GPU's own.
    pub usermode: &'static [u32],
    /// The other classes that the kernel lists.
    pub classes: &'static [u32],
}

impl Chip {
    /// All classes, as the kernel lists them: in the order of their names there, in that of their numbers here.
    pub fn class_list(&self) -> Vec<u32> {
        let own = [self.compute, self.copy];
        let all = [self.classes, self.gpfifo, self.usermode, &own];
        let mut classes: Vec<u32> = all.into_iter().flatten().copied().collect();
        classes.sort_unstable();
        classes
    }

    /// Whether a channel may have this class.
    pub fn has_gpfifo(&self, class: u32) -> bool {
        self.gpfifo.contains(&class)
    }
}

const GIB: u64 = 1 << 30;

static CHIPS: [Chip; 4] = [
    Chip {
        name: "ampere",
        gpu: "GA102",
        card: "NVIDIA GeForce RTX 3090",
        target: "sm_86",
        device_id: 0x2204,
        sm_version: 0x806,
        sass_version: 0x86,
        gpcs: 7,
        tpcs_per_gpc: 6,
        sms_per_tpc: 2,
        sms: 82,
        warps_per_sm: 48,
        shared_kib: 100,
        vram: 24 * GIB,
        copy_engines: 5,
        address_bits: 49,
        gpfifo: &[0xC36F, 0xC46F, 0xC56F],
        compute: 0xC7C0,
        copy: 0xC7B5,
        usermode: &[0xC361, 0xC461, 0xC561],
        classes: &[
            0x40, 0x60, 0x70, 0x73, 0x7D, 0xDE, 0xF2, 0xFC, 0x503B, 0x503C, 0x506F, 0x5080, 0x50A0,
            0x844C, 0x902D, 0x9067, 0x9072, 0x9074, 0x9096, 0x90E6, 0x90E7, 0x90EC, 0x90F1, 0xA06C,
            0xA080, 0xA081, 0xA084, 0xA140, 0xB0CC, 0xC076, 0xC365, 0xC369, 0xC372, 0xC670, 0xC671,
            0xC673, 0xC67A, 0xC67B, 0xC67D, 0xC67E, 0xC77F, 0xC797, 0xC7B0, 0xC7B7, 0xC7FA, 0xCB33,
        ],
    },
    Chip {
        name: "ada",
        gpu: "AD102",
        card: "NVIDIA GeForce RTX 4090",
        target: "sm_89",
        device_id: 0x2684,
        sm_version: 0x809,
        sass_version: 0x89,
        gpcs: 12,
        tpcs_per_gpc: 6,
        sms_per_tpc: 2,
        sms: 128,
        warps_per_sm: 48,
        shared_kib: 100,
        vram: 24 * GIB,
        copy_engines: 5,
        address_bits: 49,
        gpfifo: &[0xC36F, 0xC46F, 0xC56F],
        compute: 0xC9C0,
        copy: 0xC7B5,
        usermode: &[0xC361, 0xC461, 0xC561],
        classes: &[
            0x40, 0x60, 0x70, 0x73, 0x7D, 0xDE, 0xF2, 0xFC, 0x503B, 0x503C, 0x506F, 0x5080, 0x50A0,
            0x844C, 0x902D, 0x9067, 0x9072, 0x9074, 0x9096, 0x90E6, 0x90E7, 0x90EC, 0x90F1, 0xA06C,
            0xA080, 0xA081, 0xA084, 0xA140, 0xB0CC, 0xC076, 0xC365, 0xC369, 0xC372, 0xC67A, 0xC67B,
            0xC67E, 0xC770, 0xC771, 0xC773, 0xC77D, 0xC77F, 0xC997, 0xC9B0, 0xC9B7, 0xC9D1, 0xC9FA,
            0xCB33,
        ],
    },
    Chip {
        name: "hopper",
        gpu: "GH100",
        card: "NVIDIA H100 80GB HBM3",
        target: "sm_90",
        device_id: 0x2330,
        sm_version: 0x900,
        sass_version: 0x90,
        gpcs: 8,
        tpcs_per_gpc: 9,
        sms_per_tpc: 2,
        sms: 132,
        warps_per_sm: 64,
        shared_kib: 228,
        vram: 80 * GIB,
        copy_engines: 10,
        address_bits: 57,
        gpfifo: &[0xC36F, 0xC46F, 0xC56F, 0xC86F],
        compute: 0xCBC0,
        copy: 0xC8B5,
        usermode: &[0xC361, 0xC461, 0xC561, 0xC661],
        classes: &[
            0x40, 0x60, 0x70, 0x7D, 0xDE, 0xF2, 0xFC, 0x503B, 0x503C, 0x506F, 0x5080, 0x50A0,
            0x844C, 0x902D, 0x9067, 0x9074, 0x9096, 0x90E6, 0x90E7, 0x90F1, 0xA06C, 0xA080, 0xA081,
            0xA084, 0xA140, 0xB0CC, 0xB8B0, 0xB8D1, 0xB8FA, 0xC076, 0xC365, 0xC369, 0xCB33, 0xCB97,
            0xCBA2,
        ],
    },
    Chip {
        name: "blackwell",
        gpu: "GB202",
        card: "NVIDIA GeForce RTX 5090",
        target: "sm_120",
        device_id: 0x2B85,
        sm_version: 0xA04,
        sass_version: 0xA4,
        gpcs: 12,
        tpcs_per_gpc: 8,
        sms_per_tpc: 2,
        sms: 170,
        warps_per_sm: 48,
        shared_kib: 100,
        vram: 32 * GIB,
        copy_engines: 8,
        address_bits: 57,
        gpfifo: &[0xC36F, 0xC46F, 0xC56F, 0xC86F, 0xC96F, 0xCA6F],
        compute: 0xCEC0,
        copy: 0xCAB5,
        usermode: &[0xC361, 0xC461, 0xC561, 0xC661, 0xC761],
        classes: &[
            0x40, 0x60, 0x70, 0x73, 0x7D, 0xDE, 0xF2, 0xFC, 0x503B, 0x503C, 0x506F, 0x5080, 0x50A0,
            0x844C, 0x902D, 0x9067, 0x9072, 0x9074, 0x9096, 0x90E6, 0x90E7, 0x90EC, 0x90F1, 0xA06C,
            0xA080, 0xA081, 0xA084, 0xB0CC, 0xC076, 0xC365, 0xC369, 0xC372, 0xC77F, 0xCA70, 0xCA71,
            0xCA73, 0xCA7A, 0xCA7B, 0xCA7D, 0xCA7E, 0xCB33, 0xCBA2, 0xCD40, 0xCE97, 0xCFB0, 0xCFB7,
            0xCFD1, 0xCFFA,
        ],
    },
];

/// The chip of a generation.
pub fn find(name: &str) -> Option<&'static Chip> {
    CHIPS.iter().find(|chip| chip.name == name)
}

/// The generations, in the order of their years.
pub fn names() -> impl Iterator<Item = &'static str> {
    CHIPS.iter().map(|chip| chip.name)
}
