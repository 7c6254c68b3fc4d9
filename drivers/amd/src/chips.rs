//! The chips that this driver knows, and how they differ, as data.
//!
//! Encoders never ask which chip it is: they take what differs from a [`Chip`]. A chip that is not in the table is refused
//! with the reason, because a guess about its caches or registers would be wrong without a sound.
//!
//! Sources: register offsets from the Linux `asic_reg` headers of GC 9.4.3, 11.0.0, 11.5.0 and 12.0.0 and of NBIO 4.3.0,
//! 7.9.0, 7.11.0 and NBIF 6.3.1; cache behaviour from `gfx_v9_4_3.c`, `gfx_v11_0.c`, `gfx_v12_0.c`; granules and targets
//! from LLVM's `AMDGPUUsage`; scratch from ROCr's `registers.h`.

mod registers;

use crate::pm4::acquire_mem::{Caches, CoherCntl, GcrCntl};
use crate::pm4::release_mem::Flush;
use crate::sdma;

pub(crate) use registers::SH_REG;
pub use registers::{Bases, GcOffsets, RegisterError, Registers};

/// A gfx target: `gfx942` is 9.4.2, `gfx1151` is 11.5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Target {
    /// Major version.
    pub major: u8,
    /// Minor version.
    pub minor: u8,
    /// Stepping.
    pub stepping: u8,
}

impl Target {
    /// A target from its three numbers.
    pub const fn new(major: u8, minor: u8, stepping: u8) -> Self {
        Self {
            major,
            minor,
            stepping,
        }
    }

    /// The target of KFD's `gfx_target_version`: `major * 10000 + minor * 100 + stepping`. `None` for a number that is
    /// none.
    pub fn from_kfd(version: u32) -> Option<Self> {
        let part = |n: u32| u8::try_from(n).ok();
        Some(Self::new(
            part(version / 10_000)?,
            part(version / 100 % 100)?,
            part(version % 100)?,
        ))
    }
}

impl core::fmt::Display for Target {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "gfx{}{}{:x}", self.major, self.minor, self.stepping)
    }
}

/// Generations of the command processor, for the names of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Generation {
    /// CDNA 3 and 4.
    Gfx9,
    /// RDNA 3 and 3.5.
    Gfx11,
    /// RDNA 4.
    Gfx12,
}

/// Group-local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Lds {
    /// Bytes that one count of COMPUTE_PGM_RSRC2.LDS_SIZE stands for.
    pub granule: u32,
    /// Bytes that one work-group can have.
    pub bytes: u32,
}

/// COMPUTE_TMPRING_SIZE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TmpRing {
    /// Bytes that one count of WAVESIZE stands for.
    pub unit: u32,
    /// Width of WAVESIZE, from bit 12 on.
    pub wavesize_bits: u8,
    /// Whether WAVES counts per shader engine, not per XCC.
    pub waves_per_se: bool,
}

/// The buffer descriptor of scratch memory, `SQ_BUF_RSRC_WORD1` and `3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ScratchDescriptor {
    /// SWIZZLE_ENABLE in word 1.
    pub word1: u32,
    /// Word 3 without INDEX_STRIDE.
    pub word3: u32,
    /// INDEX_STRIDE of the descriptor in `amd_queue_t`: newer command processors fill it in for each dispatch.
    pub queue_index_stride: u32,
}

/// One chip.
#[derive(Debug, PartialEq, Eq)]
pub struct Chip {
    /// Its gfx target.
    pub target: Target,
    /// Its number in an ELF header, `EF_AMDGPU_MACH`.
    pub mach: u8,
    /// Names of bits.
    pub generation: Generation,
    /// Where its compute registers are, in their IP block.
    pub gc: &'static GcOffsets,
    /// Where IP blocks are when nobody says otherwise.
    pub bases: Bases,
    /// The most XCCs that one queue runs on.
    pub max_xccs: u8,
    /// ACQUIRE_MEM of a barrier: every cache.
    pub acquire_all: Caches,
    /// ACQUIRE_MEM before a dispatch: without instruction caches and L2.
    pub acquire_dispatch: Caches,
    /// Cache bits of a RELEASE_MEM that makes writes visible to everybody.
    pub release: Flush,
    /// Whether a RELEASE_MEM hands the event's number to its interrupt.
    pub event_context: bool,
    /// Whether it has waves of 32 lanes, and of 64.
    pub wave32: bool,
    /// Group-local memory.
    pub lds: Lds,
    /// Scratch registers.
    pub tmpring: TmpRing,
    /// Scratch descriptors.
    pub scratch: ScratchDescriptor,
    /// Bits that a loader sets in COMPUTE_PGM_RSRC1.
    pub rsrc1_set: u32,
    /// The SDMA engines that it comes with.
    pub sdma: sdma::Version,
}

