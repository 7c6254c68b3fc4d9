//! Running a kernel's work-groups.
//!
//! The command processor turns its registers into a [`Dispatch`]; an [`Executor`] runs it. What a program may know is what
//! the hardware gives it: its registers, its work-group's numbers, its local memory, and memory through the caches.

use crate::engine::Cause;
use crate::vm::PageFault;

/// A launch, as the registers of the command processor describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// The chip's LLVM name: `gfx1100`.
    pub target: &'static str,
    /// Address of the first instruction.
    pub program: u64,
    /// `COMPUTE_PGM_RSRC1`.
    pub rsrc1: u32,
    /// `COMPUTE_PGM_RSRC2`.
    pub rsrc2: u32,
    /// `COMPUTE_PGM_RSRC3`.
    pub rsrc3: u32,
    /// The user registers; as many as `rsrc2` counts.
    pub user_data: Vec<u32>,
    /// Work-groups to run in each dimension.
    pub groups: [u32; 3],
    /// The first work-group.
    pub start: [u32; 3],
    /// Work-items of a work-group.
    pub local: [u32; 3],
    /// Lanes of a wave, 32 or 64.
    pub wave: u32,
    /// Bytes of local memory of a work-group.
    pub local_memory: u32,
    /// Scratch memory, if the launch has any.
    pub scratch: Option<ScratchMemory>,
    /// Which XCC of how many runs it.
    pub xcc: (u8, u8),
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

/// Memory as a program sees it: through the caches of its XCC and the page tables of its process.
pub trait ShaderMemory {
    /// Loads bytes.
    ///
    /// # Errors
    /// [`PageFault`].
    fn load(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), PageFault>;

    /// Loads bytes through the scalar cache, as programs load their arguments.
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
