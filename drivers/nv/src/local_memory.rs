//! Local memory: what kernels' stacks and spilled registers lie in, as large as every resident thread needs.
//!
//! It belongs to a channel, and a launch descriptor only says how much of it a thread of that kernel uses. So memory that
//! grows later does not make programs stale that were prepared before; it must not be exchanged while a launch uses it.

use hcq_nostd::value::{Fit, Misfit};

use crate::chips::Chip;

/// Threads of a warp.
const WARP: u64 = 32;
/// What a thread's bytes are rounded up to.
const THREAD_UNIT: u32 = 32;
/// What the bytes of a TPC are rounded up to.
const TPC_UNIT: u64 = 0x8000;
/// What all bytes are rounded up to.
const TOTAL_UNIT: u64 = 0x2_0000;
/// SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A has 8 bits.
pub(crate) const SIZE_BITS: u8 = 40;
/// A thread reaches 16 MiB through the window.
const MAX_THREAD: u32 = 1 << 24;

/// What a kernel's bytes per thread are rounded up to in its launch descriptor and in the memory.
pub(crate) const fn thread_bytes(bytes: u32) -> Option<u32> {
    match bytes.checked_next_multiple_of(THREAD_UNIT) {
        Some(rounded) if rounded < MAX_THREAD => Some(rounded),
        _ => None,
    }
}

/// What a GPU has, as the kernel driver says (`NV2080_CTRL_GR_INFO_INDEX_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Topology {
    /// GPCs, LITTER_NUM_GPCS.
    pub gpcs: u32,
    /// TPCs of a GPC, LITTER_NUM_TPC_PER_GPC.
    pub tpcs_per_gpc: u32,
    /// SMs of a TPC, LITTER_NUM_SM_PER_TPC.
    pub sms_per_tpc: u32,
    /// Warps of an SM, MAX_WARPS_PER_SM.
    pub warps_per_sm: u32,
}

/// Why there is no local memory of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum LocalMemoryError {
    /// A topology with nothing in it, or with more than 64 bits can count.
    Topology,
    /// More bytes than a thread can reach.
    Thread {
        /// Bytes of a thread.
        bytes: u32,
    },
    /// A size or address that its methods cannot hold.
    Memory(Misfit),
}

impl core::fmt::Display for LocalMemoryError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Topology => f.write_str("a topology without processors, or one that overflows"),
            Self::Thread { bytes } => {
                write!(f, "{bytes} bytes of local memory for each thread")
            }
            Self::Memory(m) => write!(f, "local memory: {m}"),
        }
    }
}

impl core::error::Error for LocalMemoryError {}

/// How much local memory a channel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Need {
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes of a TPC.
    pub tpc_bytes: u64,
    /// Bytes of a thread, rounded up.
    pub thread_bytes: u32,
}

impl Need {
    /// What kernels with `bytes` bytes per thread need.
    ///
    /// # Errors
    /// [`LocalMemoryError`].
    pub fn new(topology: &Topology, bytes: u32) -> Result<Self, LocalMemoryError> {
        let thread_bytes = thread_bytes(bytes).ok_or(LocalMemoryError::Thread { bytes })?;
        let Topology {
            gpcs,
            tpcs_per_gpc,
            sms_per_tpc,
            warps_per_sm,
        } = *topology;
        if [gpcs, tpcs_per_gpc, sms_per_tpc, warps_per_sm].contains(&0) {
            return Err(LocalMemoryError::Topology);
        }
        let product = |a: u64, b: u32| a.checked_mul(b.into());
        let sizes = || {
            let threads = product(product(WARP, warps_per_sm)?, sms_per_tpc)?;
            let tpc = product(threads, thread_bytes)?.checked_next_multiple_of(TPC_UNIT)?;
            let all = product(product(tpc, tpcs_per_gpc)?, gpcs)?;
            Some((tpc, all.checked_next_multiple_of(TOTAL_UNIT)?))
        };
        let (tpc_bytes, bytes) = sizes().ok_or(LocalMemoryError::Topology)?;
        Fit::bits(SIZE_BITS)
            .check(tpc_bytes)
            .map_err(LocalMemoryError::Memory)?;
        Ok(Self {
            bytes,
            tpc_bytes,
            thread_bytes,
        })
    }
}

/// Local memory that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LocalMemory {
    address: u64,
    tpc_bytes: u64,
    thread_bytes: u32,
}

impl LocalMemory {
    /// None: for kernels without a stack.
    pub const NONE: Self = Self {
        address: 0,
        tpc_bytes: 0,
        thread_bytes: 0,
    };

    /// `need.bytes` bytes at `address`, a multiple of 128 KiB.
    ///
    /// # Errors
    /// [`LocalMemoryError::Memory`] for an address that is misaligned or too high.
    pub fn new(chip: &Chip, address: u64, need: &Need) -> Result<Self, LocalMemoryError> {
        let memory = LocalMemoryError::Memory;
        let fit = Fit::aligned(chip.local_memory_bits, TOTAL_UNIT.ilog2() as u8);
        fit.check(address).map_err(memory)?;
        // The last byte is one that the address reaches, too.
        let last = address.saturating_add(need.bytes.saturating_sub(1));
        Fit::bits(chip.local_memory_bits)
            .check(last)
            .map_err(memory)?;
        Ok(Self {
            address,
            tpc_bytes: need.tpc_bytes,
            thread_bytes: need.thread_bytes,
        })
    }

    /// Device address.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Bytes of a TPC.
    pub const fn tpc_bytes(&self) -> u64 {
        self.tpc_bytes
    }

    /// Bytes of a thread.
    pub const fn thread_bytes(&self) -> u32 {
        self.thread_bytes
    }
}

#[cfg(test)]
mod tests;
