//! Address ranges of the process that files are mapped to, given back when they are dropped.
#![allow(unsafe_code, reason = "maps memory")]

use std::ptr::NonNull;
use std::sync::Arc;

use crate::seam::{Errno, Handle, MapRequest, Protection, System, page_bytes};

/// A mapping, for reads and writes. It ends when it is dropped: whoever uses the memory holds it, or promises more.
#[derive(Debug)]
pub(crate) struct Mapping {
    system: Arc<dyn System>,
    start: NonNull<u8>,
    /// 0 once it is nobody's to give back.
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
        if self.len > 0 {
            // SAFETY: made here, ended nowhere else; whoever used it is gone, or so its owner promised. A refusal leaves
            // it mapped, which harms nobody.
            let _ = unsafe { self.system.munmap(self.start, self.len) };
        }
    }
}

/// Addresses that nobody else gets, and that cannot be accessed until something is mapped there.
#[derive(Debug)]
pub(crate) struct Room {
    mapping: Mapping,
    /// Whether something is mapped there.
    placed: bool,
}

impl Room {
    /// Exactly these addresses, if nothing is there.
    pub(crate) fn new(system: &Arc<dyn System>, address: u64, len: usize) -> Option<Self> {
        let near = usize::try_from(address).ok()?;
        let room = Self::of(system, system.reserve(near, len).ok()?, len);
        (room.start().as_ptr().addr() == near).then_some(room)
    }

    /// Whole pages at a multiple of `align`, a power of two, wherever there is room.
    pub(crate) fn aligned(
        system: &Arc<dyn System>,
        bytes: usize,
        align: usize,
    ) -> Result<Self, Errno> {
        let slack = align.saturating_sub(page_bytes());
        let request = MapRequest {
            len: bytes.checked_add(slack).ok_or(Errno::NOMEM)?,
            protection: Protection::None,
            file: None,
            fixed: None,
        };
        // SAFETY: no fixed address.
        let start = unsafe { system.mmap(&request) }?;
        let head = start.as_ptr().align_offset(align.max(1));
        // An aligned address lies inside the slack, or there was no such address to find.
        let head = if head <= slack { head } else { 0 };
        // SAFETY: `head` is at most `slack`, and the mapping is that much longer than `bytes`.
        let inside = unsafe { start.add(head) };
        if head > 0 {
            // SAFETY: whole pages at the start of the mapping just made.
            let _ = unsafe { system.munmap(start, head) };
        }
        let tail = slack - head;
        if tail > 0 {
            // SAFETY: `tail` bytes are left behind the range.
            let end = unsafe { inside.add(bytes) };
            // SAFETY: whole pages at the end of the mapping just made.
            let _ = unsafe { system.munmap(end, tail) };
        }
        Ok(Self::of(system, inside, bytes))
    }

    fn of(system: &Arc<dyn System>, start: NonNull<u8>, len: usize) -> Self {
        let mapping = Mapping {
            system: Arc::clone(system),
            start,
            len,
        };
        Self {
            mapping,
            placed: false,
        }
    }

    /// The first byte, for the host.
    pub(crate) const fn start(&self) -> NonNull<u8> {
        self.mapping.start
    }

    /// The first byte, for devices that have the process's addresses.
    pub(crate) fn address(&self) -> u64 {
        self.mapping.start.as_ptr().expose_provenance() as u64
    }

    /// Maps a file from a byte on, or zeroed private memory, to all of it, for reads and writes; once.
    pub(crate) fn place(&mut self, file: Option<(&Handle, u64)>) -> Result<(), Errno> {
        if self.placed {
            return Err(Errno::BUSY);
        }
        let mapping = &self.mapping;
        let request = MapRequest {
            len: mapping.len,
            protection: Protection::ReadWrite,
            file,
            fixed: Some(mapping.start),
        };
        // SAFETY: the range is this room's alone, and nothing has used it: it could not be accessed before.
        unsafe { mapping.system.mmap(&request) }?;
        self.placed = true;
        Ok(())
    }

    /// The same, for good.
    pub(crate) fn map(mut self, file: Option<(&Handle, u64)>) -> Result<Mapping, Errno> {
        self.place(file)?;
        Ok(self.mapping)
    }

    /// Leaves the range as it is until the process ends.
    pub(crate) fn keep(mut self) {
        self.mapping.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::Linux;

    #[test]
    fn a_room_is_aligned_and_mapped_over_once() {
        let system: Arc<dyn System> = Arc::new(Linux);
        let (page, align) = (page_bytes(), 1 << 21);
        let mut room = Room::aligned(&system, 2 * page, align).expect("room");
        assert!(room.address().is_multiple_of(align as u64));
        assert!(
            Room::new(&system, room.address(), page).is_none(),
            "it is somebody's"
        );
        room.place(None).expect("nothing is there");
        // SAFETY: inside, mapped now, and nobody else's.
        unsafe { room.start().write(7) };
        assert_eq!(room.place(None), Err(Errno::BUSY));
        // SAFETY: as above.
        assert_eq!(unsafe { room.start().read() }, 7);
        assert_eq!(room.map(None).err(), Some(Errno::BUSY));
    }
}
