//! Running a kernel's work-groups.
//!
//! The command processor turns its registers into a [`Dispatch`]; an [`Executor`] runs it. What a program may know is what
//! the hardware gives it: its registers, its work-group's numbers, its local memory, and memory through the caches.

use crate::engine::Cause;
use crate::vm::PageFault;

/// A launch, as the registers of the command processor describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// What the program was compiled for: of AMD's chips the LLVM name (`gfx1100`), of NVIDIA's the architecture (`sm_86`), of
    /// Adreno the chip (`a630`).
    pub target: &'static str,
    /// Address of the first instruction.
    pub program: u64,
    /// Work-groups to run in each dimension.
    pub groups: [u32; 3],
    /// The first work-group.
    pub start: [u32; 3],
    /// Work-items of a work-group.
    pub local: [u32; 3],
    /// Lanes of a wave (a warp, a fiber group): 32 or 64, of Adreno 128 too.
    pub wave: u32,
    /// Bytes of memory that a work-group shares: LDS, shared memory, local memory.
    pub local_memory: u32,
    /// Memory of the waves' own, if the launch has any.
    pub scratch: Option<ScratchMemory>,
    /// Which XCC of how many runs it; `(0, 1)` where there are none.
    pub xcc: (u8, u8),
    /// What only this vendor's launches have.
    pub registers: Registers,
}

/// What a launch of one vendor gives a program, as its registers or its descriptor hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registers {
    /// Of the command processor.
    Amd(AmdRegisters),
    /// Of a QMD.
    Nv(NvRegisters),
    /// Of Adreno's `SP` and `HLSQ`.
    Adreno(AdrenoRegisters),
}

impl Registers {
    /// AMD's; `None` of another vendor's launch.
    pub fn amd(&self) -> Option<&AmdRegisters> {
        match self {
            Self::Amd(registers) => Some(registers),
            Self::Nv(_) | Self::Adreno(_) => None,
        }
    }

    /// NVIDIA's; `None` of another vendor's launch.
    pub fn nv(&self) -> Option<&NvRegisters> {
        match self {
            Self::Nv(registers) => Some(registers),
            Self::Amd(_) | Self::Adreno(_) => None,
        }
    }

    /// Adreno's; `None` of another vendor's launch.
    pub fn adreno(&self) -> Option<&AdrenoRegisters> {
        match self {
            Self::Adreno(registers) => Some(registers),
            Self::Amd(_) | Self::Nv(_) => None,
        }
    }
}

/// What AMD's command processor gives a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AmdRegisters {
    /// `COMPUTE_PGM_RSRC1`.
    pub rsrc1: u32,
    /// `COMPUTE_PGM_RSRC2`.
    pub rsrc2: u32,
    /// `COMPUTE_PGM_RSRC3`.
    pub rsrc3: u32,
    /// The user registers; as many as `rsrc2` counts.
    pub user_data: Vec<u32>,
}

/// A constant bank of NVIDIA's programs: what `c[bank][offset]` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstantBank {
    /// Address of its first byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u32,
}

/// What a QMD gives a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NvRegisters {
    /// The constant banks that are valid: `CONSTANT_BUFFER_ADDR_*` and `CONSTANT_BUFFER_SIZE_*`.
    pub banks: [Option<ConstantBank>; 8],
    /// `REGISTER_COUNT`: registers of a thread.
    pub registers: u32,
    /// `BARRIER_COUNT`: barriers of a work-group.
    pub barriers: u32,
    /// `SHADER_LOCAL_MEMORY_LOW_SIZE` and `_HIGH_SIZE` together: bytes of a thread's own memory.
    pub thread_bytes: u32,
    /// Where the threads' own memory is: `SET_SHADER_LOCAL_MEMORY_A` and `_B` of the channel, and its bytes in all; `None` if the
    /// channel has none.
    pub thread_memory: Option<(u64, u64)>,
    /// `SASS_VERSION`, where the QMD has one.
    pub sass_version: u32,
}

/// What Adreno's registers and the state that was loaded give a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdrenoRegisters {
    /// The constant file, as far as it was loaded (`CP_LOAD_STATE6`, `ST6_CONSTANTS`), 32 bits each; what was not is 0.
    pub constants: Vec<u32>,
    /// Descriptors of textures (`A6XX_TEX_CONST_*`), as loaded.
    pub textures: Vec<[u32; 16]>,
    /// Samplers (`A6XX_TEX_SAMP_*`), as loaded.
    pub samplers: Vec<[u32; 4]>,
    /// Where the colours around images are (`SP_PS_TP_BORDER_COLOR_BASE_ADDR`); `None` if nobody said.
    pub border_colors: Option<u64>,
    /// Descriptors of images and buffers that are written (`ST6_IBO`), as loaded.
    pub images: Vec<[u32; 16]>,
    /// Registers of a fiber in vectors of four: `FULLREGFOOTPRINT`.
    pub full_registers: u32,
    /// The same of half registers: `HALFREGFOOTPRINT`.
    pub half_registers: u32,
    /// Bytes of a fiber's own memory: `SP_CS_PVT_MEM_PARAM`.
    pub fiber_bytes: u32,
    /// Where the fibers' own memory is, and its bytes in all (`SP_CS_PVT_MEM_ADDR`, `SP_CS_PVT_MEM_SIZE`); `None` if there is
    /// none.
    pub fiber_memory: Option<(u64, u64)>,
    /// Work-items of the launch: `HLSQ_CS_NDRANGE_1`, `_3`, `_5`.
    pub global: [u32; 3],
}

/// Scratch memory of a launch on one XCC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScratchMemory {
    /// Address of the first wave's.
    pub base: u64,
    /// Bytes of one wave.
    pub wave_bytes: u64,
    /// Waves that may have scratch at once.
    pub waves: u32,
}

/// Memory as a program sees it: through the caches of its part of the GPU and the page tables of its process.
pub trait ShaderMemory {
    /// Loads bytes.
    ///
    /// # Errors
    /// [`PageFault`].
    fn load(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), PageFault>;

    /// Loads bytes through the cache of scalar data or constants, as programs load their arguments.
    ///
    /// # Errors
    /// [`PageFault`].
    fn load_scalar(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), PageFault> {
        self.load(address, bytes)
    }

    /// Stores bytes.
    ///
    /// # Errors
    /// [`PageFault`].
    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), PageFault>;

    /// Fetches instructions, through the instruction cache.
    ///
    /// # Errors
    /// [`PageFault`].
    fn fetch(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), PageFault>;
}

/// Runs programs.
pub trait Executor: Send {
    /// Looks up the program of a launch. `None` if this executor does not know it.
    ///
    /// # Errors
    /// [`Cause::Memory`] if there are no instructions; [`Cause::Launch`] if the launch is not one for this program.
    fn prepare(
        &mut self,
        dispatch: &Dispatch,
        memory: &mut dyn ShaderMemory,
    ) -> Result<Option<Box<dyn Kernel>>, Cause>;
}

/// A program about to run.
pub trait Kernel: Send {
    /// Runs one work-group. Its local memory holds what earlier groups left there.
    ///
    /// # Errors
    /// [`Cause::Memory`], [`Cause::Program`].
    fn run_group(
        &mut self,
        group: [u32; 3],
        local_memory: &mut [u8],
        memory: &mut dyn ShaderMemory,
    ) -> Result<(), Cause>;
}
