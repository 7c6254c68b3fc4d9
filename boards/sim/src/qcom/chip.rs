//! The chips: facts of `adreno-gpulist.h` in Qualcomm's `kgsl`, and clocks of Linux' device trees.

/// Registers that command buffers may not touch (`CP_PROTECT_REG`): first, last, and whether not even reading is allowed.
pub(crate) type Protected = (u32, u32, bool);

/// Whether a GPU snoops the CPU's caches (`ADRENO_IOCOHERENT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Snoops {
    /// `IOCOHERENT` is dropped. The list has the feature for the a630 too, but its SMMU is not `dma-coherent` in Linux' device
    /// tree.
    Never,
    /// Objects with `IOCOHERENT`.
    OnRequest,
    /// All that the CPU caches (`CONFIG_QCOM_KGSL_IOCOHERENCY_DEFAULT`, on for `ARCH_LAHAINA`).
    Always,
}

/// A chip.
#[derive(Debug)]
pub(crate) struct Chip {
    /// The name in a machine's configuration, and the target of its programs.
    pub(crate) name: &'static str,
    /// `chip_id` of `kgsl_devinfo`: core 31:24, major 23:16, minor 15:8, patch 7:0.
    pub(crate) chip_id: u32,
    /// What `adreno_get_gpu_model` makes of that.
    pub(crate) model: &'static str,
    /// Bytes of GMEM (`gmem_size`).
    pub(crate) gmem: u64,
    /// `uche_gmem_alignment`; 0: GMEM has no address that software chooses.
    pub(crate) gmem_alignment: u64,
    /// `gpu_id` of `kgsl_devinfo`; kernels of today leave it 0.
    pub(crate) gpu_id: u32,
    /// `revn` in Linux' `a6xx_catalog.c`; newer chips have none.
    pub(crate) msm_number: u32,
    /// `address_space_size` there, or 4 GiB (`adreno_private_address_space_size`).
    pub(crate) msm_space: u64,
    /// `highest_bank_bit`.
    pub(crate) highest_bank_bit: u32,
    /// `qcom,ubwc-mode` of the vendor's device tree.
    pub(crate) ubwc_mode: u32,
    /// Version of the command processor's firmware: the least that Linux' `msm` driver takes for a safe one
    /// (`a6xx_ucode_check_version`).
    pub(crate) firmware: u32,
    /// Whether the GPU snoops the CPU's caches.
    pub(crate) snoops: Snoops,
    /// Cache operations work on pages, as in Qualcomm's `kgsl` today (`_dma_cache_op`), or else on lines, as before it.
    pub(crate) page_syncs: bool,
    /// `ADRENO_PREEMPTION`: four rings, and the ring of the highest priority with work goes first.
    pub(crate) preemption: bool,
    /// Clock rates in Hz, highest first: power level 0 is the first.
    pub(crate) clocks: &'static [u32],
    /// `protected_regs`. Reading and writing are allowed where no row is; the last row goes on to the end of the register
    /// space (`CP_PROTECT_CNTL` bit 3).
    pub(crate) protected: &'static [Protected],
}

impl Chip {
    /// Whether a command buffer may read a register.
    pub(crate) fn may_read(&self, register: u32) -> bool {
        !self.protected(register).any(|&(_, _, all)| all)
    }

    /// Whether a command buffer may write a register.
    pub(crate) fn may_write(&self, register: u32) -> bool {
        self.protected(register).next().is_none()
    }

    fn protected(&self, register: u32) -> impl Iterator<Item = &'static Protected> {
        let last = self.protected.last();
        let open = move |row: &Protected| last.is_some_and(|last| last == row);
        self.protected
            .iter()
            .filter(move |row| row.0 <= register && (register <= row.1 || open(row)))
    }

    /// `ADRENO_VK_DEVICE_ID_FROM_CHIPID`.
    pub(crate) fn vulkan_id(&self) -> u32 {
        let (minor, patch) = ((self.chip_id >> 8) & 0xF, self.chip_id & 0xF);
        self.chip_id & 0xFFFF_0000 | minor << 12 | patch << 8
    }

    /// `uche_gmem_base`.
    pub(crate) fn gmem_base(&self) -> u64 {
        match self.gmem_alignment {
            0 => 0,
            alignment => self.gmem.next_multiple_of(alignment),
        }
    }
}

/// The chip of this name.
pub(crate) fn find(name: &str) -> Option<&'static Chip> {
    CHIPS.iter().find(|chip| chip.name == name)
}

/// Names of all chips.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    CHIPS.iter().map(|chip| chip.name)
}

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;