/// Why a chip is not driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Refusal {
    /// Before gfx9.4.2: other packets, registers and scratch.
    TooOld {
        /// The chip.
        target: Target,
    },
    /// gfx10: its registers and cache behaviour are in no table here.
    Rdna12 {
        /// The chip.
        target: Target,
    },
    /// Of a known generation or a newer one, but not in the table.
    NotInTable {
        /// The chip.
        target: Target,
    },
    /// No gfx target has this number.
    NoTarget {
        /// KFD's `gfx_target_version` or an ELF `EF_AMDGPU_MACH`.
        number: u32,
    },
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::TooOld { target } => write!(
                f,
                "{target} is older than gfx942: its packets, registers and scratch memory differ"
            ),
            Self::Rdna12 { target } => write!(
                f,
                "{target} is a gfx10: its registers and cache behaviour are in no table of this driver"
            ),
            Self::NotInTable { target } => write!(
                f,
                "{target} is in no table of this driver: its caches and registers are not known"
            ),
            Self::NoTarget { number } => {
                write!(f, "{number:#x} is the number of no gfx target known here")
            }
        }
    }
}

impl core::error::Error for Refusal {}

const GFX9_ALL: CoherCntl = CoherCntl::TC_WB
    .union(CoherCntl::TCL1)
    .union(CoherCntl::TC)
    .union(CoherCntl::SH_KCACHE)
    .union(CoherCntl::SH_ICACHE);

const GFX10_DISPATCH: GcrCntl = GcrCntl::GLM_WB
    .union(GcrCntl::GLM_INV)
    .union(GcrCntl::GLK_WB)
    .union(GcrCntl::GLK_INV)
    .union(GcrCntl::GLV_INV)
    .union(GcrCntl::GL1_INV);

const GFX10_ALL: GcrCntl = GFX10_DISPATCH
    .union(GcrCntl::GLI_INV_ALL)
    .union(GcrCntl::GL2_INV)
    .union(GcrCntl::GL2_WB);

/// SQ_SEL_X, Y, Z, W in DST_SEL_X, Y, Z, W; ADD_TID_ENABLE.
const DST_SEL_XYZW_ADD_TID: u32 = 4 | 5 << 3 | 6 << 6 | 7 << 9 | 1 << 23;

/// INDEX_STRIDE of 32 and of 64 lanes, in word 3.
pub(crate) const INDEX_STRIDE_32: u32 = 2 << 21;
/// See [`INDEX_STRIDE_32`].
pub(crate) const INDEX_STRIDE_64: u32 = 3 << 21;

const SCRATCH_GFX9: ScratchDescriptor = ScratchDescriptor {
    word1: 1 << 31,
    // NUM_FORMAT_UINT, DATA_FORMAT_32, ELEMENT_SIZE 4 bytes.
    word3: DST_SEL_XYZW_ADD_TID | 4 << 12 | 4 << 15 | 1 << 19,
    queue_index_stride: INDEX_STRIDE_64,
};

const SCRATCH_GFX11: ScratchDescriptor = ScratchDescriptor {
    // SWIZZLE_ENABLE has two bits; 1 swizzles elements of 4 bytes.
    word1: 1 << 30,
    // FORMAT_32_UINT, OOB_SELECT: no bounds check in swizzle mode.
    word3: DST_SEL_XYZW_ADD_TID | 0x14 << 12 | 2 << 28,
    queue_index_stride: 0,
};

const GFX942: Chip = Chip {
    target: Target::new(9, 4, 2),
    mach: 0x4c,
    generation: Generation::Gfx9,
    gc: &GcOffsets::GFX9_4_3,
    bases: Bases::GFX9_4_3,
    max_xccs: 8,
    acquire_all: Caches::Gfx9(GFX9_ALL),
    acquire_dispatch: Caches::Gfx9(CoherCntl::TCL1.union(CoherCntl::SH_KCACHE)),
    release: Flush::GFX9_WRITE_BACK,
    event_context: false,
    wave32: false,
    lds: Lds {
        granule: 512,
        bytes: 64 << 10,
    },
    tmpring: TmpRing {
        unit: 1024,
        wavesize_bits: 13,
        waves_per_se: false,
    },
    scratch: SCRATCH_GFX9,
    rsrc1_set: 0,
    sdma: sdma::Version::new(4, 4, 2),
};

const GFX950: Chip = Chip {
    target: Target::new(9, 5, 0),
    mach: 0x4f,
    lds: Lds {
        granule: 1280,
        bytes: 160 << 10,
    },
    sdma: sdma::Version::new(4, 4, 4),
    ..GFX942
};

