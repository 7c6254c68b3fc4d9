//! Bytes of simulated memory, in accesses of their natural width.
//!
//! The host's threads and the simulated engines use the same memory at the same time, as the processors and the devices of
//! a real machine do: a value that lies on a multiple of its size is read and written whole, other values piece by piece.
#![allow(
    unsafe_code,
    reason = "simulated memory is reached by address, through page tables"
)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::vm::{AddressSpace, Extent, Need, PageFault, PageFaultReason};

/// An extent without its first bytes; `None` if there are no others.
pub(crate) fn skip(extent: &Extent, bytes: u64) -> Option<Extent> {
    let len = extent.len.checked_sub(bytes).filter(|&left| left > 0)?;
    let at = extent
        .host
        .addr()
        .get()
        .checked_add(usize::try_from(bytes).ok()?)?;
    let host = NonNull::new(extent.host.as_ptr().with_addr(at))?;
    Some(Extent {
        host,
        len,
        ..*extent
    })
}

/// The widest access at an address: its size in bytes, at most `left` (which is not 0).
fn width(address: usize, left: usize) -> usize {
    let aligned = 1 << address.trailing_zeros().min(3);
    let fits = 1 << left.ilog2().min(3);
    aligned.min(fits)
}

/// Reads the first bytes of an extent; returns how many, the extent's length at most.
pub(crate) fn read_extent(extent: &Extent, bytes: &mut [u8]) -> usize {
    let len = bytes
        .len()
        .min(usize::try_from(extent.len).unwrap_or(usize::MAX));
    let mut at = extent.host.as_ptr();
    let mut rest = bytes.get_mut(..len).unwrap_or_default();
    while !rest.is_empty() {
        let step = width(at.addr(), rest.len());
        let (now, later) = rest.split_at_mut(step);
        // SAFETY: the page tables promise `extent.len` live bytes at `extent.host`, `at` is within them with `step` to go,
        // is aligned for `step` bytes, and all who share this memory use atomic or volatile accesses.
        unsafe { load(at, now) };
        // SAFETY: as above: `step` bytes on is within the extent, or its end.
        at = unsafe { at.add(step) };
        rest = later;
    }
    len
}

/// Writes the first bytes of an extent; returns how many, the extent's length at most.
pub(crate) fn write_extent(extent: &Extent, bytes: &[u8]) -> usize {
    let len = bytes
        .len()
        .min(usize::try_from(extent.len).unwrap_or(usize::MAX));
    let mut at = extent.host.as_ptr();
    let mut rest = bytes.get(..len).unwrap_or_default();
    while !rest.is_empty() {
        let step = width(at.addr(), rest.len());
        let (now, later) = rest.split_at(step);
        // SAFETY: as in `read_extent`; the translation was asked for writing.
        unsafe { store(at, now) };
        // SAFETY: as in `read_extent`.
        at = unsafe { at.add(step) };
        rest = later;
    }
    len
}

/// # Safety
/// `at` is good for an atomic load of `to.len()` bytes, 1, 2, 4 or 8.
unsafe fn load(at: *mut u8, to: &mut [u8]) {
    // ORDER: acquire, so that what a host thread wrote before a word that is read here is seen by later reads.
    match to.len() {
        8 => {
            // SAFETY: this function's contract.
            let value = unsafe { AtomicU64::from_ptr(at.cast()) };
            to.copy_from_slice(&value.load(Ordering::Acquire).to_ne_bytes());
        }
        4 => {
            // SAFETY: this function's contract.
            let value = unsafe { AtomicU32::from_ptr(at.cast()) };
            to.copy_from_slice(&value.load(Ordering::Acquire).to_ne_bytes());
        }
        2 => {
            // SAFETY: this function's contract.
            let value = unsafe { AtomicU16::from_ptr(at.cast()) };
            to.copy_from_slice(&value.load(Ordering::Acquire).to_ne_bytes());
        }
        _ => {
            // SAFETY: this function's contract.
            let value = unsafe { AtomicU8::from_ptr(at) };
            to.fill(value.load(Ordering::Acquire));
        }
    }
}

