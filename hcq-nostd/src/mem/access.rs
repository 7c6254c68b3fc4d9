//! Single accesses to memory that others see: the machine's.
//!
//! `model.rs` has the same functions for the model checker.

use core::ptr::NonNull;
use core::sync::atomic::{self, Ordering};

use volatile::VolatilePtr;

/// Stores one integer, once and in full width.
///
/// # Safety
/// `p` is aligned, writable, and its bytes are the caller's alone on this side.
#[inline(always)]
pub(super) unsafe fn store<T: Copy>(p: NonNull<T>, value: T) {
    // SAFETY: this function's contract.
    let cell = unsafe { VolatilePtr::new(p) };
    cell.write(value);
}

/// Loads one integer.
///
/// # Safety
/// `p` is aligned and readable; `T` is valid for any bytes.
#[inline(always)]
pub(super) unsafe fn load<T: Copy>(p: NonNull<T>) -> T {
    // SAFETY: this function's contract.
    let cell = unsafe { VolatilePtr::new(p) };
    cell.read()
}

/// Stores bytes.
///
/// # Safety
/// `to` has room for `bytes`, and no reference covers it.
#[inline(always)]
pub(super) unsafe fn copy_in(to: NonNull<u8>, bytes: &[u8]) {
    // SAFETY: this function's contract; memory that no reference covers does not overlap `bytes`.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
}

/// Loads bytes.
///
/// # Safety
/// `from` has `bytes.len()` readable bytes, and no reference covers them.
#[inline(always)]
pub(super) unsafe fn copy_out(from: NonNull<u8>, bytes: &mut [u8]) {
    // SAFETY: this function's contract; memory that no reference covers does not overlap `bytes`.
    unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), bytes.as_mut_ptr(), bytes.len()) };
}

/// Stores `len` bytes of `value`.
///
/// # Safety
/// `to` has room for `len` bytes.
#[inline(always)]
pub(super) unsafe fn fill(to: NonNull<u8>, len: usize, value: u8) {
    // SAFETY: this function's contract.
    unsafe { core::ptr::write_bytes(to.as_ptr(), value, len) };
}

/// Loads a word that others store to.
///
/// # Safety
/// `p` is aligned, mapped, and accessed atomically by everybody.
#[cfg(target_has_atomic = "64")]
#[inline(always)]
pub(super) unsafe fn word_load(p: NonNull<u64>, order: Ordering) -> u64 {
    // SAFETY: this function's contract.
    let word = unsafe { atomic::AtomicU64::from_ptr(p.as_ptr()) };
    word.load(order)
}

/// Stores a word that others load.
///
/// # Safety
/// As for [`word_load`].
#[cfg(target_has_atomic = "64")]
#[inline(always)]
pub(super) unsafe fn word_store(p: NonNull<u64>, value: u64, order: Ordering) {
    // SAFETY: this function's contract.
    let word = unsafe { atomic::AtomicU64::from_ptr(p.as_ptr()) };
    word.store(value, order);
}

#[inline(always)]
pub(super) fn fence(order: Ordering) {
    atomic::fence(order);
}
