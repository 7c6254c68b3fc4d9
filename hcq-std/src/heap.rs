//! Device memory with owners, and what happens to it when the last owner is gone.
//!
//! # Freeing
//!
//! Work in flight may still use memory whose last owner has let go. So freeing goes in two steps. Once the timeline has
//! reached the last point submitted by then, nobody who knew the memory by right is in flight: the device forgets the
//! address. A command with a stray address may have been translated just before; so the bytes go back only when the
//! timeline has reached the last point submitted by *that* time.
#![allow(unsafe_code, reason = "makes regions of the memory that it owns")]

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hcq_nostd::mem::Region;

use crate::Error;
use crate::backend::{Backend, Memory, Origin, Purpose};

/// Takes a lock; a panic of another holder does not matter, since every holder leaves the state whole.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How far a device's timeline has come, readable without the submission lock.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    latest: AtomicU64,
    completed: AtomicU64,
    stopped: AtomicBool,
}

impl Progress {
    /// The last point that was or is being submitted.
    pub(crate) fn latest(&self) -> u64 {
        self.latest.load(Ordering::SeqCst)
    }

    /// The last point known to be complete.
    pub(crate) fn completed(&self) -> u64 {
        // ORDER: pairs with the release in `reached`; what completed work did is visible.
        self.completed.load(Ordering::Acquire)
    }

    /// Called before the work is published, so that nothing runs that is not counted.
    pub(crate) fn submitting(&self, point: u64) {
        // ORDER: released once more by the ring's put. Who hides memory and then loads this with the fence in `reap`
        // sees every submission of which an engine may have translated an address before.
        self.latest.store(point, Ordering::Release);
    }

    pub(crate) fn reached(&self, point: u64) {
        // ORDER: pairs with the acquire in `completed`.
        self.completed.fetch_max(point, Ordering::AcqRel);
    }

    /// Nothing runs any more, ever.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    fn is_past(&self, point: u64) -> bool {
        self.completed() >= point || self.stopped.load(Ordering::SeqCst)
    }
}

/// Something that work in flight may use.
enum Buried {
    Memory(Memory),
    Other(Box<dyn Any + Send>),
}

struct Grave {
    point: u64,
    /// The device has forgotten the address.
    hidden: bool,
    what: Buried,
}

/// A device's memory.
pub(crate) struct Heap {
    backend: Arc<dyn Backend>,
    progress: Progress,
    graves: Mutex<Vec<Grave>>,
    buried: AtomicUsize,
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap")
            .field("progress", &self.progress)
            .field("buried", &self.buried)
            .finish_non_exhaustive()
    }
}

