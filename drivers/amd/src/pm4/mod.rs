//! PM4: packets of the compute engines' command processor, and the compute queue that records them.
//!
//! One packet or family of packets per file, each with the same four parts: a struct for the meaning, `record`, `decode`,
//! and known-good words in its tests. Names are those of the vendor's `soc15d.h` and `nvd.h`.
//!
//! A packet is a header, `3 << 30 | (body words - 1) << 16 | opcode << 8`, and its body.

pub mod acquire_mem;
pub(crate) mod commands;
pub mod copy_data;
pub mod dispatch_direct;
pub mod event_write;
pub mod indirect_buffer;
pub mod nop;
pub mod packet;
pub mod pred_exec;
pub mod program;
pub mod queue;
pub mod release_mem;
pub mod set_reg;
pub mod submit;
pub mod wait_reg_mem;

use crate::malformed::Malformed;
use hcq_nostd::value::Value;

pub use packet::{Packet, PacketText};
pub use program::Program;
pub use queue::Pm4Compute;

/// Opcodes, `PACKET3_*`.
pub mod op {
    /// NOP.
    pub const NOP: u8 = 0x10;
    /// DISPATCH_DIRECT.
    pub const DISPATCH_DIRECT: u8 = 0x15;
    /// PRED_EXEC.
    pub const PRED_EXEC: u8 = 0x23;
    /// WAIT_REG_MEM.
    pub const WAIT_REG_MEM: u8 = 0x3c;
    /// INDIRECT_BUFFER.
    pub const INDIRECT_BUFFER: u8 = 0x3f;
    /// COPY_DATA.
    pub const COPY_DATA: u8 = 0x40;
    /// EVENT_WRITE.
    pub const EVENT_WRITE: u8 = 0x46;
    /// RELEASE_MEM.
    pub const RELEASE_MEM: u8 = 0x49;
    /// ACQUIRE_MEM.
    pub const ACQUIRE_MEM: u8 = 0x58;
    /// SET_SH_REG.
    pub const SET_SH_REG: u8 = 0x76;
    /// SET_UCONFIG_REG.
    pub const SET_UCONFIG_REG: u8 = 0x79;
}

/// Body words of a packet at most: the count field has 14 bits, and its last value means something else in a NOP.
pub const MAX_BODY: u32 = 0x3fff;

/// The header of a packet of `words` words, itself included: 2 to [`MAX_BODY`] + 1.
pub(crate) const fn type3<const WORDS: usize>(opcode: u8) -> u32 {
    const { assert!(WORDS >= 2 && WORDS <= MAX_BODY as usize + 1) }
    header(opcode, WORDS as u32 - 1)
}

/// The header of a packet of `body` words behind it; the caller has checked that they are 1 to [`MAX_BODY`].
pub(crate) const fn header(opcode: u8, body: u32) -> u32 {
    3 << 30 | (body - 1) << 16 | (opcode as u32) << 8
}

/// Opcode of a header and words of its packet, itself included.
pub(crate) fn parse_header(word: u32) -> Result<(u8, usize), Malformed> {
    let [shader_type, opcode, ..] = word.to_le_bytes();
    // Bits 7:0: predicate and shader type, which compute queues do not use.
    if word >> 30 != 3 || shader_type != 0 {
        return Err(Malformed::Header { word });
    }
    let count = word >> 16 & 0x3fff;
    let words = match (opcode, count) {
        (op::NOP, 0x3fff) => 1,
        _ => count + 2,
    };
    Ok((opcode, words as usize))
}

/// The words of the packet that starts here, if its opcode and length are these.
pub(crate) fn body<const WORDS: usize>(
    words: &[u32],
    wanted: u8,
) -> Result<&[u32; WORDS], Malformed> {
    let first = *words.first().ok_or(Malformed::Truncated {
        need: WORDS,
        have: 0,
    })?;
    let (opcode, len) = parse_header(first)?;
    if opcode != wanted {
        return Err(Malformed::Opcode {
            opcode: opcode.into(),
        });
    }
    if len != WORDS {
        return Err(Malformed::Length {
            opcode: opcode.into(),
            need: WORDS,
            have: len,
        });
    }
    words.first_chunk().ok_or(Malformed::Truncated {
        need: WORDS,
        have: words.len(),
    })
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
pub(crate) mod tests;
