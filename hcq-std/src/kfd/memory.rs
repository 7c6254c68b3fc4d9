//! Memory of GPUs.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use hcq_uapi::kfd::{
    AllocMemFlags, kfd_ioctl_alloc_memory_of_gpu_args, kfd_ioctl_free_memory_of_gpu_args,
    kfd_ioctl_get_available_memory_args,
};

use super::call::{call, give_back, map, unmap};
use super::process::Version;
use super::{Gpu, advice};
use crate::Error;
use crate::heap::lock;
use crate::mapping::Room;
use crate::seam::{Errno, page_bytes};

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Device memory.
    Vram,
    /// Host memory that the kernel allocates.
    Gtt,
}

/// What memory is wanted. The address is the same for host and GPU, and a multiple of a page at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryRequest {
    /// At least 1; rounded up to whole pages.
    pub(crate) bytes: usize,
    pub(crate) place: Place,
    /// The host reads and writes it; always so for [`Place::Gtt`].
    pub(crate) host_visible: bool,
    /// Not kept in the GPU's caches: what host and GPU exchange while both run.
    pub(crate) uncached: bool,
    /// GPU and host see each other's writes while a program runs. Uncached memory is coherent too.
    pub(crate) coherent: bool,
    pub(crate) executable: bool,
    /// An object of its own with exactly these pages, as Linux 6.12 wants rings, pointer pages and context areas to be.
    /// All are now; the flag says that it must stay so.
    pub(crate) exact: bool,
    /// One range of physical addresses; device memory only. Kernels before interface 1.16 do not promise it.
    pub(crate) contiguous: bool,
}

impl MemoryRequest {
    /// Device memory that the host does not see.
    pub(crate) const fn vram(bytes: usize) -> Self {
        Self {
            bytes,
            place: Place::Vram,
            host_visible: false,
            uncached: false,
            coherent: false,
            executable: false,
            exact: false,
            contiguous: false,
        }
    }

    /// Host memory that GPUs do not cache.
    pub(crate) const fn gtt(bytes: usize) -> Self {
        Self {
            place: Place::Gtt,
            host_visible: true,
            uncached: true,
            coherent: true,
            ..Self::vram(bytes)
        }
    }

    pub(crate) const fn host_visible(self) -> Self {
        Self {
            host_visible: true,
            ..self
        }
    }

    pub(crate) const fn executable(self) -> Self {
        Self {
            executable: true,
            ..self
        }
    }

    pub(crate) const fn exact(self) -> Self {
        Self {
            exact: true,
            ..self
        }
    }

    fn flags(&self, version: Version) -> AllocMemFlags {
        let mut flags = AllocMemFlags::WRITABLE | AllocMemFlags::NO_SUBSTITUTE;
        match self.place {
            Place::Vram => {
                flags |= AllocMemFlags::VRAM;
                flags.set(AllocMemFlags::PUBLIC, self.host_visible);
                let contiguous = self.contiguous && version >= Version::CONTIGUOUS;
                flags.set(AllocMemFlags::CONTIGUOUS, contiguous);
            }
            Place::Gtt => flags |= AllocMemFlags::GTT,
        }
        flags.set(AllocMemFlags::EXECUTABLE, self.executable);
        flags.set(AllocMemFlags::COHERENT, self.coherent || self.uncached);
        flags.set(AllocMemFlags::UNCACHED, self.uncached);
        flags
    }

    fn is_seen(&self) -> bool {
        self.host_visible || self.place == Place::Gtt
    }
}

/// Memory that a GPU sees. Dropped: unmapped from all GPUs, then freed.
///
/// Rings of gfx7 and gfx8, which are mapped twice in a row (`AQL_QUEUE_MEM`), are not supported; nor are those chips.
#[derive(Debug)]
pub(crate) struct Bo {
    gpu: Arc<Gpu>,
    handle: u64,
    /// The addresses, for memory that has its own.
    room: Option<Room>,
    cpu: Option<NonNull<u8>>,
    address: u64,
    len: usize,
    device_local: bool,
    /// GPUs that it is mapped to, each as often as it was asked for.
    gpus: Mutex<Vec<u32>>,
    /// Somebody may still use it whom nobody can stop.
    abandoned: AtomicBool,
}

