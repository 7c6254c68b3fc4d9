//! Host data on its way in and out, ordered with the work around it.
#![allow(
    unsafe_code,
    reason = "copies into and out of memory that nothing in flight uses"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hcq_nostd::timeline::Point as CorePoint;
use zerocopy::IntoBytes;

use crate::Error;
use crate::buffer::{Element, View};
use crate::heap::Allocation;
use crate::inner::Inner;

/// Fills memory that nobody else knows yet. `data` is at most as long.
pub(crate) fn fill_new<T: Element>(allocation: &Arc<Allocation>, data: &[T]) {
    let bytes = data.as_bytes();
    let len = bytes.len().min(allocation.len());
    // SAFETY: `len` bytes of fresh memory that no command and no other thread knows; `data` is not part of it.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), allocation.as_ptr().as_ptr(), len) };
}

/// Elements on their way to the host. See [`Commands::download`](crate::Commands::download).
#[derive(Debug)]
pub struct Download<T> {
    inner: Arc<Inner>,
    staged: View<T>,
    /// The submission's point; 0 before it was submitted.
    point: Arc<AtomicU64>,
}

impl<T: Element> Download<T> {
    pub(crate) fn new(inner: &Arc<Inner>, staged: View<T>, point: &Arc<AtomicU64>) -> Self {
        Self {
            inner: Arc::clone(inner),
            staged,
            point: Arc::clone(point),
        }
    }

    fn point(&self) -> Result<CorePoint, Error> {
        // ORDER: pairs with the release when the recording is submitted.
        match self.point.load(Ordering::Acquire) {
            0 => Err(Error::NotSubmitted),
            n => Ok(CorePoint::from_raw(n)),
        }
    }

    /// Whether the elements are there.
    ///
    /// # Errors
    /// [`Error::NotSubmitted`]; [`Error::Fault`]; [`Error::Lost`].
    pub fn is_done(&self) -> Result<bool, Error> {
        self.inner.is_complete(self.point()?)
    }

    /// Waits for the recording's last submission and returns the elements.
    ///
    /// # Errors
    /// [`Error::NotSubmitted`]; [`Error::Timeout`]; [`Error::Fault`]; [`Error::Lost`]; [`Error::OutOfMemory`] of the
    /// host.
    pub fn wait(&self) -> Result<Vec<T>, Error> {
        self.inner.wait_point(
            self.point()?,
            self.inner.wait_timeout,
            "a wait for a download",
        )?;
        self.staged.copy_settled()
    }
}
