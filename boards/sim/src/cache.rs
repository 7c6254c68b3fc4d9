//! Caches between programs and memory that hold what they hold until they are told otherwise.

use crate::exec::ShaderMemory;
use crate::vm::{AddressSpace, PageFault};

bitflags::bitflags! {
    /// Caches of one XCC.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Levels: u8 {
        /// Instructions.
        const INSTRUCTION = 1;
        /// Scalar data.
        const SCALAR = 2;
        /// Vector data, and what is between that and the L2.
        const VECTOR = 4;
        /// The L2.
        const L2 = 8;
    }
}

/// The caches of one GPU.
#[derive(Debug)]
pub struct Caches {}

impl Caches {
    /// Empty caches of this many XCCs.
    pub fn new(xccs: u8) -> Self {
        let _ = xccs;
        Self {}
    }

    /// Forgets clean lines of these levels of an XCC. Lines that hold stores are written back first where the hardware does
    /// that, and are lost where it does not.
    ///
    /// # Errors
    /// The page of a line that has to be written back is gone.
    pub fn invalidate(
        &mut self,
        xcc: u8,
        levels: Levels,
        vm: &dyn AddressSpace,
    ) -> Result<(), PageFault> {
        let _ = (xcc, levels, vm);
        Ok(())
    }

    /// Writes stores that these levels of an XCC hold to memory.
    ///
    /// # Errors
    /// The page of a line is gone.
    pub fn write_back(
        &mut self,
        xcc: u8,
        levels: Levels,
        vm: &dyn AddressSpace,
    ) -> Result<(), PageFault> {
        let _ = (xcc, levels, vm);
        Ok(())
    }

    /// Memory through the caches of an XCC.
    pub fn view<'a>(&'a mut self, xcc: u8, vm: &'a dyn AddressSpace) -> Box<dyn ShaderMemory + 'a> {
        let _ = (xcc, vm);
        Box::new(Nothing)
    }
}

struct Nothing;

impl ShaderMemory for Nothing {
    fn load(&mut self, _: u64, _: &mut [u8]) -> Result<(), PageFault> {
        Ok(())
    }

    fn store(&mut self, _: u64, _: &[u8]) -> Result<(), PageFault> {
        Ok(())
    }

    fn fetch(&mut self, _: u64, _: &mut [u8]) -> Result<(), PageFault> {
        Ok(())
    }
}
