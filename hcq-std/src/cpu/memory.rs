//! The CPU device's address space: what its engines may touch, and which kernels they may call.
//!
//! Device addresses are the process's own, so that kernels use them as pointers. Engines ask for every address that a
//! packet names; what is in no live allocation is refused, and becomes a fault instead of a crash. Each engine keeps the
//! last ranges that it found, valid while the space's epoch stands; the epoch moves when something is taken out.
#![allow(unsafe_code, reason = "allocates and maps memory")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use hcq_cpu::abi::KernelFn;

use crate::Error;
use crate::backend::{Memory, Origin};
use crate::seam::{Errno, MapRequest, Protection, System};

/// Alignment of allocations, and what their sizes are rounded up to: GPUs that are told of them map whole pages, each once.
const ALIGN: usize = 4096;
/// From this size on an allocation is a mapping of its own: zeroed lazily, and given back to the system at once.
const MAPPED: usize = 128 << 10;

#[derive(Clone, Copy, Debug, Default)]
struct Range {
    start: u64,
    end: u64,
    writable: bool,
}

impl Range {
    fn holds(&self, address: u64, len: u64) -> bool {
        address >= self.start && address.checked_add(len).is_some_and(|end| end <= self.end)
    }
}

#[derive(Debug, Default)]
struct Table {
    /// Sorted by address, disjoint.
    ranges: Vec<Range>,
    /// Entries and how often each is registered, sorted by entry.
    kernels: Vec<(u64, KernelFn, usize)>,
}

/// The address space.
#[derive(Debug)]
pub(super) struct Space {
    system: Arc<dyn System>,
    epoch: AtomicU64,
    table: RwLock<Table>,
}

impl Space {
    pub(super) fn new(system: Arc<dyn System>) -> Self {
        Self {
            system,
            epoch: AtomicU64::new(0),
            table: RwLock::default(),
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut table);
        // ORDER: pairs with the acquire in `Cache::renew`: an engine that sees the new epoch asks the table again.
        self.epoch.fetch_add(1, Ordering::Release);
        result
    }

    fn add(&self, range: Range) -> Result<(), Error> {
        self.change(|table| {
            let at = table.ranges.partition_point(|r| r.end <= range.start);
            if table.ranges.get(at).is_some_and(|r| r.start < range.end) {
                let reason = "it overlaps memory that is a buffer of the device already";
                return Err(Error::Address {
                    address: range.start,
                    reason,
                });
            }
            table.ranges.insert(at, range);
            Ok(())
        })
    }

    pub(super) fn allocate(&self, bytes: usize) -> Result<Memory, Error> {
        let out_of_memory = |errno| Error::OutOfMemory {
            bytes: bytes as u64,
            errno,
        };
        let (cpu, origin) = if bytes >= MAPPED {
            let request = MapRequest {
                len: bytes,
                protection: Protection::ReadWrite,
                file: None,
                fixed: None,
            };
            // SAFETY: no fixed address.
            (
                unsafe { self.system.mmap(&request) }.map_err(out_of_memory)?,
                Origin::Mapping,
            )
        } else {
            let layout = layout(bytes).ok_or_else(|| out_of_memory(Errno::INVAL))?;
            // SAFETY: the layout is not of zero bytes.
            let cpu = NonNull::new(unsafe { alloc_zeroed(layout) });
            (
                cpu.ok_or_else(|| out_of_memory(Errno::NOMEM))?,
                Origin::Heap,
            )
        };
        let address = cpu.as_ptr().expose_provenance() as u64;
        let memory = Memory {
            cpu,
            len: bytes,
            address,
            writable: true,
            origin,
        };
        // Fresh memory overlaps nothing but what a caller wrapped and freed without letting go of its buffer.
        if let Err(e) = self.add(Range {
            start: address,
            end: address + bytes as u64,
            writable: true,
        }) {
            self.give_back(&memory);
            return Err(e);
        }
        Ok(memory)
    }

