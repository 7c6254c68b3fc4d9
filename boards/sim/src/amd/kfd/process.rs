//! What the kernel keeps of a process: its GPUs, their address spaces and doorbells.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::event::Events;
use super::queue::Queue;
use crate::machine::{Block, FileId};
use crate::vm::{Backing, PageTable};

/// `KFD_MAX_NUM_OF_QUEUES_PER_PROCESS`: doorbells of a process on a GPU too.
pub(crate) const MAX_QUEUES: u32 = 1024;
/// `kfd_doorbell_process_slice`: bytes of a process's doorbells on a GPU.
pub(crate) const DOORBELL_BYTES: u64 = 8192;
/// `KFD_QUEUE_DOORBELL_MIRROR_OFFSET`.
pub(crate) const DOORBELL_MIRROR: u32 = 512;

/// The process: `struct kfd_process`.
#[derive(Debug)]
pub(crate) struct Process {
    /// One for each GPU, in their order.
    pub(crate) devices: Vec<Device>,
    /// By their number.
    pub(crate) queues: BTreeMap<u32, Queue>,
    pub(crate) events: Events,
    /// `AMDKFD_IOC_RUNTIME_ENABLE` is on.
    pub(crate) runtime: bool,
    /// Programs may retry accesses to missing pages.
    pub(crate) xnack: bool,
}

/// A process's side of a GPU: `struct kfd_process_device`.
#[derive(Debug)]
pub(crate) struct Device {
    /// The open render node whose address space this is; `None` until `AMDKFD_IOC_ACQUIRE_VM`.
    pub(crate) node: Option<FileId>,
    pub(crate) table: PageTable,
    /// `alloc_idr`.
    pub(crate) memory: BTreeMap<u32, Memory>,
    pub(crate) doorbells: Option<Arc<Block>>,
    /// Doorbells in use, and those that no compute queue gets.
    pub(crate) doorbell_used: BTreeSet<u32>,
    /// After a memory fault: queues, new ones too, do not run any more (`kfd_dqm_evict_pasid`).
    pub(crate) evicted: bool,
    /// `tba_addr`, `tma_addr`.
    pub(crate) trap: (u64, u64),
    pub(crate) scratch: u64,
}

/// What kind an allocation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Video memory, and memory asked for as such on a GPU without its own.
    Vram,
    Gtt,
    User,
    Doorbell,
    Mmio,
}

/// An allocation: `struct kgd_mem`.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The address it is mapped at on GPUs; 0 if it cannot be.
    pub(crate) address: u64,
    /// Bytes of memory, whole pages.
    pub(crate) bytes: u64,
    /// What was accounted for it.
    pub(crate) charged: u64,
    pub(crate) kind: Kind,
    pub(crate) flags: hcq_uapi::kfd::AllocMemFlags,
    pub(crate) backing: Backing,
    /// GPUs that it is mapped to, and how many uses by queues hold it there.
    pub(crate) mapped: BTreeMap<usize, u32>,
    /// Where a render node maps it.
    pub(crate) offset: u64,
}

impl Process {
    pub(crate) fn new(gpus: usize) -> Self {
        Self {
            devices: (0..gpus).map(|_| Device::new()).collect(),
            queues: BTreeMap::new(),
            events: Events::default(),
            runtime: false,
            xnack: false,
        }
    }
}

impl Device {
    fn new() -> Self {
        Self {
            node: None,
            table: PageTable::default(),
            memory: BTreeMap::new(),
            doorbells: None,
            doorbell_used: BTreeSet::new(),
            evicted: false,
            trap: (0, 0),
            scratch: 0,
        }
    }
}

/// The lowest number of a map that is free: `idr_alloc`, `find_first_zero_bit`.
pub(crate) fn lowest_free<T>(map: &BTreeMap<u32, T>, first: u32) -> u32 {
    let mut free = first;
    for &used in map.range(first..).map(|(number, _)| number) {
        if used != free {
            break;
        }
        free = free.saturating_add(1);
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_from_the_lowest() {
        let mut map = BTreeMap::new();
        for expected in 0..4 {
            assert_eq!(lowest_free(&map, 0), expected);
            map.insert(expected, ());
        }
        map.remove(&1);
        assert_eq!(lowest_free(&map, 0), 1);
        assert_eq!(lowest_free(&map, 2), 4);
        assert_eq!(lowest_free(&map, 9), 9);
    }
}
