//! The machine's memory: one sparse file for everything, blocks of it for allocations, and mappings of those.
#![allow(
    unsafe_code,
    reason = "blocks are mapped memory that host and engines share"
)]

use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::unistd::{Whence, ftruncate, lseek};

/// Bytes of a page, of host and GPU alike.
pub(crate) const PAGE: u64 = 4096;

fn errno(error: nix::errno::Errno) -> i32 {
    error as i32
}

/// The file that all memory comes from. Pages that nobody has touched cost nothing.
#[derive(Debug)]
pub(crate) struct Store {
    file: OwnedFd,
    end: Mutex<u64>,
    /// The machine has ended: the file goes with its last mapping, and until then keeps what is in it.
    ended: AtomicBool,
}

impl Store {
    pub(crate) fn new() -> Result<Arc<Self>, i32> {
        let file = memfd_create(c"hcq-sim", MFdFlags::MFD_CLOEXEC).map_err(errno)?;
        Ok(Arc::new(Self {
            file,
            end: Mutex::new(0),
            ended: AtomicBool::new(false),
        }))
    }

    /// The machine has ended: what the process has mapped keeps its bytes.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Zeroed memory, a whole number of pages.
    pub(crate) fn block(self: &Arc<Self>, bytes: u64) -> Result<Arc<Block>, i32> {
        let bytes = bytes.checked_next_multiple_of(PAGE).ok_or(libc::ENOMEM)?;
        // Places are not used twice: a stale mapping can only see what was freed, never what came later.
        let offset = {
            let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
            let offset = *end;
            let next = offset.checked_add(bytes).ok_or(libc::ENOMEM)?;
            let size = i64::try_from(next).map_err(|_| libc::ENOMEM)?;
            ftruncate(&self.file, size).map_err(|_| libc::ENOMEM)?;
            *end = next;
            offset
        };
        let len = usize::try_from(bytes).ok().and_then(NonZeroUsize::new);
        let len = len.ok_or(libc::EINVAL)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE;
        let at = i64::try_from(offset).map_err(|_| libc::ENOMEM)?;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let host = unsafe { mmap(None, len, protection, flags, &self.file, at) };
        Ok(Arc::new(Block {
            store: Arc::clone(self),
            offset,
            bytes,
            host: host.map_err(|_| libc::ENOMEM)?.cast(),
        }))
    }
}

/// Where a block is mapped in the process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Where the host likes.
    Anywhere,
    /// At this address, where nothing may be mapped.
    Free(usize),
    /// At this address, in place of what is mapped there.
    Fixed(NonNull<u8>),
}

/// An allocation. It lives while page tables or the host's mappings refer to it.
#[derive(Debug)]
pub(crate) struct Block {
    store: Arc<Store>,
    offset: u64,
    bytes: u64,
    host: NonNull<u8>,
}

