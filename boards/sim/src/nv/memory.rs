//! Memory that objects of RM stand for, and address spaces.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hcq_uapi::nv::{NV_ERR_INVALID_LIMIT, NV_ERR_NO_MEMORY};
use zerocopy::IntoBytes;

use crate::machine::{Block, FileId, Store, user};
use crate::vm::{Backing, Heap, Mapping, Mtype, PageTable};

/// The smallest page, `RM_PAGE_SIZE`.
pub(super) const SMALL_PAGE: u64 = 4 << 10;
/// `RM_PAGE_SIZE_64K`, the big page of these GPUs.
pub(super) const BIG_PAGE: u64 = 64 << 10;
/// `RM_PAGE_SIZE_HUGE`.
pub(super) const HUGE_PAGE: u64 = 2 << 20;

/// Memory of which only so much may be used.
#[derive(Debug)]
pub(super) struct Pool {
    used: AtomicU64,
    limit: u64,
}

impl Pool {
    pub(super) fn new(limit: u64) -> Arc<Self> {
        let used = AtomicU64::new(0);
        Arc::new(Self { used, limit })
    }

    /// What is left.
    pub(super) fn free(&self) -> u64 {
        self.limit.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Takes bytes until what is returned is dropped.
    pub(super) fn take(self: &Arc<Self>, bytes: u64) -> Result<Charge, u32> {
        if bytes > self.free() {
            return Err(NV_ERR_NO_MEMORY);
        }
        self.used.fetch_add(bytes, Ordering::Relaxed);
        Ok(Charge {
            pool: Arc::clone(self),
            bytes,
        })
    }
}

/// Bytes taken of a [`Pool`].
#[derive(Debug)]
pub(super) struct Charge {
    pool: Arc<Pool>,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.pool.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The GPU's own.
    Video,
    /// The kernel's, for the process.
    System,
    /// The process's own, described by its address.
    User,
    /// The page of doorbells.
    Doorbells,
}

/// Memory behind an object of RM. It lives while an object or a mapping refers to it.
#[derive(Debug)]
pub(super) struct Memory {
    /// The GPU of the device that it was made for.
    pub(super) gpu: usize,
    pub(super) place: Place,
    /// Bytes, whole pages.
    pub(super) bytes: u64,
    /// Bytes of its pages.
    pub(super) page: u64,
    pub(super) backing: Backing,
    /// The GPU may only read it: `NVOS32_ATTR2_PROTECTION_DEVICE_READ_ONLY`.
    pub(super) read_only: bool,
    /// What the hardware would know it by.
    pub(super) physical: u64,
    #[expect(dead_code, reason = "its bytes are given back with the memory")]
    pub(super) charge: Option<Charge>,
    /// What the host has mapped of it, by what names the mapping.
    pub(super) host_maps: Mutex<BTreeMap<u64, Option<Charge>>>,
}

impl Memory {
    /// The block, of what is not the process's own.
    pub(super) fn block(&self) -> Option<&Arc<Block>> {
        match &self.backing {
            Backing::Block(block) => Some(block),
            Backing::User(_) => None,
        }
    }

    /// Whether `bytes` from `offset` on are within it.
    pub(super) fn holds(&self, offset: u64, bytes: u64) -> bool {
        offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.bytes)
    }

    /// Writes a 32-bit word at a multiple of 4; outside of it, or where the process has nothing, nothing happens.
    pub(super) fn put32(&self, offset: u64, value: u32) {
        match &self.backing {
            Backing::Block(block) => block.store32(offset, value),
            Backing::User(address) => {
                if self.holds(offset, 4) {
                    let _ = user::write(address.saturating_add(offset), value.as_bytes());
                }
            }
        }
    }

    /// The host's mappings.
    pub(super) fn maps(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Option<Charge>>> {
        self.host_maps
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Pages of it as a GPU sees them. What the GPU writes goes past no cache but its first: the L2 is in front of all memory,
    /// and what the host does goes through it or is snooped.
    pub(super) fn mapping(&self, gpu: usize, from: u64, bytes: u64, writable: bool) -> Mapping {
        let heap = match self.place {
            Place::Video if self.gpu == gpu => Heap::Local,
            Place::Video | Place::Doorbells => Heap::Peer,
            Place::System | Place::User => Heap::System,
        };
        Mapping {
            bytes,
            backing: self.backing.clone(),
            from,
            heap,
            mtype: Mtype::Uc,
            writable: writable && !self.read_only,
            executable: true,
            owner: (self.gpu, 0),
        }
    }
}

/// A number of an address space, for as long as the machine lives.
pub(super) type SpaceId = u32;

/// An address space: what a `FERMI_VASPACE_A` stands for, or a device's own.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) gpu: usize,
    pub(super) table: PageTable,
    /// Its page tables are somebody else's: `NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED`.
    pub(super) external: bool,
    /// The first address that there is.
    pub(super) first: u64,
    /// The last.
    pub(super) last: u64,
    /// The file of `/dev/nvidia-uvm` that it is registered with.
    pub(super) uvm: Option<FileId>,
    /// An object stands for it.
    pub(super) object: bool,
    /// What RM maps in it, by first address.
    pub(super) dma: BTreeMap<u64, Dma>,
}

/// A mapping that RM has made.
#[derive(Debug)]
pub(super) struct Dma {
    pub(super) bytes: u64,
    pub(super) memory: Arc<Memory>,
    /// The handle of the memory.
    pub(super) handle: u32,
}

impl Space {
    pub(super) fn new(gpu: usize, external: bool, first: u64, last: u64) -> Self {
        Self {
            gpu,
            table: PageTable::default(),
            external,
            first,
            last,
            uvm: None,
            object: true,
            dma: BTreeMap::new(),
        }
    }

    /// The first free range of `bytes` at a multiple of `align`.
    pub(super) fn free_range(&self, bytes: u64, align: u64) -> Result<u64, u32> {
        let up = |address: u64| {
            address
                .checked_next_multiple_of(align)
                .ok_or(NV_ERR_NO_MEMORY)
        };
        let mut at = up(self.first.max(HUGE_PAGE))?;
        for (&start, map) in &self.dma {
            let end = start.saturating_add(map.bytes);
            if at.saturating_add(bytes) <= start {
                break;
            }
            if end > at {
                at = up(end)?;
            }
        }
        let last = at.checked_add(bytes - 1).ok_or(NV_ERR_NO_MEMORY)?;
        if last > self.last {
            return Err(NV_ERR_NO_MEMORY);
        }
        Ok(at)
    }
}

/// Zeroed memory, rounded up to pages.
pub(super) fn block(store: &Arc<Store>, bytes: u64, page: u64) -> Result<(Arc<Block>, u64), u32> {
    let bytes = bytes
        .checked_next_multiple_of(page)
        .ok_or(NV_ERR_INVALID_LIMIT)?;
    let block = store.block(bytes).map_err(|_| NV_ERR_NO_MEMORY)?;
    Ok((block, bytes))
}
