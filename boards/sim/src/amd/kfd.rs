//! `/dev/kfd`, the render nodes and the topology in sysfs, checked as Linux 6.12 checks them.
//!
//! Each call names the kernel function whose checks it repeats (`drivers/gpu/drm/amd/amdkfd` and `amdgpu_amdkfd_gpuvm.c`),
//! in the kernel's order, so that a call with two mistakes fails as it does there. GPUs that 6.12 does not know (gfx950)
//! follow the same rules with the sizes that later kernels gave them.
//!
//! # Where this kernel is stricter or simpler
//!
//! - One process uses the machine: the one it is in. It ends when its last `/dev/kfd` is closed, not when its memory goes: the
//!   kernel's object outlives the file, with its queues, and whoever relies on its end here would fail there.
//! - `mmap` of video memory that was not allocated as `PUBLIC` is refused with `EPERM`, as kernels did while they allocated
//!   it with `AMDGPU_GEM_CREATE_NO_CPU_ACCESS`; newer ones move it about until it can be seen, or end the process.
//! - `AMDKFD_IOC_ACQUIRE_VM` refuses another GPU's render node; the kernel does not look.
//! - A packet that an engine cannot take hangs the real one until the kernel resets the GPU. Here the reset is at once:
//!   every queue of the GPU stops and the hardware-exception event says that memory was lost, though it was not.
//! - After a memory fault the process's queues on the GPU never run again, and neither do new ones, as in the kernel.
//! - Not there: `SVM` (`EPERM`, as without `CONFIG_HSA_AMD_SVM`), `SMI_EVENTS` and sharing by dma-buf (`EOPNOTSUPP`),
//!   global wave sync (`ENODEV`), the debugger (`EINVAL`, as without the hardware scheduler), checkpoints (`EACCES`, as
//!   without the capability), what only AMD's own kernel tree has (`ENOTTY`).

use std::sync::Arc;

use hcq_uapi::ioctl::{self, Argument};
use hcq_uapi::kfd;

use super::chip::{self, Chip};
use super::options::Options;
use crate::cache::Caches;
use crate::config::{Config, CpuVisible};
use crate::engine::{Engine, QueueMemory};
use crate::machine::order::Order;
use crate::machine::{Block, Ioctl, Store, user};

mod driver;
pub(crate) mod event;
mod fault;
mod identity;
mod memory;
mod mtype;
mod process;
mod queries;
mod queue;
pub(crate) mod sysfs;
mod turn;

pub(crate) use process::Process;

/// What kind of ring a queue has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueKind {
    /// PM4 packets for the compute engine.
    Pm4,
    /// AQL packets for the compute engine.
    Aql,
    /// Packets of a copy engine.
    Sdma,
}

/// An engine that the kernel needs for a new queue.
#[derive(Clone, Copy, Debug)]
pub struct EngineRequest {
    /// The chip's LLVM name.
    pub target: &'static str,
    /// Its XCCs.
    pub xccs: u8,
    /// Of these, the one that a queue of PM4 packets is for.
    pub xcc: u8,
    /// The ring's kind.
    pub kind: QueueKind,
    /// The queue's memory.
    pub memory: QueueMemory,
}

/// Who makes engines.
pub type Engines = dyn Fn(&EngineRequest) -> Option<Box<dyn Engine>> + Send;

/// The first render node's minor.
pub(crate) const FIRST_RENDER_MINOR: u32 = 128;
/// `DRM_FILE_PAGE_OFFSET_START`: where the offsets begin that render nodes map.
const FIRST_OFFSET: u64 = 1 << 32;
/// A plain BAR.
const SMALL_BAR: u64 = 256 << 20;
/// Links of the one and the other kind take so much of the host's memory: `ttm_tt_pages_limit` is half of it.
const TTM_SHARE: u64 = 2;
/// `AMDGPU_RESERVE_MEM_LIMIT`.
const RESERVED_SYSTEM: u64 = 3 << 29;

/// Memory of which only so much may be used.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) used: u64,
    pub(crate) limit: u64,
}

/// A GPU, whoever uses it.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) chip: &'static Chip,
    pub(crate) index: usize,
    /// `gpu_id`.
    pub(crate) id: u32,
    pub(crate) vram: u64,
    /// Of that, what the host can reach.
    pub(crate) visible: u64,
    pub(crate) vram_used: u64,
    /// The same with every allocation rounded up to 2 MiB.
    pub(crate) vram_used_rounded: u64,
    pub(crate) caches: Caches,
    /// The next offset that the render node maps.
    next_offset: u64,
    /// Free queues of copy engines, and of those for links between GPUs.
    copy_free: u128,
    link_free: u128,
    mmio: Option<Arc<Block>>,
}

impl Gpu {
    /// `kfd_dev_is_large_bar`.
    pub(crate) fn large_bar(&self) -> bool {
        self.chip.apu || self.visible == self.vram
    }

    /// The minor of its render node.
    pub(crate) fn render_minor(&self) -> u32 {
        FIRST_RENDER_MINOR + u32::try_from(self.index).unwrap_or(0)
    }
}

