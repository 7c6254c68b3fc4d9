//! Hardware queues (`kfd_queue.c`, `kfd_process_queue_manager.c`).
#![allow(
    unsafe_code,
    reason = "writes what the kernel reads of a queue's memory"
)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hcq_nostd::fault::{FaultKind, FaultRecord};
use hcq_uapi::kfd;
use zerocopy::IntoBytes;

use super::call::call;
use super::process::Version;
use super::{Bo, Gpu, MemoryRequest, advice};
use crate::Error;
use crate::heap::lock;
use crate::mapping::Mapping;
use crate::seam::{Errno, page_bytes};

/// What a queue feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueType {
    /// Compute by PM4 packets; read and write index count dwords.
    Pm4,
    /// Compute by AQL packets; the indices count packets.
    Aql,
    /// Copies; the indices count bytes. With an engine number, that one (interface 1.17 and later), else any.
    Sdma { engine: Option<u32> },
    /// Copies by the engines that serve XGMI links.
    #[cfg_attr(
        not(test),
        allow(dead_code, reason = "the shell has no copies between GPUs yet")
    )]
    SdmaXgmi,
}

impl QueueType {
    const fn is_compute(self) -> bool {
        matches!(self, Self::Pm4 | Self::Aql)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Pm4 => "a PM4 compute queue",
            Self::Aql => "an AQL compute queue",
            Self::Sdma { .. } => "an SDMA queue",
            Self::SdmaXgmi => "an XGMI SDMA queue",
        }
    }
}

/// A queue to create.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueRequest<'a> {
    pub(crate) kind: QueueType,
    /// A power of two, a page at least: the ring is an allocation of exactly its size, and those have whole pages.
    pub(crate) ring_bytes: usize,
    /// What the ring is filled with, again and again, before the kernel sees it; zeros if empty.
    pub(crate) fill: &'a [u32],
    /// Share of the engine, 1 to 100.
    pub(crate) percentage: u32,
    /// 0 to 15, higher is sooner; 7 is normal.
    pub(crate) priority: u32,
}

impl QueueRequest<'_> {
    /// A queue with the whole engine and normal priority, its ring zeroed.
    #[cfg(test)]
    pub(crate) const fn new(kind: QueueType, ring_bytes: usize) -> Self {
        Self {
            kind,
            ring_bytes,
            fill: &[],
            percentage: kfd::KFD_MAX_QUEUE_PERCENTAGE,
            priority: 7,
        }
    }

    fn check(&self) -> Result<u32, Error> {
        let wrong = |option, value, wanted| Error::Option {
            option,
            value,
            wanted,
        };
        let bytes = self.ring_bytes as u64;
        if !self.ring_bytes.is_power_of_two() || self.ring_bytes < page_bytes() {
            return Err(wrong(
                "ring bytes",
                bytes,
                "a power of two, at least a page",
            ));
        }
        if !(1..=kfd::KFD_MAX_QUEUE_PERCENTAGE).contains(&self.percentage) {
            let value = self.percentage.into();
            return Err(wrong("queue percentage", value, "1 to 100"));
        }
        if self.priority > kfd::KFD_MAX_QUEUE_PRIORITY {
            return Err(wrong("queue priority", self.priority.into(), "0 to 15"));
        }
        u32::try_from(bytes).map_err(|_| wrong("ring bytes", bytes, "less than 4 GiB"))
    }
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

impl From<Error> for NoQueue {
    fn from(e: Error) -> Self {
        Self::Failed(e)
    }
}

/// The doorbells of this process on one GPU.
#[derive(Debug)]
pub(crate) struct Doorbells {
    /// Where in `/dev/kfd` they are.
    offset: u64,
    page: Mapping,
}

/// Doorbells of one process on one GPU: 1024 of 64 bits (`kfd_doorbell_process_slice`).
const DOORBELL_BYTES: usize = 1024 * 8;