const GFX1100: Chip = Chip {
    target: Target::new(11, 0, 0),
    mach: 0x41,
    generation: Generation::Gfx11,
    gc: &GcOffsets::GFX11,
    bases: Bases::GFX11,
    max_xccs: 1,
    acquire_all: Caches::Gfx10(GFX10_ALL),
    acquire_dispatch: Caches::Gfx10(GFX10_DISPATCH),
    release: Flush::GFX10_WRITE_BACK,
    event_context: true,
    wave32: true,
    lds: Lds {
        granule: 512,
        bytes: 64 << 10,
    },
    tmpring: TmpRing {
        unit: 256,
        wavesize_bits: 15,
        waves_per_se: true,
    },
    scratch: SCRATCH_GFX11,
    // PRIV: without it a wave that is context-saved does not come back right.
    rsrc1_set: 1 << 20,
    sdma: sdma::Version::new(6, 0, 0),
};

const fn rdna3(stepping: u8, mach: u8, sdma: sdma::Version) -> Chip {
    Chip {
        target: Target::new(11, 0, stepping),
        mach,
        sdma,
        ..GFX1100
    }
}

/// NBIO 7.11 has the HDP flush registers of its other function block at the same place.
const fn rdna3_5(stepping: u8, mach: u8, sdma: sdma::Version) -> Chip {
    Chip {
        target: Target::new(11, 5, stepping),
        mach,
        sdma,
        ..GFX1100
    }
}

const fn rdna4(stepping: u8, mach: u8, sdma: sdma::Version) -> Chip {
    Chip {
        target: Target::new(12, 0, stepping),
        mach,
        generation: Generation::Gfx12,
        gc: &GcOffsets::GFX12,
        tmpring: TmpRing {
            unit: 256,
            wavesize_bits: 18,
            waves_per_se: true,
        },
        rsrc1_set: 0,
        sdma,
        ..GFX1100
    }
}

/// Every chip that this driver knows.
pub static CHIPS: [Chip; 12] = [
    GFX942,
    GFX950,
    GFX1100,
    rdna3(1, 0x46, sdma::Version::new(6, 0, 3)),
    rdna3(2, 0x47, sdma::Version::new(6, 0, 2)),
    rdna3(3, 0x44, sdma::Version::new(6, 0, 1)),
    rdna3_5(0, 0x43, sdma::Version::new(6, 1, 0)),
    rdna3_5(1, 0x4a, sdma::Version::new(6, 1, 1)),
    rdna3_5(2, 0x55, sdma::Version::new(6, 1, 2)),
    rdna3_5(3, 0x58, sdma::Version::new(6, 1, 3)),
    rdna4(0, 0x48, sdma::Version::new(7, 0, 0)),
    rdna4(1, 0x4e, sdma::Version::new(7, 0, 1)),
];

impl Chip {
    /// The chip with this gfx target.
    ///
    /// # Errors
    /// [`Refusal`], with the reason.
    pub fn find(target: Target) -> Result<&'static Self, Refusal> {
        CHIPS
            .iter()
            .find(|c| c.target == target)
            .ok_or(match target.major {
                ..9 => Refusal::TooOld { target },
                9 if target < GFX942.target => Refusal::TooOld { target },
                10 => Refusal::Rdna12 { target },
                _ => Refusal::NotInTable { target },
            })
    }

    /// The chip with KFD's `gfx_target_version`.
    ///
    /// # Errors
    /// [`Refusal`], with the reason.
    pub fn from_kfd(version: u32) -> Result<&'static Self, Refusal> {
        Self::find(Target::from_kfd(version).ok_or(Refusal::NoTarget { number: version })?)
    }

    /// The chip that a code object was built for, from the `EF_AMDGPU_MACH` bits of its ELF header.
    ///
    /// # Errors
    /// [`Refusal::NoTarget`] for a chip that is not in the table, and for generic targets.
    pub fn from_mach(mach: u8) -> Result<&'static Self, Refusal> {
        CHIPS
            .iter()
            .find(|c| c.mach == mach)
            .ok_or(Refusal::NoTarget {
                number: mach.into(),
            })
    }

    /// The chip of this name, such as `gfx1100`.
    pub fn named(name: &str) -> Option<&'static Self> {
        CHIPS.iter().find(|c| {
            let mut rest = Rest(Some(name));
            core::fmt::write(&mut rest, format_args!("{}", c.target)).is_ok() && rest.0 == Some("")
        })
    }
}

/// What is left of a name when what is written is taken off its front; `None` once it differs.
struct Rest<'n>(Option<&'n str>);

impl core::fmt::Write for Rest<'_> {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        self.0 = self.0.and_then(|rest| rest.strip_prefix(s));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
