//! Address ranges of the process that files are mapped to, given back when they are dropped.
#![allow(unsafe_code, reason = "maps memory")]

use std::ptr::NonNull;
use std::sync::Arc;

use crate::seam::{Errno, Handle, MapRequest, Protection, System};

/// A mapping, for reads and writes. It ends when it is dropped: whoever uses the memory holds it, or promises more.
#[derive(Debug)]
pub(crate) struct Mapping {
    system: Arc<dyn System>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a plain range; who may access it when is its owner's business.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file from a byte on, or zeroed private memory, wherever there is room.
    pub(crate) fn new(
        system: &Arc<dyn System>,
        file: Option<(&Handle, u64)>,
        len: usize,
    ) -> Result<Self, Errno> {
        let request = MapRequest {
            len,
            protection: Protection::ReadWrite,
            file,
            fixed: None,
        };
        // SAFETY: no fixed address.
        let start = unsafe { system.mmap(&request) }?;
        Ok(Self {
            system: Arc::clone(system),
            start,
            len,
        })
    }

    /// The same, at these addresses if nothing is there.
    pub(crate) fn near(
        system: &Arc<dyn System>,
        file: Option<(&Handle, u64)>,
        len: usize,
        address: Option<u64>,
    ) -> Result<Self, Errno> {
        match address.and_then(|address| Room::new(system, address, len)) {
            Some(room) => room.map(file),
            None => Self::new(system, file, len),
        }
    }

    /// The first byte.
    pub(crate) const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made here, ended nowhere else; whoever used it is gone, or so its owner promised. A refusal leaves it
        // mapped, which harms nobody.
        let _ = unsafe { self.system.munmap(self.start, self.len) };
    }
}

/// Addresses that nobody else gets, and that cannot be accessed yet.
#[derive(Debug)]
pub(crate) struct Room(Mapping);

impl Room {
    /// Exactly these addresses, if nothing is there.
    pub(crate) fn new(system: &Arc<dyn System>, address: u64, len: usize) -> Option<Self> {
        let near = usize::try_from(address).ok()?;
        let room = Self(Mapping {
            system: Arc::clone(system),
            start: system.reserve(near, len).ok()?,
            len,
        });
        (room.0.start.as_ptr().addr() == near).then_some(room)
    }

    /// Maps a file from a byte on, or zeroed private memory, to all of it.
    pub(crate) fn map(self, file: Option<(&Handle, u64)>) -> Result<Mapping, Errno> {
        let Self(mapping) = self;
        let request = MapRequest {
            len: mapping.len,
            protection: Protection::ReadWrite,
            file,
            fixed: Some(mapping.start),
        };
        // SAFETY: the range is this room's alone, and could not be accessed before.
        unsafe { mapping.system.mmap(&request) }?;
        Ok(mapping)
    }
}
