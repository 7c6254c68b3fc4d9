//! Open files: `struct drm_file` and `struct msm_file_private`, with an address space, handles and queues each.

use std::collections::BTreeMap;

use super::space::Space;
use super::{Kernel, queue::Queue};
use crate::machine::FileId;
use crate::qcom::chip::Chip;
use crate::vm::PageTable;

/// `a6xx_create_private_address_space`.
const VA_START: u64 = 1 << 32;

/// An open file.
#[derive(Debug)]
pub(super) struct File {
    /// Which one it is.
    pub(super) number: u32,
    pub(super) table: PageTable,
    pub(super) space: Space,
    /// Objects by handle.
    pub(super) handles: BTreeMap<u32, u64>,
    pub(super) queues: BTreeMap<u32, Queue>,
    pub(super) next_queue: u32,
    /// Times that the GPU hung because of it.
    pub(super) faults: u64,
    /// The process has closed it; something of it is executed yet.
    pub(super) closed: bool,
}

impl File {
    fn new(number: u32, chip: &Chip) -> Self {
        Self {
            number,
            table: PageTable::default(),
            space: Space::new(VA_START..VA_START + chip.msm_space),
            handles: BTreeMap::new(),
            queues: BTreeMap::new(),
            next_queue: 0,
            faults: 0,
            closed: false,
        }
    }

    /// `drm_gem_object_lookup`.
    pub(super) fn object(&self, handle: u32) -> Option<u64> {
        self.handles.get(&handle).copied()
    }

    /// `idr_alloc`: the lowest free number.
    pub(super) fn free_handle(&self) -> Option<u32> {
        (1..u32::MAX >> 1).find(|handle| !self.handles.contains_key(handle))
    }
}

impl Kernel {
    /// `msm_open`, `context_init`.
    pub(super) fn open_file(&mut self, file: FileId) {
        self.serial += 1;
        let mut opened = File::new(self.serial, self.chip());
        if self.has_gpu() {
            opened.add_queue(super::queue::USUAL);
        }
        self.files.insert(file, opened);
    }

    /// `msm_postclose`: handles go, and what has not begun is dropped (`drm_sched_entity_destroy`). What the ring has is executed.
    pub(super) fn close_file(&mut self, file: FileId) {
        if let Some(closed) = self.files.get_mut(&file) {
            closed.closed = true;
        }
        let pending = std::mem::take(&mut self.pending);
        let (dropped, left): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(|job| job.file == file);
        self.pending = left;
        for job in dropped {
            self.release(&job);
        }
        self.end_file(file);
    }

    /// A closed file ends when nothing of it is executed.
    pub(super) fn end_file(&mut self, file: FileId) {
        let busy = self.ring.iter().any(|job| job.file == file);
        let Some(closed) = self.files.get_mut(&file) else {
            return;
        };
        if !closed.closed || busy {
            return;
        }
        let handles = std::mem::take(&mut closed.handles);
        for object in handles.into_values() {
            self.drop_object(object);
        }
        self.files.remove(&file);
        if self.active == Some(file) {
            self.active = None;
        }
        self.news = true;
    }
}