/// The kernel and its GPUs.
pub(crate) struct Kernel {
    pub(crate) options: Options,
    /// GPUs reach each other's memory.
    pub(crate) p2p: bool,
    /// Bytes of the host's memory.
    pub(crate) ram: u64,
    pub(crate) store: Arc<Store>,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) process: Option<Process>,
    pub(crate) reports: Vec<String>,
    pub(crate) engines: Option<Box<Engines>>,
    pub(crate) order: Order,
    /// Open files of `/dev/kfd`.
    opened: u32,
    waits: driver::Waits,
    /// Processes that have ended. Waits for events of another one than today's end.
    pub(crate) ended: u64,
    told_end: bool,
    system: Pool,
    ttm: Pool,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel")
            .field("gpus", &self.gpus)
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}

impl Kernel {
    pub(crate) fn new(config: &Config, store: Arc<Store>) -> Result<Self, i32> {
        let chip = chip::find(config.chip()).ok_or(libc::EINVAL)?;
        let vram = match config.vram {
            0 => chip.vram,
            vram => vram,
        };
        let visible = match config.cpu_visible {
            CpuVisible::All => vram,
            CpuVisible::Small => vram.min(SMALL_BAR),
            CpuVisible::None => 0,
        };
        let (copy_free, link_free) = chip.copy_queue_bits();
        let xccs = u8::try_from(chip.xccs).unwrap_or(1);
        let mut gpus: Vec<Gpu> = Vec::new();
        for index in 0..config.gpus {
            let taken: Vec<u32> = gpus.iter().map(|gpu| gpu.id).collect();
            gpus.push(Gpu {
                chip,
                index: gpus.len(),
                id: identity::gpu_id(chip, index, vram, &taken),
                vram,
                visible,
                vram_used: 0,
                vram_used_rounded: 0,
                caches: Caches::with(
                    xccs,
                    crate::cache::Sizes::default(),
                    config.seed ^ u64::from(index),
                ),
                next_offset: FIRST_OFFSET,
                copy_free,
                link_free,
                mmio: None,
            });
        }
        // `amdgpu_amdkfd_gpuvm_init_mem_limits`.
        let usable = config.ram - (config.ram >> 6);
        let system = if usable < 2 * RESERVED_SYSTEM {
            usable / 2
        } else {
            usable - RESERVED_SYSTEM
        };
        Ok(Self {
            options: config.options.amd,
            p2p: config.p2p,
            ram: config.ram,
            store,
            gpus,
            process: None,
            reports: Vec::new(),
            engines: None,
            order: Order::new(config.seed),
            opened: 0,
            waits: driver::Waits::default(),
            ended: 0,
            told_end: true,
            system: Pool {
                used: 0,
                limit: system,
            },
            ttm: Pool {
                used: 0,
                limit: config.ram / TTM_SHARE,
            },
        })
    }

    /// `/dev/kfd` was opened: `kfd_create_process`.
    fn begin(&mut self) {
        if self.process.is_none() {
            self.process = Some(Process::new(self.gpus.len()));
        }
    }

    /// The last `/dev/kfd` was closed: queues end, memory is freed.
    fn end(&mut self) {
        let Some(process) = self.process.take() else {
            return;
        };
        self.ended += 1;
        self.told_end = false;
        for queue in process.queues.values() {
            self.give_back_copy_queue(queue);
        }
        for (index, device) in process.devices.iter().enumerate() {
            for memory in device.memory.values() {
                self.uncharge(index, memory);
            }
        }
    }

    /// The process's events, if there is a process.
    pub(crate) fn events(&mut self) -> Option<&mut event::Events> {
        self.process.as_mut().map(|process| &mut process.events)
    }

    /// Whether something has happened that a wait for events may end for, since this was last asked.
    fn news(&mut self) -> bool {
        let ended = !std::mem::replace(&mut self.told_end, true);
        self.events().is_some_and(event::Events::take_news) || ended
    }

    fn process(&mut self) -> Result<&mut Process, i32> {
        self.process.as_mut().ok_or(libc::EBADF)
    }

    /// `kfd_process_device_data_by_id`.
    fn gpu(&self, id: u32) -> Result<usize, i32> {
        self.gpus
            .iter()
            .position(|gpu| gpu.id == id)
            .ok_or(libc::EINVAL)
    }

    /// `kfd_bind_process_to_device`: `errno` is what the caller makes of its failure.
    fn bound(&self, index: usize, errno: i32) -> Result<(), i32> {
        let process = self.process.as_ref().ok_or(libc::EBADF)?;
        let node = process.devices.get(index).and_then(|device| device.node);
        node.map(|_| ()).ok_or(errno)
    }

