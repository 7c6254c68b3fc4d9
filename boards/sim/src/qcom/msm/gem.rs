//! Objects: `msm_gem.c`, and `drm_gem.c` above it.

use std::ops::Range;
use std::sync::Arc;

use hcq_uapi::drm::drm_gem_close;
use hcq_uapi::msm::{
    BoFlags, MSM_BO_CACHE_MASK, MSM_BO_FLAGS, MSM_INFO_GET_IOVA, MSM_INFO_GET_NAME,
    MSM_INFO_GET_OFFSET, MSM_INFO_SET_IOVA, MSM_INFO_SET_NAME, MSM_MADV_DONTNEED,
    MSM_MADV_WILLNEED, MSM_PREP_FLAGS, MSM_PREP_NOSYNC, MSM_PREP_WRITE, drm_msm_gem_cpu_fini,
    drm_msm_gem_cpu_prep, drm_msm_gem_info, drm_msm_gem_madvise, drm_msm_gem_new,
};

use super::Kernel;
use super::wait::{Wait, after, is_past};
use crate::machine::{Answer, Block, FileId, PAGE, user};
use crate::qcom::memory::Memory;
use crate::vm::{Backing, Heap, Mapping, Mtype};

/// `DRM_FILE_PAGE_OFFSET_START` and `DRM_FILE_PAGE_OFFSET_SIZE`, in bytes.
pub(super) const OFFSETS: Range<u64> = 1 << 32..1 << 44;
/// Bytes of an object's name.
const NAME: usize = 32;

/// `struct msm_gem_object`. It lives until its handle is closed, nothing in flight uses it, and nothing of it is mapped.
#[derive(Debug)]
pub(super) struct Object {
    flags: BoFlags,
    pub(super) memory: Memory,
    pub(super) file: FileId,
    offset: u64,
    /// The GPU's address, if it has one.
    pub(super) address: Option<u64>,
    /// It is in the page tables.
    pub(super) is_mapped: bool,
    /// Submissions in flight that use it, and of those how many write.
    pub(super) users: u32,
    pub(super) writers: u32,
    /// Ranges of the process that it is mapped in.
    maps: u32,
    /// It has a handle.
    has_handle: bool,
    pub(super) unneeded: bool,
    name: Vec<u8>,
}

impl Kernel {
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

    /// An object by its handle.
    fn named(&mut self, file: FileId, handle: u32) -> Result<u64, i32> {
        self.file(file)?.object(handle).ok_or(libc::ENOENT)
    }

    /// `msm_ioctl_gem_new`, `msm_gem_new`.
    pub(super) fn new_object(
        &mut self,
        file: FileId,
        args: &mut drm_msm_gem_new,
    ) -> Result<(), i32> {
        if args.flags.bits() & !MSM_BO_FLAGS != 0 {
            return Err(libc::EINVAL);
        }
        // The size goes through 32 bits, where rounding up may leave nothing of it.
        let size = args.size & u64::from(u32::MAX);
        let bytes = size.next_multiple_of(PAGE) & u64::from(u32::MAX);
        if bytes == 0 {
            return Err(libc::EINVAL);
        }
        let modes = BoFlags::from_bits_retain(args.flags.bits() & MSM_BO_CACHE_MASK);
        // All of these chips have `ADRENO_QUIRK_HAS_CACHED_COHERENT`.
        let cached = modes == BoFlags::CACHED;
        if !cached && modes != BoFlags::WC && modes != BoFlags::CACHED_COHERENT {
            return Err(libc::EINVAL);
        }
        let handle = self.file(file)?.free_handle().ok_or(libc::ENOSPC)?;
        let block = self.pages(bytes)?;
        let memory = if cached {
            match self.store.block(bytes) {
                Ok(view) => Memory::cached(block, Backing::Block(view), bytes),
                Err(errno) => {
                    self.used -= bytes;
                    return Err(errno);
                }
            }
        } else {
            Memory::shared(Backing::Block(block), bytes)
        };
        let offset = match self.offsets.allocate(bytes, &OFFSETS) {
            Ok(offset) => offset,
            Err(errno) => {
                self.used -= bytes;
                return Err(errno);
            }
        };
        self.made += 1;
        let id = self.made;
        let object = Object {
            flags: args.flags,
            memory,
            file,
            offset,
            address: None,
            is_mapped: false,
            users: 0,
            writers: 0,
            maps: 0,
            has_handle: true,
            unneeded: false,
            name: Vec::new(),
        };
        self.objects.insert(id, object);
        self.file(file)?.handles.insert(handle, id);
        args.handle = handle;
        Ok(())
    }

    /// `msm_gem_get_iova`: an object's GPU address, which it gets if it has none.
    pub(super) fn address(&mut self, id: u64, within: &Range<u64>) -> Result<u64, i32> {
        let object = self.objects.get_mut(&id).ok_or(libc::ENOENT)?;
        if let Some(address) = object.address {
            return Ok(address);
        }
        let file = self.files.get_mut(&object.file).ok_or(libc::EBADF)?;
        let address = file.space.allocate(object.memory.bytes(), within)?;
        object.address = Some(address);
        Ok(address)
    }

