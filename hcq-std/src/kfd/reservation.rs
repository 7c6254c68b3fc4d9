//! Ranges of addresses that host and GPUs agree on.
#![allow(unsafe_code, reason = "maps memory at addresses of its own")]

use std::ptr::NonNull;
use std::sync::Arc;

use crate::seam::{Errno, Handle, MapRequest, Protection, System, page_bytes};

/// A range of this process's addresses that nothing else gets, given back when it is dropped. What is mapped inside goes
/// with it.
#[derive(Debug)]
pub(super) struct Reservation {
    system: Arc<dyn System>,
    start: NonNull<u8>,
    /// 0 once it is nobody's to give back.
    len: usize,
}

// SAFETY: a plain range; who may access it when is its owner's business.
unsafe impl Send for Reservation {}
// SAFETY: as above.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves whole pages at a multiple of `align`, a power of two.
    pub(super) fn new(system: &Arc<dyn System>, bytes: usize, align: usize) -> Result<Self, Errno> {
        let page = page_bytes();
        let slack = align.saturating_sub(page);
        let len = bytes.checked_add(slack).ok_or(Errno::NOMEM)?;
        let request = MapRequest {
            len,
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
        Ok(Self {
            system: Arc::clone(system),
            start: inside,
            len: bytes,
        })
    }

    /// Maps a file wherever there is room, for reads and writes.
    pub(super) fn of_file(
        system: &Arc<dyn System>,
        (file, offset): (&Handle, u64),
        len: usize,
    ) -> Result<Self, Errno> {
        let request = MapRequest {
            len,
            protection: Protection::ReadWrite,
            file: Some((file, offset)),
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

    /// The first byte, for the host.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The first byte, for GPUs.
    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr().expose_provenance() as u64
    }

    /// Maps a file over all of it, for reads and writes.
    pub(super) fn place(&self, (file, offset): (&Handle, u64)) -> Result<(), Errno> {
        let request = MapRequest {
            len: self.len,
            protection: Protection::ReadWrite,
            file: Some((file, offset)),
            fixed: Some(self.start),
        };
        // SAFETY: the range is this reservation's, and nothing has used it: it could not be accessed before.
        unsafe { self.system.mmap(&request) }.map(drop)
    }

    /// Leaves the range as it is until the process ends.
    pub(super) fn keep(mut self) {
        self.len = 0;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: reserved in `new`, not given back before; what used the memory in it is gone, or so its owner
            // promised when it let go of it. A refusal leaves the range reserved, which harms nobody.
            let _ = unsafe { self.system.munmap(self.start, self.len) };
        }
    }
}
