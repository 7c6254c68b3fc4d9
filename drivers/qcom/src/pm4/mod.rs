//! PM4: packets of the command processor, and the compute queue that records them.
//!
//! One packet or family of packets per file: a struct for the meaning, `record`, `decode`, text. Names are those of
//! freedreno's `adreno_pm4.xml` and `a6xx.xml`.
//!
//! A packet is a header and a body. Type 4 writes registers that follow each other, type 7 is a command. Parts of both
//! headers carry a parity bit, which makes their number of ones odd.

pub(crate) mod commands;
pub mod dispatch;
pub mod event_write;
pub mod event_write7;
pub mod header;
pub mod indirect_buffer;
pub mod load_state;
pub mod mem_write;
pub mod packet;
pub(crate) mod packets;
pub mod program;
pub mod queue;
pub mod reg_to_mem;
pub mod registers;
pub mod submit;
pub mod sync;
pub mod table;
pub mod wait_reg_mem;

pub use header::Header;
pub use packet::Packet;
pub use program::Program;
pub use queue::AdrenoCompute;

use hcq_nostd::value::Value;

/// Opcodes, `CP_*` of `adreno_pm4_type3_packets`.
pub mod op {
    /// CP_NOP.
    pub const NOP: u8 = 0x10;
    /// CP_WAIT_MEM_WRITES.
    pub const WAIT_MEM_WRITES: u8 = 0x12;
    /// CP_WAIT_FOR_IDLE.
    pub const WAIT_FOR_IDLE: u8 = 0x26;
    /// CP_RUN_OPENCL.
    pub const RUN_OPENCL: u8 = 0x31;
    /// CP_EXEC_CS.
    pub const EXEC_CS: u8 = 0x33;
    /// CP_LOAD_STATE6_FRAG: what the fragment and compute stages load.
    pub const LOAD_STATE6_FRAG: u8 = 0x34;
    /// CP_WAIT_REG_MEM.
    pub const WAIT_REG_MEM: u8 = 0x3c;
    /// CP_MEM_WRITE.
    pub const MEM_WRITE: u8 = 0x3d;
    /// CP_REG_TO_MEM.
    pub const REG_TO_MEM: u8 = 0x3e;
    /// CP_INDIRECT_BUFFER.
    pub const INDIRECT_BUFFER: u8 = 0x3f;
    /// CP_EVENT_WRITE of A6xx, CP_EVENT_WRITE7 of A7xx.
    pub const EVENT_WRITE: u8 = 0x46;
    /// CP_SET_MARKER.
    pub const SET_MARKER: u8 = 0x65;
}

/// The 64-bit number in two words.
pub(crate) const fn join(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

/// The two words of a 64-bit number.
pub(crate) const fn split(v: u64) -> [u32; 2] {
    [(v & 0xffff_ffff) as u32, (v >> 32) as u32]
}

/// A value as text: a number, or the variable that it is made of.
pub(crate) struct Text(pub(crate) Value);

impl core::fmt::Display for Text {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Value::Imm(v) => write!(f, "{v:#x}"),
            Value::Var(of) => {
                write!(f, "v{}", of.var.index())?;
                if of.scale != 1 {
                    write!(f, "*{:#x}", of.scale)?;
                }
                if of.add != 0 {
                    write!(f, "+{:#x}", of.add)?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