static CHIPS: [Chip; 3] = [
    // `adreno_gpu_core_a630v2`; clocks of `sdm845.dtsi`.
    Chip {
        name: "a630",
        chip_id: 0x0603_0001,
        model: "Adreno630v2",
        gmem: MIB,
        gmem_alignment: MIB,
        gpu_id: 630,
        msm_number: 630,
        msm_space: 4 << 30,
        highest_bank_bit: 15,
        ubwc_mode: 2,
        firmware: 0x190,
        snoops: Snoops::Never,
        page_syncs: false,
        preemption: true,
        clocks: &[
            710_000_000,
            675_000_000,
            596_000_000,
            520_000_000,
            414_000_000,
            342_000_000,
            257_000_000,
        ],
        protected: &A630_PROTECTED,
    },
    // `adreno_gpu_core_a650v2`; clocks of `sm8250.dtsi`.
    Chip {
        name: "a650",
        chip_id: 0x0605_0002,
        model: "Adreno650v3",
        gmem: MIB + 128 * KIB,
        gmem_alignment: 0,
        gpu_id: 650,
        msm_number: 650,
        msm_space: 16 << 30,
        highest_bank_bit: 16,
        ubwc_mode: 4,
        firmware: 0x095,
        snoops: Snoops::OnRequest,
        page_syncs: true,
        preemption: true,
        clocks: &[
            670_000_000,
            587_000_000,
            525_000_000,
            490_000_000,
            441_600_000,
            400_000_000,
            305_000_000,
        ],
        protected: &A620_PROTECTED,
    },
    // `adreno_gpu_core_a660v2`; clocks of `sm8350.dtsi`.
    Chip {
        name: "a660",
        chip_id: 0x0606_0001,
        model: "Adreno660v2",
        gmem: MIB + 512 * KIB,
        gmem_alignment: 0,
        gpu_id: 0,
        msm_number: 660,
        msm_space: 16 << 30,
        highest_bank_bit: 16,
        ubwc_mode: 4,
        firmware: 0x095,
        snoops: Snoops::Always,
        page_syncs: true,
        preemption: true,
        clocks: &[
            840_000_000,
            778_000_000,
            738_000_000,
            676_000_000,
            608_000_000,
            540_000_000,
            491_000_000,
            443_000_000,
            379_000_000,
            315_000_000,
        ],
        protected: &A660_PROTECTED,
    },
];

/// `a630_protected_regs`.
static A630_PROTECTED: [Protected; 32] = [
    (0x0_0000, 0x0_04ff, false),
    (0x0_0501, 0x0_0506, false),
    (0x0_050b, 0x0_07ff, false),
    (0x0_050e, 0x0_050e, true),
    (0x0_0510, 0x0_0510, true),
    (0x0_0534, 0x0_0534, true),
    (0x0_0800, 0x0_0882, true),
    (0x0_08a0, 0x0_08a8, true),
    (0x0_08ab, 0x0_08cf, true),
    (0x0_08d0, 0x0_098c, false),
    (0x0_0900, 0x0_094d, true),
    (0x0_098d, 0x0_0bff, true),
    (0x0_0e00, 0x0_0e01, true),
    (0x0_0e03, 0x0_0e0f, true),
    (0x0_3c00, 0x0_3cc3, true),
    (0x0_3cc4, 0x0_5cc3, false),
    (0x0_8630, 0x0_87ff, true),
    (0x0_8e00, 0x0_8e00, true),
    (0x0_8e08, 0x0_8e08, true),
    (0x0_8e50, 0x0_8e6f, true),
    (0x0_9624, 0x0_97ff, true),
    (0x0_9e70, 0x0_9e71, true),
    (0x0_9e78, 0x0_9fff, true),
    (0x0_a630, 0x0_a7ff, true),
    (0x0_ae02, 0x0_ae02, true),
    (0x0_ae50, 0x0_b17f, true),
    (0x0_b604, 0x0_b604, true),
    (0x0_be02, 0x0_be03, true),
    (0x0_be20, 0x0_d5ff, true),
    (0x0_f000, 0x0_fbff, true),
    (0x0_fc00, 0x1_1bff, false),
    (0x1_1c00, 0x1_1c00, true),
];

/// `a620_protected_regs`, of the a650 too.
static A620_PROTECTED: [Protected; 40] = [
    (0x0_0000, 0x0_04ff, false),
    (0x0_0501, 0x0_0506, false),
    (0x0_050b, 0x0_07ff, false),
    (0x0_050e, 0x0_050e, true),
    (0x0_0510, 0x0_0510, true),
    (0x0_0534, 0x0_0534, true),
    (0x0_0800, 0x0_0882, true),
    (0x0_08a0, 0x0_08a8, true),
    (0x0_08ab, 0x0_08cf, true),
    (0x0_08d0, 0x0_098c, false),
    (0x0_0900, 0x0_094d, true),
    (0x0_098d, 0x0_0bff, true),
    (0x0_0e00, 0x0_0e01, true),
    (0x0_0e03, 0x0_0e0f, true),
    (0x0_3c00, 0x0_3cc3, true),
    (0x0_3cc4, 0x0_5cc3, false),
    (0x0_8630, 0x0_87ff, true),
    (0x0_8e00, 0x0_8e00, true),
    (0x0_8e08, 0x0_8e08, true),
    (0x0_8e50, 0x0_8e6f, true),
    (0x0_8e80, 0x0_90ff, true),
    (0x0_9624, 0x0_97ff, true),
    (0x0_9e60, 0x0_9e71, true),
    (0x0_9e78, 0x0_9fff, true),
    (0x0_a630, 0x0_a7ff, true),
    (0x0_ae02, 0x0_ae02, true),
    (0x0_ae50, 0x0_b17f, true),
    (0x0_b604, 0x0_b604, true),
    (0x0_b608, 0x0_b60f, true),
    (0x0_be02, 0x0_be03, true),
    (0x0_be20, 0x0_d5ff, true),
    (0x0_f000, 0x0_fbff, true),
    (0x0_fc00, 0x1_1bff, false),
    (0x1_8400, 0x1_a3ff, true),
    (0x1_a800, 0x1_c7ff, true),
    (0x1_c800, 0x1_e7ff, true),
    (0x1_f400, 0x1_f843, true),
    (0x1_f844, 0x1_f8bf, false),
    (0x1_f887, 0x1_f8a2, true),
    (0x1_f8c0, 0x1_f8c0, true),
];

