//! Objects: `kgsl_ioctl_gpuobj_alloc` and its kin in `kgsl.c`, and `kgsl_sharedmem.c` below them.

use std::sync::Arc;

use hcq_uapi::kgsl::{
    KGSL_CACHEMODE_MASK, KGSL_CACHEMODE_WRITETHROUGH, KGSL_GPU_EVENT_FENCE,
    KGSL_GPU_EVENT_TIMESTAMP, KGSL_GPUOBJ_FREE_ON_EVENT, KGSL_GPUOBJ_SET_INFO_METADATA,
    KGSL_GPUOBJ_SET_INFO_TYPE, KGSL_MEMALIGN_MASK, KGSL_MEMALIGN_SHIFT, KGSL_MEMFLAGS_USERMEM_ADDR,
    KGSL_MEMTYPE_MASK, KGSL_MEMTYPE_SHIFT, KGSL_USER_MEM_TYPE_ADDR, KGSL_USER_MEM_TYPE_DMABUF,
    MemFlags, kgsl_gpu_event_fence, kgsl_gpu_event_timestamp, kgsl_gpuobj_alloc, kgsl_gpuobj_free,
    kgsl_gpuobj_import, kgsl_gpuobj_import_dma_buf, kgsl_gpuobj_import_useraddr, kgsl_gpuobj_info,
    kgsl_gpuobj_set_info,
};

use super::timestamps::passed;
use super::{Kernel, copy_struct};
use crate::machine::{Block, FileId, PAGE, user};
use crate::qcom::chip::Snoops;
use crate::qcom::memory::Memory;
use crate::vm::Backing;

/// `KGSL_MAX_ALIGN` as a power of two.
const MAX_ALIGN: u64 = 25;
/// `KGSL_CACHEMODE_WRITETHROUGH` and `KGSL_CACHEMODE_WRITEBACK` have this bit of the cache mode.
const CACHED: u64 = (KGSL_CACHEMODE_WRITETHROUGH as u64) << 26;

/// `struct kgsl_mem_entry`. It lives until its creator has given it up and nothing of it is mapped in the process.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) id: u32,
    pub(super) flags: MemFlags,
    /// The GPU's address; 0 if it has none yet.
    pub(super) address: u64,
    pub(super) memory: Memory,
    /// It is about to be freed: no call finds it any more.
    pub(super) pending: bool,
    /// Its creator has given it up.
    pub(super) dropped: bool,
    /// Ranges of the process that it is mapped in, and commands whose times are written to it.
    pub(super) maps: u32,
}

/// What a new object turned out to be.
struct Made {
    id: u32,
    flags: MemFlags,
    footprint: u64,
}

/// An object to be freed when a context comes to a time stamp.
#[derive(Debug)]
pub(super) struct FreeEvent {
    pub(super) context: u32,
    pub(super) timestamp: u32,
    object: u32,
}

impl Object {
    /// `kgsl_memdesc_use_cpu_map`.
    pub(super) fn uses_cpu_map(&self) -> bool {
        self.flags.contains(MemFlags::USE_CPU_MAP)
    }

    /// `kgsl_memdesc_footprint`.
    pub(super) fn footprint(&self) -> u64 {
        let guard = self.flags.contains(MemFlags::GUARD_PAGE);
        self.memory.bytes() + if guard { PAGE } else { 0 }
    }

    /// `kgsl_cachemode_is_cached`.
    pub(super) fn is_cached(&self) -> bool {
        self.flags.bits() & CACHED != 0
    }

    /// Whether a range of GPU addresses is within it.
    pub(super) fn holds(&self, address: u64, bytes: u64) -> bool {
        let end = address.checked_add(bytes);
        self.address != 0
            && address >= self.address
            && end.is_some_and(|end| end <= self.address + self.memory.bytes())
    }
}

/// `cap_alignment`.
fn cap_alignment(flags: u64) -> u64 {
    let align = u64::from(MemFlags::from_bits_retain(flags).alignment()).min(MAX_ALIGN);
    with_alignment(flags, align)
}

/// `kgsl_memdesc_set_align`.
fn with_alignment(flags: u64, align: u64) -> u64 {
    flags & !u64::from(KGSL_MEMALIGN_MASK) | align << KGSL_MEMALIGN_SHIFT
}

impl Kernel {
    /// `kgsl_memdesc_init`.
    fn memory_flags(&self, mut flags: u64) -> u64 {
        let snooped = MemFlags::IOCOHERENT.bits();
        match self.chip().snoops {
            Snoops::Never => flags &= !snooped,
            Snoops::OnRequest => {}
            Snoops::Always => flags |= snooped,
        }
        if flags & CACHED == 0 {
            flags &= !snooped;
        }
        let align = u64::from(MemFlags::from_bits_retain(flags).alignment());
        with_alignment(flags, align.max(12))
    }

