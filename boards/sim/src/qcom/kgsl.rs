//! `/dev/kgsl-3d0`, checked as Qualcomm's `kgsl` checks it (`github.com/qualcomm-linux/kgsl`).
//!
//! Each call names the kernel's function whose checks it repeats, in the kernel's order, so that a call with two mistakes
//! fails as it does there. What the kernel gets wrong is wrong here too, where a caller can notice.
//!
//! # Where this kernel is stricter or simpler
//!
//! - One process uses the machine. It has one address space, whatever it opens.
//! - A page fault stops the GPU (`KGSL_FT_PAGEFAULT_GPUHALT_ENABLE`), which is a setting that the kernel leaves off: then reads give
//!   anything and writes are dropped, and the only witness is the log.
//! - A packet that the command processor does not take is a hardware error; a launch that hangs the GPU, or a program that
//!   does, runs into the kernel's time limit at once instead of after [`hang`](super::options::Options::hang).
//! - The GPU may lose its registers whenever it is idle (`ADRENO_IFPC`), whatever of them the kernel restores.
//! - After a reset, stores that were in the GPU's caches are lost.
//! - Not there (`ENOTTY`): calls that newer ones replace, performance counters, sync sources, timelines, recurring and
//!   auxiliary commands. Virtual buffer objects and protected content are refused with `EOPNOTSUPP`, dma-bufs with `EBADF`, as
//!   no file of this machine is one. No fence can be made (`EMFILE`), so there is none to wait for (`EINVAL`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hcq_uapi::ioctl;
use hcq_uapi::kgsl as uapi;

use super::call::{Call, copy_struct};
use super::chip::Chip;
use super::options::Options;
use super::power::Power;
use super::seam::CommandProcessor;
use crate::cache::{Caches, Sizes};
use crate::machine::{Answer, Block, FileId, PAGE, Store};

mod command;
mod context;
mod dispatch;
mod driver;
mod fault;
mod object;
mod process;
mod property;
mod sync;
mod sysfs;
mod timestamps;
mod wait;

use context::Context;
use dispatch::Ring;
use object::FreeEvent;
use process::Process;
use wait::Waits;

/// `KGSL_MEMSTORE_SIZE`: memory of contexts' time stamps.
pub(crate) const MEMSTORE_BYTES: u64 = 8 * PAGE;
/// `KGSL_MEMSTORE_MAX`: contexts have lower numbers, rings have these and up.
pub(crate) const MEMSTORE_MAX: u32 = (MEMSTORE_BYTES / 40) as u32 - 2 - RINGS as u32;
/// `KGSL_PRIORITY_MAX_RB_LEVELS`.
const RINGS: usize = 4;

/// Who makes command processors, one for each ring.
pub(crate) type Processors = dyn Fn(&'static Chip) -> Option<Box<dyn CommandProcessor>>;

/// What a machine's kernel is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) chip: &'static Chip,
    pub(crate) seed: u64,
    /// Bytes of the host's memory.
    pub(crate) ram: u64,
    pub(crate) options: Options,
}

/// The kernel and its GPU.
pub(crate) struct Kernel {
    settings: Settings,
    store: Arc<Store>,
    memstore: Arc<Block>,
    /// What is behind objects with a guard page.
    guard: Arc<Block>,
    random: fastrand::Rng,
    caches: Caches,
    process: Option<Process>,
    contexts: BTreeMap<u32, Context>,
    /// Contexts that were ever made.
    serial: u64,
    frees: Vec<FreeEvent>,
    rings: Vec<Ring>,
    /// The ring whose commands the GPU executes.
    current: usize,
    /// Contexts that may have something to send, in the order in which they came.
    jobs: VecDeque<u32>,
    power: Power,
    waits: Waits,
    /// Bytes of the host's memory that objects have.
    used: u64,
    resets: u32,
    reports: Vec<String>,
    news: bool,
    halted: bool,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel")
            .field("chip", &self.settings.chip.name)
            .field("contexts", &self.contexts)
            .field("process", &self.process)
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
        let chip = settings.chip;
        // `a6xx_ringbuffer_init`.
        let rings = if chip.preemption { RINGS } else { 1 };
        Ok(Self {
            settings,
            memstore: store.block(MEMSTORE_BYTES)?,
            guard: store.block(PAGE)?,
            store,
            random: fastrand::Rng::with_seed(settings.seed),
            caches: Caches::with(1, Sizes::default(), settings.seed),
            process: None,
            contexts: BTreeMap::new(),
            serial: 0,
            frees: Vec::new(),
            rings: (0..rings)
                .map(|_| processors(chip).map(Ring::new))
                .collect::<Option<_>>()
                .ok_or(libc::EINVAL)?,
            current: 0,
            jobs: VecDeque::new(),
            power: Power::default(),
            waits: Waits::default(),
            used: 0,
            resets: 0,
            reports: Vec::new(),
            news: false,
            halted: false,
        })
    }

    fn chip(&self) -> &'static Chip {
        self.settings.chip
    }

    fn process(&mut self) -> Result<&mut Process, i32> {
        self.process.as_mut().ok_or(libc::EBADF)
    }

    /// `kgsl_ioctl` and `adreno_ioctl`. Only the number counts, and the direction and size for what is copied.
    pub(crate) fn call(&mut self, file: FileId, request: u32, address: u64) -> Result<Answer, i32> {
        use uapi::*;
        let call = Call { request, address };
        match ioctl::number(request) {
            0x02 => call.run(|args| self.get_property(file, args)),
            0x07 => self.wait_timestamp(file, call.take()?),
            0x13 => call.run(|args| self.create_context(file, args)),
            0x14 => self.destroy_context(file, call.take()?),
            0x16 => call.run(|args| self.read_timestamp(file, args)),
            0x32 => call.run(|args| self.set_property(file, args)),
            0x33 => call.run(|args: &mut kgsl_timestamp_event| self.timestamp_event(file, args)),
            0x37 => call.run(|args: &mut kgsl_gpumem_sync_cache| self.sync_cache(args)),
            0x3C => call.run(|args| self.sync_cache_bulk(args)),
            0x45 => call.run(|args| self.alloc_object(args)),
            0x46 => call.run(|args: &mut kgsl_gpuobj_free| self.free_object(file, args)),
            0x47 => call.run(|args| self.object_info(args)),
            0x48 => call.run(|args| self.import_object(args)),
            0x49 => call.run(|args: &mut kgsl_gpuobj_sync| self.sync_objects(args)),
            0x4A => self.gpu_command(file, call),
            0x4C => call.run(|args: &mut kgsl_gpuobj_set_info| self.set_object_info(args)),
            0x5E => call.run(|args| self.fault_report(file, args)),
            // `adreno_ioctl_read_calibrated_ts`: these chips' timer is not set up for it.
            0x60 => call.run(|_: &mut kgsl_read_calibrated_timestamps| Err(libc::EOPNOTSUPP)),
            _ => Err(libc::ENOTTY),
        }
    }
}