    /// `msm_gem_pin_vma_locked`: into the page tables.
    pub(super) fn map_object(&mut self, id: u64) {
        let Some(object) = self.objects.get_mut(&id) else {
            return;
        };
        let (Some(address), Some(file)) = (object.address, self.files.get_mut(&object.file)) else {
            return;
        };
        if std::mem::replace(&mut object.is_mapped, true) {
            return;
        }
        file.table.insert(
            address,
            Mapping {
                bytes: object.memory.bytes(),
                backing: object.memory.gpu().clone(),
                from: 0,
                heap: Heap::System,
                mtype: Mtype::Nc,
                writable: !object.flags.contains(BoFlags::GPU_READONLY),
                executable: true,
                owner: (0, owner(id)),
            },
        );
    }

    /// `msm_gem_vma_purge`: out of the page tables. Nothing in flight uses it.
    pub(super) fn unmap_object(&mut self, id: u64) {
        let Some(object) = self.objects.get_mut(&id) else {
            return;
        };
        if !std::mem::take(&mut object.is_mapped) {
            return;
        }
        let (address, bytes) = (object.address.unwrap_or(0), object.memory.bytes());
        if let Some(file) = self.files.get_mut(&object.file) {
            file.table.remove((0, owner(id)));
        }
        // What is left in the GPU's caches of it has been written back.
        self.caches.forget(address, bytes);
    }

    /// `msm_gem_vma_close`, after it is out of the page tables.
    fn forget_address(&mut self, id: u64) {
        self.unmap_object(id);
        let Some(object) = self.objects.get_mut(&id) else {
            return;
        };
        if let Some(address) = object.address.take()
            && let Some(file) = self.files.get_mut(&object.file)
        {
            file.space.free(address);
        }
    }

    /// `msm_gem_set_iova`.
    fn choose_address(&mut self, id: u64, address: u64) -> Result<(), i32> {
        let object = self.objects.get(&id).ok_or(libc::ENOENT)?;
        if address == 0 {
            // `clear_iova`.
            if object.users > 0 {
                return Err(libc::EBUSY);
            }
            self.forget_address(id);
            return Ok(());
        }
        let end = address.wrapping_add(object.memory.bytes());
        let had = object.address;
        if self.address(id, &(address..end))? != address {
            debug_assert!(had.is_some(), "a range of one place");
            let users = self.objects.get(&id).map_or(0, |object| object.users);
            if users == 0 {
                self.forget_address(id);
            }
            return Err(libc::EBUSY);
        }
        Ok(())
    }

    /// `msm_ioctl_gem_info`.
    pub(super) fn object_info(
        &mut self,
        file: FileId,
        args: &mut drm_msm_gem_info,
    ) -> Result<(), i32> {
        if args.pad != 0 {
            return Err(libc::EINVAL);
        }
        match args.info {
            MSM_INFO_GET_OFFSET | MSM_INFO_GET_IOVA | MSM_INFO_SET_IOVA if args.len != 0 => {
                return Err(libc::EINVAL);
            }
            ..=MSM_INFO_SET_IOVA => {}
            _ => return Err(libc::EINVAL),
        }
        let id = self.named(file, args.handle)?;
        let has_gpu = self.has_gpu();
        let object = self.objects.get_mut(&id).ok_or(libc::ENOENT)?;
        match args.info {
            MSM_INFO_GET_OFFSET => args.value = object.offset,
            MSM_INFO_GET_IOVA | MSM_INFO_SET_IOVA if !has_gpu => return Err(libc::EINVAL),
            MSM_INFO_GET_IOVA => args.value = self.address(id, &(0..u64::MAX))?,
            MSM_INFO_SET_IOVA => self.choose_address(id, args.value)?,
            MSM_INFO_SET_NAME => {
                let len = usize::try_from(args.len).unwrap_or(usize::MAX);
                if len >= NAME {
                    return Err(libc::EINVAL);
                }
                let mut name = vec![0; len];
                let read = user::read(args.value, &mut name);
                let printed = |byte: &&u8| byte.is_ascii_graphic() || **byte == b' ';
                object.name = name.iter().take_while(printed).copied().collect();
                if read.is_err() {
                    object.name.clear();
                }
                read?;
            }
            MSM_INFO_GET_NAME => {
                let len = u32::try_from(object.name.len()).unwrap_or(0);
                if args.value != 0 && args.len < len {
                    return Err(libc::EINVAL);
                }
                args.len = len;
                if args.value != 0 {
                    user::write(args.value, &object.name)?;
                }
            }
            _ => return Err(libc::EINVAL),
        }
        Ok(())
    }

    /// Whether the GPU is done with an object, as far as somebody who will `write` it cares.
    pub(super) fn is_idle(&self, id: u64, write: bool) -> bool {
        let object = self.objects.get(&id);
        object.is_none_or(|object| object.writers == 0 && (object.users == 0 || !write))
    }

