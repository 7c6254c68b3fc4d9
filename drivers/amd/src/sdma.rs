//! SDMA: packets of the copy engines, and the copy queue that records them.
//!
//! Names are those of the vendor's `vega10_sdma_pkt_open.h`, `navi10_sdma_pkt_open.h` and `sdma_v6_0_0_pkt_open.h`. The
//! first word of a packet has the operation in bits 7:0 and a sub-operation in 15:8; packets have no length field. Rings
//! and their pointers count bytes for the engine, words here.

pub mod copy_linear;
pub mod fence;
pub mod indirect;
pub mod nop;
pub mod packet;
pub mod poll_regmem;
pub mod queue;
pub mod submit;
pub mod timestamp;
pub mod trap;
mod version;
pub mod write_linear;

use hcq_nostd::record::{Command, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Fit, Value};

use crate::device::ADDRESS_BITS;
use crate::malformed::{Malformed, only};

pub use packet::Packet;
pub use queue::SdmaCopy;
pub use version::{Unsupported, Version};

/// Operations, `SDMA_OP_*`.
pub mod op {
    /// NOP.
    pub const NOP: u8 = 0;
    /// COPY.
    pub const COPY: u8 = 1;
    /// WRITE.
    pub const WRITE: u8 = 2;
    /// INDIRECT.
    pub const INDIRECT: u8 = 4;
    /// FENCE.
    pub const FENCE: u8 = 5;
    /// TRAP.
    pub const TRAP: u8 = 6;
    /// POLL_REGMEM.
    pub const POLL_REGMEM: u8 = 8;
    /// TIMESTAMP.
    pub const TIMESTAMP: u8 = 13;
}

/// Appends an address of 48 bits.
fn address(
    c: &mut Command<'_, '_>,
    address: Value,
    align_log2: u8,
    operand: Operand,
) -> Result<(), RecordError> {
    c.pair(address, Fit::aligned(ADDRESS_BITS, align_log2))
        .operand(operand)
}

/// The words of the packet that starts here, if its operation is this one and its header has no other bits than `mask`.
fn body<const WORDS: usize>(
    words: &[u32],
    operation: u8,
    mask: u32,
) -> Result<&[u32; WORDS], Malformed> {
    let packet = words.first_chunk().ok_or(Malformed::Truncated {
        need: WORDS,
        have: words.len(),
    })?;
    let header = packet.first().copied().unwrap_or_default();
    let opcode = header & 0xff;
    if opcode != u32::from(operation) {
        return Err(Malformed::Opcode { opcode });
    }
    only(0, header, mask | 0xff)?;
    Ok(packet)
}

/// The address in words `at` and `at + 1` of a packet.
fn read_address(at: usize, low: u32, high: u32, align_log2: u8) -> Result<Value, Malformed> {
    only(at, low, u32::MAX << align_log2)?;
    only(at + 1, high, 0xffff)?;
    Ok(crate::pm4::join(low, high).into())
}

#[cfg(test)]
mod tests;