// SAFETY: a plain range; who may access it when is its owner's business.
#[allow(unsafe_code, reason = "a range of memory is no thread's own")]
unsafe impl Send for Bo {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "a range of memory is no thread's own")]
unsafe impl Sync for Bo {}

impl Bo {
    /// Where the host reaches it; `None` if it does not.
    pub(crate) fn cpu(&self) -> Option<NonNull<u8>> {
        self.cpu
    }

    /// Where GPUs reach it.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Bytes: whole pages, or those that were registered.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether it is a GPU's own.
    pub(super) fn is_device_local(&self) -> bool {
        self.device_local
    }

    /// Leaves it as it is until the process ends: a queue that does not stop uses it.
    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Once more for a GPU that it is mapped to; `false` if it is not.
    pub(super) fn join(&self, gpu_id: u32) -> bool {
        let mut gpus = lock(&self.gpus);
        let is_mapped = gpus.contains(&gpu_id);
        if is_mapped {
            gpus.push(gpu_id);
        }
        is_mapped
    }

    /// Takes it out of the address spaces of all GPUs.
    fn leave(&self) {
        let mut gpus = lock(&self.gpus);
        gpus.sort_unstable();
        gpus.dedup();
        gpus.retain(|&gpu| !self.unmap_from(gpu));
    }

    /// Once less for a GPU; the last time it is taken out of its address space.
    pub(super) fn leave_one(&self, gpu_id: u32) {
        let mut gpus = lock(&self.gpus);
        let times = gpus.iter().filter(|&&gpu| gpu == gpu_id).count();
        if (times > 1 || self.unmap_from(gpu_id))
            && let Some(at) = gpus.iter().position(|&gpu| gpu == gpu_id)
        {
            gpus.swap_remove(at);
        }
    }

    /// Whether a GPU does not see it any more.
    fn unmap_from(&self, gpu: u32) -> bool {
        let process = self.gpu.process();
        let (system, file) = (&**process.system(), process.file());
        // Twice at most: what a driver in the middle of a reset refuses, it takes a moment later.
        let refused = || unmap(system, file, self.handle, &[gpu]).0 == 0;
        !(refused() && refused())
    }
}

impl Drop for Bo {
    fn drop(&mut self) {
        if self.abandoned.load(Ordering::Relaxed) {
            if let Some(room) = self.room.take() {
                room.keep();
            }
            return;
        }
        self.leave();
        let process = self.gpu.process();
        let free = kfd_ioctl_free_memory_of_gpu_args {
            handle: self.handle,
        };
        let freed = give_back(&**process.system(), process.file(), free);
        if let (Err(_), Some(room)) = (freed, self.room.take()) {
            // A GPU may still translate these addresses: nothing else may get them.
            room.keep();
        }
    }
}