    /// `kfd_ioctl`, all but `AMDKFD_IOC_WAIT_EVENTS`. Only the number and the size of a request count there; the letter
    /// and the direction do not.
    fn call(&mut self, files: &Ioctl<'_>, request: u32, address: u64) -> Result<i32, i32> {
        use kfd::*;
        let call = Call {
            size: ioctl::size(request),
            address,
        };
        match ioctl::number(request) {
            0x01 => call.run(|args: &mut kfd_ioctl_get_version_args| {
                (args.major_version, args.minor_version) = self.options.kfd_version;
                Ok(())
            }),
            0x02 => call.run(|args| self.create_queue(args)),
            0x03 => call
                .run(|args: &mut kfd_ioctl_destroy_queue_args| self.destroy_queue(args.queue_id)),
            0x04 => call.run(|args| self.set_memory_policy(args)),
            0x05 => call.run(|args| self.get_clock_counters(args)),
            0x06 => call.run(|args| self.get_process_apertures(args)),
            0x07 => call.run(|args| self.update_queue(args)),
            0x08 => call.run(|args| self.create_event(args)),
            0x09 => call.run(|args: &mut kfd_ioctl_destroy_event_args| {
                self.process()?.events.destroy(args.event_id)
            }),
            0x0a => call.run(|args: &mut kfd_ioctl_set_event_args| {
                self.process()?.events.set(args.event_id)
            }),
            0x0b => call.run(|args: &mut kfd_ioctl_reset_event_args| {
                self.process()?.events.reset(args.event_id)
            }),
            // `kfd_ioctl_dbg_register` and its three neighbours.
            0x0d..=0x10 => Err(libc::EPERM),
            0x11 => call.run(|args| self.set_scratch_backing_va(args)),
            0x12 => call.run(|args| self.get_tile_config(args)),
            0x13 => call.run(|args| self.set_trap_handler(args)),
            0x14 => call.run(|args| self.get_process_apertures_new(args)),
            0x15 => call.run(|args| self.acquire_vm(files, args)),
            0x16 => call.run(|args| self.alloc_memory(args)),
            0x17 => call
                .run(|args: &mut kfd_ioctl_free_memory_of_gpu_args| self.free_memory(args.handle)),
            0x18 => call.run(|args| self.map_memory(args)),
            0x19 => call.run(|args| self.unmap_memory(args)),
            0x1a => call.run(|args| self.set_cu_mask(args)),
            0x1b => call.run(|args| self.get_queue_wave_state(args)),
            0x1c => call.run(|_: &mut kfd_ioctl_get_dmabuf_info_args| Err(libc::EOPNOTSUPP)),
            0x1d => call.run(|_: &mut kfd_ioctl_import_dmabuf_args| Err(libc::EOPNOTSUPP)),
            0x1e => call.run(|args| self.alloc_queue_gws(args)),
            0x1f => call.run(|args: &mut kfd_ioctl_smi_events_args| {
                self.gpu(args.gpuid)?;
                Err(libc::EOPNOTSUPP)
            }),
            0x20 => call.run(|args: &mut kfd_ioctl_svm_args| {
                // `kfd_ioctl_svm_validate`: the attributes are part of the argument.
                let attributes = u64::from(args.nattr) * 8;
                let have = u64::try_from(call.size).unwrap_or(0);
                if have < attributes + size_of::<kfd_ioctl_svm_args>() as u64 {
                    return Err(libc::EINVAL);
                }
                Err(libc::EPERM)
            }),
            0x21 => call.run(|args| self.set_xnack_mode(args)),
            0x22 => Err(libc::EACCES),
            0x23 => call.run(|args| self.get_available_memory(args)),
            0x24 => call.run(|_: &mut kfd_ioctl_export_dmabuf_args| Err(libc::EOPNOTSUPP)),
            0x25 => call.run(|args| self.runtime_enable(args)),
            0x26 => Err(libc::EINVAL),
            _ => Err(libc::ENOTTY),
        }
    }
}

/// The caller's argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Bytes that the request names.
    pub(crate) size: usize,
    /// Where they are.
    pub(crate) address: u64,
}

impl Call {
    /// Copies as much of the argument in and out as both sides know; what the caller leaves out is zero. The argument
    /// is copied back after an error too.
    pub(crate) fn run<T: Argument>(
        self,
        call: impl FnOnce(&mut T) -> Result<(), i32>,
    ) -> Result<i32, i32> {
        let mut args = self.take::<T>()?;
        let result = call(&mut args);
        self.give(&args)?;
        result.map(|()| 0)
    }

    pub(crate) fn take<T: Argument>(self) -> Result<T, i32> {
        let mut args = T::new_zeroed();
        if ioctl::direction(T::REQUEST) & ioctl::WRITE != 0 {
            let shared = self.size.min(size_of::<T>());
            let bytes = args.as_mut_bytes().get_mut(..shared).ok_or(libc::EFAULT)?;
            user::read(self.address, bytes)?;
        }
        Ok(args)
    }

    pub(crate) fn give<T: Argument>(self, args: &T) -> Result<(), i32> {
        if ioctl::direction(T::REQUEST) & ioctl::READ != 0 {
            let shared = self.size.min(size_of::<T>());
            let bytes = args.as_bytes().get(..shared).ok_or(libc::EFAULT)?;
            user::write(self.address, bytes)?;
        }
        Ok(())
    }
}
