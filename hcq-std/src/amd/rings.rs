//! The hardware queues of a GPU, and the memory that goes with them.
#![allow(unsafe_code, reason = "makes regions of queue memory")]

use std::sync::{Arc, Mutex};

use hcq_amd::aql::QueueDescriptor;
use hcq_amd::aql::descriptor::Units;
use hcq_amd::device::Device;
use hcq_nostd::fault::FaultRecord;
use hcq_nostd::mem::{Region, SharedWord, SharedWords};
use hcq_nostd::ring::arith;

use super::encode::BESIDE_WORDS;
use super::scratch::QueueScratch;
use crate::backend::{QueueId, QueueKind};
use crate::heap::lock;
use crate::kfd::{Bo, Gpu, HwQueue, MemoryRequest, NoQueue, QueueRequest, QueueType};
use crate::{Error, Options};

/// Bytes of the smallest ring: a page.
const SMALLEST: usize = 4096;
/// Bytes of a slot for the PM4 words that end a submission to an AQL queue; slot 0 is the barrier's that begins it.
pub(super) const SLOT: usize = BESIDE_WORDS * 4;

/// What one queue is made as, each time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) kind: QueueKind,
    pub(super) aql: bool,
    bytes: usize,
}

impl Plan {
    /// Bytes of a ring's entry.
    pub(super) const fn entry(self) -> usize {
        if self.aql {
            hcq_amd::aql::PACKET_BYTES
        } else {
            4
        }
    }

    /// How many of the engine's units an entry is in the read and write index.
    pub(super) const fn units(self) -> u64 {
        match self.kind {
            QueueKind::Copy => hcq_amd::sdma::submit::BYTES,
            QueueKind::Compute => 1,
        }
    }

    /// Entries.
    pub(super) fn entries(self) -> u64 {
        (self.bytes / self.entry()) as u64
    }

    /// The count of entries consumed, from what the engine says and what was known. PM4 and SDMA engines may say a place
    /// in the ring or a count; both are told by the place, since a ring is never full (`keep_free`). AQL says a count.
    pub(super) fn consumed(self, raw: u64, known: u64) -> u64 {
        if self.aql {
            return raw;
        }
        let bits = self.entries().trailing_zeros();
        arith::extend(raw / self.units(), bits, known)
    }
}

/// The read and write index of a queue.
pub(super) fn indices(queue: &HwQueue) -> Result<[SharedWord<'static>; 2], Error> {
    let broken = Error::Internal("a queue's indices are not in its memory");
    let bo = queue.pointers();
    let cpu = bo
        .cpu()
        .ok_or(Error::Internal("indices that the host does not see"))?;
    // SAFETY: mapped while the queue lives, which whoever uses the words sees to; all access is atomic from now on.
    let region = unsafe { Region::new(cpu, bo.len(), bo.address()) };
    let words = SharedWords::new(region).map_err(|_| Error::Internal("indices are not aligned"))?;
    let at = |offset: usize| words.get(offset / 8).map(|(word, _)| word);
    match (at(HwQueue::READ), at(HwQueue::WRITE)) {
        (Some(read), Some(write)) => Ok([read, write]),
        _ => Err(broken),
    }
}

/// The queues of a GPU.
pub(super) struct Rings {
    gpu: Arc<Gpu>,
    device: Device,
    pub(super) plans: Vec<Plan>,
    compute: usize,
    /// Empty while they do not exist.
    live: Mutex<Vec<HwQueue>>,
    /// For AQL queues: slots for PM4 words.
    pub(super) slots: Vec<Option<Bo>>,
    pub(super) scratch: Box<[QueueScratch]>,
    probe: Bo,
}