/// A hardware queue. Dropped: destroyed, then its memory is freed.
#[derive(Debug)]
pub(crate) struct HwQueue {
    gpu: Arc<Gpu>,
    id: u32,
    ring: Bo,
    pointers: Bo,
    eop: Option<Bo>,
    context: Option<Bo>,
    doorbell: NonNull<u64>,
}

// SAFETY: the doorbell is a register that any thread may write; its users agree on who does.
unsafe impl Send for HwQueue {}
// SAFETY: as above.
unsafe impl Sync for HwQueue {}

impl HwQueue {
    /// Where in the pointer page the write index is: that of an `amd_queue_t` that fills the page's start.
    pub(crate) const WRITE: usize = 56;
    /// Where the read index is.
    pub(crate) const READ: usize = 128;
    /// Where the kernel tells exceptions of the queue, behind the descriptor.
    const EXCEPTIONS: usize = 1024;

    /// The kernel's number.
    #[cfg(test)]
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

    /// An exception of the queue, which the kernel tells and then signals [`Gpu::event`]: a packet that is none, a wave
    /// that ran into something. `engine` is the kernel's number of the queue, `detail` has a bit for each `EC_*` code, code 1 in bit 0.
    pub(crate) fn fault(&self) -> Option<FaultRecord> {
        let cpu = self.pointers.cpu()?;
        // SAFETY: inside the page, which is mapped as long as the queue is there.
        let word = unsafe { cpu.add(Self::EXCEPTIONS) };
        // SAFETY: aligned; the kernel is the only writer.
        let mask = unsafe { AtomicU64::from_ptr(word.as_ptr().cast()) }.load(Ordering::Acquire);
        if mask == 0 {
            return None;
        }
        let has = |code| mask & kfd::kfd_ec_mask(code) != 0;
        let packets =
            kfd::EC_QUEUE_PACKET_DISPATCH_DIM_INVALID..=kfd::EC_QUEUE_PACKET_VENDOR_UNSUPPORTED;
        let waves = kfd::EC_QUEUE_WAVE_ABORT..=kfd::EC_QUEUE_WAVE_APERTURE_VIOLATION;
        let kind = if has(kfd::EC_QUEUE_WAVE_MEMORY_VIOLATION) {
            FaultKind::Memory
        } else if packets.into_iter().any(has) {
            FaultKind::Command
        } else if waves.into_iter().any(has) {
            FaultKind::Program
        } else {
            FaultKind::Hardware
        };
        let engine = u16::try_from(self.id).unwrap_or(u16::MAX);
        Some(FaultRecord {
            detail: mask,
            ..FaultRecord::new(kind, engine, 0)
        })
    }

    fn parts(&self) -> impl Iterator<Item = &Bo> {
        let needed = [&self.ring, &self.pointers].into_iter();
        needed.chain(&self.eop).chain(&self.context)
    }
}

impl Drop for HwQueue {
    fn drop(&mut self) {
        if !destroy(&self.gpu, self.id) {
            self.parts().for_each(Bo::abandon);
        }
    }
}

/// Destroys a queue; whether it is gone.
fn destroy(gpu: &Gpu, queue_id: u32) -> bool {
    let process = gpu.process();
    let argument = kfd::kfd_ioctl_destroy_queue_args {
        queue_id,
        ..Default::default()
    };
    let (system, file) = (&**process.system(), process.file());
    (0..2).any(|_| {
        let mut argument = argument;
        // Those two errors come from a queue that hung and was taken away all the same (`pqm_destroy_queue`).
        matches!(
            call(system, file, &mut argument),
            Ok(()) | Err(Errno::TIME | Errno::IO)
        )
    })
}

