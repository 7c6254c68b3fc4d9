//! Memory of an NVIDIA GPU, by purpose, and which of it the GPU knows.
#![allow(
    unsafe_code,
    reason = "clears memory that it allocated, takes the caller's"
)]

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use hcq_nostd::mem::Region;

use super::gpu::Gpu;
use super::memory::{Bo, VideoRequest};
use super::process::Process;
use crate::Error;
use crate::backend::{Memory, Origin, Purpose};
use crate::heap::lock;
use crate::peers::Peers;

/// Whether memory for a purpose is the GPU's own.
pub(super) const fn is_video(purpose: Purpose, has_large_window: bool) -> bool {
    match purpose {
        // Device memory that the host cannot reach would need copies where the API promises plain access.
        Purpose::Data | Purpose::Code => has_large_window,
        Purpose::Exchange | Purpose::Signals => false,
    }
}

/// How this GPU sees memory of another device.
enum Seen {
    /// It is that GPU's, mapped here too.
    Mapped(Arc<Bo>),
    /// It is held at this address.
    Adopted(u64),
}

/// Memory that the shell holds, by address.
pub(super) struct Table {
    process: Arc<Process>,
    gpu: Arc<Gpu>,
    held: Mutex<BTreeMap<u64, Arc<Bo>>>,
    peers: Peers<Seen>,
}

impl Table {
    pub(super) fn new(process: &Arc<Process>, gpu: &Arc<Gpu>) -> Self {
        Self {
            process: Arc::clone(process),
            gpu: Arc::clone(gpu),
            held: Mutex::default(),
            peers: Peers::default(),
        }
    }

    pub(super) fn allocate(&self, bytes: usize, purpose: Purpose) -> Result<Memory, Error> {
        let video = is_video(purpose, self.gpu.facts().has_large_window());
        let bo = if video {
            Bo::video(&self.gpu, VideoRequest::new(bytes).host_visible())?
        } else {
            Bo::host(&self.gpu, bytes)?
        };
        let cpu = bo
            .cpu()
            .ok_or(Error::Internal("memory for the host that it does not see"))?;
        let address = bo.address();
        if video {
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
        // SAFETY: the shell keeps it until it was hidden, which drops this.
        let bo = unsafe { Bo::caller(&self.gpu, cpu, bytes) }?;
        let address = bo.address();
        lock(&self.held).insert(address, Arc::new(bo));
        Ok(Memory {
            cpu,
            len: bytes,
            address,
            writable,
            origin: Origin::Caller,
        })
    }

    /// Memory of another device: of a GPU of the same process at the same address, of others as memory of the caller.
    pub(super) fn import(&self, memory: &Memory, from: Option<&Self>) -> Result<Memory, Error> {
        self.peers.import(memory, || match from {
            Some(from) if Arc::ptr_eq(self.gpu.root(), from.gpu.root()) => {
                let bo = lock(&from.held).get(&memory.address).map(Arc::clone);
                let bo = bo.ok_or(Error::Internal("a peer does not know its own memory"))?;
                // Two devices of one GPU see the same already.
                if !Arc::ptr_eq(&self.gpu, bo.gpu()) {
                    self.process.connect(bo.gpu(), &self.gpu)?;
                    bo.share(&self.gpu)?;
                }
                Ok((Seen::Mapped(bo), memory.address))
            }
            _ => {
                let adopted = self.adopt(memory.cpu, memory.len, memory.writable)?;
                Ok((Seen::Adopted(adopted.address), adopted.address))
            }
        })
    }

    fn forget(&self, memory: &Memory) {
        self.peers.forget(memory, |seen| match seen {
            Seen::Mapped(bo) if Arc::ptr_eq(&self.gpu, bo.gpu()) => drop(bo),
            Seen::Mapped(bo) => bo.unshare(&self.gpu),
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
            bo.unshare(&self.gpu);
        }
    }

    pub(super) fn release(&self, memory: &Memory) {
        if memory.origin != Origin::Peer {
            // Peers have let go of it: what they see of it keeps it from coming here.
            let bo = lock(&self.held).remove(&memory.address);
            drop(bo);
        }
    }
}
