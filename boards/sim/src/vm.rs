//! Memory as an engine sees it: addresses through page tables.

use std::ptr::NonNull;

mod table;

pub(crate) use table::{Backing, Mapping, Owner, PageTable};

/// What an access is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// Reading.
    Read,
    /// Writing, atomics too.
    Write,
    /// Fetching instructions.
    Execute,
}

/// Which memory a page is in, as seen from the GPU that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heap {
    /// The GPU's own video memory.
    Local,
    /// Another GPU's video memory.
    Peer,
    /// The host's memory.
    System,
}

/// How caches treat a page: the `MTYPE` of its page-table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mtype {
    /// Read and write: cached by the GPU's caches; what others write is not seen until it is invalidated.
    Rw,
    /// Not coherent: as [`Rw`](Self::Rw) for what software may rely on.
    Nc,
    /// Cached, and kept coherent by hardware within its reach.
    Cc,
    /// Not cached by the L2.
    Uc,
}

/// Bytes that lie together and are treated alike.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Where this process has the first byte.
    pub host: NonNull<u8>,
    /// Bytes from the address asked for on; at least 1.
    pub len: u64,
    /// Which memory.
    pub heap: Heap,
    /// How caches treat it.
    pub mtype: Mtype,
}

/// Why an address has no bytes for an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{need:?} of {address:#x}: {reason:?}")]
pub struct PageFault {
    /// The first address at fault.
    pub address: u64,
    /// What it was for.
    pub need: Need,
    /// Why not.
    pub reason: PageFaultReason,
}

/// What a page lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageFaultReason {
    /// Nothing is mapped there.
    NotPresent,
    /// It may not be written.
    ReadOnly,
    /// It may not be executed.
    NoExecute,
}

/// One process's page tables on one GPU.
pub trait AddressSpace {
    /// The bytes from `address` on, as far as they lie together; at most `len`.
    ///
    /// # Errors
    /// [`PageFault`].
    fn translate(&self, address: u64, len: u64, need: Need) -> Result<Extent, PageFault>;
}