    /// `msm_ioctl_gem_cpu_prep`, `msm_gem_cpu_prep`.
    pub(super) fn cpu_prep(
        &mut self,
        file: FileId,
        args: drm_msm_gem_cpu_prep,
    ) -> Result<Answer, i32> {
        if args.op & !MSM_PREP_FLAGS != 0 {
            return Err(libc::EINVAL);
        }
        let object = self.named(file, args.handle)?;
        let write = args.op & MSM_PREP_WRITE != 0;
        if self.is_idle(object, write) {
            return Ok(Answer::Done(0));
        }
        if args.op & MSM_PREP_NOSYNC != 0 || is_past(args.timeout) {
            return Err(libc::EBUSY);
        }
        Ok(self.wait(Wait::Idle { object, write }, after(args.timeout)))
    }

    /// `msm_ioctl_gem_cpu_fini`.
    pub(super) fn cpu_fini(&mut self, file: FileId, args: drm_msm_gem_cpu_fini) -> Result<(), i32> {
        self.named(file, args.handle).map(drop)
    }

    /// `msm_ioctl_gem_madvise`.
    pub(super) fn madvise(
        &mut self,
        file: FileId,
        args: &mut drm_msm_gem_madvise,
    ) -> Result<(), i32> {
        let unneeded = match args.madv {
            MSM_MADV_WILLNEED => false,
            MSM_MADV_DONTNEED => true,
            _ => return Err(libc::EINVAL),
        };
        let id = self.named(file, args.handle)?;
        let object = self.objects.get_mut(&id).ok_or(libc::ENOENT)?;
        object.unneeded = unneeded;
        args.retained = 1;
        Ok(())
    }

    /// `drm_gem_close_ioctl`, `msm_gem_close`: waits until the GPU is done with the object.
    pub(super) fn close_handle(
        &mut self,
        file: FileId,
        args: drm_gem_close,
    ) -> Result<Answer, i32> {
        let handle = self.file(file)?.handles.remove(&args.handle);
        let object = handle.ok_or(libc::EINVAL)?;
        if self.is_idle(object, true) {
            self.drop_object(object);
            return Ok(Answer::Done(0));
        }
        Ok(self.wait(Wait::Closed { object }, None))
    }

    /// An object has lost its handle, and nothing in flight uses it.
    pub(super) fn drop_object(&mut self, id: u64) {
        self.forget_address(id);
        if let Some(object) = self.objects.get_mut(&id) {
            object.has_handle = false;
        }
        self.put_object(id);
    }

    /// `msm_gem_free_object`, when nobody refers to it any more.
    pub(super) fn put_object(&mut self, id: u64) {
        let gone = |object: &Object| !object.has_handle && object.users == 0 && object.maps == 0;
        if !self.objects.get(&id).is_some_and(gone) {
            return;
        }
        if let Some(object) = self.objects.remove(&id) {
            self.offsets.free(object.offset);
            self.used = self.used.saturating_sub(object.memory.bytes());
        }
    }

    /// `drm_gem_mmap`: the object that begins at an offset.
    pub(super) fn at_offset(&self, file: FileId, offset: u64, bytes: u64) -> Result<u64, i32> {
        let mut objects = self.objects.iter();
        let found = objects.find(|(_, object)| object.offset == offset && object.has_handle);
        let (&id, object) = found.ok_or(libc::EINVAL)?;
        if object.file != file {
            return Err(libc::EACCES);
        }
        if bytes > object.memory.bytes() {
            return Err(libc::EINVAL);
        }
        Ok(id)
    }

    /// A range of the process is an object's from now on.
    pub(super) fn add_map(&mut self, start: u64, bytes: u64, id: u64) {
        self.remove_maps(start, bytes);
        self.maps.insert(start, (start.saturating_add(bytes), id));
        if let Some(object) = self.objects.get_mut(&id) {
            object.maps += 1;
        }
    }

    /// Nothing is mapped in a range any more.
    pub(super) fn remove_maps(&mut self, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        let before = self.maps.range(..end);
        let touched: Vec<u64> = before
            .filter(|&(_, &(last, _))| last > start)
            .map(|(&first, _)| first)
            .collect();
        for first in touched {
            let Some((last, id)) = self.maps.remove(&first) else {
                continue;
            };
            let mut left = 0;
            if first < start {
                self.maps.insert(first, (start, id));
                left += 1;
            }
            if last > end {
                self.maps.insert(end, (last, id));
                left += 1;
            }
            if let Some(object) = self.objects.get_mut(&id) {
                object.maps = (object.maps + left).saturating_sub(1);
            }
            self.put_object(id);
        }
    }

    /// What happens to memory of its own accord: the CPU's caches evict lines, and the kernel takes an object that nothing in
    /// flight uses out of the page tables.
    pub(super) fn wander(&mut self) {
        let count = self.objects.len();
        if count == 0 {
            return;
        }
        let chosen = self.random.usize(..count);
        let Some((&id, object)) = self.objects.iter_mut().nth(chosen) else {
            return;
        };
        object.memory.wander(&mut self.random);
        if object.users == 0 && self.random.u8(..4) == 0 {
            self.unmap_object(id);
        }
    }
}

/// An object as the owner of pages.
fn owner(id: u64) -> u32 {
    u32::try_from(id & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}
