//! Hardware queues.

use std::ptr::NonNull;
use std::sync::Arc;

use super::{Bo, Gpu};
use crate::Error;

/// What a queue feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueType {
    /// Compute by PM4 packets; read and write index count dwords.
    Pm4,
    /// Compute by AQL packets; the indices count packets.
    Aql,
    /// Copies; the indices count bytes. With an engine number, that one (Linux 6.10 and later), else any.
    Sdma { engine: Option<u32> },
    /// Copies by the engines that serve XGMI links.
    SdmaXgmi,
}

/// A queue to create.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueRequest<'a> {
    pub(crate) kind: QueueType,
    /// A power of two, 1024 at least; a multiple of a page.
    pub(crate) ring_bytes: usize,
    /// What the ring is filled with, again and again, before the kernel sees it; zeros if empty.
    pub(crate) fill: &'a [u32],
    /// Share of the engine, 1 to 100.
    pub(crate) percentage: u32,
    /// 0 to 15, higher is sooner; 7 is normal.
    pub(crate) priority: u32,
}

/// Why there is no queue.
#[derive(Debug)]
pub(crate) enum NoQueue {
    /// All queues of this kind are taken, by this process or others. Fewer may do.
    Exhausted(Error),
    /// Anything else.
    Failed(Error),
}

impl From<NoQueue> for Error {
    fn from(e: NoQueue) -> Self {
        match e {
            NoQueue::Exhausted(e) | NoQueue::Failed(e) => e,
        }
    }
}

/// A hardware queue. Dropped: destroyed, then its memory is freed.
#[derive(Debug)]
pub(crate) struct HwQueue {
    gpu: Arc<Gpu>,
    id: u32,
    ring: Bo,
    pointers: Bo,
    doorbell: NonNull<u64>,
}

// SAFETY: the doorbell is a register that any thread may write; its users agree on who does.
#[allow(unsafe_code, reason = "a doorbell is no thread's own")]
unsafe impl Send for HwQueue {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "a doorbell is no thread's own")]
unsafe impl Sync for HwQueue {}

impl HwQueue {
    /// Where in the pointer page the write index is: that of an `amd_queue_t` that fills the page's start.
    pub(crate) const WRITE: usize = 56;
    /// Where the read index is.
    pub(crate) const READ: usize = 128;

    /// The kernel's number.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// The ring, host-visible and uncached.
    pub(crate) fn ring(&self) -> &Bo {
        &self.ring
    }

    /// One page, zeroed, host-visible and uncached, with both indices; an AQL queue's descriptor is the page's start.
    pub(crate) fn pointers(&self) -> &Bo {
        &self.pointers
    }

    /// Where new write indices are told: 64 bits, written with one store.
    pub(crate) fn doorbell(&self) -> NonNull<u64> {
        self.doorbell
    }
}

impl Gpu {
    /// Creates a queue with its ring, pointers, end-of-pipe buffer and context area.
    pub(crate) fn create_queue(
        self: &Arc<Self>,
        request: &QueueRequest<'_>,
    ) -> Result<HwQueue, NoQueue> {
        let _ = request;
        Err(NoQueue::Failed(Error::Internal("KFD is being written")))
    }

    /// Stops a queue and gives its memory back; the same as dropping it.
    pub(crate) fn destroy_queue(&self, queue: HwQueue) {
        drop(queue);
    }
}