    /// Memory of the machine. A host without any left says so.
    fn pages(&mut self, bytes: u64) -> Result<Arc<Block>, i32> {
        let used = self.used.checked_add(bytes).ok_or(libc::ENOMEM)?;
        if used > self.settings.ram {
            return Err(libc::ENOMEM);
        }
        let block = self.store.block(bytes)?;
        self.used = used;
        Ok(block)
    }

    /// `kgsl_ioctl_gpuobj_alloc`, `gpumem_alloc_entry`.
    pub(super) fn alloc_object(&mut self, args: &mut kgsl_gpuobj_alloc) -> Result<(), i32> {
        if args.flags.contains(MemFlags::VBO) {
            return Err(libc::EOPNOTSUPP);
        }
        let known = MemFlags::GPUREADONLY
            | MemFlags::USE_CPU_MAP
            | MemFlags::SECURE
            | MemFlags::FORCE_32BIT
            | MemFlags::IOCOHERENT
            | MemFlags::GUARD_PAGE;
        let numbers = KGSL_CACHEMODE_MASK | KGSL_MEMTYPE_MASK | KGSL_MEMALIGN_MASK;
        let flags = args.flags.bits() & (known.bits() | u64::from(numbers));
        if flags & MemFlags::SECURE.bits() != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        let mut flags = cap_alignment(flags);
        if args.size == 0 || args.size > u64::from(u32::MAX) {
            return Err(libc::EINVAL);
        }
        // `kgsl_filter_cachemode` of arm64.
        if flags & u64::from(KGSL_CACHEMODE_MASK) == CACHED {
            flags |= u64::from(KGSL_CACHEMODE_MASK);
        }
        let bytes = args.size.next_multiple_of(PAGE);
        if bytes > u64::from(u32::MAX) {
            return Err(libc::EINVAL);
        }
        let flags = MemFlags::from_bits_retain(self.memory_flags(flags));
        let block = self.pages(bytes)?;
        let apart = flags.bits() & CACHED != 0 && !flags.contains(MemFlags::IOCOHERENT);
        let memory = if apart {
            let view = Backing::Block(self.store.block(bytes)?);
            Memory::cached(block, view, bytes)
        } else {
            Memory::shared(Backing::Block(block), bytes)
        };
        let made = self.attach(flags, memory, 0)?;
        (args.size, args.flags, args.id) = (bytes, made.flags, made.id);
        args.mmapsize = made.footprint;
        Ok(())
    }

    /// `kgsl_mem_entry_attach_and_map`: a number, an address unless the process gives it one, and the page tables. `chosen` is
    /// the address that the process has given it, or 0.
    fn attach(&mut self, flags: MemFlags, memory: Memory, chosen: u64) -> Result<Made, i32> {
        let charged = match memory.gpu() {
            Backing::Block(block) => block.bytes(),
            Backing::User(_) => 0,
        };
        let attached = self.attach_charged(flags, memory, chosen);
        if attached.is_err() {
            self.used = self.used.saturating_sub(charged);
        }
        attached
    }

    fn attach_charged(
        &mut self,
        flags: MemFlags,
        memory: Memory,
        chosen: u64,
    ) -> Result<Made, i32> {
        let guard = Arc::clone(&self.guard);
        let process = self.process()?;
        let mut object = Object {
            id: process.free_id().ok_or(libc::ENOSPC)?,
            flags,
            address: chosen,
            memory,
            pending: false,
            dropped: false,
            maps: 0,
        };
        if !object.uses_cpu_map() {
            let compat = flags.contains(MemFlags::FORCE_32BIT);
            let (bytes, align) = (object.footprint(), flags.alignment());
            object.address = process.iommu.allocate(bytes, align.into(), compat)?;
        }
        if object.address != 0 {
            map(process, &object, &guard);
        }
        let made = Made {
            id: object.id,
            flags,
            footprint: object.footprint(),
        };
        process.objects.insert(object.id, object);
        Ok(made)
    }

    /// `_gpu_set_svm_region`: an object of `USE_CPU_MAP` was mapped by the process.
    pub(super) fn set_svm(&mut self, id: u32, start: u64) -> Result<(), i32> {
        let guard = Arc::clone(&self.guard);
        let process = self.process()?;
        let object = process.objects.get_mut(&id).ok_or(libc::EINVAL)?;
        if object.address != 0 {
            return Err(libc::EBUSY);
        }
        process.iommu.take(start, object.footprint())?;
        object.address = start;
        if let Some(object) = process.objects.remove(&id) {
            map(process, &object, &guard);
            process.objects.insert(id, object);
        }
        Ok(())
    }

