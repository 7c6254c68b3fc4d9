//! A channel as its engine sees it.

use std::sync::{Arc, Mutex, PoisonError};

use super::chip::Chip;
use crate::machine::Block;

/// `GPGet` in USERD, bytes: `Nvc56fControl` of `clc56f.h`.
const GP_GET: u64 = 0x88;
/// `GPPut` in USERD, bytes: `Nvc56fControl` of `clc56f.h`, `Nvca6fControl` of `clca6f.h`.
const GP_PUT: u64 = 0x8C;
/// Bytes of USERD: `NV_RAMUSERD_CHAN_SIZE` of `dev_ram.h`.
pub const USERD_BYTES: u64 = 512;

/// A channel's control words, which it shares with the host. They lie in memory of their own, not behind page tables.
#[derive(Clone, Debug)]
pub struct Userd {
    block: Arc<Block>,
    offset: u64,
}

impl Userd {
    /// USERD at a multiple of 512 in a block.
    pub(crate) fn new(block: Arc<Block>, offset: u64) -> Self {
        Self { block, offset }
    }

    /// `GPPut` as it is now: the entry after the last that the host has written. What a channel may run is what the host's
    /// doorbell told it: [`Host::doorbell`](crate::engine::Host::doorbell).
    pub fn gp_put(&self) -> u32 {
        self.block.load32(self.offset + GP_PUT).unwrap_or(0)
    }

    /// `GPGet`: the entry after the last that the engine has fetched. Classes from `0xC96F` on do not name the word any more.
    pub fn set_gp_get(&self, entry: u32) {
        self.block.store32(self.offset + GP_GET, entry);
    }
}

/// Classes of the objects that were allocated on a channel: what `SET_OBJECT` may name.
#[derive(Clone, Debug, Default)]
pub struct Objects(Arc<Mutex<Vec<u32>>>);

impl Objects {
    /// Whether the channel has an object of a class.
    pub fn has(&self, class: u32) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&class)
    }

    pub(crate) fn add(&self, class: u32) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(class);
    }

    pub(crate) fn remove(&self, class: u32) {
        let mut classes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = classes.iter().position(|&this| this == class) {
            classes.swap_remove(place);
        }
    }
}

/// Which engine runs a channel's methods: `NV2080_ENGINE_TYPE_*` of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChannelEngine {
    /// `NV2080_ENGINE_TYPE_GRAPHICS`: compute, and the copy engine beside it.
    Graphics,
    /// `NV2080_ENGINE_TYPE_COPY(n)`.
    Copy(u32),
}

/// A channel's memory, as its allocation named it.
#[derive(Clone, Debug)]
pub struct ChannelMemory {
    /// GPU address of the ring of GP entries, 8 bytes each, through the channel's page tables.
    pub gpfifo: u64,
    /// Entries of the ring.
    pub entries: u32,
    /// The control words.
    pub userd: Userd,
}

/// What an engine raises.
pub mod interrupt {
    /// An interrupt that nobody waits for, of the channel or of the engine that it is on. So is every number that is not here.
    pub const CHANNEL: u32 = 0;
    /// The same, of the copy engine.
    pub const COPY: u32 = 1;
    /// The access that the engine stops with is a program's, not the engine's own: the MMU's client is in a GPC.
    pub const PROGRAM: u32 = 2;
}

/// An engine that the kernel needs for a new channel.
///
/// [`Host::doorbell`](crate::engine::Host::doorbell) is, for these engines, `GPPut` as it was when the channel's token was last
/// rung, 0 before; [`Host::clock`](crate::engine::Host::clock) is the GPU's timer in nanoseconds;
/// [`Host::interrupt`](crate::engine::Host::interrupt) takes one of [`interrupt`].
#[derive(Clone, Debug)]
pub struct ChannelRequest {
    /// The GPU.
    pub chip: &'static Chip,
    /// The channel's class: `0xC56F`, `0xC86F`, `0xC96F`, `0xCA6F`.
    pub class: u32,
    /// Its engine.
    pub engine: ChannelEngine,
    /// Its number on the GPU.
    pub channel: u32,
    /// Its memory.
    pub memory: ChannelMemory,
    /// Its objects.
    pub objects: Objects,
}