/// A step of an allocation that failed: the call, and the answer.
pub(super) type Step = (&'static str, Errno);

impl Gpu {
    /// Allocates memory and maps it for this GPU. VRAM is not promised to be zeroed, GTT is.
    pub(crate) fn allocate(self: &Arc<Self>, request: &MemoryRequest) -> Result<Bo, Error> {
        let page = page_bytes();
        let too_large = Error::OutOfMemory {
            bytes: request.bytes as u64,
            errno: Errno::NOMEM,
        };
        let Some(len) = request.bytes.max(1).checked_next_multiple_of(page) else {
            return Err(too_large);
        };
        if len > isize::MAX as usize {
            return Err(too_large);
        }
        // Large pages and large fragments of the GPU's page tables.
        let align = match len {
            0x20_0000.. => 0x20_0000,
            0x1_0000.. => 0x1_0000,
            _ => page,
        };
        let room =
            Room::aligned(self.process().system(), len, align.max(page)).map_err(|errno| {
                Error::OutOfMemory {
                    bytes: request.bytes as u64,
                    errno,
                }
            })?;
        let flags = request.flags(self.process().version());
        self.check_range(room.address(), len)?;
        self.create(room, len, flags, request.is_seen())
            .map_err(|step| self.explain(step, request))
    }

    /// All addresses that GPUs have must lie in the range that the kernel gives to memory.
    fn check_range(&self, address: u64, len: usize) -> Result<(), Error> {
        let apertures = self.apertures();
        let last = address.saturating_add(len as u64 - 1);
        if apertures.gpuvm_limit != 0
            && (address < apertures.gpuvm_base || last > apertures.gpuvm_limit)
        {
            return Err(Error::Address {
                address,
                reason: "it is outside the addresses that the GPU can have",
            });
        }
        Ok(())
    }

    fn create(
        self: &Arc<Self>,
        room: Room,
        len: usize,
        flags: AllocMemFlags,
        seen: bool,
    ) -> Result<Bo, Step> {
        let process = self.process();
        let (system, file) = (&**process.system(), process.file());
        let mut argument = kfd_ioctl_alloc_memory_of_gpu_args {
            va_addr: room.address(),
            size: len as u64,
            gpu_id: self.node().gpu_id,
            flags,
            ..Default::default()
        };
        call(system, file, &mut argument).map_err(|e| ("ALLOC_MEMORY_OF_GPU", e))?;
        let (cpu, address) = (seen.then(|| room.start()), room.address());
        // From here on whatever fails drops the object, and with it what there is of it.
        let mut bo = Bo {
            gpu: Arc::clone(self),
            handle: argument.handle,
            room: Some(room),
            cpu,
            address,
            len,
            device_local: flags.contains(AllocMemFlags::VRAM),
            gpus: Mutex::default(),
            abandoned: AtomicBool::new(false),
        };
        if let (true, Some(room)) = (seen, &mut bo.room) {
            room.place(Some((self.render(), argument.mmap_offset)))
                .map_err(|e| ("mmap of the render node", e))?;
        }
        self.map(&bo, &[self.node().gpu_id])?;
        Ok(bo)
    }

    /// Maps memory to GPUs: to all of them, or to none more than before.
    pub(super) fn map(&self, bo: &Bo, gpus: &[u32]) -> Result<(), Step> {
        let process = self.process();
        let (system, file) = (&**process.system(), process.file());
        let mut mapped = lock(&bo.gpus);
        let (done, result) = map(system, file, bo.handle, gpus);
        if result.is_err() && done > 0 {
            let (undone, _) = unmap(
                system,
                file,
                bo.handle,
                gpus.get(..done).unwrap_or_default(),
            );
            // What could not be undone is undone with the rest, when the memory goes.
            mapped.extend(gpus.get(undone..done).unwrap_or_default());
        }
        result.map_err(|e| ("MAP_MEMORY_TO_GPU", e))?;
        mapped.extend(gpus);
        Ok(())
    }

    fn explain(&self, (operation, errno): Step, request: &MemoryRequest) -> Error {
        let vram = request.place == Place::Vram;
        let whole = self.node().visible_bytes() >= self.node().vram_bytes();
        if errno == Errno::INVAL && vram && request.host_visible && !whole {
            return self.failed(operation, errno, advice::small_bar(self.node()));
        }
        if errno == Errno::NOMEM {
            return match self.available_vram() {
                Some(free) if vram && free < request.bytes as u64 => self.failed(
                    operation,
                    errno,
                    format!(
                        "{} bytes of device memory were asked for, {free} are free; free buffers, or end other \
                         processes that use the GPU",
                        request.bytes
                    ),
                ),
                _ => Error::OutOfMemory {
                    bytes: request.bytes as u64,
                    errno,
                },
            };
        }
        self.failed(operation, errno, advice::memory(errno).into())
    }

    /// Bytes of device memory that can be allocated now, if the kernel tells.
    pub(crate) fn available_vram(&self) -> Option<u64> {
        let process = self.process();
        let mut argument = kfd_ioctl_get_available_memory_args {
            gpu_id: self.node().gpu_id,
            ..Default::default()
        };
        call(&**process.system(), process.file(), &mut argument).ok()?;
        Some(argument.available)
    }

    /// Makes caller memory known to this GPU: the pages that it lies on. [`Bo::cpu`] is `cpu`; [`Bo::address`] is the same
    /// address, unless these pages are known already by another registration: then it is one of its own.
    ///
    /// The kernel takes pages that can be written only, whatever `writable` says of the GPU.
    pub(crate) fn register(
        self: &Arc<Self>,
        cpu: NonNull<u8>,
        bytes: usize,
        writable: bool,
    ) -> Result<Bo, Error> {
        let page = page_bytes();
        let address = cpu.as_ptr().expose_provenance();
        let start = address & !(page - 1);
        let refused = Error::Address {
            address: address as u64,
            reason: "no such range can be registered",
        };
        let end = address
            .checked_add(bytes.max(1))
            .and_then(|end| end.checked_next_multiple_of(page));
        let Some(end) = end else {
            return Err(refused);
        };
        let len = end - start;
        let failed =
            |(operation, errno): Step| self.failed(operation, errno, advice::userptr(errno).into());
        match self.adopt(cpu, (start, len), bytes, None, writable) {
            Ok(bo) => return Ok(bo),
            // The GPU may have something at these addresses: another registration of a page of these.
            Err((_, Errno::INVAL)) => {}
            Err(step) => return Err(failed(step)),
        }
        let room = Room::aligned(self.process().system(), len, page).map_err(|errno| {
            Error::OutOfMemory {
                bytes: bytes as u64,
                errno,
            }
        })?;
        self.adopt(cpu, (start, len), bytes, Some(room), writable)
            .map_err(failed)
    }

    fn adopt(
        self: &Arc<Self>,
        cpu: NonNull<u8>,
        (start, len): (usize, usize),
        bytes: usize,
        room: Option<Room>,
        writable: bool,
    ) -> Result<Bo, Step> {
        let process = self.process();
        let base = room.as_ref().map_or(start as u64, Room::address);
        let mut flags = AllocMemFlags::USERPTR
            | AllocMemFlags::NO_SUBSTITUTE
            | AllocMemFlags::COHERENT
            | AllocMemFlags::UNCACHED;
        flags.set(AllocMemFlags::WRITABLE, writable);
        let mut argument = kfd_ioctl_alloc_memory_of_gpu_args {
            va_addr: base,
            size: len as u64,
            mmap_offset: start as u64,
            gpu_id: self.node().gpu_id,
            flags,
            ..Default::default()
        };
        call(&**process.system(), process.file(), &mut argument)
            .map_err(|e| ("ALLOC_MEMORY_OF_GPU of host memory", e))?;
        let offset = (cpu.as_ptr().expose_provenance() - start) as u64;
        let bo = Bo {
            gpu: Arc::clone(self),
            handle: argument.handle,
            room,
            cpu: Some(cpu),
            address: base + offset,
            len: bytes,
            device_local: false,
            gpus: Mutex::default(),
            abandoned: AtomicBool::new(false),
        };
        self.map(&bo, &[self.node().gpu_id])?;
        Ok(bo)
    }

    /// Takes memory out of the address spaces of all GPUs: accesses are faults from now on. The host still sees it.
    pub(crate) fn unmap(&self, bo: &Bo) {
        bo.leave();
    }
}

#[cfg(test)]
mod tests;
