//! What a launch of AMD's has to agree with, and where its arguments are: [`Descriptor`].

use super::object::Descriptor;
use super::{Given, part};
use crate::engine::Cause;
use crate::exec::{AmdRegisters, Dispatch, ShaderMemory};

/// `COMPUTE_PGM_RSRC1.PRIV`: drivers set it to get around trouble with context saves.
const RSRC1_PRIV: u32 = 1 << 20;
/// `COMPUTE_PGM_RSRC2.TRAP_PRESENT` is the kernel's; `LDS_SIZE` is filled in for each launch.
const RSRC2_OPEN: u32 = 1 << 6 | 0x1ff << 15;

impl Descriptor {
    fn wave(&self) -> u32 {
        if self.properties & Self::WAVE32 != 0 {
            32
        } else {
            64
        }
    }

    /// Whether the launch is one for this program; why not, in words.
    pub(super) fn check(
        &self,
        dispatch: &Dispatch,
        registers: &AmdRegisters,
    ) -> Result<(), String> {
        let count = self.rsrc2 >> 1 & 0x1f;
        let r = registers;
        let same = [
            ("COMPUTE_PGM_RSRC1", r.rsrc1, self.rsrc1, RSRC1_PRIV),
            ("COMPUTE_PGM_RSRC2", r.rsrc2, self.rsrc2, RSRC2_OPEN),
            ("COMPUTE_PGM_RSRC3", r.rsrc3, self.rsrc3, 0),
        ];
        for (name, seen, wanted, open) in same {
            if (seen ^ wanted) & !open != 0 {
                return Err(format!(
                    "{name} is {seen:#x}, its descriptor says {wanted:#x}"
                ));
            }
        }
        if dispatch.wave != self.wave() {
            return Err(format!(
                "waves of {} lanes for code of {}",
                dispatch.wave,
                self.wave()
            ));
        }
        if (r.user_data.len() as u32) < count.min(self.user_registers()) {
            return Err(format!(
                "{} user registers; the program takes {}",
                r.user_data.len(),
                self.user_registers()
            ));
        }
        if dispatch.local_memory < self.group_bytes {
            return Err(format!(
                "{} bytes of local memory; the program declares {}",
                dispatch.local_memory, self.group_bytes
            ));
        }
        let lanes = u64::from(self.private_bytes) * u64::from(dispatch.wave);
        match &dispatch.scratch {
            Some(scratch) if scratch.wave_bytes < lanes => Err(format!(
                "{} bytes of scratch memory a wave; the program needs {lanes}",
                scratch.wave_bytes
            )),
            None if lanes > 0 => Err(format!(
                "no scratch memory; the program needs {} bytes a lane",
                self.private_bytes
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Reads what the program reads before it knows anything: its arguments, and the dispatch packet if it asks for that.
    pub(super) fn given(
        &self,
        symbol: &str,
        dispatch: &Dispatch,
        registers: &AmdRegisters,
        memory: &mut dyn ShaderMemory,
    ) -> Result<Given, Cause> {
        let pointer = |at: u32| {
            let word = |i| registers.user_data.get(i as usize).copied().unwrap_or(0);
            u64::from(word(at)) | u64::from(word(at + 1)) << 32
        };
        let mut given = Given::new(dispatch, self.kernarg_bytes);
        if let Some(at) = self.kernarg_register() {
            let address = pointer(at);
            if !address.is_multiple_of(4) {
                return Err(Cause::Launch(format!(
                    "the arguments of `{symbol}` are at {address:#x}; scalar loads ignore the last two bits"
                )));
            }
            memory.load_scalar(address, &mut given.arguments)?;
        }
        if let Some(at) = self.packet_register() {
            // `hsa_kernel_dispatch_packet_t`: sizes of the work-group at 4, of the grid at 12.
            let mut packet = [0; 24];
            memory.load_scalar(pointer(at), &mut packet)?;
            given.local = [4, 6, 8].map(|at| u16::from_le_bytes(part(&packet, at)).into());
            given.grid = [12, 16, 20].map(|at| u32::from_le_bytes(part(&packet, at)));
        }
        Ok(given)
    }
}
