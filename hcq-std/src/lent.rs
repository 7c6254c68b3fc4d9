//! Heap memory lent to values of the core, which borrow what they work in.
//!
//! A struct that holds both the memory and its borrower must drop the borrower first: declare it first.
#![allow(unsafe_code, reason = "this is the room for self-borrowing values")]

use std::ptr::NonNull;

/// A heap slice that is freed when this is dropped.
#[derive(Debug)]
pub(crate) struct Lent<T> {
    slice: NonNull<[T]>,
}

// SAFETY: owns its elements, as a box does.
unsafe impl<T: Send> Send for Lent<T> {}
// SAFETY: a shared reference gives no access to the elements.
unsafe impl<T: Sync> Sync for Lent<T> {}

impl<T: Copy> Lent<T> {
    /// `len` copies of `fill`.
    pub(crate) fn new(fill: T, len: usize) -> Self {
        Self::of(vec![fill; len])
    }
}

impl<T> Lent<T> {
    /// These.
    pub(crate) fn of(values: Vec<T>) -> Self {
        let slice = Box::leak(values.into_boxed_slice());
        Self {
            slice: NonNull::from(slice),
        }
    }

    /// The slice, for as long as this lives.
    ///
    /// # Safety
    /// Called once, and what borrows the slice is dropped before this.
    pub(crate) unsafe fn lend(&mut self) -> &'static mut [T] {
        // SAFETY: allocated in `new`, freed in `drop`; the caller makes this the only reference until then.
        unsafe { self.slice.as_mut() }
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        // SAFETY: leaked in `new`; the borrower is gone by the contract of `lend`.
        drop(unsafe { Box::from_raw(self.slice.as_ptr()) });
    }
}
