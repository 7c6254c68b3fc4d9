//! Memory of an AMD GPU, by purpose, and which of it the GPU knows.
#![allow(unsafe_code, reason = "clears memory that it allocated")]

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use hcq_nostd::mem::Region;

use crate::Error;
use crate::backend::{Memory, Origin, Purpose};
use crate::heap::lock;
use crate::kfd::{Bo, Gpu, MemoryRequest, Place};
use crate::peers::Peers;

/// Pages of caller memory.
const PAGE: u64 = 4096;

/// What memory is allocated for each purpose.
pub(super) const fn request(purpose: Purpose, bytes: usize, has_large_bar: bool) -> MemoryRequest {
    let (vram, gtt) = (
        MemoryRequest::vram(bytes).host_visible(),
        MemoryRequest::gtt(bytes),
    );
    // What the GPU may cache: submissions begin and end with what makes writes seen.
    let cached = MemoryRequest {
        uncached: false,
        ..gtt
    };
    match purpose {
        // Device memory that the host cannot reach would need copies where the API promises plain access.
        Purpose::Data if has_large_bar => vram,
        Purpose::Data | Purpose::Exchange => cached,
        Purpose::Signals => gtt,
        Purpose::Code if has_large_bar => vram.executable(),
        Purpose::Code => cached.executable(),
    }
}

/// How this GPU sees memory of another device.
enum Seen {
    /// It is that GPU's, mapped here too.
    Mapped(Arc<Bo>, Arc<Gpu>),
    /// It is held at this address.
    Adopted(u64),
}

/// Memory that the shell holds, by address.
pub(super) struct Table {
    gpu: Arc<Gpu>,
    has_large_bar: bool,
    held: Mutex<BTreeMap<u64, Arc<Bo>>>,
    peers: Peers<Seen>,
}

impl Table {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Self {
        let node = gpu.node();
        let visible = node.visible_bytes();
        Self {
            gpu: Arc::clone(gpu),
            has_large_bar: visible > 0 && visible >= node.vram_bytes(),
            held: Mutex::default(),
            peers: Peers::default(),
        }
    }

    pub(super) fn allocate(&self, bytes: usize, purpose: Purpose) -> Result<Memory, Error> {
        let request = request(purpose, bytes, self.has_large_bar);
        let bo = self.gpu.allocate(&request)?;
        let cpu = bo
            .cpu()
            .ok_or(Error::Internal("memory for the host that it does not see"))?;
        let address = bo.address();
        if request.place == Place::Vram {
            // SAFETY: just allocated and mapped for the host with this many bytes; nobody else knows it (M1, M2).
            let mut region = unsafe { Region::new(cpu, bytes, address) };
            let cleared = region.fill(0, bytes, 0);
            cleared.map_err(|_| Error::Internal("memory smaller than asked for"))?;
        }
        lock(&self.held).insert(address, Arc::new(bo));
        Ok(Memory {
            cpu,
            len: bytes,
            address,
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
        let mut held = lock(&self.held);
        // The kernel maps whole pages, and one page once.
        let (first, last) = (address & !(PAGE - 1), end.next_multiple_of(PAGE));
        let before = held.range(..last).next_back();
        let overlap = before.is_some_and(|(&at, bo)| {
            let end = (at + bo.len() as u64).next_multiple_of(PAGE);
            end > first
        });
        if overlap {
            return Err(refused(
                "it shares a page with memory that is a buffer of the device already",
            ));
        }
        // What copies may not write is writable pages all the same.
        let bo = self.gpu.register(cpu, bytes, true)?;
        let device = bo.address();
        held.insert(device, Arc::new(bo));
        Ok(Memory {
            cpu,
            len: bytes,
            address: device,
            writable,
            origin: Origin::Caller,
        })
    }

    /// Memory of another device: of a GPU at the same address, of others as memory of the caller.
    pub(super) fn import(&self, memory: &Memory, from: Option<&Self>) -> Result<Memory, Error> {
        self.peers.import(memory, || match from {
            Some(from) => {
                let bo = lock(&from.held).get(&memory.address).map(Arc::clone);
                let bo = bo.ok_or(Error::Internal("a peer does not know its own memory"))?;
                from.gpu.share(&bo, &self.gpu)?;
                Ok((Seen::Mapped(bo, Arc::clone(&from.gpu)), memory.address))
            }
            None => {
                let adopted = self.adopt(memory.cpu, memory.len, memory.writable)?;
                Ok((Seen::Adopted(adopted.address), adopted.address))
            }
        })
    }

    fn forget(&self, memory: &Memory) {
        self.peers.forget(memory, |seen| match seen {
            Seen::Mapped(bo, owner) => owner.unshare(&bo, &self.gpu),
            Seen::Adopted(address) => drop(lock(&self.held).remove(&address)),
        });
    }

    pub(super) fn hide(&self, memory: &Memory) {
        if memory.origin == Origin::Peer {
            self.forget(memory);
            return;
        }
        let mut held = lock(&self.held);
        if memory.origin == Origin::Caller {
            // Not looked at any more: what it was mapped to goes with the caller's own.
            let bo = held.remove(&memory.address);
            drop(held);
            drop(bo);
        } else if let Some(bo) = held.get(&memory.address) {
            self.gpu.unmap(bo);
        }
    }

    pub(super) fn release(&self, memory: &Memory) {
        if memory.origin != Origin::Peer {
            // Peers have let go of it: what they see of it keeps it from coming here.
            drop(lock(&self.held).remove(&memory.address));
        }
    }
}
