//! This kernel as the machine's driver: its node, its maps.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hcq_uapi::kgsl::MemFlags;

use super::{Kernel, MEMSTORE_BYTES};
use crate::exec::Executor;
use crate::machine::order::Turned;
use crate::machine::tree::Tree;
use crate::machine::{Answer, Driver, FileId, Ioctl, Map, PAGE, View};
use crate::qcom::iommu::MEMSTORE_TOKEN;
use crate::qcom::options::Kgsl;

/// The node.
const NODE: &str = "/dev/kgsl-3d0";

/// `get_align`.
fn alignment(flags: MemFlags) -> u64 {
    match flags.alignment() {
        21.. => 2 << 20,
        20 => 1 << 20,
        16.. => 64 << 10,
        _ => PAGE,
    }
}

impl Kernel {
    /// `get_mmap_entry`: the object of an offset, which is its number, or its GPU address.
    fn mapped_object(&mut self, map: &Map) -> Result<u32, i32> {
        let process = self.process()?;
        let number = u32::try_from(map.offset / PAGE).ok();
        let id = number
            .and_then(|id| process.object(id).map(|object| object.id))
            .or_else(|| process.find(map.offset));
        let id = id.ok_or(libc::EINVAL)?;
        let object = process.object(id).ok_or(libc::EINVAL)?;
        // Memory of the process has no `vmfault`.
        if object.memory.cpu().is_none() {
            return Err(libc::EINVAL);
        }
        let whole = map.bytes == object.footprint();
        if !whole && (object.uses_cpu_map() || map.bytes != object.memory.bytes()) {
            return Err(libc::ERANGE);
        }
        Ok(id)
    }

    /// `kgsl_mmap`, `kgsl_get_unmapped_area`.
    fn map(&mut self, map: &Map) -> Result<View, i32> {
        if map.offset == MEMSTORE_TOKEN {
            if map.write {
                return Err(libc::EPERM);
            }
            if map.bytes != MEMSTORE_BYTES {
                return Err(libc::EINVAL);
            }
            return Ok(Arc::clone(&self.memstore).into());
        }
        let id = self.mapped_object(map)?;
        let process = self.process()?;
        let object = process.objects.get(&id).ok_or(libc::EINVAL)?;
        let block = Arc::clone(object.memory.cpu().ok_or(libc::EINVAL)?);
        // The page behind an object with a guard page faults; nothing is there to be mapped.
        if map.bytes > block.bytes() {
            return Err(libc::EINVAL);
        }
        let mut view = View::from(block);
        if object.uses_cpu_map() {
            let align = alignment(object.flags);
            if map.fixed.is_some_and(|start| !start.is_multiple_of(align)) {
                return Err(libc::EINVAL);
            }
            if object.address != 0 {
                return Err(libc::EBUSY);
            }
            let compat = object.flags.contains(MemFlags::FORCE_32BIT);
            let gap = process.iommu.svm_gap(map.bytes, align, compat, map.before);
            view.at = Some(gap.ok_or(libc::ENOMEM)?);
        }
        Ok(view)
    }
}

impl Driver for Kernel {
    fn node(&self, path: &Path) -> Option<u32> {
        let there = self.settings.options.kgsl != Kgsl::Missing;
        (there && path == Path::new(NODE)).then_some(0)
    }

    fn nodes(&self) -> Vec<PathBuf> {
        let there = self.settings.options.kgsl != Kgsl::Missing;
        there.then(|| NODE.into()).into_iter().collect()
    }

    fn open(&mut self, _: u32, file: FileId, _: bool) -> Result<(), i32> {
        if self.settings.options.kgsl == Kgsl::Denied {
            return Err(libc::EACCES);
        }
        self.open_file(file);
        Ok(())
    }

    fn close(&mut self, _: u32, file: FileId) {
        self.close_file(file);
    }

    fn ioctl(&mut self, call: &mut Ioctl<'_>, request: u32, address: u64) -> Result<Answer, i32> {
        // A caller's time in the kernel is time for its caches too.
        self.wander();
        self.call(call.file, request, address)
    }

    fn resume(&mut self, wait: u64) -> Option<Result<i32, i32>> {
        self.resume_wait(wait)
    }

    fn expire(&mut self, wait: u64) -> Result<i32, i32> {
        self.expire_wait(wait)
    }

    fn mmap(&mut self, map: &Map) -> Result<View, i32> {
        self.map(map)
    }

    fn mapped(&mut self, map: &Map, start: u64) -> Result<(), i32> {
        if map.offset == MEMSTORE_TOKEN {
            return Ok(());
        }
        let id = self.mapped_object(map)?;
        let object = self.process()?.objects.get(&id).ok_or(libc::EINVAL)?;
        if object.uses_cpu_map() {
            self.set_svm(id, start)?;
        }
        self.add_map(start, map.bytes, id);
        Ok(())
    }

    fn munmap(&mut self, start: u64, bytes: u64) {
        self.remove_maps(start, bytes);
    }

    /// There is no `poll`: a file is always readable, with a greeting.
    fn readable(&mut self, _: u32, _: FileId) -> Result<bool, i32> {
        Ok(true)
    }

    fn tree(&self) -> Tree {
        self.files()
    }

    fn turn(&mut self, executor: &mut dyn Executor) -> Turned {
        self.step(executor)
    }

    fn has_queues(&self) -> bool {
        self.has_work()
    }

    fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Queues are rings: 0 is that of the highest priority.
    fn late(&mut self, queue: Option<u32>, steps: u32) {
        for (number, ring) in (0..).zip(&mut self.rings) {
            if queue.is_none_or(|queue| queue == number) {
                ring.late = steps;
            }
        }
    }

    fn reports(&self) -> &[String] {
        &self.reports
    }

    fn halt(&mut self, why: &str) {
        self.halt_all(why);
    }
}