/// # Safety
/// `at` is good for an atomic store of `from.len()` bytes, 1, 2, 4 or 8.
unsafe fn store(at: *mut u8, from: &[u8]) {
    // ORDER: release, so that a host thread that reads a word written here sees what was written before it.
    if let Ok(bytes) = from.try_into() {
        // SAFETY: this function's contract.
        let to = unsafe { AtomicU64::from_ptr(at.cast()) };
        to.store(u64::from_ne_bytes(bytes), Ordering::Release);
    } else if let Ok(bytes) = from.try_into() {
        // SAFETY: this function's contract.
        let to = unsafe { AtomicU32::from_ptr(at.cast()) };
        to.store(u32::from_ne_bytes(bytes), Ordering::Release);
    } else if let Ok(bytes) = from.try_into() {
        // SAFETY: this function's contract.
        let to = unsafe { AtomicU16::from_ptr(at.cast()) };
        to.store(u16::from_ne_bytes(bytes), Ordering::Release);
    } else if let [byte] = from {
        // SAFETY: this function's contract.
        let to = unsafe { AtomicU8::from_ptr(at) };
        to.store(*byte, Ordering::Release);
    }
}

/// Reads memory past all caches.
///
/// # Errors
/// [`PageFault`]; some bytes may have been read.
pub(crate) fn read(vm: &dyn AddressSpace, address: u64, bytes: &mut [u8]) -> Result<(), PageFault> {
    let (mut at, mut rest) = (address, bytes);
    while !rest.is_empty() {
        let extent = vm.translate(at, rest.len() as u64, Need::Read)?;
        let done = read_extent(&extent, rest).max(1);
        at = at.wrapping_add(done as u64);
        rest = rest.get_mut(done..).unwrap_or_default();
    }
    Ok(())
}

/// Writes memory past all caches.
///
/// # Errors
/// [`PageFault`]; some bytes may have been written.
pub(crate) fn write(vm: &dyn AddressSpace, address: u64, bytes: &[u8]) -> Result<(), PageFault> {
    let (mut at, mut rest) = (address, bytes);
    while !rest.is_empty() {
        let extent = vm.translate(at, rest.len() as u64, Need::Write)?;
        let done = write_extent(&extent, rest).max(1);
        at = at.wrapping_add(done as u64);
        rest = rest.get(done..).unwrap_or_default();
    }
    Ok(())
}

/// Changes a value of 32 bits, or of 64 if `wide`, as one access; returns what it was.
///
/// # Errors
/// [`PageFault`]: also for a value that is not in one piece, or not aligned.
pub(crate) fn update(
    vm: &dyn AddressSpace,
    address: u64,
    wide: bool,
    change: impl Fn(u64) -> u64,
) -> Result<u64, PageFault> {
    let bytes = if wide { 8 } else { 4 };
    let extent = vm.translate(address, bytes, Need::Write)?;
    let at = extent.host.as_ptr();
    if extent.len < bytes || !at.addr().is_multiple_of(bytes as usize) {
        let reason = PageFaultReason::NotPresent;
        return Err(PageFault {
            address,
            need: Need::Write,
            reason,
        });
    }
    // ORDER: acquire and release, as loads and stores of simulated memory are.
    let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
    let before = if wide {
        // SAFETY: the page tables promise `extent.len` >= 8 live bytes, `at` is aligned for 8, and all who share this memory
        // use atomic or volatile accesses.
        let value = unsafe { AtomicU64::from_ptr(at.cast()) };
        value.fetch_update(set, get, |old| Some(change(old)))
    } else {
        // SAFETY: as above, of 4 bytes.
        let value = unsafe { AtomicU32::from_ptr(at.cast()) };
        value
            .fetch_update(set, get, |old| Some(change(old.into()) as u32))
            .map(u64::from)
            .map_err(u64::from)
    };
    Ok(before.unwrap_or_else(|same| same))
}