    pub(super) fn adopt(
        &self,
        cpu: NonNull<u8>,
        bytes: usize,
        writable: bool,
    ) -> Result<Memory, Error> {
        let address = cpu.as_ptr().expose_provenance() as u64;
        let end = address.checked_add(bytes as u64);
        let end = end.ok_or(Error::Address {
            address,
            reason: "it ends beyond the last address",
        })?;
        self.add(Range {
            start: address,
            end,
            writable,
        })?;
        Ok(Memory {
            cpu,
            len: bytes,
            address,
            writable,
            origin: Origin::Caller,
        })
    }

    pub(super) fn hide(&self, memory: &Memory) {
        self.change(|table| {
            let at = table.ranges.partition_point(|r| r.start < memory.address);
            if table
                .ranges
                .get(at)
                .is_some_and(|r| r.start == memory.address)
            {
                table.ranges.remove(at);
            }
        });
    }

    pub(super) fn give_back(&self, memory: &Memory) {
        match memory.origin {
            Origin::Heap => {
                if let Some(layout) = layout(memory.len) {
                    // SAFETY: allocated in `allocate` with this layout; released once, by the contract of `Backend`.
                    unsafe { dealloc(memory.cpu.as_ptr(), layout) };
                }
            }
            Origin::Mapping => {
                // SAFETY: mapped in `allocate`; released once, by the contract of `Backend`.
                let unmapped = unsafe { self.system.munmap(memory.cpu, memory.len) };
                debug_assert!(unmapped.is_ok(), "{unmapped:?}");
            }
            Origin::Driver | Origin::Peer | Origin::Caller => {}
        }
    }

    pub(super) fn register(&self, entry: KernelFn) -> u64 {
        let address = (entry as *const ()).expose_provenance() as u64;
        self.change(
            |table| match table.kernels.binary_search_by_key(&address, |k| k.0) {
                Ok(at) => table.kernels.get_mut(at).map_or((), |k| k.2 += 1),
                Err(at) => table.kernels.insert(at, (address, entry, 1)),
            },
        );
        address
    }

    pub(super) fn unregister(&self, address: u64) {
        self.change(|table| {
            if let Ok(at) = table.kernels.binary_search_by_key(&address, |k| k.0) {
                let left = table.kernels.get_mut(at).map_or(0, |k| {
                    k.2 = k.2.saturating_sub(1);
                    k.2
                });
                if left == 0 {
                    table.kernels.remove(at);
                }
            }
        });
    }
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), ALIGN)
        .ok()
        .map(|l| l.pad_to_align())
}

/// What one engine remembers of the space.
#[derive(Debug, Default)]
pub(super) struct Cache {
    epoch: u64,
    ranges: [Range; 8],
    next_range: usize,
    kernels: [Option<(u64, KernelFn)>; 4],
    next_kernel: usize,
}

impl Cache {
    #[inline]
    fn renew(&mut self, space: &Space) {
        // ORDER: pairs with the release in `Space::change`.
        let epoch = space.epoch.load(Ordering::Acquire);
        if epoch != self.epoch {
            *self = Self {
                epoch,
                ..Self::default()
            };
        }
    }

    /// The CPU address of a range that an engine may access.
    #[inline]
    pub(super) fn translate(
        &mut self,
        space: &Space,
        address: u64,
        len: u64,
        write: bool,
    ) -> Option<NonNull<u8>> {
        self.renew(space);
        let known = self.ranges.iter().find(|r| r.holds(address, len)).copied();
        let range = match known {
            Some(range) => range,
            None => self.look_up(space, address, len)?,
        };
        if write && !range.writable {
            return None;
        }
        NonNull::new(std::ptr::with_exposed_provenance_mut(
            usize::try_from(address).ok()?,
        ))
    }

    #[cold]
    fn look_up(&mut self, space: &Space, address: u64, len: u64) -> Option<Range> {
        let table = space.table.read().unwrap_or_else(PoisonError::into_inner);
        let at = table.ranges.partition_point(|r| r.end <= address);
        let range = *table.ranges.get(at).filter(|r| r.holds(address, len))?;
        if let Some(slot) = self.ranges.get_mut(self.next_range) {
            *slot = range;
        }
        self.next_range = (self.next_range + 1) % self.ranges.len();
        Some(range)
    }