impl Rings {
    /// Creates the queues: as many as asked for, or as there are to be had.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        device: &Device,
        aql: bool,
        copies: bool,
        options: &Options,
    ) -> Result<Self, Error> {
        // Options count packets of 64 bytes.
        let wanted = options.ring_packets.saturating_mul(64).max(SMALLEST);
        let bytes = wanted
            .checked_next_power_of_two()
            .ok_or(Error::Internal("a ring of more than all memory"))?;
        let copy_queues = if copies { options.copy_queues } else { 0 };
        let mut rings = Self {
            gpu: Arc::clone(gpu),
            device: *device,
            plans: Vec::new(),
            compute: 0,
            live: Mutex::default(),
            slots: Vec::new(),
            scratch: Box::new([]),
            probe: gpu.allocate(&MemoryRequest::gtt(16))?,
        };
        let mut live = Vec::new();
        for (kind, count) in [
            (QueueKind::Compute, options.compute_queues),
            (QueueKind::Copy, copy_queues),
        ] {
            for n in 0..count {
                let plan = Plan {
                    kind,
                    aql: aql && kind == QueueKind::Compute,
                    bytes,
                };
                match rings.create(plan, None) {
                    Ok(queue) => live.push(queue),
                    // Other processes have their share; a device without copy queues is one, without compute queues not.
                    Err(NoQueue::Exhausted(_)) if n > 0 || kind == QueueKind::Copy => break,
                    Err(e) => return Err(e.into()),
                }
                rings.plans.push(plan);
                rings.slots.push(rings.slot_memory(plan)?);
            }
            if kind == QueueKind::Compute {
                rings.compute = live.len();
            }
        }
        rings.scratch = (0..rings.compute)
            .map(|_| QueueScratch::default())
            .collect();
        rings.live = Mutex::new(live);
        Ok(rings)
    }

    /// Compute and copy queues.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.compute, self.plans.len().saturating_sub(self.compute))
    }

    pub(super) fn flat(&self, queue: QueueId) -> usize {
        match queue.kind {
            QueueKind::Compute => queue.index,
            QueueKind::Copy => self.compute.saturating_add(queue.index),
        }
    }

    fn create(&self, plan: Plan, scratch: Option<&QueueScratch>) -> Result<HwQueue, NoQueue> {
        let invalid = hcq_amd::aql::Packet::Invalid.words().unwrap_or_default();
        let (kind, fill) = match (plan.kind, plan.aql) {
            (QueueKind::Copy, _) => (QueueType::Sdma { engine: None }, &[][..]),
            (QueueKind::Compute, false) => (QueueType::Pm4, &[][..]),
            (QueueKind::Compute, true) => (QueueType::Aql, &invalid[..]),
        };
        let queue = self.gpu.create_queue(&QueueRequest {
            kind,
            ring_bytes: plan.bytes,
            fill,
            percentage: 100,
            priority: 7,
        })?;
        if plan.aql {
            self.describe(&queue, scratch).map_err(NoQueue::Failed)?;
        }
        Ok(queue)
    }

    /// Writes the descriptor of an idle AQL queue, all but its indices.
    fn describe(&self, queue: &HwQueue, scratch: Option<&QueueScratch>) -> Result<(), Error> {
        let node = self.gpu.node();
        let xccs = self.device.xccs();
        let scratch = scratch.map_or(hcq_amd::scratch::Scratch::NONE, QueueScratch::current);
        let units = Units {
            xccs,
            cus_per_xcc: node.compute_units() / u32::from(xccs.max(1)),
            waves_per_cu: node.max_waves_per_simd.saturating_mul(node.simd_per_cu),
        };
        let descriptor = QueueDescriptor::new(self.device.chip(), units, &scratch);
        let descriptor = descriptor.map_err(|e| Error::Program {
            what: "a queue's scratch memory".into(),
            reason: e.to_string(),
        })?;
        let (shared, private) = super::apertures(&self.gpu);
        let descriptor = descriptor.with_apertures(shared, private);
        let bytes = zerocopy::IntoBytes::as_bytes(&descriptor);
        let bo = queue.pointers();
        let broken = || Error::Internal("a queue's descriptor does not fit its memory");
        let cpu = bo.cpu().ok_or_else(broken)?;
        // SAFETY: mapped while the queue lives. It is new or idle, so that nobody reads the descriptor, and whoever has
        // the indices does not use them meanwhile (M2).
        let mut region = unsafe { Region::new(cpu, bo.len(), bo.address()) };
        for (at, word) in (0..).step_by(8).zip(bytes.chunks_exact(8)) {
            if at != HwQueue::READ && at != HwQueue::WRITE {
                region.write(at, word).map_err(|_| broken())?;
            }
        }
        hcq_nostd::mem::publish_fence();
        Ok(())
    }

    /// The scratch memory of an AQL queue has grown; the queue is idle.
    pub(super) fn describe_again(&self, queue: usize) -> Result<(), Error> {
        let live = lock(&self.live);
        match live.get(queue) {
            Some(hardware) => self.describe(hardware, self.scratch.get(queue)),
            None => Ok(()),
        }
    }

    /// Device address of an AQL queue's descriptor.
    pub(super) fn descriptor(&self, queue: usize) -> u64 {
        let live = lock(&self.live);
        live.get(queue).map_or(0, |q| q.pointers().address())
    }

    fn slot_memory(&self, plan: Plan) -> Result<Option<Bo>, Error> {
        if !plan.aql {
            return Ok(None);
        }
        let slots = usize::try_from(plan.entries()).unwrap_or(usize::MAX);
        let bytes = slots.saturating_add(1).saturating_mul(SLOT);
        let memory = self.gpu.allocate(&MemoryRequest::gtt(bytes).executable())?;
        Ok(Some(memory))
    }

    /// Calls with the queues that there are.
    pub(super) fn with_live<R>(&self, call: impl FnOnce(&[HwQueue]) -> R) -> R {
        call(&lock(&self.live))
    }

    /// How far the engine has read.
    pub(super) fn consumed(&self, queue: usize, known: u64) -> u64 {
        let live = lock(&self.live);
        let read = live.get(queue).and_then(|q| indices(q).ok());
        match (read, self.plans.get(queue)) {
            (Some([read, _]), Some(plan)) => plan.consumed(read.load(), known),
            _ => known,
        }
    }

    /// An exception of a queue.
    pub(super) fn exception(&self) -> Option<FaultRecord> {
        lock(&self.live).iter().find_map(HwQueue::fault)
    }

    /// Device address of a word that queues are tried with.
    pub(super) fn probe_address(&self) -> u64 {
        self.probe.address()
    }

    /// Sets the word, or looks at it.
    pub(super) fn probe(&self) -> Result<SharedWord<'static>, Error> {
        let broken = || Error::Internal("a word of memory is not there");
        let cpu = self.probe.cpu().ok_or_else(broken)?;
        // SAFETY: mapped as long as this lives, which whoever uses the word sees to; all access is atomic.
        let region = unsafe { Region::new(cpu, self.probe.len(), self.probe.address()) };
        let words = SharedWords::new(region).map_err(|_| broken())?;
        words.get(0).map(|(word, _)| word).ok_or_else(broken)
    }

    /// Destroys all queues.
    pub(super) fn destroy(&self) {
        let mut live = lock(&self.live);
        for queue in live.drain(..) {
            self.gpu.destroy_queue(queue);
        }
    }

    /// Creates all queues again.
    pub(super) fn create_again(&self) -> Result<(), Error> {
        let mut new = Vec::with_capacity(self.plans.len());
        for (n, plan) in self.plans.iter().enumerate() {
            new.push(self.create(*plan, self.scratch.get(n))?);
        }
        *lock(&self.live) = new;
        Ok(())
    }
}