    /// `kgsl_ioctl_gpuobj_import`.
    pub(super) fn import_object(&mut self, args: &mut kgsl_gpuobj_import) -> Result<(), i32> {
        if args.r#type != KGSL_USER_MEM_TYPE_ADDR && args.r#type != KGSL_USER_MEM_TYPE_DMABUF {
            return Err(ENOTSUPP);
        }
        if args.flags.contains(MemFlags::VBO) {
            return Err(libc::EINVAL);
        }
        if args.r#type == KGSL_USER_MEM_TYPE_DMABUF {
            return self.import_dma_buf(args);
        }
        // `_gpuobj_map_useraddr`. What is not known is dropped, `SECURE` too.
        let known = MemFlags::GPUREADONLY
            | MemFlags::USE_CPU_MAP
            | MemFlags::FORCE_32BIT
            | MemFlags::IOCOHERENT;
        let numbers = KGSL_CACHEMODE_MASK | KGSL_MEMTYPE_MASK;
        let flags = args.flags.bits() & (known.bits() | u64::from(numbers));
        let flags = self.memory_flags(flags);
        let from: kgsl_gpuobj_import_useraddr = user::get(args.r#priv).map_err(|_| libc::EINVAL)?;
        let (start, bytes) = (from.virtaddr, args.priv_len);
        // `kgsl_setup_useraddr`, `kgsl_setup_anon_useraddr`.
        if start == 0 || !start.is_multiple_of(PAGE) {
            return Err(libc::EINVAL);
        }
        if bytes == 0 || !bytes.is_multiple_of(PAGE) {
            return Err(libc::EINVAL);
        }
        let own = flags & MemFlags::USE_CPU_MAP.bits() != 0;
        if own {
            self.process()?.iommu.take(start, bytes)?;
        }
        let mut flags = MemFlags::from_bits_retain(flags | u64::from(KGSL_MEMFLAGS_USERMEM_ADDR));
        let memory = match self.lend(start, bytes, flags) {
            Ok(memory) => memory,
            Err(errno) => {
                if own && let Some(process) = &mut self.process {
                    process.iommu.remove(0, start);
                }
                return Err(errno);
            }
        };
        let align = match bytes {
            0x10_0000.. => 20,
            0x1_0000.. => 16,
            _ => u64::from(flags.alignment()),
        };
        flags = MemFlags::from_bits_retain(with_alignment(flags.bits(), align));
        let attached = self.attach(flags, memory, if own { start } else { 0 });
        if attached.is_err()
            && own
            && let Some(process) = &mut self.process
        {
            process.iommu.remove(0, start);
        }
        let made = attached?;
        (args.flags, args.id) = (made.flags, made.id);
        Ok(())
    }

    /// `memdesc_sg_virt`: pages of the process that the GPU gets. Unless it snoops, it sees what was in memory when the CPU's
    /// caches were flushed for it.
    fn lend(&mut self, start: u64, bytes: u64, flags: MemFlags) -> Result<Memory, i32> {
        let end = start.checked_add(bytes).ok_or(libc::EFAULT)?;
        let process = self.process()?;
        // `check_vma`: not what is this driver's already.
        let ours = process.maps.range(..end).next_back();
        if ours.is_some_and(|(_, &(last, _))| last > start) {
            return Err(libc::EFAULT);
        }
        if !user::access_ok(start, bytes) || !user::is_mapped(start, bytes) {
            return Err(libc::EFAULT);
        }
        if flags.contains(MemFlags::IOCOHERENT) {
            return Ok(Memory::shared(Backing::User(start), bytes));
        }
        let block = self.pages(bytes)?;
        Ok(Memory::cached(block, Backing::User(start), bytes))
    }

    /// `_gpuobj_map_dma_buf`, as far as it goes without one.
    fn import_dma_buf(&mut self, args: &mut kgsl_gpuobj_import) -> Result<(), i32> {
        if args.flags.contains(MemFlags::SECURE) {
            return Err(ENOTSUPP);
        }
        let buffer: kgsl_gpuobj_import_dma_buf =
            copy_struct(args.r#priv, args.priv_len).map_err(|_| libc::EFAULT)?;
        if buffer.fd < 0 {
            return Err(libc::EINVAL);
        }
        Err(libc::EBADF)
    }

    /// `kgsl_ioctl_gpuobj_info`.
    pub(super) fn object_info(&mut self, args: &mut kgsl_gpuobj_info) -> Result<(), i32> {
        let object = self.process()?.object(args.id).ok_or(libc::EINVAL)?;
        args.gpuaddr = object.address;
        args.flags = object.flags;
        args.size = object.memory.bytes();
        args.va_len = object.footprint();
        args.va_addr = 0;
        Ok(())
    }

    /// `kgsl_ioctl_gpuobj_set_info`.
    pub(super) fn set_object_info(&mut self, args: &kgsl_gpuobj_set_info) -> Result<(), i32> {
        let object = self.process()?.object(args.id).ok_or(libc::EINVAL)?;
        let flags = |flag: u32| args.flags & u64::from(flag) != 0;
        if flags(KGSL_GPUOBJ_SET_INFO_METADATA) && args.metadata_len > 0 {
            // `copy_metadata`: only statistics show it, and what cannot be read is an empty label.
            let _ = user::get::<u8>(args.metadata);
        }
        if flags(KGSL_GPUOBJ_SET_INFO_TYPE) {
            if args.r#type > KGSL_MEMTYPE_MASK >> KGSL_MEMTYPE_SHIFT {
                return Err(libc::EINVAL);
            }
            let others = object.flags.bits() & !u64::from(KGSL_MEMTYPE_MASK);
            let kind = u64::from(args.r#type << KGSL_MEMTYPE_SHIFT);
            object.flags = MemFlags::from_bits_retain(others | kind);
        }
        Ok(())
    }

    /// `kgsl_ioctl_gpuobj_free`.
    pub(super) fn free_object(&mut self, file: FileId, args: &kgsl_gpuobj_free) -> Result<(), i32> {
        self.process()?.object(args.id).ok_or(libc::EINVAL)?;
        if args.flags & u64::from(KGSL_GPUOBJ_FREE_ON_EVENT) == 0 {
            self.drop_object(args.id);
            return Ok(());
        }
        let len = args.len.into();
        match args.r#type {
            KGSL_GPU_EVENT_TIMESTAMP => {
                let event: kgsl_gpu_event_timestamp =
                    copy_struct(args.r#priv, len).map_err(|_| libc::EFAULT)?;
                if event.context_id == 0 {
                    return Err(libc::EINVAL);
                }
                self.owned(file, event.context_id)?;
                self.free_on_timestamp(args.id, event.context_id, event.timestamp)
            }
            KGSL_GPU_EVENT_FENCE => {
                let event: kgsl_gpu_event_fence =
                    copy_struct(args.r#priv, len).map_err(|_| libc::EFAULT)?;
                let _ = event.fd;
                Err(libc::EINVAL)
            }
            _ => Err(libc::EINVAL),
        }
    }

    /// `gpumem_free_entry_on_timestamp`.
    fn free_on_timestamp(&mut self, id: u32, context: u32, timestamp: u32) -> Result<(), i32> {
        self.check_event(context, timestamp)?;
        if let Some(object) = self.process()?.object(id) {
            object.pending = true;
        }
        if passed(self.retired(context), timestamp) {
            self.drop_object(id);
        } else {
            self.frees.push(FreeEvent {
                context,
                timestamp,
                object: id,
            });
        }
        Ok(())
    }

    /// Frees what waits for a context's time stamp: what it has come to, or `all` if the events are cancelled.
    pub(super) fn fire_frees(&mut self, context: u32, all: bool) {
        let retired = self.retired(context);
        let fires = |event: &FreeEvent| {
            event.context == context && (all || passed(retired, event.timestamp))
        };
        let (fired, left) = std::mem::take(&mut self.frees)
            .into_iter()
            .partition(|event| fires(event));
        self.frees = left;
        let fired: Vec<FreeEvent> = fired;
        for event in fired {
            self.drop_object(event.object);
        }
    }

    /// The creator gives it up.
    fn drop_object(&mut self, id: u32) {
        let Some(process) = &mut self.process else {
            return;
        };
        if let Some(object) = process.objects.get_mut(&id) {
            object.pending = true;
            object.dropped = true;
        }
        self.put_object(id);
    }

    /// `kgsl_mem_entry_put`: it goes when nobody refers to it any more. The GPU's next access is a page fault.
    pub(super) fn put_object(&mut self, id: u32) {
        let Some(process) = &mut self.process else {
            return;
        };
        let gone = process
            .objects
            .get(&id)
            .is_some_and(|object| object.dropped && object.maps == 0);
        if !gone {
            return;
        }
        if let Some(object) = process.objects.remove(&id) {
            if object.address != 0 {
                process.iommu.remove(id, object.address);
                // What the GPU's caches still have of it goes nowhere.
                self.caches.forget(object.address, object.footprint());
            }
            if let Backing::Block(block) = object.memory.gpu() {
                self.used = self.used.saturating_sub(block.bytes());
            }
        }
    }
}

/// `ENOTSUPP`, which is no number of user space, but what the kernel answers.
const ENOTSUPP: i32 = 524;

fn map(process: &mut super::process::Process, object: &Object, guard: &Arc<Block>) {
    let writable = !object.flags.contains(MemFlags::GPUREADONLY);
    let guarded = object.flags.contains(MemFlags::GUARD_PAGE);
    process.iommu.map(
        object.id,
        object.address,
        object.memory.bytes(),
        object.memory.gpu(),
        writable,
        guarded.then_some(guard),
    );
}
