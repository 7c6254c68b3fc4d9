//! A render node, `/dev/dri/renderD128`, checked as Linux' own driver `msm` checks it (`drivers/gpu/drm/msm` of Linux 6.1).
//!
//! Each call names the kernel's function whose checks it repeats, in the kernel's order, so that a call with two mistakes
//! fails as it does there.
//!
//! # Where this kernel is stricter or simpler
//!
//! - A handle that is closed takes the object's GPU address with it, once nothing in flight uses the object: the call waits for
//!   that, as since Linux 6.17. Before, the address lasts as long as the object.
//! - Objects have their pages from the start. While nothing in flight uses an object, the kernel may take it out of the page tables
//!   at any time, as it does when memory is short: what is not in a submission's list need not be mapped.
//! - A page fault stops the GPU, which is then said to hang. The kernel tells the log and lets the GPU go on: reads give
//!   anything, and writes are dropped.
//! - A packet that the command processor does not take hangs the GPU, and so does a program's mistake. It is found at once.
//! - Work that goes on, and work that waits, hang after so many looks as in the kernel (`DRM_MSM_HANGCHECK_PROGRESS_RETRIES`); the
//!   time between them is [`hang`](super::options::Options::hang). What `progress` sees of one launch is that it goes on.
//! - The GPU may lose its registers whenever it is idle. After a reset, stores that were in the GPU's caches are lost.
//! - One GPU without a display, with one ring: preemption is left off. Each file has its own page tables.
//! - Nobody else is there to share with: no dma-bufs, no sync objects (`EINVAL`), no fences that are files (`EMFILE`), nobody
//!   who may run commands with the kernel's rights (`EINVAL`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hcq_uapi::ioctl;
use hcq_uapi::{drm, msm as uapi};

use super::call::Call;
use super::chip::Chip;
use super::kgsl::{Processors, Settings};
use super::power::Power;
use super::seam::CommandProcessor;
use crate::cache::{Caches, Sizes};
use crate::machine::{Answer, FileId, Store};

mod driver;
mod file;
mod gem;
mod gpu;
mod param;
mod queue;
mod space;
mod submit;
mod wait;

use file::File;
use gem::Object;
use gpu::Job;
use space::Space;
use wait::Waits;

/// The kernel and its GPU.
pub(crate) struct Kernel {
    settings: Settings,
    store: Arc<Store>,
    random: fastrand::Rng,
    caches: Caches,
    processor: Box<dyn CommandProcessor>,
    files: BTreeMap<FileId, File>,
    /// Files that were ever opened.
    serial: u32,
    objects: BTreeMap<u64, Object>,
    /// Objects that were ever made.
    made: u64,
    /// Where objects are in the node, for `mmap`.
    offsets: Space,
    /// Mapped ranges of the process by first address: the address after the last, and the object.
    maps: BTreeMap<u64, (u64, u64)>,
    /// Submissions that the scheduler has, in the order in which they came.
    pending: Vec<Job>,
    /// Those that the ring has.
    ring: VecDeque<Job>,
    /// The first of them is being executed.
    running: bool,
    /// Whose commands were executed last (`cur_ctx_seqno`).
    active: Option<FileId>,
    hang: gpu::Hangcheck,
    /// Turns that the ring sleeps through.
    late: u32,
    power: Power,
    suspends: u64,
    waits: Waits,
    /// Bytes of the host's memory that objects have.
    used: u64,
    reports: Vec<String>,
    news: bool,
    halted: bool,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel")
            .field("chip", &self.settings.chip.name)
            .field("files", &self.files)
            .field("objects", &self.objects)
            .finish_non_exhaustive()
    }
}

impl Kernel {
    /// # Errors
    /// The host's number; `EINVAL` if there is no command processor for this chip.
    pub(crate) fn new(
        settings: Settings,
        store: Arc<Store>,
        processors: &Processors,
    ) -> Result<Self, i32> {
        Ok(Self {
            settings,
            store,
            random: fastrand::Rng::with_seed(settings.seed),
            caches: Caches::with(1, Sizes::default(), settings.seed),
            processor: processors(settings.chip).ok_or(libc::EINVAL)?,
            files: BTreeMap::new(),
            serial: 0,
            objects: BTreeMap::new(),
            made: 0,
            offsets: Space::new(gem::OFFSETS),
            maps: BTreeMap::new(),
            pending: Vec::new(),
            ring: VecDeque::new(),
            running: false,
            active: None,
            hang: gpu::Hangcheck::default(),
            late: 0,
            power: Power::default(),
            suspends: 0,
            waits: Waits::default(),
            used: 0,
            reports: Vec::new(),
            news: false,
            halted: false,
        })
    }

    fn chip(&self) -> &'static Chip {
        self.settings.chip
    }

    fn file(&mut self, file: FileId) -> Result<&mut File, i32> {
        self.files.get_mut(&file).ok_or(libc::EBADF)
    }

    /// `drm_ioctl`. Only the number counts, and the direction and size for what is copied.
    fn call(&mut self, file: FileId, request: u32, address: u64) -> Result<Answer, i32> {
        let call = Call { request, address };
        let own = u32::from(ioctl::number(request)).checked_sub(drm::DRM_COMMAND_BASE);
        match own {
            None => match ioctl::number(request) {
                0x00 => call.run(|args| Self::version(self.settings.options.msm_version, args)),
                0x09 => self.close_handle(file, call.take()?),
                _ => Err(libc::EINVAL),
            },
            Some(uapi::DRM_MSM_GET_PARAM) => call.run(|args| self.get_param(file, args)),
            Some(uapi::DRM_MSM_SET_PARAM) => call.run(|args| self.set_param(args)),
            Some(uapi::DRM_MSM_GEM_NEW) => call.run(|args| self.new_object(file, args)),
            Some(uapi::DRM_MSM_GEM_INFO) => call.run(|args| self.object_info(file, args)),
            Some(uapi::DRM_MSM_GEM_CPU_PREP) => self.cpu_prep(file, call.take()?),
            Some(uapi::DRM_MSM_GEM_CPU_FINI) => {
                call.run(|args: &mut uapi::drm_msm_gem_cpu_fini| self.cpu_fini(file, *args))
            }
            Some(uapi::DRM_MSM_GEM_SUBMIT) => call.run(|args| self.submit(file, args)),
            Some(uapi::DRM_MSM_WAIT_FENCE) => self.wait_fence(file, call.take()?),
            Some(uapi::DRM_MSM_GEM_MADVISE) => call.run(|args| self.madvise(file, args)),
            Some(uapi::DRM_MSM_SUBMITQUEUE_NEW) => call.run(|args| self.new_queue(file, args)),
            Some(uapi::DRM_MSM_SUBMITQUEUE_CLOSE) => {
                call.run(|args: &mut uapi::drm_msm_submitqueue_close| self.close_queue(file, *args))
            }
            Some(uapi::DRM_MSM_SUBMITQUEUE_QUERY) => {
                call.run(|args: &mut uapi::drm_msm_submitqueue_query| self.query_queue(file, *args))
            }
            Some(_) => Err(libc::EINVAL),
        }
    }
}