    /// The kernel of an entry that was registered.
    #[inline]
    pub(super) fn kernel(&mut self, space: &Space, entry: u64) -> Option<KernelFn> {
        self.renew(space);
        match self.kernels.iter().flatten().find(|k| k.0 == entry) {
            Some(&(_, kernel)) => Some(kernel),
            None => self.look_up_kernel(space, entry),
        }
    }

    #[cold]
    fn look_up_kernel(&mut self, space: &Space, entry: u64) -> Option<KernelFn> {
        let table = space.table.read().unwrap_or_else(PoisonError::into_inner);
        let at = table.kernels.binary_search_by_key(&entry, |k| k.0).ok()?;
        let &(_, kernel, _) = table.kernels.get(at)?;
        if let Some(slot) = self.kernels.get_mut(self.next_kernel) {
            *slot = Some((entry, kernel));
        }
        self.next_kernel = (self.next_kernel + 1) % self.kernels.len();
        Some(kernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::Linux;

    fn space() -> Space {
        Space::new(Arc::new(Linux))
    }

    #[test]
    fn memory_is_aligned_zeroed_and_found_inside_only() {
        let (space, mut cache) = (space(), Cache::default());
        for bytes in [1usize, 64, 1000, MAPPED - 1, MAPPED, MAPPED + 5] {
            let memory = space.allocate(bytes).expect("there is memory");
            assert_eq!(memory.address % ALIGN as u64, 0);
            let (a, n) = (memory.address, bytes as u64);
            assert_eq!(cache.translate(&space, a, n, true), Some(memory.cpu));
            assert!(cache.translate(&space, a + n - 1, 1, true).is_some());
            assert!(cache.translate(&space, a + n, 1, false).is_none());
            assert!(cache.translate(&space, a, n + 1, false).is_none());
            assert!(cache.translate(&space, a, u64::MAX, false).is_none());
            // SAFETY: allocated above.
            let slice = unsafe { std::slice::from_raw_parts(memory.cpu.as_ptr(), bytes) };
            assert!(slice.iter().all(|&b| b == 0));
            space.hide(&memory);
            assert!(
                cache.translate(&space, a, 1, false).is_none(),
                "the cache forgets what was taken out"
            );
            space.give_back(&memory);
        }
        assert!(cache.translate(&space, 0, 8, false).is_none());
    }

    #[test]
    fn absurd_sizes_are_errors() {
        let e = space()
            .allocate(isize::MAX as usize)
            .expect_err("no machine has that");
        assert!(
            matches!(
                e,
                Error::OutOfMemory {
                    errno: Errno::NOMEM,
                    ..
                }
            ),
            "{e}"
        );
    }

    #[test]
    fn adopted_memory_may_be_read_only_and_not_twice_the_same() {
        let (space, mut cache) = (space(), Cache::default());
        let mut words = [0u64; 8];
        let cpu = NonNull::from(&mut words).cast();
        let memory = space.adopt(cpu, 64, false).expect("not known yet");
        assert!(cache.translate(&space, memory.address, 8, false).is_some());
        assert!(cache.translate(&space, memory.address, 8, true).is_none());
        // SAFETY: inside `words`.
        let inside = unsafe { cpu.add(32) };
        assert!(matches!(
            space.adopt(inside, 8, true),
            Err(Error::Address { .. })
        ));
        space.hide(&memory);
        space.adopt(inside, 8, true).expect("free again");
    }

    unsafe extern "C" fn nothing(_: *const std::ffi::c_void, _: *const hcq_cpu::abi::Group) {}

    #[test]
    fn kernels_are_counted() {
        let (space, mut cache) = (space(), Cache::default());
        let entry = space.register(nothing);
        assert_eq!(space.register(nothing), entry);
        space.unregister(entry);
        assert!(cache.kernel(&space, entry).is_some());
        space.unregister(entry);
        assert!(cache.kernel(&space, entry).is_none());
        assert!(cache.kernel(&space, entry + 1).is_none());
    }
}