// SAFETY: the mapping is shared memory; whoever touches its bytes does so through raw pointers or atomics.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// Where the machine has it.
    pub(crate) fn host(&self) -> NonNull<u8> {
        self.host
    }

    fn word(&self, offset: u64) -> Option<&AtomicU64> {
        let fits = offset.is_multiple_of(8) && offset.checked_add(8)? <= self.bytes;
        if !fits {
            return None;
        }
        let offset = usize::try_from(offset).ok()?;
        // SAFETY: within the mapping, checked above.
        let word = unsafe { self.host.add(offset) };
        // SAFETY: mapped and aligned for as long as `self` lives; everybody else reads and writes it as memory shared with a
        // device is: with atomic or volatile accesses.
        Some(unsafe { AtomicU64::from_ptr(word.as_ptr().cast()) })
    }

    /// The 64-bit word at a multiple of 8.
    pub(crate) fn load(&self, offset: u64) -> Option<u64> {
        Some(self.word(offset)?.load(Ordering::Acquire))
    }

    /// Sets the 64-bit word at a multiple of 8. Outside of the block nothing happens.
    pub(crate) fn store(&self, offset: u64, value: u64) {
        if let Some(word) = self.word(offset) {
            word.store(value, Ordering::Release);
        }
    }

    fn word32(&self, offset: u64) -> Option<&AtomicU32> {
        let fits = offset.is_multiple_of(4) && offset.checked_add(4)? <= self.bytes;
        if !fits {
            return None;
        }
        let offset = usize::try_from(offset).ok()?;
        // SAFETY: within the mapping, checked above.
        let word = unsafe { self.host.add(offset) };
        // SAFETY: as in `word`.
        Some(unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) })
    }

    /// The 32-bit word at a multiple of 4.
    pub(crate) fn load32(&self, offset: u64) -> Option<u32> {
        Some(self.word32(offset)?.load(Ordering::Acquire))
    }

    /// Puts another value into the 32-bit word at a multiple of 4, and says what was there.
    pub(crate) fn swap32(&self, offset: u64, value: u32) -> Option<u32> {
        Some(self.word32(offset)?.swap(value, Ordering::AcqRel))
    }

    /// Sets the 32-bit word at a multiple of 4. Outside of the block nothing happens.
    pub(crate) fn store32(&self, offset: u64, value: u32) {
        if let Some(word) = self.word32(offset) {
            word.store(value, Ordering::Release);
        }
    }

    /// Bytes of it, whole pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Maps `len` bytes from `from` on for the host. What is outside of the block is not mapped: that is an error.
    ///
    /// # Safety
    /// A fixed range is the caller's, and nothing uses what was mapped there.
    pub(crate) unsafe fn map(
        &self,
        place: Place,
        from: u64,
        len: usize,
        read: bool,
        write: bool,
    ) -> Result<NonNull<u8>, i32> {
        let end = u64::try_from(len)
            .ok()
            .and_then(|len| from.checked_add(len));
        if end.is_none_or(|end| end > self.bytes) {
            return Err(libc::EINVAL);
        }
        let len = NonZeroUsize::new(len).ok_or(libc::EINVAL)?;
        let mut protection = ProtFlags::empty();
        protection.set(ProtFlags::PROT_READ, read);
        protection.set(ProtFlags::PROT_WRITE, write);
        let (at, place) = match place {
            Place::Anywhere => (None, MapFlags::empty()),
            Place::Free(address) => (NonZeroUsize::new(address), MapFlags::MAP_FIXED_NOREPLACE),
            Place::Fixed(address) => {
                let at = NonZeroUsize::new(address.as_ptr().expose_provenance());
                (at, MapFlags::MAP_FIXED)
            }
        };
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE | place;
        let offset = self.offset.checked_add(from).ok_or(libc::EINVAL)?;
        let offset = i64::try_from(offset).map_err(|_| libc::EINVAL)?;
        // SAFETY: a new mapping; a fixed range is the caller's by this function's contract.
        let mapped = unsafe { mmap(at, len, protection, flags, &self.store.file, offset) };
        Ok(mapped.map_err(errno)?.cast())
    }
}

impl Block {
    /// Whether somebody has touched a page of a range: pages that nobody has are zero and cost nothing, as long as nobody looks at them.
    pub(crate) fn has_data(&self, start: u64, bytes: u64) -> bool {
        let end = self.offset.saturating_add(start.saturating_add(bytes));
        let from = self.offset.checked_add(start);
        let Some(from) = from.and_then(|from| i64::try_from(from).ok()) else {
            return false;
        };
        match lseek(&self.store.file, from, Whence::SeekData) {
            Ok(found) => u64::try_from(found).is_ok_and(|found| found < end),
            Err(Errno::ENXIO) => false,
            // A host that cannot say: it may have been.
            Err(_) => true,
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let (offset, bytes) = (i64::try_from(self.offset), i64::try_from(self.bytes));
        if let Ok(len) = usize::try_from(self.bytes) {
            // SAFETY: the block's own mapping, which nothing refers to any more. A failure leaves it in place, unused.
            let _ = unsafe { munmap(self.host.cast(), len) };
        }
        if let (Ok(offset), Ok(bytes), false) =
            (offset, bytes, self.store.ended.load(Ordering::Relaxed))
        {
            let how = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
            // A failure keeps the pages until the machine ends.
            let _ = fallocate(&self.store.file, how, offset, bytes);
        }
    }
}

/// Ends the mappings in a range of the host's addresses.
///
/// # Safety
/// Nothing uses the range any more.
pub(crate) unsafe fn unmap(address: NonNull<u8>, len: usize) -> Result<(), i32> {
    // SAFETY: the caller's promise.
    unsafe { munmap(address.cast(), len) }.map_err(errno)
}
