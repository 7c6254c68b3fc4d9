//! Command processors of compute queues.
//!
//! [`pm4`] reads a ring of PM4 packets, [`aql`] a ring of 64-byte packets of the HSA standard. Both are written from AMD's
//! and the kernel's facts alone: `soc15d.h`, `nvd.h`, `gc_*_offset.h` and `gc_*_sh_mask.h` of Linux, the packet structures of
//! kfdtest and PAL, `hsa.h`, `amd_hsa_queue.h` and `amd_hsa_signal.h` of ROCR-Runtime, and LLVM's AMDGPUUsage. What they do not
//! describe stops the queue, with the packet decoded.
//!
//! | module | what |
//! |---|---|
//! | `chip` | what differs between chips |
//! | `registers` | registers that a queue may set |
//! | `layout` | packets as fields: reserved bits and reports |
//! | `stream` | the front of one XCC: packets |
//! | `launch` | from registers to a launch, and its limits |
//! | `pipe` | the back of one XCC: launches in flight, events at their end |
//! | `sync` | cache actions and end-of-pipe events |
//! | `ring` | a queue of PM4 packets |
//! | `aql` | a queue of AQL packets |
//!
//! # Order
//!
//! Launches run while the front goes on, several side by side, their work-groups in an order that the machine's seed
//! decides. A command that relies on a launch's results without waiting for it gets wrong ones under some seed.
//!
//! # Several XCCs
//!
//! Each XCC has a front, registers, a back and caches of its own. An AQL queue runs on all of them: a kernel dispatch gives
//! every n-th work-group to each (`compute_tg_chunk_size` 1 in `init_mqd_v9_4_3` of `kfd_mqd_manager_v9.c`), and the packet
//! is complete when all are; the PM4 of a vendor packet is read by all of them, each at its own pace, and `PRED_EXEC` says
//! who skips what. A PM4 queue is one XCC's alone (`pm4_target_xcc_in_xcp` there, taken from bits 15:8 of
//! `kfd_ioctl_create_queue_args.queue_percentage`): a launch runs on that XCC as a whole.
//!
//! # What is not simulated
//!
//! Preemption, performance counters, thread traces, GDS, ordered append, dynamic registers, cache ranges, growing scratch while a
//! queue runs (a launch that needs more than there is stops the queue), the trap handler.

mod aql;
mod chip;
mod launch;
mod layout;
mod memory;
mod pipe;
mod registers;
mod ring;
mod stream;
mod sync;

use crate::engine::{Cause, Engine, Fault, QueueMemory, Step};
use chip::Chip;

/// A queue of PM4 packets on the first of this many XCCs. `None`: no such chip, or no XCC.
///
/// The doorbell and both pointers count the dwords ever written and read, 64 bits wide.
pub fn pm4(target: &str, xccs: u8, memory: QueueMemory) -> Option<Box<dyn Engine>> {
    pm4_on(target, 0, xccs, memory)
}

/// As [`pm4`], on the XCC that the kernel's create call named. `None` also if there is no such XCC.
pub fn pm4_on(target: &str, xcc: u8, xccs: u8, memory: QueueMemory) -> Option<Box<dyn Engine>> {
    let chip = Chip::find(target).filter(|_| xcc < xccs && xccs <= MAX_XCCS)?;
    Some(Box::new(ring::Pm4::new(chip, (xcc, xccs), memory)))
}

/// A queue of AQL packets on this many XCCs. `None`: no such chip, or no XCC.
///
/// The pointers count packets; the doorbell is the index of the last packet, and [`u64::MAX`] before there is one.
pub fn aql(target: &str, xccs: u8, memory: QueueMemory) -> Option<Box<dyn Engine>> {
    let chip = Chip::find(target).filter(|_| (1..=MAX_XCCS).contains(&xccs))?;
    Some(Box::new(aql::Aql::new(chip, xccs, memory)))
}

/// `PRED_EXEC` selects among eight.
const MAX_XCCS: u8 = 8;

/// Why a queue stops: what [`Fault`] says, before it is one.
#[derive(Debug)]
struct Stopped(Box<Fault>);

impl Stopped {
    fn new(cause: Cause, packet: String) -> Self {
        Self(Box::new(Fault { cause, packet }))
    }
}

/// A step of an engine that stays stopped once it has stopped.
fn step(stopped: &mut Option<Box<Fault>>, act: impl FnOnce() -> Result<Step, Stopped>) -> Step {
    if let Some(fault) = stopped {
        return Step::Fault(fault.clone());
    }
    match act() {
        Ok(step) => step,
        Err(Stopped(fault)) => {
            *stopped = Some(fault.clone());
            Step::Fault(fault)
        }
    }
}

#[cfg(test)]
mod tests;