impl Heap {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            backend,
            progress: Progress::default(),
            graves: Mutex::default(),
            buried: AtomicUsize::new(0),
        }
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// Zeroed device memory of `bytes` bytes, at least 1.
    pub(crate) fn allocate(
        self: &Arc<Self>,
        bytes: usize,
        purpose: Purpose,
    ) -> Result<Arc<Allocation>, Error> {
        self.reap();
        let memory = self.backend.allocate(bytes, purpose)?;
        Ok(Arc::new(Allocation {
            memory: Some(memory),
            keep: None,
            heap: Arc::clone(self),
        }))
    }

    /// Memory of the caller, or of `keep`, which lives as long.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        cpu: NonNull<u8>,
        bytes: usize,
        writable: bool,
        keep: Option<Box<dyn Any + Send + Sync>>,
    ) -> Result<Arc<Allocation>, Error> {
        self.reap();
        let memory = self.backend.adopt(cpu, bytes, writable)?;
        Ok(Arc::new(Allocation {
            memory: Some(memory),
            keep,
            heap: Arc::clone(self),
        }))
    }

    /// Memory of another device, which stays alive as long; this device's own as it is.
    pub(crate) fn import(self: &Arc<Self>, of: &Arc<Allocation>) -> Result<Arc<Allocation>, Error> {
        let of = of.original();
        if Arc::ptr_eq(self, &of.heap) {
            return Ok(Arc::clone(of));
        }
        self.reap();
        let theirs = of.memory.as_ref();
        let theirs = theirs.ok_or(Error::Internal("memory that is being dropped"))?;
        // Processors reach what the host reaches. Kernel drivers do not pin each other's device memory.
        let (own, other) = (self.backend.target().0, of.heap.backend.target().0);
        if theirs.origin == Origin::Driver && own != "cpu" && own != other {
            return Err(Error::Address {
                address: theirs.address,
                reason: "it is memory of another kernel driver's device",
            });
        }
        let memory = self.backend.import(theirs, &*of.heap.backend)?;
        Ok(Arc::new(Allocation {
            memory: Some(memory),
            keep: Some(Box::new(Arc::clone(of))),
            heap: Arc::clone(self),
        }))
    }

    /// Drops something when no work submitted so far uses it.
    pub(crate) fn bury(&self, what: Box<dyn Any + Send>) {
        self.inter(Buried::Other(what));
    }

    fn inter(&self, what: Buried) {
        let point = self.progress.latest();
        lock(&self.graves).push(Grave {
            point,
            hidden: false,
            what,
        });
        self.buried.fetch_add(1, Ordering::Relaxed);
        self.reap();
    }

    /// Things that wait for work in flight.
    pub(crate) fn buried(&self) -> usize {
        self.buried.load(Ordering::Relaxed)
    }

    /// Gives back what no work in flight uses, as far as progress is known.
    pub(crate) fn reap(&self) {
        if self.buried() == 0 {
            return;
        }
        let mut free = Vec::new();
        let mut graves = lock(&self.graves);
        let mut at = 0;
        while let Some(grave) = graves.get_mut(at) {
            if !self.progress.is_past(grave.point) {
                at += 1;
                continue;
            }
            if let (false, Buried::Memory(memory)) = (grave.hidden, &grave.what) {
                self.backend.hide(memory);
                // ORDER: between the change of the address space and the look at what was submitted by then.
                fence(Ordering::SeqCst);
                grave.hidden = true;
                grave.point = self.progress.latest();
                // Looked at again: with nothing in flight the bytes go back at once.
                continue;
            }
            free.push(graves.swap_remove(at).what);
            self.buried.fetch_sub(1, Ordering::Relaxed);
        }
        drop(graves);
        for what in free {
            match what {
                Buried::Memory(memory) => self.backend.release(memory),
                Buried::Other(other) => drop(other),
            }
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // Every allocation holds the heap, and the device has stopped its threads before it let go of it.
        self.progress.stop();
        self.reap();
    }
}

/// Device memory with an owner. Shared by buffers, views, and recordings that name it.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// `None` only while it is dropped.
    memory: Option<Memory>,
    keep: Option<Box<dyn Any + Send + Sync>>,
    heap: Arc<Heap>,
}

impl Allocation {
    /// What this is a view of, if it was imported.
    pub(crate) fn original(self: &Arc<Self>) -> &Arc<Self> {
        let kept = self.keep.as_ref().and_then(|keep| keep.downcast_ref());
        kept.unwrap_or(self)
    }

    #[inline]
    pub(crate) fn heap(&self) -> &Arc<Heap> {
        &self.heap
    }

    #[inline]
    pub(crate) fn address(&self) -> u64 {
        self.memory.as_ref().map_or(0, |m| m.address)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.memory.as_ref().map_or(0, |m| m.len)
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.memory.as_ref().is_some_and(|m| m.writable)
    }

    /// The host's address of the first byte.
    pub(crate) fn as_ptr(&self) -> NonNull<u8> {
        self.memory.as_ref().map_or(NonNull::dangling(), |m| m.cpu)
    }

    /// The memory as a region of the core.
    ///
    /// # Safety
    /// The region is dropped before the allocation, and rule M2 of [`hcq_nostd::mem`] holds for what is done with it.
    pub(crate) unsafe fn region(&self) -> Region<'static> {
        // SAFETY: mapped and writable until the allocation is dropped (M1); M2 is the caller's. Regions are made of
        // memory from `allocate` only.
        unsafe { Region::new(self.as_ptr(), self.len(), self.address()) }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else {
            return;
        };
        if memory.origin == crate::backend::Origin::Caller
            && self.keep.is_none()
            && !self.heap.backend.maps_adopted()
        {
            // The caller is about to reuse it, when nothing in flight does; what is in flight keeps what it has found.
            self.heap.backend.hide(&memory);
            return;
        }
        if let Some(keep) = self.keep.take() {
            self.heap.bury(Box::new((
                Hidden(Arc::clone(&self.heap.backend), memory),
                keep,
            )));
            return;
        }
        self.heap.inter(Buried::Memory(memory));
    }
}

/// Memory of a mapped file or of another device: this device forgets it before that goes.
struct Hidden(Arc<dyn Backend>, Memory);

impl Drop for Hidden {
    fn drop(&mut self) {
        self.0.hide(&self.1);
    }
}