impl Gpu {
    /// Creates a queue with its ring, pointers, end-of-pipe buffer and context area.
    pub(crate) fn create_queue(
        self: &Arc<Self>,
        request: &QueueRequest<'_>,
    ) -> Result<HwQueue, NoQueue> {
        let ring_size = request.check()?;
        let page = page_bytes();
        let mut argument = kfd::kfd_ioctl_create_queue_args {
            ring_size,
            gpu_id: self.node().gpu_id,
            queue_percentage: request.percentage,
            queue_priority: request.priority,
            ..Default::default()
        };
        argument.queue_type = match request.kind {
            QueueType::Pm4 => kfd::KFD_IOC_QUEUE_TYPE_COMPUTE,
            QueueType::Aql => kfd::KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
            QueueType::Sdma { engine: None } => kfd::KFD_IOC_QUEUE_TYPE_SDMA,
            QueueType::SdmaXgmi => kfd::KFD_IOC_QUEUE_TYPE_SDMA_XGMI,
            QueueType::Sdma {
                engine: Some(engine),
            } => {
                if self.process().version() < Version::SDMA_ENGINE {
                    let hint = "engines can be chosen from Linux 6.12 on; take any engine, or a newer kernel";
                    return Err(self
                        .failed("CREATE_QUEUE by engine", Errno::NOSYS, hint.into())
                        .into());
                }
                argument.sdma_engine_id = engine;
                kfd::KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID
            }
        };
        let ring = self.allocate(&MemoryRequest::gtt(request.ring_bytes).executable().exact())?;
        fill(&ring, request.fill);
        let pointers = self.allocate(&MemoryRequest::gtt(page).exact())?;
        fill(&pointers, &[]);
        argument.ring_base_address = ring.address();
        argument.write_pointer_address = pointers.address() + HwQueue::WRITE as u64;
        argument.read_pointer_address = pointers.address() + HwQueue::READ as u64;
        let eop = self.end_of_pipe(request.kind)?;
        if let Some(eop) = &eop {
            argument.eop_buffer_address = eop.address();
            argument.eop_buffer_size = self.node().eop_bytes.into();
        }
        let context = match request.kind.is_compute() {
            true => Some(self.context_area(&pointers)?),
            false => None,
        };
        if let Some(context) = &context {
            argument.ctx_save_restore_address = context.address();
            argument.ctx_save_restore_size = self.node().cwsr_bytes;
            argument.ctl_stack_size = self.node().ctl_stack_bytes;
        }
        let process = self.process();
        call(&**process.system(), process.file(), &mut argument)
            .map_err(|errno| self.no_queue(request.kind, errno))?;
        let id = argument.queue_id;
        let doorbell = self.doorbell(argument.doorbell_offset).inspect_err(|_| {
            if !destroy(self, id) {
                let parts = [&ring, &pointers].into_iter();
                parts.chain(&eop).chain(&context).for_each(Bo::abandon);
            }
        })?;
        Ok(HwQueue {
            gpu: Arc::clone(self),
            id,
            ring,
            pointers,
            eop,
            context,
            doorbell,
        })
    }

    /// Stops a queue and gives its memory back; the same as dropping it.
    pub(crate) fn destroy_queue(&self, queue: HwQueue) {
        drop(queue);
    }

    /// Where the engine keeps track of ends of pipe. AQL queues of gfx94x have none.
    fn end_of_pipe(self: &Arc<Self>, kind: QueueType) -> Result<Option<Bo>, Error> {
        let none = match kind {
            QueueType::Pm4 => false,
            QueueType::Aql => self.node().gfx_target_version / 100 == 904,
            QueueType::Sdma { .. } | QueueType::SdmaXgmi => true,
        };
        let bytes = usize::try_from(self.node().eop_bytes).unwrap_or(0);
        if none || bytes == 0 {
            return Ok(None);
        }
        let request = MemoryRequest::vram(bytes).executable().exact();
        self.allocate(&request).map(Some)
    }

