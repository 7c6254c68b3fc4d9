//! Cache operations: `kgsl_ioctl_gpumem_sync_cache` and its kin, and `kgsl_cache_range_op` below them.
//!
//! Kernels differ in what an operation on a range does ([`Chip::page_syncs`](crate::qcom::chip::Chip::page_syncs)):
//!
//! - Older ones work on the lines of the range.
//! - Today's works on pages. It takes `offset & PAGE_MASK` for the offset in the page, which is the other part: it
//!   goes from the object's start, without its first page unless the offset is a multiple of a page, to the last
//!   byte. Of memory that was imported it goes from the start over so many pages as there are in the end's offset,
//!   counted from the start of a page: too few by one if the range crosses a page in its last part.
//!
//! What both do alike is what a caller may rely on: whole objects, and ranges that begin at a page.

use hcq_uapi::kgsl::{
    CacheOps, MemFlags, kgsl_gpumem_sync_cache, kgsl_gpumem_sync_cache_bulk, kgsl_gpuobj_sync,
    kgsl_gpuobj_sync_obj,
};

use super::object::Object;
use super::{Kernel, copy_struct};
use crate::machine::{PAGE, user};
use crate::qcom::memory::Op;

/// `_kgsl_gpumem_sync_cache`.
fn sync(
    object: &mut Object,
    random: &mut fastrand::Rng,
    pages: bool,
    (offset, length, op): (u64, u64, CacheOps),
) -> Result<(), i32> {
    let what = if op.contains(CacheOps::CLEAN | CacheOps::INV) {
        Op::Flush
    } else if op.contains(CacheOps::CLEAN) {
        Op::Clean
    } else if op.contains(CacheOps::INV) {
        Op::Invalidate
    } else {
        return Err(libc::EINVAL);
    };
    let (offset, length) = if op.contains(CacheOps::RANGE) {
        (offset, length)
    } else {
        (0, object.memory.bytes())
    };
    if !object.is_cached() {
        return Ok(());
    }
    range_op(object, random, pages, (offset, length, what))
}

/// `kgsl_cache_range_op`.
fn range_op(
    object: &mut Object,
    random: &mut fastrand::Rng,
    pages: bool,
    (offset, size, op): (u64, u64, Op),
) -> Result<(), i32> {
    if object.flags.contains(MemFlags::IOCOHERENT) {
        return Ok(());
    }
    if size == 0 || size > u64::from(u32::MAX) {
        return Err(libc::EINVAL);
    }
    let end = offset.checked_add(size).ok_or(libc::ERANGE)?;
    let memory = &mut object.memory;
    if end > memory.bytes() {
        return Err(libc::ERANGE);
    }
    // Kernels since 6.1 clean before they invalidate; earlier ones do not, but caches may have.
    let early = random.bool();
    if !pages {
        memory.range_op(offset, size, op, early);
        return Ok(());
    }
    let (in_page, size) = (offset % PAGE, size + (offset - offset % PAGE));
    let imported = memory.cpu().is_none();
    let touched = if imported {
        0..size.div_ceil(PAGE)
    } else {
        in_page.div_ceil(PAGE)..(in_page + size).div_ceil(PAGE)
    };
    for page in touched {
        memory.page_op(page, op, early);
    }
    Ok(())
}

impl Kernel {
    fn sync_one(&mut self, id: u32, what: (u64, u64, CacheOps)) -> Result<(), i32> {
        let pages = self.chip().page_syncs;
        let random = &mut self.random;
        let process = self.process.as_mut().ok_or(libc::EBADF)?;
        match process.object(id) {
            None => Ok(()),
            Some(object) => sync(object, random, pages, what),
        }
    }

    /// `kgsl_ioctl_gpumem_sync_cache`.
    pub(super) fn sync_cache(&mut self, args: &kgsl_gpumem_sync_cache) -> Result<(), i32> {
        let process = self.process()?;
        let id = match (args.id, args.gpuaddr) {
            (0, 0) => None,
            (0, address) => process.find(address),
            (id, _) => process.object(id).map(|object| object.id),
        };
        let id = id.ok_or(libc::EINVAL)?;
        self.sync_one(id, (args.offset, args.length, args.op))
    }

    /// `kgsl_ioctl_gpumem_sync_cache_bulk`. Unknown numbers are skipped, and so are errors.
    pub(super) fn sync_cache_bulk(
        &mut self,
        args: &mut kgsl_gpumem_sync_cache_bulk,
    ) -> Result<(), i32> {
        if args.id_list == 0 || args.count == 0 || u64::from(args.count) > PAGE / 4 {
            return Err(libc::EINVAL);
        }
        let mut ids = Vec::new();
        for n in 0..u64::from(args.count) {
            let at = args.id_list.checked_add(n * 4).ok_or(libc::EFAULT)?;
            ids.push(user::get::<u32>(at)?);
        }
        ids.sort_unstable();
        ids.dedup();
        args.op.remove(CacheOps::RANGE);
        for id in ids.into_iter().filter(|&id| id != 0) {
            let _ = self.sync_one(id, (0, 0, args.op));
        }
        Ok(())
    }

    /// `kgsl_ioctl_gpuobj_sync`. An unknown number does nothing, except that the next entry is read from its place again.
    pub(super) fn sync_objects(&mut self, args: &kgsl_gpuobj_sync) -> Result<(), i32> {
        if args.count == 0 || args.count > 128 {
            return Err(libc::EINVAL);
        }
        let mut at = args.objs;
        let mut operations: Vec<kgsl_gpuobj_sync_obj> = Vec::new();
        for _ in 0..args.count {
            let operation: kgsl_gpuobj_sync_obj = copy_struct(at, args.obj_len.into())?;
            operations.push(operation);
            if self.process()?.object(operation.id).is_some() {
                let bytes = size_of::<kgsl_gpuobj_sync_obj>();
                at = at.wrapping_add(u64::try_from(bytes).unwrap_or(0));
            }
        }
        for operation in operations {
            let what = (operation.offset, operation.length, operation.op);
            self.sync_one(operation.id, what)?;
        }
        Ok(())
    }

    /// The CPU's caches do something of their own accord.
    pub(super) fn wander(&mut self) {
        let Some(process) = &mut self.process else {
            return;
        };
        let cached = |object: &&mut Object| object.memory.can_wander();
        let count = process.objects.values_mut().filter(cached).count();
        if count == 0 {
            return;
        }
        let chosen = self.random.usize(..count);
        if let Some(object) = process.objects.values_mut().filter(cached).nth(chosen) {
            for _ in 0..4 {
                object.memory.wander(&mut self.random);
            }
        }
    }
}
