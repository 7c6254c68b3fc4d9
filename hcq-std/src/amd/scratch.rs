//! Scratch memory of compute queues: what kernels with private memory spill to.
//!
//! Each queue has its own, since launches of two queues may run at once. It grows by being allocated anew: what was
//! recorded with the old one holds it, so nothing moves under work in flight.

use std::sync::{Arc, Mutex};

use hcq_amd::chips::Chip;
use hcq_amd::scratch::{Need, Scratch, ScratchError, Topology};

use crate::Error;
use crate::heap::lock;
use crate::kfd::{Bo, Gpu, MemoryRequest, Node};

/// Bytes per work-item for kernels that do not say how much they need.
const DYNAMIC_STACK: u32 = 4096;

/// Scratch memory and where it is.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) scratch: Scratch,
    _memory: Bo,
}

/// The parts of a GPU that waves with scratch memory run on.
pub(super) fn topology(node: &Node) -> Topology {
    let xccs = node.xccs.max(1);
    let engines = node
        .array_count
        .checked_div(node.simd_arrays_per_engine)
        .unwrap_or(0);
    Topology {
        xccs,
        ses_per_xcc: engines / xccs,
        cus_per_xcc: node.compute_units() / xccs,
        slots_per_cu: node.max_slots_scratch_cu,
    }
}

/// Bytes per work-item that a kernel is to have.
pub(super) fn lane_bytes(private_bytes: u32, has_dynamic_stack: bool) -> u32 {
    if has_dynamic_stack {
        private_bytes.max(DYNAMIC_STACK)
    } else {
        private_bytes
    }
}

/// A queue's scratch memory.
#[derive(Debug, Default)]
pub(super) struct QueueScratch {
    block: Mutex<Option<Arc<Block>>>,
}

impl QueueScratch {
    /// What there is now, if it is enough.
    pub(super) fn enough(&self, lane_bytes: u32) -> Option<Arc<Block>> {
        let block = lock(&self.block);
        block
            .as_ref()
            .filter(|b| b.scratch.lane_bytes() >= lane_bytes)
            .cloned()
    }

    pub(super) fn current(&self) -> Scratch {
        let block = lock(&self.block);
        block.as_ref().map_or(Scratch::NONE, |b| b.scratch)
    }

    /// At least this much.
    pub(super) fn grow(
        &self,
        gpu: &Arc<Gpu>,
        chip: &Chip,
        lane_bytes: u32,
    ) -> Result<Arc<Block>, Error> {
        let mut block = lock(&self.block);
        if let Some(enough) = block
            .as_ref()
            .filter(|b| b.scratch.lane_bytes() >= lane_bytes)
        {
            return Ok(Arc::clone(enough));
        }
        let refused = |e: ScratchError| Error::Program {
            what: format!("a kernel with {lane_bytes} bytes of private memory per work-item"),
            reason: e.to_string(),
        };
        let topology = topology(gpu.node());
        // In powers of two, so that it is rarely allocated anew; exactly if that is too much for the registers.
        let rounded = lane_bytes
            .checked_next_power_of_two()
            .and_then(|n| Need::new(chip, &topology, n).ok());
        let need = match rounded {
            Some(need) => need,
            None => Need::new(chip, &topology, lane_bytes).map_err(refused)?,
        };
        let too_large = || Error::OutOfMemory {
            bytes: need.bytes,
            errno: crate::seam::Errno::NOMEM,
        };
        let bytes = usize::try_from(need.bytes).map_err(|_| too_large())?;
        let memory = gpu.allocate(&if gpu.node().vram_bytes() > 0 {
            MemoryRequest::vram(bytes)
        } else {
            MemoryRequest {
                uncached: false,
                ..MemoryRequest::gtt(bytes)
            }
        })?;
        let scratch = Scratch::new(memory.address(), &need).map_err(refused)?;
        let new = Arc::new(Block {
            scratch,
            _memory: memory,
        });
        *block = Some(Arc::clone(&new));
        Ok(new)
    }
}