/// `a660_protected_regs`.
static A660_PROTECTED: [Protected; 42] = [
    (0x0_0000, 0x0_04ff, false),
    (0x0_0501, 0x0_0506, false),
    (0x0_050b, 0x0_07ff, false),
    (0x0_050e, 0x0_050e, true),
    (0x0_0510, 0x0_0510, true),
    (0x0_0534, 0x0_0534, true),
    (0x0_0800, 0x0_0882, true),
    (0x0_08a0, 0x0_08a8, true),
    (0x0_08ab, 0x0_08cf, true),
    (0x0_08d0, 0x0_098c, false),
    (0x0_0900, 0x0_094d, true),
    (0x0_098d, 0x0_0bff, true),
    (0x0_0e00, 0x0_0e01, true),
    (0x0_0e03, 0x0_0e0f, true),
    (0x0_3c00, 0x0_3cc3, true),
    (0x0_3cc4, 0x0_5cc3, false),
    (0x0_8630, 0x0_87ff, true),
    (0x0_8e00, 0x0_8e00, true),
    (0x0_8e08, 0x0_8e08, true),
    (0x0_8e50, 0x0_8e6f, true),
    (0x0_8e80, 0x0_90ff, true),
    (0x0_9624, 0x0_97ff, true),
    (0x0_9e60, 0x0_9e71, true),
    (0x0_9e78, 0x0_9fff, true),
    (0x0_a630, 0x0_a7ff, true),
    (0x0_ae02, 0x0_ae02, true),
    (0x0_ae50, 0x0_af7f, true),
    (0x0_b604, 0x0_b604, true),
    (0x0_b608, 0x0_b60e, true),
    (0x0_be02, 0x0_be03, true),
    (0x0_be20, 0x0_bf7f, true),
    (0x0_d000, 0x0_d5ff, true),
    (0x0_f000, 0x0_fbff, true),
    (0x0_fc00, 0x1_1bff, false),
    (0x1_8400, 0x1_a3ff, true),
    (0x1_a400, 0x1_c3ff, true),
    (0x1_c400, 0x1_e3ff, true),
    (0x1_f400, 0x1_f843, true),
    (0x1_f844, 0x1_f8bf, false),
    (0x1_f860, 0x1_f860, true),
    (0x1_f887, 0x1_f8a2, true),
    (0x1_f8c0, 0x1_f8c0, true),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_are_found_by_name_and_their_clocks_fall() {
        let all: Vec<_> = names().collect();
        assert_eq!(all, ["a630", "a650", "a660"]);
        for name in all {
            let chip = find(name).expect(name);
            assert!(chip.clocks.is_sorted_by(|a, b| a > b), "{name}");
            let digits = (chip.chip_id >> 24) * 100 + ((chip.chip_id >> 16) & 0xFF) * 10;
            assert_eq!(name, format!("a{digits}"));
        }
        assert!(find("a640").is_none());
    }

    #[test]
    fn protected_registers_are_those_of_the_list() {
        let chip = find("a630").expect("known");
        // CP_ALWAYS_ON_COUNTER may be read; CP_RB_BASE not even that; SP_CS_CTRL_REG0 is free.
        assert!(chip.may_read(0x0980) && !chip.may_write(0x0980));
        assert!(!chip.may_read(0x0800) && !chip.may_write(0x0800));
        assert!(chip.may_read(0xA9B0) && chip.may_write(0xA9B0));
        // A row within another.
        assert!(chip.may_read(0x050B) && !chip.may_read(0x050E));
        // The last row has no end.
        assert!(!chip.may_read(0x1_1C00) && !chip.may_write(0x3_FFFF));
        let chip = find("a660").expect("known");
        assert!(chip.may_write(0x1_1C00) && !chip.may_write(0x1_F8C0));
        assert!(!chip.may_write(0x3_FFFF));
    }
}
