//! What differs between chips, as far as a command processor goes.

use super::registers::{self, Table};

/// Packet formats and register layouts that go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// gfx9.4.3 and its like: `soc15d.h`, `gc_9_4_3_*.h`.
    Gfx9,
    /// RDNA 3 and 3.5: `nvd.h`, `gc_11_0_0_*.h`, `gc_11_5_0_*.h`.
    Gfx11,
    /// RDNA 4: `nvd.h`, `gc_12_0_0_*.h`.
    Gfx12,
}

/// Vector registers of one SIMD, in registers of a lane (LLVM's `AMDGPUBaseInfo.cpp`: `getTotalNumVGPRs`,
/// `getVGPRAllocGranule`, `getVGPREncodingGranule`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Vgprs {
    /// All of a SIMD.
    pub(super) total: u32,
    /// What a wave gets is a multiple of this.
    pub(super) granule: u32,
    /// What `COMPUTE_PGM_RSRC1.VGPRS` counts in.
    pub(super) unit: u32,
    /// The most that one wave may name.
    pub(super) limit: u32,
}

/// A chip.
#[derive(Debug)]
pub(super) struct Chip {
    /// LLVM's name.
    pub(super) target: &'static str,
    pub(super) generation: Generation,
    /// Registers that a queue may set with `SET_SH_REG`.
    pub(super) sh: Table,
    /// Registers that a queue may set with `SET_UCONFIG_REG`.
    pub(super) uconfig: Table,
    /// Address of `COMPUTE_PGM_RSRC3`.
    pub(super) rsrc3: u32,
    /// Bits of `COMPUTE_DISPATCH_INITIATOR` that exist.
    pub(super) initiator: u32,
    /// Bytes of local memory that `LDS_SIZE` counts in (AMDGPUUsage, `GRANULATED_LDS_SIZE`).
    pub(super) lds_unit: u32,
    /// Most bytes of local memory of a work-group.
    pub(super) lds_limit: u32,
    /// Bytes of scratch that `COMPUTE_TMPRING_SIZE.WAVESIZE` counts in.
    pub(super) scratch_unit: u64,
    /// How often `COMPUTE_TMPRING_SIZE.WAVES` waves have scratch: once in an XCC, or once in each shader engine.
    pub(super) scratch_engines: u32,
    /// Most waves of a SIMD.
    pub(super) waves: u32,
    /// Vector registers for waves of 64.
    pub(super) vgprs64: Vgprs,
    /// Vector registers for waves of 32, if there are such waves.
    pub(super) vgprs32: Option<Vgprs>,
    /// SIMDs that share a work-group: of a compute unit, and of a work-group processor.
    pub(super) simds: (u32, u32),
    /// Whether vector loads pass an L1 between the L0 and the L2 that is invalidated on its own.
    pub(super) gl1: bool,
    /// `GPU_HDP_FLUSH_REQ` and `GPU_HDP_FLUSH_DONE`: header offset plus base of NBIO's segment 2, 0xD20. On NBIO 7.11 it is
    /// the pair of `BIF_BX_PF1` that has this offset.
    pub(super) hdp: (u32, u32),
    /// Whether `PRED_EXEC` selects XCCs.
    pub(super) pred_exec: bool,
    /// Whether kernel arguments can come in registers.
    pub(super) preload: bool,
}

const HDP: (u32, u32) = (0xE26, 0xE27);

const GFX942: Chip = Chip {
    target: "gfx942",
    generation: Generation::Gfx9,
    sh: registers::GFX9,
    uconfig: registers::UCONFIG9,
    rsrc3: 0x2E2D,
    initiator: 0x5C7F,
    lds_unit: 512,
    lds_limit: 64 << 10,
    scratch_unit: 1024,
    scratch_engines: 1,
    waves: 8,
    vgprs64: Vgprs {
        total: 512,
        granule: 8,
        unit: 8,
        limit: 512,
    },
    vgprs32: None,
    simds: (4, 4),
    gl1: false,
    hdp: HDP,
    pred_exec: true,
    preload: true,
};

const GFX1100: Chip = Chip {
    target: "gfx1100",
    generation: Generation::Gfx11,
    sh: registers::GFX11,
    uconfig: registers::UCONFIG11,
    rsrc3: 0x2E28,
    initiator: 0x0003_FC7F,
    lds_unit: 512,
    lds_limit: 64 << 10,
    scratch_unit: 256,
    scratch_engines: 6,
    waves: 16,
    vgprs64: Vgprs {
        total: 768,
        granule: 12,
        unit: 4,
        limit: 256,
    },
    vgprs32: Some(Vgprs {
        total: 1536,
        granule: 24,
        unit: 8,
        limit: 256,
    }),
    simds: (2, 4),
    gl1: true,
    hdp: HDP,
    pred_exec: false,
    preload: false,
};

/// All chips that there is a command processor for.
pub(super) static CHIPS: [Chip; 5] = [
    GFX942,
    Chip {
        target: "gfx950",
        lds_unit: 1280,
        lds_limit: 160 << 10,
        ..GFX942
    },
    GFX1100,
    Chip {
        target: "gfx1151",
        scratch_engines: 2,
        ..GFX1100
    },
    Chip {
        target: "gfx1201",
        generation: Generation::Gfx12,
        sh: registers::GFX12,
        uconfig: registers::UCONFIG12,
        initiator: 0xE007_FC7F,
        scratch_engines: 4,
        ..GFX1100
    },
];

impl Chip {
    /// The chip with this name.
    pub(super) fn find(target: &str) -> Option<&'static Self> {
        CHIPS.iter().find(|chip| chip.target == target)
    }
}
