//! AQL: 64-byte packets in a ring, some of which run PM4 words elsewhere.
//!
//! Names are those of `hsa.h`, `amd_hsa_queue.h` and ROCr. A packet becomes valid with its header, which is stored last.

pub mod barrier;
pub mod descriptor;
pub mod dispatch;
pub mod header;
pub mod packet;
pub mod program;
pub mod queue;
pub mod submit;
pub mod vendor;

pub use descriptor::QueueDescriptor;
pub use packet::Packet;
pub use program::Program;
pub use queue::AqlCompute;

/// Bytes of a packet, and its alignment in a ring.
pub const PACKET_BYTES: usize = 64;
/// 32-bit words of a packet.
pub const PACKET_WORDS: usize = 16;