    /// Where waves are saved when the queue is put aside, and what a debugger knows of them.
    fn context_area(self: &Arc<Self>, pointers: &Bo) -> Result<Bo, Error> {
        let node = self.node();
        let bytes = node.context_bytes(page_bytes());
        let seen = node.visible_bytes() >= node.vram_bytes();
        let request = MemoryRequest {
            host_visible: seen,
            ..MemoryRequest::vram(bytes).executable().exact()
        };
        let area = match self.allocate(&request) {
            // Host memory does as well, if slower: it is used when queues are put aside only.
            Err(Error::OutOfMemory { .. } | Error::Driver { .. }) => {
                self.allocate(&MemoryRequest::gtt(bytes).executable().exact())?
            }
            other => other?,
        };
        let (die, dies) = (node.cwsr_bytes, node.xccs.max(1));
        let Some(cpu) = area.cpu() else {
            return Ok(area);
        };
        for index in 0..dies {
            let header = kfd::kfd_context_save_area_header {
                debug_offset: (dies - index).wrapping_mul(die),
                debug_size: node.debug_bytes.wrapping_mul(dies),
                err_payload_addr: pointers.address() + HwQueue::EXCEPTIONS as u64,
                err_event_id: self.event().id,
                ..Default::default()
            };
            let bytes = header.as_bytes();
            let at = u64::from(index) * u64::from(die);
            let Some(at) = usize::try_from(at)
                .ok()
                .filter(|at| at + bytes.len() <= area.len())
            else {
                break;
            };
            // SAFETY: `at` lies inside the area.
            let to = unsafe { cpu.add(at) };
            // SAFETY: room for the header, by the check; nothing else knows of the area yet.
            unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        }
        Ok(area)
    }

    fn no_queue(&self, kind: QueueType, errno: Errno) -> NoQueue {
        let error = self.failed(
            format!("CREATE_QUEUE of {}", kind.name()),
            errno,
            advice::queue(kind, self.node(), errno),
        );
        match errno {
            Errno::NOMEM | Errno::NOSPC => NoQueue::Exhausted(error),
            _ => NoQueue::Failed(error),
        }
    }

    /// The doorbell at an offset of `/dev/kfd`.
    fn doorbell(&self, offset: u64) -> Result<NonNull<u64>, Error> {
        let bytes = DOORBELL_BYTES.next_multiple_of(page_bytes());
        let mask = bytes as u64 - 1;
        let (base, at) = (offset & !mask, offset & mask);
        let mut slot = lock(self.doorbells());
        let known = slot.as_ref().filter(|d| d.offset == base);
        let start = match known {
            Some(doorbells) => doorbells.page.start(),
            None if slot.is_some() => {
                return Err(Error::Internal("a GPU's doorbells lie in two places"));
            }
            None => {
                let process = self.process();
                let page = Mapping::new(process.system(), Some((process.file(), base)), bytes)
                    .map_err(|errno| {
                        let hint = "the process has no room left, or its locked memory is limited";
                        self.failed("mmap of the doorbells", errno, hint.into())
                    })?;
                let start = page.start();
                *slot = Some(Doorbells { offset: base, page });
                start
            }
        };
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        if at % 8 != 0 || at >= bytes {
            return Err(Error::Internal("a doorbell does not lie on 8 bytes"));
        }
        // SAFETY: inside the mapping.
        Ok(unsafe { start.add(at) }.cast())
    }
}

/// Fills host-visible memory that nobody else knows of yet with a pattern; with zeros if it is empty.
fn fill(bo: &Bo, pattern: &[u32]) {
    let Some(cpu) = bo.cpu() else { return };
    let pattern: &[u32] = if pattern.is_empty() { &[0] } else { pattern };
    for (index, word) in (0..bo.len() / 4).zip(pattern.iter().cycle()) {
        // SAFETY: inside the memory.
        let to = unsafe { cpu.add(index * 4) };
        // SAFETY: mapped, aligned, and nobody else's yet.
        unsafe { to.cast::<u32>().write_volatile(*word) };
    }
}

#[cfg(test)]
mod tests;
