//! The process: its files, its objects, and what it has mapped.

use std::collections::{BTreeMap, BTreeSet};

use super::Kernel;
use super::object::Object;
use crate::machine::FileId;
use crate::qcom::chip::Chip;
use crate::qcom::iommu::Iommu;

/// `struct kgsl_process_private`.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) files: BTreeSet<FileId>,
    pub(super) iommu: Iommu,
    pub(super) objects: BTreeMap<u32, Object>,
    /// Mapped ranges by first address: the address after the last, and the object.
    pub(super) maps: BTreeMap<u64, (u64, u32)>,
}

impl Process {
    fn new(chip: &Chip) -> Self {
        Self {
            files: BTreeSet::new(),
            iommu: Iommu::new(chip),
            objects: BTreeMap::new(),
            maps: BTreeMap::new(),
        }
    }

    /// `idr_alloc`: the lowest free number.
    pub(super) fn free_id(&self) -> Option<u32> {
        (1..u32::MAX >> 1).find(|id| !self.objects.contains_key(id))
    }

    /// `kgsl_sharedmem_find_id`: an object that is not about to be freed.
    pub(super) fn object(&mut self, id: u32) -> Option<&mut Object> {
        self.objects.get_mut(&id).filter(|object| !object.pending)
    }

    /// `kgsl_sharedmem_find`: the object that an address lies in.
    pub(super) fn find(&self, address: u64) -> Option<u32> {
        if !self.iommu.in_range(address, 0) {
            return None;
        }
        let holds = |object: &&Object| {
            address >= object.address && address - object.address < object.memory.bytes()
        };
        let found = self.objects.values().find(holds)?;
        (!found.pending).then_some(found.id)
    }
}

impl Kernel {
    /// `kgsl_open`.
    pub(super) fn open_file(&mut self, file: FileId) {
        let chip = self.chip();
        let process = self.process.get_or_insert_with(|| Process::new(chip));
        process.files.insert(file);
    }

    /// `kgsl_release`: contexts of the file end, and with the last file all objects. The kernel waits for what the GPU executes
    /// of them; here it goes on until it is done.
    pub(super) fn close_file(&mut self, file: FileId) {
        let contexts = self
            .contexts
            .values()
            .filter(|context| context.file == file);
        let contexts: Vec<u32> = contexts.map(|context| context.id).collect();
        for id in contexts {
            self.detach(id);
        }
        if let Some(process) = &mut self.process {
            process.files.remove(&file);
        }
        self.end_process();
    }

    /// The process ends for the GPU when it has no file open and nothing of it is executed.
    pub(super) fn end_process(&mut self) {
        let Some(process) = &mut self.process else {
            return;
        };
        if !process.files.is_empty() || !self.contexts.is_empty() {
            return;
        }
        // `process_release_memory`.
        let ids: Vec<u32> = process.objects.keys().copied().collect();
        for object in process.objects.values_mut() {
            object.pending = true;
            object.dropped = true;
        }
        for id in ids {
            self.put_object(id);
        }
        if self
            .process
            .as_ref()
            .is_some_and(|process| process.objects.is_empty())
        {
            self.process = None;
        }
        self.news = true;
    }

    /// A range of the process is an object's from now on.
    pub(super) fn add_map(&mut self, start: u64, bytes: u64, id: u32) {
        self.remove_maps(start, bytes);
        let Some(process) = &mut self.process else {
            return;
        };
        process
            .maps
            .insert(start, (start.saturating_add(bytes), id));
        if let Some(object) = process.objects.get_mut(&id) {
            object.maps += 1;
        }
    }

    /// Nothing is mapped in a range any more: `kgsl_gpumem_vm_close`, after `kgsl_gpumem_vm_open` for what is split.
    pub(super) fn remove_maps(&mut self, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        let Some(process) = &mut self.process else {
            return;
        };
        let touched: Vec<u64> = process
            .maps
            .range(..end)
            .filter(|&(_, &(last, _))| last > start)
            .map(|(&first, _)| first)
            .collect();
        let mut closed = Vec::new();
        for first in touched {
            let Some((last, id)) = process.maps.remove(&first) else {
                continue;
            };
            let mut left = 0;
            if first < start {
                process.maps.insert(first, (start, id));
                left += 1;
            }
            if last > end {
                process.maps.insert(end, (last, id));
                left += 1;
            }
            if let Some(object) = process.objects.get_mut(&id) {
                object.maps = (object.maps + left).saturating_sub(1);
            }
            closed.push(id);
        }
        for id in closed {
            self.put_object(id);
        }
        self.end_process();
    }
}
