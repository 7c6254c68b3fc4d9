//! NVIDIA GPUs behind the kernel's `nvidia` and `nvidia-uvm` drivers.
//!
//! The files are those of Linux: `/dev/nvidiactl`, `/dev/nvidiaN`, `/dev/nvidia-uvm`, `/proc/driver/nvidia/version`. The rules
//! are those of NVIDIA's open kernel modules (580.142, and the argument sizes of the branch that a machine is told to have);
//! each check names the function there whose it is, and comes in that function's order.
//!
//! | module | what |
//! |---|---|
//! | [`chip`] | what differs between GPUs |
//! | [`channel`] | a channel as its engine sees it |
//! | `rm` | the resource manager: objects, commands, mappings |
//! | `uvm` | unified memory: address spaces that both sides share |
//! | `memory`, `queue`, `gpu`, `files` | what these keep |
//! | `turn`, `fault` | doorbells, turns, errors |
//! | `host` | a channel's engine: its ring, its pushbuffers, the methods that it executes itself |
//! | `compute`, `qmd` | the compute engine, and what describes a launch |
//! | `copy` | the copy engine |
//! | `semaphore` | what all of them write |
//!
//! # Where this kernel is stricter or simpler
//!
//! - The size of a class's parameters in `NV_ESC_RM_ALLOC` is compared with the class's if it is not 0; the kernel does not look.
//! - Rings must be a power of two of entries at a multiple of 8, USERD a multiple of 512 in memory of RM's: firmware that is not
//!   public checks these in the real driver.
//! - A mapping that was prepared for reading is refused for writing (`EACCES`); the kernel maps it for reading.
//! - The host's mappings of memory that is freed keep its bytes; in the kernel an access to a card's ends the process.
//! - `NV906F_CTRL_CMD_GET_MMU_FAULT_INFO` is answered by firmware that is not public; here it has what the kernel notes of the channel
//!   itself (`kchannelFillMmuExceptionInfo`), once, and nothing for one that met with no fault.
//! - Errors are told by subdevices (`NV2080_NOTIFIERS_RC_ERROR`), as they are where firmware handles them; channels do not tell.
//! - What a channel's context needs is one piece of 2 MiB for each group on the graphics engine, however the GPU.
//! - Not there: managed memory (`mmap` of `/dev/nvidia-uvm`), sparse mappings, semaphore pools, context DMA, sharing between
//!   processes (`NV_ESC_RM_DUP_OBJECT`, `NV_ESC_RM_SHARE`), video engines, parts of GPUs, huge pages of more than 2 MiB.
//!   Requests, classes and commands that are not there are reported.

use std::collections::BTreeMap;
use std::sync::Arc;

use hcq_uapi::nv::{Abi, Version};

use crate::config::{Config, CpuVisible, Pace};
use crate::engine::Engine;
use crate::machine::order::Order;
use crate::machine::{FileId, Map, Store, View};

pub mod channel;
pub mod chip;
mod compute;
mod copy;
mod driver;
mod fault;
mod files;
mod gpu;
mod host;
mod memory;
pub(crate) mod options;
mod proc;
mod qmd;
mod queue;
mod rm;
mod semaphore;
mod turn;
mod uvm;

pub use channel::{ChannelEngine, ChannelMemory, ChannelRequest, Objects, Userd};

use chip::Chip;
use gpu::Gpu;
use memory::{Pool, Space, SpaceId};
use queue::{Channel, ChannelId, Group, GroupId};

/// A plain BAR.
const SMALL_BAR: u64 = 256 << 20;
/// Most reports that are kept: a process that asks for what is not there again and again says no more.
const REPORTS: usize = 1024;

/// The engine of a channel, from this crate's own. `None`: nobody simulates it.
pub fn engine(request: &ChannelRequest) -> Option<Box<dyn Engine>> {
    Some(Box::new(host::Channel::new(request)?))
}

/// The kernel and its GPUs.
pub(crate) struct Nv {
    chip: &'static Chip,
    version: Version,
    abi: &'static Abi,
    pace: Pace,
    /// GPUs reach each other's memory.
    p2p: bool,
    store: Arc<Store>,
    gpus: Vec<Gpu>,
    /// The host's memory, as far as RM may have it.
    system: Arc<Pool>,
    files: BTreeMap<FileId, files::Open>,
    /// Files of `/dev/nvidiactl` that were closed while others were registered with them.
    closing: Vec<FileId>,
    clients: BTreeMap<u32, rm::Client>,
    next_client: u32,
    /// Files that take events.
    os_events: BTreeMap<u64, rm::OsEvent>,
    next_os_event: u64,
    spaces: BTreeMap<SpaceId, Space>,
    next_space: SpaceId,
    groups: BTreeMap<GroupId, Group>,
    next_group: GroupId,
    channels: BTreeMap<ChannelId, Channel>,
    next_channel: ChannelId,
    /// Names of the host's mappings.
    next_linear: u64,
    /// `numa_memblock_size`, once somebody has said it.
    memory_block: Option<u64>,
    order: Order,
    news: bool,
    reports: Vec<String>,
}

impl Nv {
    pub(crate) fn new(config: &Config, store: &Arc<Store>) -> Result<Self, i32> {
        let chip = chip::find(config.chip()).ok_or(libc::EINVAL)?;
        let version = config.options.nv.driver;
        let abi = Abi::of(version).map_err(|_| libc::EINVAL)?;
        let vram = if config.vram == 0 {
            chip.vram
        } else {
            config.vram
        };
        let window = match config.cpu_visible {
            CpuVisible::All => vram,
            CpuVisible::Small => vram.min(SMALL_BAR),
            CpuVisible::None => 0,
        };
        let count = u8::try_from(config.gpus).map_err(|_| libc::EINVAL)?;
        let gpu = |index| Gpu::new(store, chip, index, vram, window, config.seed);
        Ok(Self {
            chip,
            version,
            abi,
            pace: config.pace,
            p2p: config.p2p,
            store: Arc::clone(store),
            gpus: (0..count).map(gpu).collect::<Result<_, _>>()?,
            system: Pool::new(config.ram),
            files: BTreeMap::new(),
            closing: Vec::new(),
            clients: BTreeMap::new(),
            next_client: 0,
            os_events: BTreeMap::new(),
            next_os_event: 0,
            spaces: BTreeMap::new(),
            next_space: 0,
            groups: BTreeMap::new(),
            next_group: 0,
            channels: BTreeMap::new(),
            next_channel: 0,
            next_linear: 0x40_0000_0000,
            memory_block: None,
            order: Order::new(config.seed),
            news: false,
            reports: Vec::new(),
        })
    }

    fn report(&mut self, text: String) {
        if self.reports.len() < REPORTS {
            self.reports.push(text);
        }
    }

    /// `nvidia_mmap_helper`, `uvm_mmap`.
    fn mmap_file(&mut self, map: &Map) -> Result<View, i32> {
        if files::Node::of(map.node) == files::Node::Uvm {
            return self.mmap_uvm(map);
        }
        let open = self.files.get(&map.file).ok_or(libc::EBADF)?;
        let prepared = open.prepared.as_ref().ok_or(libc::EINVAL)?;
        if map.offset != 0 {
            return Err(libc::EINVAL);
        }
        if prepared.whole && map.bytes != prepared.bytes {
            return Err(libc::ENXIO);
        }
        if map.bytes > prepared.bytes {
            return Err(libc::ERANGE);
        }
        if map.write && !prepared.write {
            return Err(libc::EACCES);
        }
        Ok(prepared.view.clone())
    }
}

#[cfg(test)]
mod tests;
