//! What is between the command processor and the kernel that feeds it.
//!
//! On Adreno a process has no ring of its own: it hands lists of command buffers (IBs) to the kernel, which puts them into
//! its own ring, with packets before and after each list (`a6xx_ringbuffer_submitcmd` and `a6xx_ringbuffer_addcmds` in
//! Qualcomm's `kgsl`). The packets of the kernel are not played here; what they do, the simulated kernel does itself:
//!
//! | when | the kernel's packets | who does it here |
//! |---|---|---|
//! | another context comes | `CP_SMMU_TABLE_UPDATE`, event 0x31 (`CACHE_INVALIDATE`) | the kernel, before [`begin`](CommandProcessor::begin) |
//! | before the IBs | start-of-pipe time stamp, protected mode on | the kernel; protected mode is always on for IBs |
//! | the IBs | `CP_INDIRECT_BUFFER_PFE`, with the size in dwords | the command processor |
//! | after the IBs | events 24 and 25 (CCU invalidation), `CACHE_FLUSH_TS` with the time stamp and an interrupt | the kernel, after [`Step::Idle`](crate::engine::Step::Idle) |
//!
//! # Life of a submission
//!
//! 1. The processor's last step was [`Step::Idle`](crate::engine::Step::Idle), or it is new. The kernel calls
//!    [`begin`](CommandProcessor::begin) once.
//! 2. The kernel calls [`step`](crate::engine::Engine::step) until it is `Idle` again: every packet of every IB was
//!    executed, and all work that they launched is done. Only then does the kernel flush UCHE
//!    ([`Caches::write_back`](crate::cache::Caches::write_back)) and write the end-of-pipe time stamp. `Waiting` is for
//!    `CP_WAIT_REG_MEM` and the like, as for every engine.
//! 3. After a [`Step::Fault`](crate::engine::Step::Fault) the kernel resets the GPU: it calls
//!    [`reset`](CommandProcessor::reset), and what was left of the submission is gone.
//!
//! The kernel has up to four rings (`KGSL_PRIORITY_MAX_RB_LEVELS`), and a processor for each: where the chip preempts
//! ([`Chip::preemption`](super::chip::Chip::preemption)), it saves and restores all registers of a ring, so that each ring sees its own. One of them
//! steps at a time, and a step's end is where preemption happens. The GPU's caches are shared.
//!
//! # What [`Host`](crate::engine::Host) is here
//!
//! - `clock`: `CP_ALWAYS_ON_COUNTER`, 19.2 MHz. It goes on while the GPU sleeps.
//! - `parts().caches`: UCHE as the L2, one XCC.
//! - `interrupt`: the interrupt bit of `CP_EVENT_WRITE`, and `CP_INTERRUPT`; its context means nothing.
//! - `doorbell`: 0.

use crate::engine::Engine;

/// Command buffers of one call of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Submission {
    /// GPU address and bytes of each command buffer, in order. The kernel has looked at these numbers alone (`_verify_ib`): the
    /// address is a multiple of 4 and lies in the ranges that the process's addresses come from, and bytes are not 0 and
    /// no more than 0xFFFFF dwords. Whether memory is mapped there shows when it is read; a rest of bytes that is no whole
    /// dword is not executed.
    pub(crate) ibs: Vec<(u64, u64)>,
    /// The context's time stamp that is written when all is done.
    pub(crate) timestamp: u32,
    /// The context (`drawctxt_id`).
    pub(crate) context: u32,
    /// Another context used this ring last: nothing that it set may be relied upon.
    pub(crate) switched: bool,
}

/// The command processor of one ring, with its pipes behind it.
pub(crate) trait CommandProcessor: Engine {
    /// The ring's next entry. Called only when the last step was [`Step::Idle`](crate::engine::Step::Idle), or none was made yet.
    fn begin(&mut self, submission: Submission);

    /// The GPU has lost its state, because it slept or because it was reset: registers, loaded constants and descriptors,
    /// GMEM and local memory are not what they were, and nothing is being executed.
    fn reset(&mut self);
}
