//! Memory of an Adreno GPU, by purpose, and which of it the GPU and copy queues know.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use hcq_boards::qcom::CACHE_LINE;

use super::driver::{Block, Caching, Driver};
use crate::Error;
use crate::backend::{Memory, Origin, Purpose};
use crate::heap::lock;
use crate::peers::Peers;
use crate::seam::Errno;

/// Looks at who is still on memory before the looks are naps apart.
const LOOKS: u32 = 64;
/// Between two of the later looks.
const NAP: Duration = Duration::from_micros(50);

/// How memory is cached for each purpose.
pub(super) const fn caching(purpose: Purpose) -> Caching {
    match purpose {
        Purpose::Data | Purpose::Exchange => Caching::Cached,
        // Polled by both sides, while both run.
        Purpose::Signals => Caching::Uncached,
        Purpose::Code => Caching::Gathered,
    }
}

/// Memory that may be named by commands.
#[derive(Clone, Debug)]
struct Known {
    block: Arc<dyn Block>,
    writable: bool,
}

/// What a copy queue found at an address. It keeps the memory mapped.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) block: Arc<dyn Block>,
    pub(super) offset: usize,
}

impl Place {
    /// The host's address.
    pub(super) fn cpu(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.block.cpu().as_ptr().wrapping_add(self.offset))
    }
}

/// Memory that the shell holds, by the GPU's address.
#[derive(Debug)]
pub(super) struct Table {
    driver: Arc<dyn Driver>,
    known: RwLock<BTreeMap<u64, Known>>,
    /// Blocks whose cache lines are seen to here: the GPU does not look into the host's caches.
    incoherent: AtomicUsize,
    peers: Peers<u64>,
    /// One adoption at a time: looking and adding belong together.
    adopting: Mutex<()>,
}

impl Table {
    pub(super) fn new(driver: &Arc<dyn Driver>) -> Self {
        Self {
            driver: Arc::clone(driver),
            known: RwLock::default(),
            incoherent: AtomicUsize::new(0),
            peers: Peers::default(),
            adopting: Mutex::default(),
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut BTreeMap<u64, Known>) -> R) -> R {
        change(&mut self.known.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn read<R>(&self, read: impl FnOnce(&BTreeMap<u64, Known>) -> R) -> R {
        read(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, block: Box<dyn Block>, writable: bool) -> Arc<dyn Block> {
        let block: Arc<dyn Block> = block.into();
        if !block.is_coherent() {
            self.incoherent.fetch_add(1, Ordering::Relaxed);
        }
        let known = Known {
            block: Arc::clone(&block),
            writable,
        };
        self.change(|all| all.insert(block.address(), known));
        block
    }

    fn remove(&self, address: u64) -> Option<Arc<dyn Block>> {
        let block = self.change(|all| all.remove(&address))?.block;
        if !block.is_coherent() {
            self.incoherent.fetch_sub(1, Ordering::Relaxed);
        }
        Some(block)
    }

    /// Forgets memory that somebody else owns. Its bytes are the owner's alone when this returns: nobody is on them any more,
    /// and the kernel driver has been told.
    fn give_up(&self, address: u64) {
        let Some(mut block) = self.remove(address) else {
            return;
        };
        // Nobody finds it any more. A copy queue's thread that wrote a signal still holds what it copied before, until it
        // is through with the packets that it has begun; a flush holds what it is at. Neither waits for anybody.
        let mut looks = 0;
        while Arc::get_mut(&mut block).is_none() {
            if looks < LOOKS {
                looks += 1;
                std::thread::yield_now();
            } else {
                std::thread::sleep(NAP);
            }
        }
    }

    pub(super) fn allocate(&self, bytes: usize, purpose: Purpose) -> Result<Memory, Error> {
        let block = self.driver.allocate(bytes, caching(purpose))?;
        let block = self.add(block, true);
        Ok(Memory {
            cpu: block.cpu(),
            len: bytes,
            address: block.address(),
            writable: true,
            origin: Origin::Driver,
        })
    }

    pub(super) fn adopt(
        &self,
        cpu: NonNull<u8>,
        bytes: usize,
        writable: bool,
    ) -> Result<Memory, Error> {
        let address = cpu.as_ptr().expose_provenance() as u64;
        let refused = |reason| Error::Address { address, reason };
        let end = address.checked_add(bytes as u64);
        let end = end.ok_or(refused("it ends beyond the last address"))?;
        // Two buffers in one cache line would undo each other's writes.
        let line = u64::from(CACHE_LINE);
        let (first, last) = (address & !(line - 1), end.next_multiple_of(line));
        let _adopting = lock(&self.adopting);
        let overlaps = self.read(|all| {
            all.values().any(|known| {
                let start = known.block.cpu().as_ptr().addr() as u64;
                start < last && start + known.block.len() as u64 > first
            })
        });
        if overlaps {
            return Err(refused(
                "it shares a cache line with memory that is a buffer of the device already",
            ));
        }
        let block = self.driver.import(cpu, bytes, writable)?;
        let block = self.add(block, writable);
        Ok(Memory {
            cpu,
            len: bytes,
            address: block.address(),
            writable,
            origin: Origin::Caller,
        })
    }

    /// Memory of another device, as memory of the caller.
    pub(super) fn import(&self, memory: &Memory) -> Result<Memory, Error> {
        self.peers.import(memory, || {
            let adopted = self.adopt(memory.cpu, memory.len, memory.writable)?;
            Ok((adopted.address, adopted.address))
        })
    }

    /// Forgets memory. What the driver allocated is given back at once, or when the copy queue that is on it lets go; other
    /// memory may go when this returns.
    pub(super) fn hide(&self, memory: &Memory) {
        match memory.origin {
            Origin::Peer => self.peers.forget(memory, |address| self.give_up(address)),
            Origin::Caller => self.give_up(memory.address),
            Origin::Driver | Origin::Heap | Origin::Mapping => drop(self.remove(memory.address)),
        }
    }

    /// What is at `len` bytes at an address, for a copy queue.
    pub(super) fn find(&self, address: u64, len: u64, write: bool) -> Option<Place> {
        self.read(|all| {
            let (&start, known) = all.range(..=address).next_back()?;
            let offset = address - start;
            let inside = offset.checked_add(len)? <= known.block.len() as u64;
            (inside && (known.writable || !write)).then(|| Place {
                block: Arc::clone(&known.block),
                offset: offset as usize,
            })
        })
    }

    /// Sees to the host's cache lines of memory that the GPU does not look into: what the host wrote goes to memory, what the
    /// GPU wrote is read from there.
    pub(super) fn flush(&self) -> Result<(), Errno> {
        if self.incoherent.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let blocks: Vec<Arc<dyn Block>> = self.read(|all| {
            let incoherent = all.values().filter(|known| !known.block.is_coherent());
            incoherent.map(|known| Arc::clone(&known.block)).collect()
        });
        for block in blocks {
            block.flush(0, block.len())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
